package clock

import (
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// reading has the times of two clocks at one moment: the wall clock that is compared, and a
// monotonic clock.
type reading struct {
	wall    time.Time
	elapsed time.Duration
}

// since returns the time since an earlier reading, and by how much the wall clock was set in
// between.
func (r reading) since(earlier reading) (passed, set time.Duration) {
	passed = r.elapsed - earlier.elapsed
	return passed, r.wall.Sub(earlier.wall) - passed
}

// skewRange bounds how far Fettle's clock is ahead of the API server's. Negative values mean that
// it is behind.
type skewRange struct{ min, max time.Duration }

// resolution is the resolution of a Date header, which is rounded down.
const resolution = time.Second

// measureSkew compares the clocks by one answer. The API server wrote the date between the request
// and the answer, and rounded it down by less than a second.
func measureSkew(date time.Time, sent time.Duration, answered reading) skewRange {
	most := answered.wall.Sub(date)
	return skewRange{most - resolution - max(0, answered.elapsed-sent), most}
}

// drift is the share of the elapsed time by which two clocks may drift apart.
const drift = 1000

// after returns the range at a later time, after Fettle's clock was set.
func (s skewRange) after(passed, set time.Duration) skewRange {
	return skewRange{s.min + set - passed/drift, s.max + set + passed/drift}
}

// intersect returns the range that two measurements allow together. If they contradict each other,
// the API server's clock was set or another API server has answered. The later measurement counts
// then.
func (s skewRange) intersect(later skewRange) skewRange {
	both := skewRange{max(s.min, later.min), min(s.max, later.max)}
	if both.min > both.max {
		return later
	}
	return both
}

// agrees reports whether the clocks differ by at most core.MaxSkew. It returns Unknown if only a
// part of the range is within that bound.
func (s skewRange) agrees() core.Tri {
	switch {
	case s.min > core.MaxSkew || s.max < -core.MaxSkew:
		return core.No
	case s.min >= -core.MaxSkew && s.max <= core.MaxSkew:
		return core.Yes
	}
	return core.Unknown
}

// middle returns the likeliest difference.
func (s skewRange) middle() time.Duration { return s.min + (s.max-s.min)/2 }
