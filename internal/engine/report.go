package engine

import (
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// maxLines is how many happenings of one kind are logged in one pass. An outage has thousands.
const maxLines = 20

// report logs, counts and publishes what a pass has done since the last time.
func (e *Engine) report(p *pass.Pass) {
	for _, event := range p.Events() {
		switch event.Kind { //nolint:exhaustive // the others are counted and logged
		case pass.Decided:
			e.Metrics.observeLatencies(event.Samples...)
			e.Metrics.setGauges(e.ClusterKey, p.Policies(), p.Cluster(), p.Decision())
		case pass.NewEvents:
			e.logEvents(event.Events)
		case pass.AggregatedEvents:
			e.Dialects[event.Dialect].EmitEvents(event.Events)
		default:
			e.count(p, &event)
			e.log(&event)
		}
	}
}

// count counts what has become of repairs and requests.
func (e *Engine) count(p *pass.Pass, event *pass.Event) {
	switch event.Kind { //nolint:exhaustive // the others are not counted
	case pass.RepairRecorded:
		e.Metrics.countStart(event.Policy, event.Ladder)
		e.Metrics.observeLatencies(event.Samples...)
	case pass.RemedyRefused:
		e.Metrics.countRemedyRefusal(event.Policy, event.Remedy)
	case pass.RemedyAccepted:
		if event.First {
			e.Metrics.observeRemedyAccepted(event.Took)
		}
		if event.RequestCreated {
			e.Metrics.countRequest(event.Policy, event.Remedy)
		}
	case pass.StepGivenUp:
		e.Metrics.countStepGivenUp(p.Policies(), event.Repair)
	case pass.RequestWithdrawn:
		e.Metrics.countWithdrawal(event.Policy, event.Remedy)
	case pass.RepairEnded:
		e.Metrics.countEnd(p.Policies(), event.Repair)
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
	case pass.RepairConflict:
		e.Log.Info("somebody else has written the record of a repair; looking again", "repair", repair, "target", event.Repair.Target.String())
	case pass.NotAdmitted:
		e.Log.Info("repair waits, since what others have recorded meanwhile leaves no room for it", "repair", repair, "target", target)
	case pass.RemedyRefused:
		e.Log.Error(event.Err, "remedy was refused", "repair", repair, "target", target, "attempts", event.Repair.Attempts)
	case pass.RemedyAccepted:
		e.Log.Info("repair begun", "repair", repair, "target", target, "policy", event.Policy.ID.String(), "remedy", event.Remedy, "step", len(event.Repair.Tried))
	case pass.LeaseBusy:
		e.Log.Info("somebody else holds what the repair needs; it goes on when that is given back", "repair", repair, "target", target)
	case pass.TargetChanged:
		e.Log.Info("target changed before its repair began; looking again", "repair", repair, "target", target, "answer", event.RemedyResult.String())
	case pass.LeaseLost:
		e.Log.Info("somebody else has taken the lease of a node under repair", "target", target, "holder", event.Holder)
	case pass.OrphanedLeaseReleased:
		e.Log.Info("the lease of a node was left behind, and is given back", "node", event.Node, "holder", event.Holder)
	case pass.LeaseNotReleased:
		e.Log.Error(event.Err, "the lease of a node could not be released; it is tried again later", "node", event.Node, "holder", event.Holder)
	case pass.RepairEnded:
		e.Log.Info("repair ended", "repair", repair, "target", event.Repair.Target.String(), "outcome", event.Repair.Outcome.String())
	}
}

// logEvents logs what has begun, one line each. That repairs begin and are refused is logged where it
// happens.
func (e *Engine) logEvents(events []core.Event) {
	lines := map[core.EventKind]int{}
	for _, h := range events {
		text := logLine(h.Kind)
		if text == "" {
			continue
		}
		lines[h.Kind]++
		if lines[h.Kind] > maxLines {
			continue
		}
		log := e.Log.WithValues("policy", h.Policy.String(), "why", h.Text)
		if h.Target != (core.ID{}) {
			log = log.WithValues("target", h.Target.String(), "node", h.Node)
		}
		if h.Kind == core.EventHeldBack {
			log = log.WithValues("gate", h.Gate.String())
		}
		log.Info(text)
	}
	for kind, n := range lines {
		if n > maxLines {
			e.Log.Info("more of the same", "what", logLine(kind), "more", n-maxLines)
		}
	}
}

func logLine(k core.EventKind) string {
	switch k {
	case core.EventSuspected:
		return "target is not healthy"
	case core.EventUnreadable:
		return "target can't be read and is left alone"
	case core.EventShortCircuited:
		return "repairs are stopped by the short circuit"
	case core.EventMisconfigured:
		return "health check can't be followed"
	case core.EventHeldBack:
		return "unhealthy target is not repaired"
	case core.EventDryRun:
		return "dry run: a repair would begin"
	case core.EventEscalated:
		return "step of a repair is given up"
	case core.EventWithdrawn:
		return "request to a remediator is withdrawn"
	case core.EventStuck:
		return "request to a remediator was withdrawn long ago and is still there"
	case core.EventStarted, core.EventRefused:
	}
	return ""
}
