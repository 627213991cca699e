package fencing

import "time"

// PhaseStart is when a phase began by the clock of this process. A record has it by the clock of the process that wrote it, which may
// have been ahead, or was put back since. Its zero value is that of no phase.
type PhaseStart struct{ recorded, counted time.Time }

// At returns the start of a phase that was recorded, as seen now. A start that a process has seen once stands, also where its clock is put
// back or forward later. A phase that is to begin only in the future begins when it is seen first.
func (s PhaseStart) At(recorded, now time.Time) PhaseStart {
	if s.recorded.Equal(recorded) {
		return s
	}
	return PhaseStart{recorded: recorded, counted: now.Add(-max(now.Sub(recorded), 0))}
}

// Record returns a record whose phase began then. The limits count so.
func (s PhaseStart) Record(r Record) Record {
	r.Since = s.counted
	return r
}

// Recorded returns a record as it is to be written: a phase that goes on keeps the start that is recorded already.
func (s PhaseStart) Recorded(r Record) Record {
	if r.Since.Equal(s.counted) {
		r.Since = s.recorded
	}
	return r
}
