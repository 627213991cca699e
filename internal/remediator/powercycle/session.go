package powercycle

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
)

// mostRevisions is how many of its own revisions of a remediation a process remembers. A watch shows them soon.
const mostRevisions = 8

// session is what this process knows of one remediation, besides its status. Only the reconcile of the remediation uses it, but
// for the fields that sessions guards.
type session struct {
	uid  types.UID
	node string
	// power is what is known of the host. It counts for one BMC in one generation.
	power   fencing.Power
	bmc     v1alpha1.FencingBMC
	promise nodepromise.Promise
	// failure is why the last operation of the BMC failed, and failures counts those in succession.
	failure  problem
	failures int
	// changeFailed is when the last change of the node or of its machine failed in this phase, or zero.
	changeFailed time.Time
	// phaseStart is when the phase began.
	phaseStart fencing.PhaseStart
	// unnamed is the recorded BareMetalHost that no BMC names any more, and unnamedUID is its UID.
	unnamed    *baremetalhost.Host
	unnamedUID types.UID
	// formerAt is when the hosts of earlier BMCs may be tried again, or zero.
	formerAt time.Time
	// turn is when the host had its first turn in its domain in this phase, or zero.
	turn time.Time

	// The fields below are guarded by sessions: written is the remediation as this process has read or written it last.
	written *v1alpha1.PowerRemediation
	// revisions are the last that this process has written.
	revisions []string
	// wakes counts the changes of the node, and interrupt ends what delays its reconcile.
	wakes     int
	interrupt context.CancelFunc
	// waits is set while another remediation fences the node. The number is smaller the earlier the remediation has begun to wait.
	waits int
}

// sessions has the sessions by remediation, and which remediation fences which node.
type sessions struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*session
	// claims are by the key of a node.
	claims *fencednode.Claims
	// waited counts the remediations that have begun to wait.
	waited int
}

func newSessions(claims *fencednode.Claims) *sessions {
	return &sessions{byKey: map[types.NamespacedName]*session{}, claims: claims}
}

// Kind is the kind of remediation that this package carries out.
const Kind = "PowerRemediation"

// holderOf returns a remediation as the holder of a node.
func holderOf(key types.NamespacedName) fencednode.Holder {
	return fencednode.Holder{Kind: Kind, NamespacedName: key}
}

// of returns the session of a remediation. A remediation with the name of an earlier one gets a new session.
func (s *sessions) of(key types.NamespacedName, uid types.UID, node string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byKey[key]
	if known == nil || known.uid != uid {
		known = &session{uid: uid}
		s.byKey[key] = known
	}
	s.claims.ReleaseOthers(holderOf(key), node)
	known.node = node
	return known
}

// forget drops the session of a remediation, and its claim of a node. It returns the remediation that has waited for that, as end does.
func (s *sessions) forget(key types.NamespacedName) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byKey[key]
	if known == nil {
		return nil
	}
	delete(s.byKey, key)
	if s.claims.Holds(known.node, holderOf(key)) {
		s.claims.Release(holderOf(key))
		return s.next(known.node)
	}
	return nil
}

// end drops the claim of a remediation that has ended, and returns the remediation that has waited for that the longest. Each wakes the
// next in its turn, so that many remediations of one node are not all reconciled for each that ends. Those of the node that wait for
// something else need no reconcile: each would end in its turn and wake this one, without a pause.
func (s *sessions) end(key types.NamespacedName) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byKey[key]
	if known == nil || !s.claims.Holds(known.node, holderOf(key)) {
		return nil
	}
	s.claims.Release(holderOf(key))
	return s.next(known.node)
}

// next returns the remediation that has waited the longest for a node, if there is one. The caller holds the lock.
func (s *sessions) next(node string) []types.NamespacedName {
	waiting := slices.DeleteFunc(s.keysOf(node), func(key types.NamespacedName) bool { return s.byKey[key].waits == 0 })
	if len(waiting) == 0 {
		return nil
	}
	return []types.NamespacedName{slices.MinFunc(waiting, func(a, b types.NamespacedName) int { return s.byKey[a].waits - s.byKey[b].waits })}
}

// isBehind reports whether a remediation waits for a node that another one has claimed. There is nothing to read meanwhile.
func (s *sessions) isBehind(key types.NamespacedName, uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byKey[key]
	if known == nil || known.uid != uid || known.waits == 0 {
		return false
	}
	holder, held := s.claims.Holder(known.node)
	return held && holder != holderOf(key)
}

// claim has a remediation fence a node, unless another one does. It returns which one does.
func (s *sessions) claim(node string, key types.NamespacedName) fencednode.Holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	holder := s.claims.Claim(node, holderOf(key))
	s.setWaits(key, holder != holderOf(key))
	return holder
}

// waitFor has a remediation wait if another one has claimed its node, and returns which one.
func (s *sessions) waitFor(node string, key types.NamespacedName) (fencednode.Holder, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	holder, held := s.claims.Holder(node)
	if !held || holder == holderOf(key) {
		return fencednode.Holder{}, false
	}
	s.setWaits(key, true)
	return holder, true
}

// wait has a remediation wait until the node that another one fences is free.
func (s *sessions) wait(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setWaits(key, true)
}

// setWaits stores whether a remediation waits for its node. The caller holds the lock.
func (s *sessions) setWaits(key types.NamespacedName, waits bool) {
	known := s.byKey[key]
	switch {
	case known == nil:
	case !waits:
		known.waits = 0
	case known.waits == 0:
		s.waited++
		known.waits = s.waited
	}
}

// wake returns the remediations of a node, and interrupts their operations if the node may have to serve again.
func (s *sessions) wake(node string) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.keysOf(node)
	for _, key := range keys {
		known := s.byKey[key]
		known.wakes++
		if known.interrupt != nil {
			known.interrupt()
		}
	}
	return keys
}

// written returns a remediation as this process has read or written it last, or nil.
func (s *sessions) written(key types.NamespacedName) *v1alpha1.PowerRemediation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byKey[key]; known != nil {
		return known.written
	}
	return nil
}

// keep stores a remediation as this process has read or written it.
func (s *sessions) keep(known *session, r *v1alpha1.PowerRemediation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known.written == nil || known.written.ResourceVersion != r.ResourceVersion {
		known.written = r.DeepCopy()
	}
}

// keepRevision stores the revision of a remediation that this process has just written.
func (s *sessions) keepRevision(known *session, revision string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known.revisions = append(known.revisions, revision); len(known.revisions) > mostRevisions {
		known.revisions = known.revisions[1:]
	}
}

// hasWritten reports whether this process has written a revision of a remediation.
func (s *sessions) hasWritten(key types.NamespacedName, revision string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byKey[key]
	return known != nil && slices.Contains(known.revisions, revision)
}

// keysOf returns the remediations of a node. The caller holds the lock.
func (s *sessions) keysOf(node string) []types.NamespacedName {
	var keys []types.NamespacedName
	for key, known := range s.byKey {
		if known.node == node {
			keys = append(keys, key)
		}
	}
	return keys
}

// wakesOf returns how often the node of a session has changed.
func (s *sessions) wakesOf(known *session) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return known.wakes
}

// interruptible returns a context that ends when the node changes, or if it has changed since it had a number of wakes. Where the
// workload isn't released, nothing needs to be done at once, and the context doesn't end so.
func (s *sessions) interruptible(ctx context.Context, known *session, wakes int, released bool) (context.Context, context.CancelFunc) {
	if !released {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known.wakes != wakes {
		cancel()
	}
	known.interrupt = cancel
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		known.interrupt = nil
		cancel()
	}
}
