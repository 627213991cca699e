package sim

import (
	"time"
	"unsafe"

	"github.com/fettle-io/fettle/internal/core"
)

// hasMonotonic marks a time that has a reading of a monotonic clock, and wallYear is the year from which such a time counts its
// seconds. Only the runtime makes such times, so fastAt relies on its layout.
const (
	hasMonotonic = 1 << 63
	wallYear     = 1885
	nanoBits     = 30
)

// timeLayout is the layout of a time.Time.
type timeLayout struct {
	wall      uint64
	monotonic int64
	_         *time.Location
}

// fastAt returns the time at a tick by a wall clock that is fast. Its monotonic clock is never set. So what a process
// remembers lasts as long as it does, however its wall clock jumps.
func fastAt(tick int, fast time.Duration) time.Time {
	shown := at(tick).Add(fast)
	seconds := shown.Unix() - time.Date(wallYear, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	t := timeLayout{wall: hasMonotonic | uint64(seconds)<<nanoBits | uint64(shown.Nanosecond()), monotonic: int64(Ticks(tick))} //nolint:gosec // neither is negative
	return *(*time.Time)(unsafe.Pointer(&t))                                                                                    //nolint:gosec // a test checks it
}

// written returns a repair as the API server has it, whose times have no monotonic clock.
func written(r core.Repair) core.Repair {
	r.Started, r.Ended, r.Recovered, r.Begun = wall(r.Started), wall(r.Ended), wall(r.Recovered), wall(r.Begun)
	r.Requested, r.LastAttempt = wall(r.Requested), wall(r.LastAttempt)
	tried := make([]core.StepRecord, len(r.Tried))
	for i, step := range r.Tried {
		step.Ended = wall(step.Ended)
		tried[i] = step
	}
	if r.Tried = tried; len(tried) == 0 {
		r.Tried = nil
	}
	return r
}

// wall returns a time without the monotonic clock.
func wall(t time.Time) time.Time { return t.Round(0).UTC() }

// jump steps the clock of an engine, of the API server or of all nodes, or steps it back.
func (u *Universe) jump(e *engine, k Kind) {
	switch k { //nolint:exhaustive // the others are no jumps
	case Jump:
		e.skew = u.setup.Skew - e.skew
	case ServerJump:
		u.truth.ahead = u.setup.ServerSkew - u.truth.ahead
	case NodeJump:
		u.truth.nodesAhead = u.setup.AheadNodes + u.setup.NodeSkew - u.truth.nodesAhead
	}
}
