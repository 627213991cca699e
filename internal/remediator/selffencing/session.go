package selffencing

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
)

// session is what this process knows of one remediation, besides its status. Only the reconcile of the remediation uses it.
type session struct {
	uid     types.UID
	node    string
	promise nodepromise.Promise
	// changeFailed is when the last change of the node failed in this phase, or zero.
	changeFailed time.Time
	// phaseStart is when the phase began.
	phaseStart fencing.PhaseStart
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
	known.node, known.promise.Node, known.promise.By = node, node, uid
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
