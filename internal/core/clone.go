package core

import (
	"maps"
	"slices"
)

// Clone returns Expectations with the same content. They share nothing that changes.
func (m *Expectations) Clone() Expectations {
	twin := *m
	twin.deleting, twin.goneNodes, twin.nodeReads = maps.Clone(m.deleting), maps.Clone(m.goneNodes), maps.Clone(m.nodeReads)
	twin.lookups, twin.cooldowns = clonePointers(m.lookups), maps.Clone(m.cooldowns)
	twin.tests, twin.futureTimes = cloneSlices(m.tests), cloneSlices(m.futureTimes)
	twin.coverage = testCoverage{tests: maps.Clone(m.coverage.tests), nodes: maps.Clone(m.coverage.nodes)}
	twin.workers, twin.healthy, twin.removedHealthy = maps.Clone(m.workers), maps.Clone(m.healthy), maps.Clone(m.removedHealthy)
	twin.repairs, twin.deleted = clonePointers(m.repairs), maps.Clone(m.deleted)
	twin.requested, twin.withdrawn = maps.Clone(m.requested), maps.Clone(m.withdrawn)
	return twin
}

// Clone returns a Deduplicator that knows the same states.
func (j *Deduplicator) Clone() Deduplicator { return Deduplicator{emitted: maps.Clone(j.emitted)} }

// Clone returns an Aggregator with the same buckets and batches.
func (d *Aggregator) Clone() Aggregator {
	twin := Aggregator{buckets: maps.Clone(d.buckets), batches: clonePointers(d.batches)}
	for _, b := range twin.batches {
		b.names = slices.Clip(b.names)
	}
	return twin
}

// Clone returns a LatencyRecorder with the same timings.
func (s *LatencyRecorder) Clone() LatencyRecorder {
	return LatencyRecorder{pass: s.pass, timings: maps.Clone(s.timings), criteria: maps.Clone(s.criteria)}
}

func clonePointers[K comparable, V any](m map[K]*V) map[K]*V {
	twin := maps.Clone(m)
	for k, v := range twin {
		value := *v
		twin[k] = &value
	}
	return twin
}

func cloneSlices[M ~map[K]S, K comparable, S ~[]V, V any](m M) M {
	twin := maps.Clone(m)
	for k, v := range twin {
		twin[k] = slices.Clone(v)
	}
	return twin
}
