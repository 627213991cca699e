package pass_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// callName returns the kind of a call and what it is about.
func callName(c pass.Call) string {
	about := ""
	switch c.Kind { //nolint:exhaustive // the others are about nothing
	case pass.ReadNode, pass.ReadQuorum, pass.FindSibling, pass.AcquireLease, pass.WithdrawConfirmation:
		about = c.Target.ID.Name
	case pass.ReadPolicy:
		about = c.Policy.Name
	case pass.CreateRepair:
		about = c.NewRepair.Target.ID.Name
	case pass.UpdateRepair, pass.DeleteRepair:
		about = c.Repair.Target.Name
	case pass.StartRemedy:
		about = c.RemedyCall.Target.ID.Name
	case pass.StopRequest, pass.WithdrawRequest:
		about = c.Request.Target.Name
	case pass.ReleaseLease:
		about = c.Node
	case pass.WriteStatuses, pass.WriteConditions:
		about = strings.TrimPrefix(dialect(c.Dialect), "dialect ")
	}
	return strings.TrimSpace(c.Kind.String() + " " + about)
}

// arguments returns the fields of a call that its kind reads, but for those in callName.
func arguments(c *pass.Call) string {
	switch c.Kind { //nolint:exhaustive // the others have none
	case pass.ReadNode:
		return words(until(c.Until), dialect(c.Dialect))
	case pass.ReportBlocked, pass.ReadPolicy, pass.WithdrawConfirmation:
		return dialect(c.Dialect)
	case pass.WriteStatuses:
		return statusesOf(c.Reports)
	case pass.CreateRepair:
		n := c.NewRepair
		return words("for "+n.Policy.ID.Name, stepNames(n.Steps), number("retry", n.Retry))
	case pass.AcquireLease:
		return words("by "+c.Holder, "for "+c.For.String())
	case pass.ReleaseLease:
		return "of " + c.Holder
	case pass.StartRemedy:
		return callOf(c.RemedyCall)
	case pass.UpdateRepair:
		return words(stateOf(&c.Repair), quoted(c.Text), refusal(c.Refused))
	case pass.StopRequest:
		return "at " + clockTime(c.At)
	case pass.WithdrawRequest:
		return words(map[bool]string{true: "target healthy"}[c.Request.TargetHealthy], map[bool]string{true: "only as reported"}[c.Request.OnlyAsReported])
	case pass.WriteConditions:
		return words(judgementsOf(c), until(c.Until))
	}
	return ""
}

func words(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(w string) bool { return w == "" }), ", ")
}

func number(what string, n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(what, " ", n)
}

func dialect(i int) string { return number("dialect", i) }

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return `"` + text + `"`
}

func refusal(err error) string {
	if err == nil {
		return ""
	}
	return "refused: " + err.Error()
}

// clockTime returns an instant as the time since the stories begin.
func clockTime(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return "+" + at.Sub(noon).String()
}

func until(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return "until " + clockTime(at)
}

func stepNames(steps []core.Step) string {
	names := make([]string, len(steps))
	for i := range steps {
		names[i] = steps[i].Remedy
	}
	return strings.Join(names, " then ")
}

func statusesOf(reports []core.PolicyReport) string {
	names := make([]string, len(reports))
	for i := range reports {
		names[i] = reports[i].Policy.ID.Name
		if reports[i].Deferred {
			names[i] += " later"
		}
	}
	return strings.Join(names, " ")
}

func judgementsOf(c *pass.Call) string {
	all := make([]string, len(c.Judged))
	for i := range c.Judged {
		j := &c.Judged[i]
		all[i] = c.Cluster.Targets[j.Target].ID.Name + " " + j.Verdict.Health.String()
	}
	return strings.Join(all, " ")
}

// callOf describes the call of a remedy.
func callOf(o *core.RemedyCall) string {
	var findings []string
	for i := range o.Findings {
		findings = append(findings, o.Findings[i].Reason.String())
	}
	return words(o.Step.Remedy, "for "+o.Policy.Name, map[bool]string{true: "beside " + o.Sibling.Name}[o.Sibling.Name != ""], strings.Join(findings, " "))
}

// stateOf describes how far a repair has come.
func stateOf(r *core.Repair) string {
	ended := ""
	if !r.Running() {
		ended = r.Outcome.String() + " at " + clockTime(r.Ended)
	}
	tried := make([]string, len(r.Tried))
	for i := range r.Tried {
		tried[i] = "step " + fmt.Sprint(i+1) + " " + r.Tried[i].Outcome.String() + " at " + clockTime(r.Tried[i].Ended)
	}
	attempts := number("refusals", r.Attempts)
	if r.Attempts > 0 {
		attempts += " until " + clockTime(r.LastAttempt)
	}
	since := func(what string, at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return what + " at " + clockTime(at)
	}
	fenced := make([]string, len(r.Evidence))
	for i := range r.Evidence {
		fenced[i] = words("fenced by "+r.Evidence[i].Method+" at "+clockTime(r.Evidence[i].Proven), since("back", r.Evidence[i].Back))
	}
	return words(strings.Join(fenced, ", "), strings.Join(tried, ", "), attempts, since("handed over", r.Begun), since("recovered", r.Recovered), ended)
}

