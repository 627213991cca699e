package workload

import "sync"

// DefaultMemory is how many bytes the nodes of all workload clusters may take, as weigh measures them, unless an
// administrator allows more. 100,000 nodes of usual size take half of it.
const DefaultMemory = 256 << 20

// memoryBudget accounts for what the nodes of all workload clusters take, by namespace. It is safe for concurrent use.
//
// Clusters of one namespace may belong to one tenant, who can have any number of them. So once the memory is used up, only a
// namespace that holds less than an equal share of it may take more. Nothing that was taken before is taken away, so all
// namespaces together may hold up to twice of what is allowed, and no more.
type memoryBudget struct {
	most int

	mu          sync.Mutex
	total       int
	byNamespace map[string]int
}

func newMemoryBudget(most int) *memoryBudget {
	return &memoryBudget{most: most, byNamespace: map[string]int{}}
}

// reserve notes that a namespace takes so many bytes more, and reports whether it may. What it may not take is not noted.
func (m *memoryBudget) reserve(namespace string, bytes int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := len(m.byNamespace)
	if _, holds := m.byNamespace[namespace]; holds {
		others--
	}
	exceedsShare := m.byNamespace[namespace]+bytes > m.most/(others+1)
	if after := m.total + bytes; after > 2*m.most || (after > m.most && exceedsShare) {
		return false
	}
	m.total += bytes
	m.byNamespace[namespace] += bytes
	return true
}

// release notes that a namespace takes so many bytes less.
func (m *memoryBudget) release(namespace string, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total -= bytes
	if m.byNamespace[namespace] -= bytes; m.byNamespace[namespace] <= 0 {
		delete(m.byNamespace, namespace)
	}
}
