package workload

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestI15MemoryOfClustersIsShared: a namespace that uses the memory up takes no more, and others may take their share of it.
func TestI15MemoryOfClustersIsShared(t *testing.T) {
	m := newMemoryBudget(100)
	steps := []struct {
		namespace string
		bytes     int
		may       bool
	}{
		{"tenant", 60, true},
		{"tenant", 40, true}, // all of it, while no other namespace has clusters
		{"tenant", 1, false},
		{"honest", 50, true}, // an equal share
		{"honest", 1, false},
		{"third", 34, false},
		{"third", 33, true},
	}
	for i, s := range steps {
		if got := m.reserve(s.namespace, s.bytes); got != s.may {
			t.Errorf("step %d: %s may take %d: %t, want %t (%v)", i, s.namespace, s.bytes, got, s.may, m.byNamespace)
		}
	}
	m.release("tenant", 100)
	if len(m.byNamespace) != 2 || !m.reserve("honest", 17) || m.reserve("honest", 1) {
		t.Errorf("after the tenant has left: %v of %d", m.byNamespace, m.total)
	}
	m.release("third", 32)
	if m.byNamespace["third"] != 1 {
		t.Errorf("of 33 bytes 32 are released, and the account has %v", m.byNamespace)
	}
}

// TestI15MemoryOfClustersIsBounded by twice of what is allowed, whatever is taken and released, and the accounts add up.
func TestI15MemoryOfClustersIsBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m, held := newMemoryBudget(1000), map[string]int{}
		for range rapid.IntRange(1, 200).Draw(r, "steps") {
			namespace := fmt.Sprint("n-", rapid.IntRange(0, 30).Draw(r, "namespace"))
			if held[namespace] > 0 && rapid.IntRange(0, 9).Draw(r, "releases") == 0 {
				m.release(namespace, held[namespace])
				held[namespace] = 0
				continue
			}
			if bytes := rapid.IntRange(1, 400).Draw(r, "bytes"); m.reserve(namespace, bytes) {
				held[namespace] += bytes
			}
		}
		sum := 0
		for namespace, bytes := range held {
			sum += bytes
			if m.byNamespace[namespace] != bytes {
				r.Fatalf("the account of %s has %d, want %d", namespace, m.byNamespace[namespace], bytes)
			}
		}
		if m.total != sum || sum > 2*m.most {
			r.Fatalf("%d are held, and the account has %d; at most %d may be", sum, m.total, 2*m.most)
		}
	})
}

// TestI15MemoryOfClustersAtItsBound: an equal share counts the namespace itself, and twice the budget may be held at most.
func TestI15MemoryOfClustersAtItsBound(t *testing.T) {
	m := newMemoryBudget(100)
	for i, s := range []struct {
		namespace string
		bytes     int
		may       bool
	}{
		{"first", 100, true}, {"second", 20, true},
		{"second", 30, true},                                             // half of the budget, since there are two
		{"third", 33, true}, {"fourth", 18, false}, {"fourth", 17, true}, // twice the budget
		{"fifth", 1, false},
	} {
		if got := m.reserve(s.namespace, s.bytes); got != s.may {
			t.Errorf("step %d: %s may reserve %d: %t, want %t (%v)", i, s.namespace, s.bytes, got, s.may, m.byNamespace)
		}
	}
}