// answerText describes the answer to a call.
func answerText(r *pass.Result, k pass.Kind) string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case k == pass.ReadNode:
		ready := "no Ready condition"
		if len(r.Node.Conditions) > 0 {
			ready = "Ready=" + r.Node.Conditions[0].Status
		}
		return cmp.Or(map[core.NodeState]string{core.NodePresent: ready}[r.Node.State], r.Node.State.String())
	case k == pass.ReadQuorum:
		return "survives: " + r.Survives.String()
	case k == pass.ReadPolicy:
		return r.Fingerprint
	case k == pass.ListRunning:
		return fmt.Sprintf("%d run", len(r.Repairs))
	case k == pass.StartRemedy, k == pass.WithdrawRequest && r.RemedyResult != 0:
		return r.RemedyResult.String()
	case k == pass.CreateRepair, k == pass.UpdateRepair, k == pass.AcquireLease, k == pass.ReleaseLease, k == pass.DeleteRepair, k == pass.FindSibling:
		return map[bool]string{true: "done", false: "not done"}[r.OK]
	case k == pass.WriteConditions && r.OK:
		return "some are left"
	}
	return "done"
}

var eventNames = map[pass.EventKind]string{
	pass.Decided: "Decided", pass.NewEvents: "NewEvents", pass.AggregatedEvents: "AggregatedEvents", pass.QuorumNotKnown: "QuorumNotKnown",
	pass.PolicyChanged: "PolicyChanged", pass.RepairConflict: "RepairConflict", pass.NotAdmitted: "NotAdmitted",
	pass.RepairRecorded: "RepairRecorded", pass.RemedyRefused: "RemedyRefused", pass.RemedyAccepted: "RemedyAccepted", pass.LeaseBusy: "LeaseBusy",
	pass.TargetChanged: "TargetChanged", pass.StepGivenUp: "StepGivenUp", pass.RequestWithdrawn: "RequestWithdrawn", pass.LeaseLost: "LeaseLost",
	pass.OrphanedLeaseReleased: "OrphanedLeaseReleased", pass.LeaseNotReleased: "LeaseNotReleased", pass.RepairEnded: "RepairEnded",
}

// eventText describes an event of a pass, with all fields that are set.
func eventText(e *pass.Event) string {
	all := []string{eventNames[e.Kind]}
	add := func(what, value string) {
		if value != "" {
			all = append(all, strings.TrimSpace(what+" "+value))
		}
	}
	add("dialect", strings.TrimPrefix(dialect(e.Dialect), "dialect "))
	if e.Policy != nil {
		add("policy", e.Policy.ID.Name)
	}
	add("target", e.Target.Name)
	add("node", e.Node)
	add("holder", e.Holder)
	if e.Repair.Name != "" {
		add("repair of", e.Repair.Target.Name)
		add("with", stateOf(&e.Repair))
	}
	add("remedy", e.Remedy)
	if e.RemedyResult != 0 {
		add("result", e.RemedyResult.String())
	}
	add("", map[bool]string{true: "first"}[e.First])
	add("", map[bool]string{true: "request"}[e.RequestCreated])
	if e.Kind == pass.RemedyAccepted {
		add("after", e.Took.String())
	}
	if e.Err != nil {
		add("error", e.Err.Error())
	}
	add("steps", stepNames(e.Ladder))
	for _, s := range e.Samples {
		add("sample", s.Stage.String()+" "+s.Took.String())
	}
	for i := range e.Events {
		add("-", coreEventText(&e.Events[i], e.Kind == pass.AggregatedEvents))
	}
	return strings.Join(all, ", ")
}

// coreEventText describes an event for users. Only texts that a pass makes itself are quoted.
func coreEventText(h *core.Event, short bool) string {
	repair := map[bool]string{true: "with a repair"}[h.Repair.Name != ""]
	if short {
		return strings.TrimSpace(h.Kind.String() + " " + h.Target.Name + " " + repair)
	}
	text := ""
	if h.Kind == core.EventEscalated || h.Kind == core.EventRefused {
		text = quoted(h.Text)
	}
	return strings.Join(slices.DeleteFunc([]string{
		h.Kind.String(), h.Policy.Name, h.Target.Name, h.Node, h.Remedy, number("step", h.Step), repair, text,
	}, func(w string) bool { return w == "" }), " ")
}

// shortText returns the kind of an event of a pass and what it is about.
func shortText(e *pass.Event) string {
	all := []string{eventNames[e.Kind], cmp.Or(e.Target.Name, e.Repair.Target.Name, e.Node)}
	for i := range e.Events {
		all = append(all, e.Events[i].Kind.String()+" "+e.Events[i].Target.Name)
	}
	if e.Kind == pass.Decided && len(e.Samples) > 0 {
		all = append(all, fmt.Sprint(len(e.Samples), " samples"))
	}
	return strings.Join(slices.DeleteFunc(all, func(w string) bool { return w == "" }), " ")
}
