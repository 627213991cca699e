package clock

import (
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// reading is what two clocks show at one moment: the clock that is compared, and a monotonic one.
type reading struct {
	wall    time.Time
	elapsed time.Duration
}

// since returns how long ago an earlier reading was, and by how much the compared clock was set meanwhile.
func (r reading) since(earlier reading) (passed, set time.Duration) {
	passed = r.elapsed - earlier.elapsed
	return passed, r.wall.Sub(earlier.wall) - passed
}

// skewRange is by how much Fettle's clock is ahead of the API server's: at least, and at most. It is behind where that is negative.
type skewRange struct{ min, max time.Duration }

// resolution is that of a Date header, which is rounded down.
const resolution = time.Second

// measureSkew compares clocks by one answer. Its date was written at some moment between the request and the answer, and is up to
// one second older than that moment.
func measureSkew(date time.Time, sent time.Duration, answered reading) skewRange {
	most := answered.wall.Sub(date)
	return skewRange{most - resolution - max(0, answered.elapsed-sent), most}
}

// drift is the share of the passing time by which two clocks may drift apart.
const drift = 1000

// after returns what is known of the difference some time after it was measured, while Fettle's clock was set.
func (s skewRange) after(passed, set time.Duration) skewRange {
	return skewRange{s.min + set - passed/drift, s.max + set + passed/drift}
}

// intersect returns what two measurements say together. Where they contradict each other, the API server's clock was set, or
// another API server has answered, and the later one counts.
func (s skewRange) intersect(later skewRange) skewRange {
	both := skewRange{max(s.min, later.min), min(s.max, later.max)}
	if both.min > both.max {
		return later
	}
	return both
}

// agrees tells whether the clocks differ by no more than is permitted. That is unknown while a difference within the span would
// be permitted and another would not.
func (s skewRange) agrees() core.Tri {
	switch {
	case s.min > core.MaxSkew || s.max < -core.MaxSkew:
		return core.No
	case s.min >= -core.MaxSkew && s.max <= core.MaxSkew:
		return core.Yes
	}
	return core.Unknown
}

// middle is the likeliest difference.
func (s skewRange) middle() time.Duration { return s.min + (s.max-s.min)/2 }
