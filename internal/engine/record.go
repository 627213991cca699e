package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/fettle-io/fettle/internal/core"
)

// mostOverlooked is how many statuses of policies that are not judged one pass writes. What begins waits for the statuses,
// and anyone who may write health checks can have thousands of them not judged.
const mostOverlooked = 200

// recording is how the writing of statuses went.
type recording struct {
	// blocked are the targets for which nothing may start, since the status of a policy that selects them could not be
	// written.
	blocked map[int]bool
	// more is set when statuses are left to later passes.
	more   bool
	failed error
}

// record writes what was found.
func (e *Engine) record(ctx context.Context, w *world, d core.Decision) recording {
	reports, told := e.reports(w, d)
	out := recording{blocked: map[int]bool{}, more: told.more}
	var errs []error
	for _, dialect := range e.Dialects {
		if err := ctx.Err(); err != nil { // nothing starts any more
			out.failed = errors.Join(append(errs, err)...)
			return out
		}
		limited, cancel := within(ctx, recordTimeout)
		failed := dialect.Record(limited, reports[dialect])
		cancel()
		for id, err := range failed {
			errs = append(errs, fmt.Errorf("recording the status of %s: %w", id, err))
			delete(told.overlooked, id)
		}
		out.block(w.policies, failed)
	}
	e.overlooked = told.overlooked
	out.failed = errors.Join(errs...)
	return out
}

func (r *recording) block(policies []core.Policy, failed map[core.ID]error) {
	if len(failed) == 0 {
		return
	}
	for i := range policies {
		if failed[policies[i].ID] == nil {
			continue
		}
		for _, m := range policies[i].Members {
			r.blocked[m] = true
		}
	}
}

// telling is what statuses say of policies that are not judged, once they are written.
type telling struct {
	overlooked map[core.ID]int
	// fresh is how many of them are told for the first time, and more is set when others are left to later passes.
	fresh int
	more  bool
}

// add reports whether the status of a policy may be written in this pass, if it has changed. Before is what statuses say.
func (t *telling) add(p *core.Policy, before map[core.ID]int) bool {
	if says, known := before[p.ID]; !known || says != p.Selected {
		if t.fresh == mostOverlooked {
			t.more = true
			return false
		}
		t.fresh++
	}
	t.overlooked[p.ID] = p.Selected
	return true
}

// reports returns what was found for the policies of each dialect. Of each namespace the oldest policy comes first, then the
// second oldest of each, and so on. The time for writing is bounded, and the policies of one namespace must not keep the
// statuses of another from being written.
func (e *Engine) reports(w *world, d core.Decision) (map[Dialect][]core.PolicyReport, telling) {
	all, of := d.Reports(w.policies, &w.fleet), map[Dialect][]core.PolicyReport{}
	told := telling{overlooked: map[core.ID]int{}}
	for _, i := range core.ByRank(w.policies) {
		r := all[i]
		if !r.Policy.Settled() {
			continue
		}
		if r.Policy.Overlooked {
			r.Deferred = !told.add(&r.Policy, e.overlooked)
		}
		dialect := w.dialectOf[r.Policy.ID]
		of[dialect] = append(of[dialect], r)
	}
	return of, told
}
