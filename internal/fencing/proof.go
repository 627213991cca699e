package fencing

import "time"

// readingsApart is how far apart the reads of a proof begin. A BMC may answer from a state that it polls, and hosts take time to stop.
const readingsApart = 5 * time.Second

// provenOff returns the proof by the power, if there is one. The last reading is Off, and so is a reading that began
// at least readingsApart before it. No other reading is between them, and both began after the command was
// acknowledged.
func provenOff(p Power) (Proof, bool) {
	if p.Off.IsZero() || p.Last.State != IsOff || p.FirstOff.State != IsOff || !p.FirstOff.Begun.After(p.Off) {
		return Proof{}, false
	}
	if p.Last.Begun.Sub(p.FirstOff.Begun) < readingsApart {
		return Proof{}, false
	}
	return Proof{Kind: PowerOff, At: p.Last.Begun}, true
}

// newBoot returns the proof by the boot ID, if there is one. A node with another UID may be another host, so that it proves nothing.
func newBoot(r Record, n *Node) (Proof, bool) {
	if !r.sameNode(n) || r.BootID == "" || n.BootID == "" || n.BootID == r.BootID {
		return Proof{}, false
	}
	return Proof{Kind: NewBoot, At: n.ReadAt, BootID: n.BootID}, true
}

// runsUntainted reports whether the node has booted since it was recorded, and others have removed the taint. The pods of the recorded boot may have
// started again, and it proves nothing that their earlier boot has ended.
func (r Record) runsUntainted(n *Node) bool {
	_, booted := newBoot(r, n)
	return booted && !n.Tainted
}

// sameNode reports whether a node is the recorded one.
func (r Record) sameNode(n *Node) bool {
	return n.Exists && r.NodeUID != "" && n.UID == r.NodeUID
}

// back reports whether the node runs again. It must be Ready, under another boot ID than before the first command and when the power
// was off.
func (r Record) back(n *Node) bool {
	return n.Exists && n.Ready && n.BootID != "" && n.BootID != r.BootID && n.BootID != r.OffBootID
}
