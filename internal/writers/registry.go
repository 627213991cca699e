package writers

import (
	"sync"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// Registry detects the other writers of the health checks of one kind. It is safe for concurrent use. A nil
// *Registry detects nothing.
type Registry struct {
	resource string
	metrics  *Metrics
	now      func() time.Time
	after    func(time.Duration, func())

	mu        sync.Mutex
	histories map[name]*history
}

// name is the name of a health check.
type name struct{ namespace, name string }

// NewRegistry returns a registry for the health checks of a resource, such as
// nodehealthchecks.remediation.medik8s.io. Metrics may be nil. After calls a function once a time is over.
func NewRegistry(resource string, metrics *Metrics, now func() time.Time, after func(time.Duration, func())) *Registry {
	return &Registry{resource: resource, metrics: metrics, now: now, after: after, histories: map[name]*history{}}
}

// Observe records a version of a health check from its watch. It calls wake, at once or later, if a pass is due
// because of it.
func (r *Registry) Observe(namespace, of string, writes []Write, wake func()) {
	if r == nil {
		return
	}
	r.mu.Lock()
	key := name{namespace, of}
	w := r.histories[key]
	if w == nil {
		w = &history{}
		r.histories[key] = w
	}
	wait, due := w.observe(writes, r.now())
	r.mu.Unlock()
	switch {
	case due && wait == 0:
		wake()
	case due:
		r.after(wait, wake)
	}
}

// Find returns the other writer of the status of a health check, for a pass. For a dry run it returns none, since
// both controllers are meant to write. Find schedules wake for when the other controller may be gone.
func (r *Registry) Find(policy *core.Policy, wake func()) Finding {
	if r == nil {
		return Finding{}
	}
	key := name{policy.ID.Namespace, policy.ID.Name}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.histories[key]
	if w == nil {
		return Finding{}
	}
	f, again := w.find(!policy.DryRun, r.now())
	if again > 0 {
		r.after(again, wake)
	}
	r.metrics.set(r.resource, key, other{manager: f.Manager, dryRun: policy.DryRun})
	if policy.DryRun {
		return Finding{}
	}
	return f
}

// Drop removes a health check.
func (r *Registry) Drop(namespace, of string) {
	if r == nil {
		return
	}
	key := name{namespace, of}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.histories, key)
	r.metrics.set(r.resource, key, other{})
}
