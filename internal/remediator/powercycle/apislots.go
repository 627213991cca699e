package powercycle

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

const (
	// maxAPISlots is how many reconciles and probes send requests to the API server at the same time. A reconcile that waits for its BMC or for
	// a workload cluster does not count.
	maxAPISlots = 32
	// maxOthers is how many of them may be such as can wait.
	maxOthers = 8
	// maxWait is how long urgent reconciles may delay a reconcile that can wait. Then it gets the next slot of those for others.
	maxWait = 3 * time.Second
)

// apiSlots limits how many reconciles send requests to the API server at the same time. When many nodes fail at once, the reconciles that can't wait come
// first. A power-off must not be delayed by the many requests that follow the power-offs of other hosts. Those take processor time of
// the API server, so a free slot alone is no reason to make them.
type apiSlots struct {
	mu sync.Mutex
	// free counts the slots, and freeOthers those of them that a reconcile may have which can wait.
	free, freeOthers int
	// heldUrgent counts the slots of urgent reconciles.
	heldUrgent int
	// urgent and others wait, in the order in which they came.
	urgent, others []*slotWaiter
}

// slotWaiter waits for a slot. Its channel is closed once a reconcile has its slot. It is overdue once the reconcile has waited for maxWait.
type slotWaiter struct {
	given   chan struct{}
	overdue bool
}

func newAPISlots(all, others int) *apiSlots { return &apiSlots{free: all, freeOthers: others} }

// apiSlot is the slot of one reconcile or probe.
type apiSlot struct {
	of *apiSlots
	// held is set while there is a slot, and urgent if it is that of a reconcile that can't wait.
	held, urgent bool
}

// acquire waits for a slot, unless there is one already. It reports false if the context has ended before.
func (s *apiSlot) acquire(ctx context.Context, urgent bool) bool {
	if s.held && s.urgent && !urgent {
		s.release() // what follows can wait
	}
	if !s.held {
		s.held, s.urgent = s.of.acquire(ctx, urgent), urgent
	}
	return s.held
}

// release frees the slot, if there is one.
func (s *apiSlot) release() {
	if s.held {
		s.held = false
		s.of.release(s.urgent)
	}
}

func (s *apiSlots) acquire(ctx context.Context, urgent bool) bool {
	own := &slotWaiter{given: make(chan struct{})}
	queue := &s.others
	if urgent {
		queue = &s.urgent
	}
	s.mu.Lock()
	*queue = append(*queue, own)
	s.assign()
	s.mu.Unlock()
	defer time.AfterFunc(maxWait, func() { s.expire(own) }).Stop()
	select {
	case <-own.given:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(*queue, own)
	if at < 0 {
		return true // the turn came at the same time
	}
	*queue = slices.Delete(*queue, at, at+1)
	return false
}

// expire has a reconcile no longer wait for urgent ones.
func (s *apiSlots) expire(t *slotWaiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.overdue = true
	s.assign()
}

// release frees a slot.
func (s *apiSlots) release(urgent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if urgent {
		s.heldUrgent--
	} else {
		s.freeOthers++
	}
	s.assign()
}

// assign assigns free slots to the reconciles that wait. A reconcile that can wait does so until no reconcile is urgent, or until it is overdue.
func (s *apiSlots) assign() {
	for s.free > 0 && len(s.urgent) > 0 {
		close(s.urgent[0].given)
		s.urgent = s.urgent[1:]
		s.free--
		s.heldUrgent++
	}
	for s.free > 0 && s.freeOthers > 0 && len(s.others) > 0 && (s.heldUrgent == 0 || s.others[0].overdue) {
		close(s.others[0].given)
		s.others = s.others[1:]
		s.free--
		s.freeOthers--
	}
}

// isUrgent reports whether a remediation can't wait. That is so while its host has not been commanded off, or is about to be proven off.
// It is also so while its host is to be powered on, or its workload is released. Then the node may have to serve again at once.
func isUrgent(s *v1alpha1.PowerRemediationStatus, known *session) bool {
	switch fencing.Phase(s.Phase) { //nolint:exhaustive // a fencing by power is never Condemning
	case fencing.Preparing, fencing.PoweringOff:
		p := known.power
		return s.WorkloadReleased || s.ReleasedBefore || p.FirstOff.State == fencing.IsOff || p.Off.IsZero() && known.failures == 0
	case fencing.Booting, fencing.Restoring, fencing.DeletingMachine, fencing.Succeeded, fencing.Failed, fencing.Aborted:
		return false
	case fencing.Releasing, fencing.PoweringOn, fencing.Aborting:
	}
	return true
}

// isUrgent reports whether a remediation can't wait. A remediation that this process has not read yet can't.
func (s *sessions) isUrgent(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byKey[key]
	return known == nil || known.written == nil || isUrgent(&known.written.Status, known)
}
