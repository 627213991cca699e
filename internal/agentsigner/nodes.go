package agentsigner

import (
	"slices"
	"sync"
	"time"
)

// Bounds of a node.
const (
	// maxWaiting is how many requests of a node wait for an answer at a time. Others get none.
	maxWaiting = 16
	// maxIssued is how many certificates a node gets within issuedWithin. An agent needs one each week, and one after each boot.
	maxIssued    = 10
	issuedWithin = time.Hour
	// afterDenial is how long the other requests of a node wait once one was denied.
	afterDenial = time.Second
)

// nodes bound what the requests of each node take, so that none keeps the agents of others from getting their certificates. The requests of
// strangers count as those of one node. It is safe for concurrent use.
type nodes struct {
	mu sync.Mutex
	of map[string]*requests
}

// requests are those of a node.
type requests struct {
	// waiting are the names of requests that were not answered, in order.
	waiting []string
	// rests is when the next one may be answered.
	rests time.Time
	// issued is when certificates were issued, the latest last.
	issued []time.Time
}

func newNodes() *nodes { return &nodes{of: map[string]*requests{}} }

// add has a request wait, if there is room.
func (n *nodes) add(node, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.requests(node)
	if len(r.waiting) < maxWaiting && !slices.Contains(r.waiting, name) {
		r.waiting = append(r.waiting, name)
	}
}

// first returns the request of a node that is to be answered, or how long the node has to wait. There is no name if none waits.
func (n *nodes) first(node string, now time.Time) (name string, rest time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.of[node]
	if r == nil || len(r.waiting) == 0 {
		return "", 0
	}
	if rest := r.rests.Sub(now); rest > 0 {
		return "", rest
	}
	return r.waiting[0], 0
}

// failed has a request that could not be answered wait behind the others of its node.
func (n *nodes) failed(node, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.requests(node)
	r.waiting = append(without(r.waiting, name), name)
}

// answered ends a request. If it was denied, the others of its node wait.
func (n *nodes) answered(node, name string, denied bool, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.requests(node)
	r.waiting = without(r.waiting, name)
	if denied {
		r.rests = now.Add(afterDenial)
	}
	n.forget(now)
}

// mayIssue reports whether a node may get another certificate.
func (n *nodes) mayIssue(node string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.of[node]
	return r == nil || len(r.issued) < maxIssued || now.Sub(r.issued[0]) >= issuedWithin
}

// issues notes that a node gets a certificate.
func (n *nodes) issues(node string, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.requests(node)
	r.issued = append(r.issued, now)
	r.issued = r.issued[max(0, len(r.issued)-maxIssued):]
}

// requests returns those of a node. As for the functions below, the caller has locked the nodes.
func (n *nodes) requests(node string) *requests {
	if n.of[node] == nil {
		n.of[node] = &requests{}
	}
	return n.of[node]
}

// forget forgets the nodes of which nothing counts any more.
func (n *nodes) forget(now time.Time) {
	for node, r := range n.of {
		issued := len(r.issued) > 0 && now.Sub(r.issued[len(r.issued)-1]) < issuedWithin
		if len(r.waiting) == 0 && !issued && !now.Before(r.rests) {
			delete(n.of, node)
		}
	}
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return n == name })
}
