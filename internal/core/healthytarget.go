package core

// findHealthy finds the youngest healthy target of each pool, and the youngest unhealthy one.
func (d *planner) findHealthy() {
	well := d.healthyTargets(deletedHealthy)
	d.findUnhealthy(well)
	youngest := map[ID]HealthyTarget{}
	for i, healthy := range well {
		t := &d.cluster.Targets[i]
		if _, has := d.pools[t.Owner]; !has || healthy != Yes {
			continue
		}
		p := HealthyTarget{Target: t.ID, Created: t.Created}
		if known, is := youngest[t.Owner]; !is || p.younger(&known) {
			youngest[t.Owner] = p
		}
	}
	for owner, p := range d.pools {
		p.healthyCreated = latest(youngest[owner].Created, d.cluster.HealthyCreated[owner])
	}
	d.decision.YoungestHealthy = youngest
}

// deletedHealthy reports whether a target is being deleted that met no criterion.
func deletedHealthy(v *Verdict) bool { return v.Health == Gone && !v.WasUnhealthy }
