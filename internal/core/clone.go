package core

import (
	"maps"
	"slices"
)

// Clone returns Expectations with the same content. They share nothing that changes.
func (m *Expectations) Clone() Expectations {
	clone := *m
	clone.deleting, clone.goneNodes, clone.nodeReads = maps.Clone(m.deleting), maps.Clone(m.goneNodes), maps.Clone(m.nodeReads)
	clone.lookups, clone.cooldowns = clonePointers(m.lookups), maps.Clone(m.cooldowns)
	clone.tests, clone.futureTimes = cloneSlices(m.tests), cloneSlices(m.futureTimes)
	clone.coverage = maps.Clone(m.coverage)
	clone.workers, clone.healthy, clone.removedHealthy = maps.Clone(m.workers), maps.Clone(m.healthy), maps.Clone(m.removedHealthy)
	clone.repairs, clone.deleted = clonePointers(m.repairs), maps.Clone(m.deleted)
	clone.requested, clone.withdrawn = maps.Clone(m.requested), maps.Clone(m.withdrawn)
	return clone
}

// Clone returns a Deduplicator that knows the same states.
func (j *Deduplicator) Clone() Deduplicator { return Deduplicator{emitted: maps.Clone(j.emitted)} }

// Clone returns an Aggregator with the same buckets and batches.
func (d *Aggregator) Clone() Aggregator {
	clone := Aggregator{buckets: maps.Clone(d.buckets), batches: clonePointers(d.batches)}
	for _, b := range clone.batches {
		b.names = slices.Clip(b.names)
	}
	return clone
}

// Clone returns a LatencyRecorder with the same timings.
func (s *LatencyRecorder) Clone() LatencyRecorder {
	return LatencyRecorder{pass: s.pass, timings: maps.Clone(s.timings), criteria: maps.Clone(s.criteria)}
}

func clonePointers[K comparable, V any](m map[K]*V) map[K]*V {
	clone := maps.Clone(m)
	for k, v := range clone {
		value := *v
		clone[k] = &value
	}
	return clone
}

func cloneSlices[M ~map[K]S, K comparable, S ~[]V, V any](m M) M {
	clone := maps.Clone(m)
	for k, v := range clone {
		clone[k] = slices.Clone(v)
	}
	return clone
}
