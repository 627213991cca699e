package core

import (
	"strconv"
	"time"
)

// expectationLimit bounds how long a write that the cache never showed is expected. A user may have
// deleted the object at once. The API server refuses a second object of the same name (I2).
const expectationLimit = time.Minute

// maxClockDifference is the most by which the clocks of two leaders may differ, and the clock of a leader from the
// clock of a failure.
const maxClockDifference = time.Hour

// sooner orders instants, with the zero instant meaning never.
func sooner(a, b time.Time) bool {
	if a.IsZero() || b.IsZero() {
		return !a.IsZero()
	}
	return a.Before(b)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format(time.RFC3339)
}

// duration returns a duration in whole minutes or hours.
func duration(d time.Duration) string {
	if d >= time.Hour {
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/time.Minute)) + "m"
}

// doubled returns base × 2^times, at most limit, without overflow.
func doubled(base time.Duration, times int, limit time.Duration) time.Duration {
	d := base
	for range times {
		if d > limit/2 {
			return limit
		}
		if d <= 0 {
			break
		}
		d *= 2
	}
	return min(d, limit)
}

// unrecordedLimit bounds how long Fettle's own record of a repair counts against the cache's, where the ledger was not
// written.
const unrecordedLimit = 10 * time.Second

// Elapsed returns how much time has passed since an instant, by the clock that shows more. While
// the computer is suspended a monotonic clock may stand still. The wall clock is set when the
// computer resumes.
func Elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}
