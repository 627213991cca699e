package core

import (
	"slices"
	"time"
)

// WrittenTimes are the instants of a repair as its record has them.
type WrittenTimes struct {
	Recovered, Begun, LastAttempt time.Time
	// Steps are the ends of the steps that were given up.
	Steps []time.Time
}

func writtenTimes(r *Repair) WrittenTimes {
	w := WrittenTimes{Recovered: r.Recovered, Begun: r.Begun, LastAttempt: r.LastAttempt}
	for i := range r.Rungs {
		w.Steps = append(w.Steps, r.Rungs[i].Ended)
	}
	return w
}

// ToWrite returns the repair as it is to be recorded: no instant is earlier than the record has it, and no step ends before the one
// before it. The clock that the repair is read by may be behind, and what it makes of an instant must not outlast that (I5).
func (r *Repair) ToWrite() Repair {
	out, w := *r, &r.Written
	out.Written, out.Rungs = WrittenTimes{}, slices.Clone(r.Rungs)
	for i := range min(len(w.Steps), len(out.Rungs)) {
		out.Rungs[i].Ended = latest(out.Rungs[i].Ended, w.Steps[i])
	}
	for i := 1; i < len(out.Rungs); i++ {
		out.Rungs[i].Ended = latest(out.Rungs[i].Ended, out.Rungs[i-1].Ended)
	}
	out.Recovered = notBefore(out.Recovered, w.Recovered)
	out.Begun = notBefore(out.Begun, w.Begun)
	out.LastAttempt = notBefore(out.LastAttempt, w.LastAttempt)
	return out
}

// notBefore returns the later of two instants, and zero for what has not happened.
func notBefore(at, least time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return latest(at, least)
}
