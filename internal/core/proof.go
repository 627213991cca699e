package core

import "time"

// Proof is a target that every policy which acts finds well, and that shows that its owner can make such. A target that is being
// deleted counts too while no criterion is met: autoscalers remove targets that are well.
type Proof struct {
	Target  ID
	Created time.Time
}

// younger orders proofs by their creation. Of those created in the same second the first by its ID counts.
func (p *Proof) younger(other *Proof) bool {
	if order := p.Created.Compare(other.Created); order != 0 {
		return order > 0
	}
	return p.Target.Compare(other.Target) < 0
}

// findProof finds the youngest target of each pool that is well, and the youngest that is not.
func (d *deliberation) findProof() {
	well := d.soundTargets(leavingWell)
	d.findHeirs(well)
	youngest := map[ID]Proof{}
	for i, sound := range well {
		t := &d.fleet.Targets[i]
		if _, has := d.pools[t.Owner]; !has || sound != Yes {
			continue
		}
		p := Proof{Target: t.ID, Created: t.Created}
		if known, is := youngest[t.Owner]; !is || p.younger(&known) {
			youngest[t.Owner] = p
		}
	}
	for owner, p := range d.pools {
		p.proven = latest(youngest[owner].Created, d.fleet.Proven[owner])
	}
	d.decision.Proofs = youngest
}

// leavingWell reports whether a target is being deleted that met no criterion.
func leavingWell(v *Verdict) bool { return v.Health == Gone && !v.Unsound }

// Proved remembers which targets prove that their pools can make such. A proof holds when its target is removed, and ends when it
// fails.
func (m *Memory) Proved(f *Fleet, d *Decision) {
	if f.Observed == Yes {
		m.proofs = d.Proofs
	}
}

// layProofs adds the targets that were well in the pass before they were gone, or being deleted. A node often goes before its machine
// does, and sooner than another pass. Those of owners without repairs are forgotten.
func (m *Memory) layProofs(f *Fleet) {
	if len(m.proofs) == 0 && len(m.departed) == 0 {
		return
	}
	stays, repaired := map[string]bool{}, map[ID]bool{}
	for i := range f.Targets {
		stays[f.Targets[i].ID.UID] = !f.Targets[i].Deleting
	}
	for i := range f.Repairs {
		repaired[f.Repairs[i].Owner] = true
	}
	departed, proven := map[ID]Proof{}, map[ID]time.Time{}
	for _, known := range []map[ID]Proof{m.departed, m.proofs} {
		for owner, p := range known {
			known, is := departed[owner]
			if !stays[p.Target.UID] && repaired[owner] && (!is || p.younger(&known)) {
				departed[owner], proven[owner] = p, p.Created
			}
		}
	}
	m.departed, f.Proven = departed, proven
}
