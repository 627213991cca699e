package workload

import "sync"

// DefaultMemory is how many bytes the nodes of all workload clusters may take by default, as weigh estimates them.
// 100,000 nodes of usual size take half of it.
const DefaultMemory = 256 << 20

// memoryBudget counts the memory that the nodes of all workload clusters take, by namespace. It is safe for
// concurrent use.
//
// Clusters of one namespace may belong to one tenant, who can have any number of them. So once the budget is used
// up, only a namespace that holds less than an equal share may reserve more. Reserved memory is never taken away.
// All namespaces together may therefore hold up to twice the budget, and no more.
type memoryBudget struct {
	most int

	mu          sync.Mutex
	total       int
	byNamespace map[string]int
}

func newMemoryBudget(most int) *memoryBudget {
	return &memoryBudget{most: most, byNamespace: map[string]int{}}
}

// reserve reserves memory for a namespace. It returns false, and reserves nothing, if that exceeds the budget.
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

// release returns reserved memory of a namespace to the budget.
func (m *memoryBudget) release(namespace string, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total -= bytes
	if m.byNamespace[namespace] -= bytes; m.byNamespace[namespace] <= 0 {
		delete(m.byNamespace, namespace)
	}
}
