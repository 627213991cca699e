package core

import (
	"cmp"
	"time"
)

// repairExpectation is what Expectations keep of one repair.
type repairExpectation struct {
	repair Repair
	// seen is set once the cache has shown the repair.
	seen bool
	// begun is set once the remedy has done its work on the target.
	begun bool
	// ours is set while the repair is as Fettle has written it, and not yet as the cache has it.
	ours bool
	// step counts the steps that there were when Fettle wrote it last; 0 when it never did.
	step int
	// evidence is the evidence of the repair as this process wrote it last.
	evidence []Evidence
	// stepSeen is the number of the latest step whose request the cache has shown; 0 for none.
	stepSeen int
	// recoveryUnrecorded is set while only this process knows that the target had recovered when
	// its requests were withdrawn.
	recoveryUnrecorded bool
	// lost is set when the object was deleted while the repair ran.
	lost bool
	// recorded is when the repair was last written or seen.
	recorded time.Time
}

// markLost ends a running repair that the cache has shown and shows no more. It succeeded if it
// made a request and its target had recovered.
func (e *repairExpectation) markLost(now time.Time) {
	if !e.repair.Running() {
		return
	}
	e.lost, e.repair.Ended, e.repair.Outcome = true, now, Withdrawn
	if !e.repair.Recovered.IsZero() {
		e.repair.Outcome = Succeeded
	}
}

// IsUnshown reports whether a repair is expected that no cache has shown.
func (m *Expectations) IsUnshown(key RepairKey) bool {
	e := m.repairs[key]
	return e != nil && !e.seen
}

// LoseRepair records that a live read has not found an expected repair among the running ones. It counts as deleted
// while it ran, unless a cache shows it later.
func (m *Expectations) LoseRepair(key RepairKey) { m.repairs[key].seen = true }

// recordedElsewhere reports whether another process has recorded the current step.
func (e *repairExpectation) recordedElsewhere(r *Repair) bool { return e.step != len(r.Tried)+1 }

func sameTarget(a, b *Repair) bool { return a.Target == b.Target }

// update takes a newer version from the cache. It keeps what the ledger lacks of the current step:
// refused calls, and the recovery of the target.
func (e *repairExpectation) update(cached Repair) {
	if cached.Revision <= e.repair.Revision {
		return
	}
	was := e.repair
	e.repair = cached
	e.repair.CreatedSameSecond = was.CreatedSameSecond
	if !was.Running() || !cached.Running() || len(was.Tried) != len(cached.Tried) {
		return
	}
	if was.Attempts > cached.Attempts {
		e.repair.Attempts, e.repair.LastAttempt = was.Attempts, was.LastAttempt
	}
	if e.recoveryUnrecorded && cached.Recovered.IsZero() {
		e.repair.Recovered = was.Recovered
	}
}

// ahead reports whether the expected repair is further than the cached one. It compares revisions,
// or else the end, the steps, the attempts, or a very recent note. It returns until when such a
// note counts.
func (e *repairExpectation) ahead(cached *Repair, now time.Time) (ahead bool, until time.Time) {
	r := &e.repair
	if r.Revision > cached.Revision {
		return true, time.Time{}
	}
	if r.Running() != cached.Running() {
		return !r.Running(), time.Time{}
	}
	if order := cmp.Or(cmp.Compare(len(r.Tried), len(cached.Tried)), cmp.Compare(r.Attempts, cached.Attempts)); order != 0 {
		return order > 0, time.Time{}
	}
	if e.recoveryUnrecorded && cached.Recovered.IsZero() {
		return true, time.Time{}
	}
	differs := !r.Recovered.Equal(cached.Recovered) || !r.Begun.Equal(cached.Begun) || r.Answer != cached.Answer // a text of texts
	if until = e.recorded.Add(unrecordedLimit); !differs || !e.ours || !now.Before(until) {
		return false, time.Time{}
	}
	return true, until
}

// overlayEvidence adds to the running repairs the evidence of their requests, also of past ones. So each write of a repair
// has it.
func (m *Expectations) overlayEvidence(f *Cluster) {
	about := map[string][]*Request{}
	for _, requests := range [...][]Request{f.PastRequests, f.Requests} {
		for i := range requests {
			if q := &requests[i]; q.Evidence != (Evidence{}) {
				about[q.Target.Name] = append(about[q.Target.Name], q)
			}
		}
	}
	for i := range f.Repairs {
		if r := &f.Repairs[i]; r.Running() {
			r.takeEvidence(about[r.Target.Name], m.repairs[r.key()].evidence)
		}
	}
}
