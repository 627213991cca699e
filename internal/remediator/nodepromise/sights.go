package nodepromise

import (
	"sync"

	"github.com/fettle-io/fettle/internal/selffence"
)

// sights has when this process has first seen the Leases of nodes as they are. The clock of a promise counts from then, so a Lease is read
// once its node is no longer Ready, long before the node is condemned. It is safe for concurrent use.
type sights struct {
	mu     sync.Mutex
	byNode map[string]selffence.Sight
}

func newSights() *sights { return &sights{byNode: map[string]selffence.Sight{}} }

// update changes the sight of a node, and returns it.
func (s *sights) update(node string, change func(selffence.Sight) selffence.Sight) selffence.Sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byNode[node] = change(s.byNode[node])
	return s.byNode[node]
}

// drop forgets the sight of a node.
func (s *sights) drop(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byNode, node)
}
