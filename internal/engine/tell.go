package engine

import (
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// mostLines is how many happenings of one kind are logged in one pass. An outage has thousands.
const mostLines = 20

// report logs, counts and publishes what a pass has done since the last time.
func (e *Engine) report(p *pass.Pass) {
	for _, event := range p.Events() {
		switch event.Kind { //nolint:exhaustive // the others are counted and logged
		case pass.Decided:
			e.Metrics.hasMeasured(event.Samples...)
			e.Metrics.nowStands(e.Fleet, p.Policies(), p.Fleet(), p.Decision())
		case pass.Noted:
			e.tell(event.Happenings)
		case pass.Announced:
			e.Dialects[event.Source].Announce(event.Happenings)
		default:
			e.count(p, &event)
			e.log(&event)
		}
	}
}

// count counts what has become of repairs and requests.
func (e *Engine) count(p *pass.Pass, event *pass.Event) {
	switch event.Kind { //nolint:exhaustive // the others are not counted
	case pass.Recorded:
		e.Metrics.hasStarted(event.Policy, event.Ladder)
		e.Metrics.hasMeasured(event.Samples...)
	case pass.Refused:
		e.Metrics.hasRefused(event.Policy, event.Remedy)
	case pass.Begun:
		if event.First {
			e.Metrics.hasBegun(event.Took)
		}
		if event.Asks {
			e.Metrics.hasAsked(event.Policy, event.Remedy)
		}
	case pass.StepGivenUp:
		e.Metrics.hasGivenUp(p.Policies(), event.Repair)
	case pass.RequestWithdrawn:
		e.Metrics.hasWithdrawn(event.Policy, event.Remedy)
	case pass.Ended:
		e.Metrics.hasEnded(p.Policies(), event.Repair)
	}
}

// log logs how calls went.
func (e *Engine) log(event *pass.Event) {
	target, repair := event.Target.String(), event.Repair.Name
	switch event.Kind { //nolint:exhaustive // the others are counted
	case pass.QuorumNotKnown:
		e.Log.Error(event.Err, "quorum is not known, so the target waits", "target", target)
	case pass.PolicyChanged:
		e.Log.Info("health check was deleted or changed after it was read; nothing begins for its targets until its watch shows that",
			"policy", event.Policy.ID.String())
	case pass.Overtaken:
		e.Log.Info("somebody else has written the record of a repair; looking again", "repair", repair, "target", event.Repair.Target.String())
	case pass.NoRoom:
		e.Log.Info("repair waits, since what others have recorded meanwhile leaves no room for it", "repair", repair, "target", target)
	case pass.Refused:
		e.Log.Error(event.Err, "remedy was refused", "repair", repair, "target", target, "attempts", event.Repair.Attempts)
	case pass.Begun:
		e.Log.Info("repair begun", "repair", repair, "target", target, "policy", event.Policy.ID.String(), "remedy", event.Remedy, "step", len(event.Repair.Rungs))
	case pass.Busy:
		e.Log.Info("somebody else holds what the repair needs; it goes on when that is given back", "repair", repair, "target", target)
	case pass.Changed:
		e.Log.Info("target changed before its repair began; looking again", "repair", repair, "target", target, "answer", event.Beginning.String())
	case pass.LeaseLost:
		e.Log.Info("somebody else has taken the lease of a node under repair", "target", target, "holder", event.Holder)
	case pass.LeaseLeftBehind:
		e.Log.Info("the lease of a node was left behind, and is given back", "node", event.Node, "holder", event.Holder)
	case pass.LeaseKept:
		e.Log.Error(event.Err, "the lease of a node could not be released; it is tried again later", "node", event.Node, "holder", event.Holder)
	case pass.Ended:
		e.Log.Info("repair ended", "repair", repair, "target", event.Repair.Target.String(), "outcome", event.Repair.Outcome.String())
	}
}

// tell logs what has begun, one line each. That repairs begin and are refused is logged where it
// happens.
func (e *Engine) tell(happenings []core.Happening) {
	lines := map[core.HappeningKind]int{}
	for _, h := range happenings {
		text := lineOf(h.Kind)
		if text == "" {
			continue
		}
		lines[h.Kind]++
		if lines[h.Kind] > mostLines {
			continue
		}
		log := e.Log.WithValues("policy", h.Policy.String(), "why", h.Text)
		if h.Target != (core.ID{}) {
			log = log.WithValues("target", h.Target.String(), "node", h.Node)
		}
		if h.Kind == core.Held {
			log = log.WithValues("gate", h.Gate.String())
		}
		log.Info(text)
	}
	for kind, n := range lines {
		if n > mostLines {
			e.Log.Info("more of the same", "what", lineOf(kind), "more", n-mostLines)
		}
	}
}

func lineOf(k core.HappeningKind) string {
	switch k {
	case core.Suspected:
		return "target is not healthy"
	case core.Unreadable:
		return "target can't be read and is left alone"
	case core.Restricted:
		return "repairs are stopped by the short circuit"
	case core.Misconfigured:
		return "health check can't be followed"
	case core.Held:
		return "unhealthy target is not repaired"
	case core.Rehearsed:
		return "dry run: a repair would begin"
	case core.Escalated:
		return "step of a repair is given up"
	case core.Relieved:
		return "request to a remediator is withdrawn"
	case core.Lingering:
		return "request to a remediator was withdrawn long ago and is still there"
	case core.Begun, core.Refused:
	}
	return ""
}
