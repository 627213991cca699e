package fencing

import "time"

// Beginning is when a phase began by the clock of this process. A record has it by the clock of the process that wrote it, which may
// have been ahead, or was put back since. Its zero value is that of no phase.
type Beginning struct{ recorded, counted time.Time }

// At returns the beginning of a phase that was recorded, as seen now. What a process has seen once stands, also where its clock is put
// back or forward later. A phase that is to begin only in the future begins when it is seen first.
func (b Beginning) At(recorded, now time.Time) Beginning {
	if b.recorded.Equal(recorded) {
		return b
	}
	return Beginning{recorded: recorded, counted: now.Add(-max(now.Sub(recorded), 0))}
}

// Record returns a record whose phase began then. The limits count so.
func (b Beginning) Record(r Record) Record {
	r.Since = b.counted
	return r
}

// Recorded returns a record as it is to be written: a phase that goes on keeps the beginning that is recorded already.
func (b Beginning) Recorded(r Record) Record {
	if r.Since.Equal(b.counted) {
		r.Since = b.recorded
	}
	return r
}
