package nodepromise

import (
	"sync"

	"github.com/fettle-io/fettle/internal/selffence"
)

// observations has when this process has first seen the Leases of nodes as they are. The clock of a promise counts from then. So a Lease is read
// once its node is no longer Ready, long before the node is condemned. It is safe for concurrent use.
type observations struct {
	mu     sync.Mutex
	byNode map[string]selffence.Observation
}

func newObservations() *observations {
	return &observations{byNode: map[string]selffence.Observation{}}
}

// update changes the observation of a node, and returns it.
func (s *observations) update(node string, change func(selffence.Observation) selffence.Observation) selffence.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byNode[node] = change(s.byNode[node])
	return s.byNode[node]
}

// drop forgets the observation of a node.
func (s *observations) drop(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byNode, node)
}
