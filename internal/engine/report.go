package engine

import (
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// maxLines bounds the log lines for events of one kind in a pass. An outage has thousands.
const maxLines = 20

// report logs, counts and emits what the pass has done since the last call.
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

// count counts what happened to repairs and requests.
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

// log logs the results of calls.
func (e *Engine) log(event *pass.Event) {
	target, repair := event.Target.String(), event.Repair.Name
	switch event.Kind { //nolint:exhaustive // the others are counted
	case pass.QuorumNotKnown:
		e.Log.Error(event.Err, "quorum is unknown, so the target waits", "target", target)
	case pass.PolicyChanged:
		e.Log.Info("health check was deleted or changed after Fettle read it; no repair of its targets starts until the watch shows the change",
			"policy", event.Policy.ID.String())
	case pass.RepairConflict:
		e.Log.Info("another writer changed the record of a repair; the next pass decides again", "repair", repair, "target", event.Repair.Target.String())
	case pass.NotAdmitted:
		e.Log.Info("repair waits, since repairs recorded meanwhile use up a limit", "repair", repair, "target", target)
	case pass.RemedyRefused:
		e.Log.Error(event.Err, "remedy was refused", "repair", repair, "target", target, "attempts", event.Repair.Attempts)
	case pass.RemedyAccepted:
		e.Log.Info("repair begun", "repair", repair, "target", target, "policy", event.Policy.ID.String(), "remedy", event.Remedy, "step", len(event.Repair.Tried))
	case pass.LeaseBusy:
		e.Log.Info("repair waits, since another holder has the lease of the node", "repair", repair, "target", target)
	case pass.TargetChanged:
		e.Log.Info("target changed before its repair began; the next pass decides again", "repair", repair, "target", target, "answer", event.RemedyResult.String())
	case pass.LeaseLost:
		e.Log.Info("another holder has taken the lease of a node under repair", "target", target, "holder", event.Holder)
	case pass.OrphanedLeaseReleased:
		e.Log.Info("lease of a node outlived its repair and was released", "node", event.Node, "holder", event.Holder)
	case pass.LeaseNotReleased:
		e.Log.Error(event.Err, "lease of a node could not be released; Fettle tries again", "node", event.Node, "holder", event.Holder)
	case pass.RepairEnded:
		e.Log.Info("repair ended", "repair", repair, "target", event.Repair.Target.String(), "outcome", event.Repair.Outcome.String())
	}
}

// logEvents logs one line for each event. It leaves out repairs that begin or are refused, which
// log writes.
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
