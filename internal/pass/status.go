package pass

import (
	"fmt"

	"github.com/fettle-io/fettle/internal/core"
)

// maxUnjudgedStatuses bounds how many statuses of policies that are not judged one pass writes. Remedies wait for the
// statuses, and every author of health checks can have thousands of them not judged.
const maxUnjudgedStatuses = 200

// statusWriting is the progress of writing statuses.
type statusWriting struct {
	reports [][]core.PolicyReport
	// unjudged has the policies that are not judged whose statuses will say so, with the number of targets that they
	// select. Fresh counts the statuses that say so for the first time.
	unjudged map[core.ID]int
	fresh    int
	// more is set when statuses are left to later passes, and incomplete when some were not tried.
	more, incomplete bool
	// blocked has the targets for which nothing may start, since the status of a policy that selects them was not
	// written.
	blocked map[int]bool
}

func (p *Pass) unknownDialects() int {
	return len(p.unknown)
}

func (p *Pass) reportBlocked(_ *task, i int) []Call {
	if dialect := p.unknown[i]; p.config.Dialects[dialect].ReportsBlocked {
		return []Call{{Kind: ReportBlocked, Dialect: dialect}}
	}
	return nil
}

func (p *Pass) blockedReported(t *task, _ *Call, r *Result) {
	if r.Err != nil {
		t.end(fmt.Errorf("reporting why nothing is decided: %w", r.Err))
	}
}

// statuses records and reports the decision, and gathers the reports of each dialect.
func (p *Pass) statuses() int {
	decided := Event{Kind: Decided}
	if p.config.Samples {
		decided.Samples = p.state.latencies.Observe(p.policies, &p.cluster, p.decision, p.now)
	}
	p.report(decided)
	p.state.Expectations.KeepCooldowns(p.policies, p.decision.Tallies)
	p.state.Expectations.KeepHealthy(&p.cluster, &p.decision)
	p.gatherReports()
	return len(p.config.Dialects)
}

// gatherReports sorts the reports by dialect. In each namespace the oldest policy comes first, then the second oldest
// of each namespace, and so on. The time for writing is bounded, and the policies of one namespace must not delay the
// statuses of another.
func (p *Pass) gatherReports() {
	w := &p.status
	w.reports, w.unjudged, w.blocked = make([][]core.PolicyReport, len(p.config.Dialects)), map[core.ID]int{}, map[int]bool{}
	all := p.decision.Reports(p.policies, &p.cluster)
	for _, i := range core.ByRank(p.policies) {
		r := all[i]
		if !r.Policy.StepsKnown() {
			continue
		}
		if r.Policy.Unjudged {
			r.Deferred = !w.add(&r.Policy, p.state.unjudged)
		}
		dialect := p.policyDialect[r.Policy.ID]
		w.reports[dialect] = append(w.reports[dialect], r)
	}
}

// add reports whether the changed status of a policy that is not judged may be written in this pass. Before is what
// statuses say.
func (w *statusWriting) add(p *core.Policy, before map[core.ID]int) bool {
	if says, known := before[p.ID]; !known || says != p.Selected {
		if w.fresh == maxUnjudgedStatuses {
			w.more = true
			return false
		}
		w.fresh++
	}
	w.unjudged[p.ID] = p.Selected
	return true
}

func (p *Pass) writeStatuses(_ *task, i int) []Call {
	return []Call{{Kind: WriteStatuses, Dialect: i, Reports: p.status.reports[i]}}
}

// statusesWritten blocks the members of policies whose status was not written. After an error these are all policies of
// the dialect.
func (p *Pass) statusesWritten(t *task, c *Call, r *Result) {
	w := &p.status
	unwritten := r.Unwritten
	if r.Err != nil {
		w.incomplete = true
		t.errs = append(t.errs, r.Err)
		unwritten = map[core.ID]error{}
		for i := range c.Reports {
			unwritten[c.Reports[i].Policy.ID] = r.Err
		}
	}
	for i := range p.policies {
		id := p.policies[i].ID
		err := unwritten[id]
		if err == nil {
			continue
		}
		if r.Err == nil {
			t.errs = append(t.errs, fmt.Errorf("recording the status of %s: %w", id, err))
		}
		delete(w.unjudged, id)
		for _, m := range p.policies[i].Members {
			w.blocked[m] = true
		}
	}
}

// planCalls reports what is new, and gathers what to do now that the statuses are written.
func (p *Pass) planCalls() bool {
	if !p.status.incomplete {
		p.state.unjudged = p.status.unjudged
	}
	p.emit(p.state.deduplicator.NewEvents(p.policies, &p.cluster, p.decision))
	p.gatherChanges()
	p.gatherStarts()
	return false
}
