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
	// maxLanes is how many looks and probes ask the API server at the same time. A look that waits for its BMC or for
	// a workload cluster does not count.
	maxLanes = 32
	// maxOthers is how many of them may be such as can wait.
	maxOthers = 8
	// maxWait is how long urgent looks may delay a look that can wait. Then it gets the next lane of those for others.
	maxWait = 3 * time.Second
)

// lanes limits how many looks ask the API server at the same time. When many nodes fail at once, the looks that can't wait come
// first: a power-off must not be delayed by the many requests that follow the power-offs of other hosts. Those take processor time of
// the API server, so a free lane alone is no reason to make them.
type lanes struct {
	mu sync.Mutex
	// free counts the lanes, and freeOthers those of them that a look may have which can wait.
	free, freeOthers int
	// busy counts the lanes of urgent looks.
	busy int
	// urgent and others wait, in the order in which they came.
	urgent, others []*turn
}

// turn is closed once a look has its lane. It is overdue once the look has waited for maxWait.
type turn struct {
	given   chan struct{}
	overdue bool
}

func newLanes(all, others int) *lanes { return &lanes{free: all, freeOthers: others} }

// lane is the use of the lanes by one look or probe.
type lane struct {
	of *lanes
	// held is set while there is a lane, and urgent if it is that of a look that can't wait.
	held, urgent bool
}

// enter waits for a lane, unless there is one already. It reports false if the context has ended before.
func (l *lane) enter(ctx context.Context, urgent bool) bool {
	if l.held && l.urgent && !urgent {
		l.leave() // what follows can wait
	}
	if !l.held {
		l.held, l.urgent = l.of.enter(ctx, urgent), urgent
	}
	return l.held
}

// leave frees the lane, if there is one.
func (l *lane) leave() {
	if l.held {
		l.held = false
		l.of.leave(l.urgent)
	}
}

func (l *lanes) enter(ctx context.Context, urgent bool) bool {
	own := &turn{given: make(chan struct{})}
	queue := &l.others
	if urgent {
		queue = &l.urgent
	}
	l.mu.Lock()
	*queue = append(*queue, own)
	l.admit()
	l.mu.Unlock()
	defer time.AfterFunc(maxWait, func() { l.expire(own) }).Stop()
	select {
	case <-own.given:
		return true
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(*queue, own)
	if at < 0 {
		return true // the turn came at the same time
	}
	*queue = slices.Delete(*queue, at, at+1)
	return false
}

// expire has a look no longer wait for urgent ones.
func (l *lanes) expire(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.overdue = true
	l.admit()
}

// leave frees a lane.
func (l *lanes) leave(urgent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free++
	if urgent {
		l.busy--
	} else {
		l.freeOthers++
	}
	l.admit()
}

// admit assigns free lanes to the looks that wait. What can wait does so until no look is urgent, or until it is overdue.
func (l *lanes) admit() {
	for l.free > 0 && len(l.urgent) > 0 {
		close(l.urgent[0].given)
		l.urgent = l.urgent[1:]
		l.free--
		l.busy++
	}
	for l.free > 0 && l.freeOthers > 0 && len(l.others) > 0 && (l.busy == 0 || l.others[0].overdue) {
		close(l.others[0].given)
		l.others = l.others[1:]
		l.free--
		l.freeOthers--
	}
}

// isUrgent reports whether a remediation can't wait: its host has not been commanded off or is about to be proven off, its workload is
// released and the node may have to serve again at once, or its host is to be powered on.
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
