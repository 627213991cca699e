package core

import (
	"maps"
	"slices"
)

// Clone returns a Memory that remembers the same and shares nothing that changes.
func (m *Memory) Clone() Memory {
	twin := *m
	twin.deleting, twin.gone, twin.read = maps.Clone(m.deleting), maps.Clone(m.gone), maps.Clone(m.read)
	twin.lookups, twin.openings = clonePointers(m.lookups), maps.Clone(m.openings)
	twin.tests, twin.instants = cloneSlices(m.tests), cloneSlices(m.instants)
	twin.looked = looks{tests: maps.Clone(m.looked.tests), nodes: maps.Clone(m.looked.nodes)}
	twin.workers, twin.proofs, twin.departed = maps.Clone(m.workers), maps.Clone(m.proofs), maps.Clone(m.departed)
	twin.repairs, twin.deleted = clonePointers(m.repairs), maps.Clone(m.deleted)
	twin.requested, twin.withdrawn = maps.Clone(m.requested), maps.Clone(m.withdrawn)
	return twin
}

// Clone returns a Journal that remembers the same.
func (j *Journal) Clone() Journal { return Journal{told: maps.Clone(j.told)} }

// Clone returns a Digest that has gathered the same.
func (d *Digest) Clone() Digest {
	twin := Digest{spent: maps.Clone(d.spent), gathered: clonePointers(d.gathered)}
	for _, b := range twin.gathered {
		b.names = slices.Clip(b.names)
	}
	return twin
}

// Clone returns a Stopwatch that has measured the same.
func (s *Stopwatch) Clone() Stopwatch {
	return Stopwatch{pass: s.pass, open: maps.Clone(s.open), rules: maps.Clone(s.rules)}
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
