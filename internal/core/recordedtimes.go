package core

import (
	"slices"
	"time"
)

// WrittenTimes are the instants of a repair as its record has them.
type WrittenTimes struct {
	Recovered, Begun, LastAttempt WrittenTime
	// Steps are the ends of the steps that were given up.
	Steps []time.Time
}

// WrittenTime is an instant as the record has it, and the instant from which the pass counts it.
type WrittenTime struct{ Recorded, Effective time.Time }

// minStep is the least by which instants differ in a record.
const minStep = time.Microsecond

// ToWrite returns the repair as it is to be recorded. No instant is earlier than in the record, and no step ends before
// the step before it. The clock that the repair is read by may be behind, and its effect on an instant must not last
// (I5). Later events get later instants than the record has. Otherwise they would count from when the recorded instant
// was first seen.
func (r *Repair) ToWrite() Repair {
	out, w := *r, &r.Written
	out.Written, out.Tried, out.EvidenceUnrecorded = WrittenTimes{}, slices.Clone(r.Tried), false
	for i := range min(len(w.Steps), len(out.Tried)) {
		out.Tried[i].Ended = latest(out.Tried[i].Ended, w.Steps[i])
	}
	for i := 1; i < len(out.Tried); i++ {
		if before := out.Tried[i-1].Ended; out.Tried[i].Ended.Before(before) {
			out.Tried[i].Ended = before.Add(minStep)
		}
	}
	out.Recovered = w.Recovered.toWrite(out.Recovered)
	out.Begun = w.Begun.toWrite(out.Begun)
	out.LastAttempt = w.LastAttempt.toWrite(out.LastAttempt)
	return out
}

// toWrite returns an instant as it is to be recorded, and zero for what has not happened.
func (w *WrittenTime) toWrite(at time.Time) time.Time {
	switch {
	case at.IsZero(), w.Recorded.IsZero():
		return at
	case at.Equal(w.Effective):
		return w.Recorded
	}
	return latest(at, w.Recorded.Add(minStep))
}
