package core

import (
	"cmp"
	"slices"
	"time"
)

// Evidence is how a remediator has fenced the node of a target, by one power cycle. Users read it in the record of the
// repair, where it outlives the request. No decision about the target depends on it, so that a forged one is a wrong text
// and no more (I14). The struct is comparable. Its zero value is that of a request without evidence.
type Evidence struct {
	// Request is the request by which the node was fenced, and Cycle counts its power cycles from 1.
	Request ID
	Cycle   int
	// Method is the kind of the proof that the node had stopped, empty without a proof.
	Method string
	// Means is the name of what commanded the power, and Protocol how it was spoken to.
	Means, Protocol string
	// BootIDBefore is the boot ID of the node before the first command. BootIDAfter proves the new boot, or the node is back
	// under it.
	BootIDBefore, BootIDAfter string
	// Commanded is when the power was first commanded off, and Proven when the node was proven to have stopped. Released is when
	// its workload was released, and Back when the node was back. Each is zero while that has not happened.
	Commanded, Proven, Released, Back time.Time
}

// MaxEvidence bounds the evidence that a repair keeps.
const MaxEvidence = 16

// Proof returns the part of the evidence that is recorded at once: whether and when the node was proven to have stopped. It
// is zero without a proof.
func (e *Evidence) Proof() Evidence {
	if e.Method == "" {
		return Evidence{}
	}
	return Evidence{Request: e.Request, Cycle: e.Cycle, Method: e.Method, Proven: e.Proven}
}

// sameCycle reports whether both are of the same power cycle.
func (e *Evidence) sameCycle(other *Evidence) bool {
	return e.Request.UID == other.Request.UID && e.Cycle == other.Cycle
}

// hasProof reports whether a proof is among the evidence.
func hasProof(recorded []Evidence, proof Evidence) bool {
	return slices.ContainsFunc(recorded, func(e Evidence) bool { return e.sameCycle(&proof) && e.Proven.Equal(proof.Proven) })
}

// withEvidence returns the evidence of a repair with what a request says now, in the order of the commands. Beyond the bound
// the earliest are dropped, so evidence that was dropped stays out. It changes no element of its argument.
func withEvidence(recorded []Evidence, now Evidence) []Evidence {
	merged := append(slices.DeleteFunc(slices.Clone(recorded), func(e Evidence) bool { return e.sameCycle(&now) }), now)
	slices.SortFunc(merged, func(a, b Evidence) int {
		return cmp.Or(a.Commanded.Compare(b.Commanded), cmp.Compare(a.Request.UID, b.Request.UID), cmp.Compare(a.Cycle, b.Cycle))
	})
	return merged[max(0, len(merged)-MaxEvidence):]
}

// createdEarlier is how much earlier than its repair a request may seem to have been created. The API server dates the
// request, by another clock, and the request of an earlier repair is older than a power cycle takes.
const createdEarlier = 10 * time.Second

// mayBeEvidenceFor reports whether the evidence of a request is for a repair, and not for an earlier one of the target.
func (r *Request) mayBeEvidenceFor(repair *Repair) bool {
	return r.Own && r.about(&repair.Target) && repair.made(r) && !r.Created.Before(repair.Started.Add(-createdEarlier))
}

// takeEvidence adds the evidence of the requests that were made for the repair. A proof that this process has written is not
// written again: a record that never shows it must not be written for ever. An old definition of the kind drops the field.
func (r *Repair) takeEvidence(requests []*Request, written []Evidence) {
	recorded := slices.Concat(r.Evidence, written)
	for _, q := range requests {
		if q.mayBeEvidenceFor(r) {
			proof := q.Evidence.Proof()
			r.Evidence = withEvidence(r.Evidence, q.Evidence)
			r.EvidenceUnrecorded = r.EvidenceUnrecorded || hasProof(r.Evidence, proof) && !hasProof(recorded, proof)
		}
	}
}

// lastMethod returns the method of the last proof of the repair, or an empty text without any.
func (r *Repair) lastMethod() string {
	for _, e := range slices.Backward(r.Evidence) {
		if e.Method != "" {
			return e.Method
		}
	}
	return ""
}
