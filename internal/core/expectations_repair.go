package core

import (
	"cmp"
	"time"
)

// repairExpectation is what Expectations keeps of one repair.
type repairExpectation struct {
	repair Repair
	// seen is set once the ledger's cache has shown the entry.
	seen bool
	// begun is set once the remedy has done its work on the target.
	begun bool
	// ours is set while the entry is as Fettle has written it, and not yet as the cache has it.
	ours bool
	// step counts the steps that there were when Fettle wrote it last; 0 when it never did.
	step int
	// requestSeen is set once something that it asks for was seen to stand.
	requestSeen bool
	// recoveryUnrecorded is set while only memory knows that the target was healthy when what was asked for it was taken back.
	recoveryUnrecorded bool
	// lost is set when somebody has deleted it from the ledger while it ran.
	lost bool
	// recorded is when it was written or seen last.
	recorded time.Time
}

// markLost ends a running repair that the ledger has shown and shows no more. One whose target has recovered by then, which
// something was asked for, has been a repair.
func (e *repairExpectation) markLost(now time.Time) {
	if !e.seen || !e.repair.Running() {
		return
	}
	e.lost, e.repair.Ended, e.repair.Outcome = true, now, Withdrawn
	if !e.repair.Recovered.IsZero() {
		e.repair.Outcome = Succeeded
	}
}

// recordedElsewhere tells whether somebody else has recorded the step under way.
func (e *repairExpectation) recordedElsewhere(r *Repair) bool { return e.step != len(r.Tried)+1 }

func sameTarget(a, b *Repair) bool { return a.Target == b.Target }

// update goes by what somebody has written since. What the ledger does not tell of the step under way is remembered all
// the same: calls that were refused, and that the target was well.
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

// ahead reports whether the entry has gone further than the cache shows it: written later, or, where that is not known,
// ended, more steps given up, more attempts, or remembered a moment ago. It returns until when the last of these counts.
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
	differs := !r.Recovered.Equal(cached.Recovered) || !r.Begun.Equal(cached.Begun) || r.Answer != cached.Answer
	if until = e.recorded.Add(unrecordedLimit); !differs || !e.ours || !now.Before(until) {
		return false, time.Time{}
	}
	return true, until
}
