package core

import "time"

// overlayWorkers sets the targets of running repairs that were seen outside of the control plane.
func (m *Expectations) overlayWorkers(f *Cluster) {
	workers := map[ID]bool{}
	repaired := map[ID]bool{}
	for i := range f.Repairs {
		if r := &f.Repairs[i]; r.Running() {
			repaired[r.Target] = true
			if m.workers[r.Target] {
				workers[r.Target] = true
			}
		}
	}
	for i := range f.Targets {
		if len(repaired) == 0 {
			break
		}
		switch t := &f.Targets[i]; {
		case t.ControlPlane:
			delete(workers, t.ID)
		case repaired[t.ID]:
			workers[t.ID] = true
		}
	}
	m.workers, f.Workers = workers, workers
}

// KeepHealthy records the youngest healthy target of each pool. It stays recorded when its target
// is removed, but not when the target fails.
func (m *Expectations) KeepHealthy(f *Cluster, d *Decision) {
	if f.Observed == Yes {
		m.healthy = d.YoungestHealthy
	}
}

// overlayHealthy sets HealthyCreated by the targets that were healthy in the pass before their
// removal. A node often goes before its machine, and sooner than another pass runs. Owners without
// repairs are forgotten.
func (m *Expectations) overlayHealthy(f *Cluster) {
	if len(m.healthy) == 0 && len(m.removedHealthy) == 0 {
		return
	}
	stays, repaired := map[string]bool{}, map[ID]bool{}
	for i := range f.Targets {
		stays[f.Targets[i].ID.UID] = !f.Targets[i].Deleting
	}
	for i := range f.Repairs {
		repaired[f.Repairs[i].Owner] = true
	}
	departed, proven := map[ID]HealthyTarget{}, map[ID]time.Time{}
	for _, known := range []map[ID]HealthyTarget{m.removedHealthy, m.healthy} {
		for owner, p := range known {
			known, is := departed[owner]
			if !stays[p.Target.UID] && repaired[owner] && (!is || p.younger(&known)) {
				departed[owner], proven[owner] = p, p.Created
			}
		}
	}
	m.removedHealthy, f.HealthyCreated = departed, proven
}
