package core

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
