package core

import "time"

// overlayWorkers tells which targets of running repairs were seen outside of the control plane.
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

// KeepHealthy remembers which targets prove that their pools can make such. A proof holds when its target is removed, and ends when it
// fails.
func (m *Expectations) KeepHealthy(f *Cluster, d *Decision) {
	if f.Observed == Yes {
		m.healthy = d.YoungestHealthy
	}
}

// overlayHealthy adds the targets that were well in the pass before they were gone, or being deleted. A node often goes before its machine
// does, and sooner than another pass. Those of owners without repairs are forgotten.
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
