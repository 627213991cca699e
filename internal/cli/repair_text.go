package cli

import (
	"fmt"
	"strings"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

// requestedRepair returns the user's request about a target, or nil.
func (w *assessment) requestedRepair(target int) *RequestedRepair {
	for _, a := range w.decision.RepairRequests {
		if a.Target != target {
			continue
		}
		state, text := requestWords(&a)
		return &RequestedRepair{At: instant(a.At), State: state, Lapses: instant(a.Lapses), Message: text}
	}
	return nil
}

// requestWords returns the state of a request, and a sentence about it without its full stop.
func requestWords(a *core.RepairRequestStatus) (state, text string) {
	switch a.State {
	case core.RequestPending:
		if a.Lapses.IsZero() {
			return requestPending, "it counts until its repair has done its work"
		}
		return requestPending, "it counts until it lapses, or a repair begins"
	case core.RequestServed:
		return requestServed, "a repair has served it, so it does not count; ask again for another repair"
	case core.RequestLapsed:
		return requestLapsed, fmt.Sprintf("no repair began within %s, so it does not count; ask again once the gates are open", core.RequestLasts)
	case core.RequestAhead:
		return requestAhead, "its time is in the future, so it does not count; set your clock and ask again"
	case core.RequestInherited:
		return requestInherited, "it was made before the object was, which has the annotation from a template or a backup, so it does not count; remove it there"
	case core.RequestUnreadable:
	}
	return requestUnreadable, "the annotation " + annotation.RepairRequestedAt + " holds no time such as 2026-11-23T09:12:59Z, so it does not count; ask again"
}

// requestedRepair prints the user's request.
func (p *page) requestedRepair(a *RequestedRepair) {
	switch {
	case a == nil:
	case a.At == nil:
		p.field("Requested", p.in(yellow, strings.ToLower(a.State))+": "+a.Message)
	case a.Lapses != nil:
		p.field("Requested", fmt.Sprintf("by a person at %s, lapses at %s", p.clock(a.At), p.when(a.Lapses)))
	default:
		p.field("Requested", fmt.Sprintf("by a person at %s: %s", p.clock(a.At), a.Message))
	}
}

// repairRequest prints the answer to repair.
func (p *page) repairRequest(r *RepairRequest) {
	p.leaderless(r.Controller)
	p.printf("%s\n\n", r.Message)
	p.mixed = len(r.HealthChecks) > 1
	p.target(&r.Target)
	for i := range r.HealthChecks {
		c := &r.HealthChecks[i]
		p.gateStates("Gates of "+c.Kind+" "+qualified(c.Reference), c.Gates)
	}
	if r.Written {
		p.head("To withdraw the request before a repair begins")
		p.item("%s", r.Undo)
	}
	p.leader(r.Controller)
	p.notes(r.Notes)
}
