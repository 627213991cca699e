package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// foresight is how long before a deadline the nodes are read live whose time is up then, so that at the deadline
// nothing but their repair is left to do. What changes meanwhile shows in the cache, and is read once more.
const foresight = time.Second

// foresee reads the nodes that are to be confirmed at the next deadline, if that is near, and else tells when to
// wake up for that. It gives the deadline itself when there is nothing to read before it. What can't be read now
// is read at the deadline.
func (e *Engine) foresee(ctx context.Context, w *world, d core.Decision, next time.Time) time.Time {
	if next.IsZero() || !w.dueAt(d, next) {
		return next
	}
	if early := next.Add(-foresight); early.After(e.Now()) {
		return early
	}
	if ctx.Err() != nil || !next.After(e.Now()) {
		return next
	}
	ahead := core.Decide(w.policies, w.fleet, next)
	var unread []int
	for _, t := range ahead.Confirm {
		// The quorum of a control plane is asked for when it matters.
		if !slices.Contains(ahead.Polls, t) && w.fleet.Targets[t].Node.State == core.NodePresent {
			unread = append(unread, t)
		}
	}
	e.readAhead(ctx, w, unread)
	return next
}

// dueAt tells whether the time of a suspect that has a node is up at an instant.
func (w *world) dueAt(d core.Decision, at time.Time) bool {
	return slices.ContainsFunc(d.Verdicts, func(v core.Verdict) bool {
		return v.Health == core.Suspect && v.Until.Equal(at) && w.fleet.Targets[v.Target].Node.State == core.NodePresent
	})
}

// readAhead takes no longer than there is time.
func (e *Engine) readAhead(ctx context.Context, w *world, targets []int) {
	ctx, cancel := context.WithTimeout(ctx, foresight)
	defer cancel()
	var mu sync.Mutex
	_ = inParallel(ctx, len(targets), callTimeout, func(ctx context.Context, i int) error {
		at, t := e.Now(), w.fleet.Targets[targets[i]]
		n, err := w.targetsFrom[targets[i]].ReadNode(ctx, t)
		if err != nil {
			return err // nobody looks at it: the node is read again when that matters
		}
		mu.Lock()
		defer mu.Unlock()
		e.memory.Read(t.ID, n, at)
		return nil
	})
}
