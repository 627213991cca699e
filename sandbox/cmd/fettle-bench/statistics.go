package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// seconds is a duration that is written as a number of seconds.
type seconds time.Duration

// MarshalJSON writes the seconds, to the microsecond.
func (s seconds) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal(time.Duration(s).Round(time.Microsecond).Seconds())
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", time.Duration(s), err)
	}
	return body, nil
}

// distribution summarises many durations.
type distribution struct {
	Count  int     `json:"count"`
	Median seconds `json:"median"`
	P99    seconds `json:"p99"`
	Last   seconds `json:"last"`
}

func distributionOf(durations []time.Duration) distribution {
	if len(durations) == 0 {
		return distribution{}
	}
	sorted := slices.Sorted(slices.Values(durations))
	return distribution{
		Count:  len(sorted),
		Median: seconds(percentile(sorted, 50)),
		P99:    seconds(percentile(sorted, 99)),
		Last:   seconds(sorted[len(sorted)-1]),
	}
}

// percentile returns the smallest of the sorted values that at least p percent don't exceed.
func percentile[T any](sorted []T, p float64) T {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// medianOf returns the middle value, the mean of the middle two, or NaN for none.
func medianOf(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
