package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/core"
)

// reading is what the API server itself says of one target.
type reading struct {
	// begun is set unless there was no time to ask.
	begun bool
	// polled is set when the quorum was to be known.
	polled         bool
	node           core.Node
	survives       core.Tri
	unread, unsure error
}

// readLive replaces what caches say of these targets' nodes by what the API server says now, and finds out
// whether the cluster's quorum survives the loss of those for which that is to be known.
func (e *Engine) readLive(ctx context.Context, w *world, targets, polls []int) error {
	at := e.Now()
	polled := map[int]bool{}
	for _, t := range polls {
		polled[t] = true
	}
	readings := make([]reading, len(targets))
	errs := inParallel(ctx, len(targets), callTimeout, func(ctx context.Context, i int) error {
		readings[i] = e.read(ctx, w, targets[i], polled[targets[i]])
		return readings[i].unread
	})
	for i, t := range targets {
		if r := &readings[i]; !r.begun {
			r.unread = errs[i]
		}
		readings[i].polled = polled[t]
		e.take(&w.fleet.Targets[t], &readings[i], at)
	}
	return joined(errs)
}

// read asks all that is to be known of a target at once.
func (e *Engine) read(ctx context.Context, w *world, target int, poll bool) reading {
	r := reading{begun: true}
	t := w.fleet.Targets[target]
	var all contain.Group
	all.Go(func() {
		if r.node, r.unread = w.targetsFrom[target].ReadNode(ctx, t); r.unread != nil {
			r.unread = fmt.Errorf("reading the node of %s: %w", t.ID, r.unread)
		}
	})
	if poll && e.Quorum != nil {
		all.Go(func() {
			if r.survives, r.unsure = e.Quorum.Survives(ctx, t); r.unsure != nil {
				r.survives, r.unsure = core.Unknown, fmt.Errorf("reading whether quorum survives the loss of %s: %w", t.ID, r.unsure)
			}
		})
	}
	all.Wait()
	return r
}

// take takes in what was read of a target. That quorum is not known after all is an answer too: it holds back that target
// until it is asked for again, and no pass fails of it.
func (e *Engine) take(t *core.Target, r *reading, at time.Time) {
	if r.unsure != nil {
		e.Log.Error(r.unsure, "quorum is not known, so the target waits", "target", t.ID.String())
	}
	if r.polled {
		t.QuorumSurvives, t.QuorumReadAt = r.survives, at
	}
	if r.unread != nil {
		t.NodeUnreadable = true
		t.NodeReadAgain = e.memory.LookedUp(t.ID, core.Node{}, at)
		return
	}
	t.SeeLive(r.node, at)
	if r.node.State == core.NodeGone {
		t.NodeGoneSince = e.memory.NodeGone(t.ID, r.node.Name, at)
		return
	}
	t.NodeReadAgain = e.memory.LookedUp(t.ID, r.node, at)
}
