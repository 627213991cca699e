package workload

import "sync"

// DefaultMemory is how many bytes the nodes of all workload clusters may take, as weigh measures them, unless an
// administrator allows more. 100,000 nodes of usual size take half of it.
const DefaultMemory = 256 << 20

// memory accounts for what the nodes of all workload clusters take, by namespace. It is safe for concurrent use.
//
// Clusters of one namespace may belong to one tenant, who can have any number of them. So once the memory is used up, only a
// namespace that holds less than an equal share of it may take more. Nothing that was taken before is taken away, so all
// namespaces together may hold up to twice of what is allowed, and no more.
type memory struct {
	most int

	mu    sync.Mutex
	total int
	of    map[string]int
}

func newMemory(most int) *memory { return &memory{most: most, of: map[string]int{}} }

// take notes that a namespace takes so many bytes more, and reports whether it may. What it may not take is not noted.
func (m *memory) take(namespace string, bytes int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := len(m.of)
	if _, holds := m.of[namespace]; holds {
		others--
	}
	exceedsShare := m.of[namespace]+bytes > m.most/(others+1)
	if after := m.total + bytes; after > 2*m.most || (after > m.most && exceedsShare) {
		return false
	}
	m.total += bytes
	m.of[namespace] += bytes
	return true
}

// release notes that a namespace takes so many bytes less.
func (m *memory) release(namespace string, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total -= bytes
	if m.of[namespace] -= bytes; m.of[namespace] <= 0 {
		delete(m.of, namespace)
	}
}
