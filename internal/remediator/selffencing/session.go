package selffencing

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/selffence"
)

// session is what this process knows of one remediation, besides its status. Only the look at the remediation uses it.
type session struct {
	uid     types.UID
	node    string
	promise fencing.Promise
	// lease is the Lease as it was read or written last, or nil.
	lease *coordinationv1.Lease
	// failure is why a read or write of the Lease has failed last. Failures counts those in succession, and failedToWrite is set if the last
	// was a write.
	failure       error
	failures      int
	failedToWrite bool
	// began is when the phase began.
	began fencing.Beginning
	// acknowledged is when a majority of the witnesses was first known to have read the Lease with a revision.
	acknowledged         time.Time
	acknowledgedRevision uint64
}

// sessions has the sessions by remediation. It is safe for concurrent use.
type sessions struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*session
}

func newSessions() *sessions { return &sessions{byKey: map[types.NamespacedName]*session{}} }

// of returns the session of a remediation. A remediation with the name of an earlier one gets a new session.
func (s *sessions) of(key types.NamespacedName, uid types.UID, node string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byKey[key]
	if known == nil || known.uid != uid {
		known = &session{uid: uid}
		s.byKey[key] = known
	}
	known.node = node
	return known
}

// forget drops the session of a remediation, and returns its node, if it had a session.
func (s *sessions) forget(key types.NamespacedName) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byKey[key]
	if known == nil {
		return ""
	}
	delete(s.byKey, key)
	return known.node
}

// ofNode returns the remediations of a node.
func (s *sessions) ofNode(node string) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []types.NamespacedName
	for key, known := range s.byKey {
		if known.node == node {
			keys = append(keys, key)
		}
	}
	return keys
}

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
