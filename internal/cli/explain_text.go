package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// field prints a line with a name and a value. Without a value it prints nothing.
func (p *page) field(name, value string) {
	if value != "" {
		p.printf("%-14s %s\n", name, value)
	}
}

func (p *page) head(text string) { p.printf("\n%s\n", text) }

func (p *page) item(format string, args ...any) { p.printf("  "+format+"\n", args...) }

func qualified(r Reference) string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// explanation prints the answer to explain machine/NAME and node/NAME.
func (p *page) explanation(e *Explanation) {
	p.leaderless(e.Controller)
	if e.Message != "" {
		p.printf("%s\n", e.Message)
	}
	p.mixed = e.mixed()
	for i := range e.Targets {
		if i > 0 {
			p.printf("\n")
		}
		p.target(&e.Targets[i])
	}
	p.leader(e.Controller)
	p.notes(e.Notes)
}

// mixed reports whether the explanation names health checks of several kinds.
func (e *Explanation) mixed() bool {
	kinds := map[string]bool{}
	for i := range e.Targets {
		if l := e.Targets[i].Lead; l != nil {
			kinds[l.HealthCheck.Kind] = true
		}
		for _, v := range e.Targets[i].Verdicts {
			kinds[v.HealthCheckKind] = true
		}
		for _, r := range e.Targets[i].HeldBy {
			kinds[r.HealthCheckKind] = true
		}
	}
	return len(kinds) > 1
}

// leaderless prints first that no controller leads. leader prints last that one does.
func (p *page) leaderless(c *Controller) {
	if c != nil && c.Leads == "no" {
		p.controller(c)
		p.printf("\n")
	}
}

func (p *page) leader(c *Controller) {
	if c != nil && c.Leads != "no" {
		p.printf("\n")
		p.controller(c)
	}
}

func (p *page) target(t *ExplainedTarget) {
	p.field(t.Kind, qualified(t.Reference))
	p.field("Cluster", t.Cluster)
	if t.Node != t.Name || t.Kind != "Node" {
		p.field("Node", t.Node)
	}
	if t.Sibling != nil && t.Sibling.Kind != "Node" {
		p.field(t.Sibling.Kind, qualified(*t.Sibling))
	}
	if t.Owner != nil {
		p.field("Owner", t.Owner.Kind+" "+t.Owner.Name)
	}
	if t.Health != "unjudged" {
		p.field("Verdict", p.in(healthIn(t.Health), t.Health)+p.sinceText(t))
	}
	p.led(t.Lead)
	p.field("Repair", t.Repair)
	if t.Deleting != nil {
		p.field("Deleted", "requested "+p.when(t.Deleting)+finalizersText(t.Finalizers))
	}
	p.marks(t)
	p.lease(t.Lease)
	p.bmcs(t)
	p.promise(t.Promise)
	p.verdicts(t)
	p.steps(t.Steps)
	p.requests(t.Requests)
	p.evidence(t.Evidence, t.Requests)
	p.heldBy(t.HeldBy)
	p.ownerAnswer(t.OwnerAnswer)
	p.earlier(t.Earlier)
	p.head("Next")
	p.item("%s", p.upcoming(t.Next))
}

// led prints the health check that leads, if it leads the repair of the other target of the node.
func (p *page) led(l *Lead) {
	if l != nil && l.Of != nil {
		p.field("Led by", fmt.Sprintf("%s %s, which has %s %s repaired instead", l.HealthCheck.Kind, qualified(l.HealthCheck), strings.ToLower(l.Of.Kind), qualified(*l.Of)))
	}
}

// marks prints the labels and annotations of a node that users have set.
func (p *page) marks(t *ExplainedTarget) {
	if t.Excluded {
		p.field("Excluded", "from repairs, by a label on its node")
	}
	if t.ConfirmedHealthy {
		p.field("Confirmed", "a person has confirmed that it is healthy, by an annotation on its node")
	}
	p.requestedRepair(t.RepairRequest)
	if r := t.Recovery; r != nil {
		until := "a person confirms that it is healthy"
		if r.Until != nil {
			until = p.when(r.Until) + ", in case it fails again"
		}
		what := "its remediation objects stay until "
		if r.Confirm == "" {
			what = "its request stays until "
		}
		p.field("Healthy delay", what+until)
	}
}

func (p *page) lease(l *NodeLease) {
	switch {
	case l == nil:
	case l.Unknown != "":
		p.field("Lease", p.in(yellow, "can't tell: "+l.Unknown))
	case l.Holder == "":
		p.field("Lease", "free")
	case l.Ours:
		p.field("Lease", l.Holder+" has it until "+p.when(l.Until))
	default:
		p.field("Lease", p.in(red, l.Holder)+" has it until "+p.when(l.Until))
	}
}

func (p *page) sinceText(t *ExplainedTarget) string {
	if t.Since == nil {
		return ""
	}
	return ", since " + p.when(t.Since)
}

func finalizersText(finalizers []string) string {
	if len(finalizers) == 0 {
		return ""
	}
	return ", waiting for finalizers " + sanitize.Line(sanitize.MaxPart, strings.Join(finalizers, ", "))
}

// role says whether a verdict's health check leads.
func (p *page) role(v *Verdict, t *ExplainedTarget) string {
	switch {
	case v.DryRun:
		return " (dry run)"
	case v.Leads && len(t.Verdicts) > 1 && t.Repair != "":
		return " (leads the repair)"
	case v.Leads && len(t.Verdicts) > 1:
		return " (leads: it is the oldest that finds it unhealthy)"
	case !v.Leads && t.Lead != nil && v.Health == core.Unhealthy.String():
		return " (" + p.check(t.Lead.HealthCheck.Kind, t.Lead.HealthCheck.Name) + " leads)"
	}
	return ""
}

func (p *page) verdicts(t *ExplainedTarget) {
	if t.Unselected != "" {
		p.head("No health check selects it, so it is not judged")
		p.item("%s", t.Unselected)
		return
	}
	p.head("Judged by")
	for i := range t.Verdicts {
		v := &t.Verdicts[i]
		p.item("%s%s: %s, %s", p.check(v.HealthCheckKind, v.HealthCheck), p.role(v, t), p.in(healthIn(v.Health), v.Health), v.Message)
		switch {
		case v.Until != nil && v.Since == nil:
			p.item("  unhealthy at %s at the latest", p.when(v.Until))
		case v.Until != nil:
			p.item("  unhealthy at %s", p.when(v.Until))
		}
	}
}

func (p *page) heldBy(refusals []Refusal) {
	p.gates("Held back by", red, slices.DeleteFunc(slices.Clone(refusals), func(r Refusal) bool { return r.Unknown }))
	p.gates("Can't tell whether held back by", yellow, slices.DeleteFunc(slices.Clone(refusals), func(r Refusal) bool { return !r.Unknown }))
}

func (p *page) gates(head string, c colour, refusals []Refusal) {
	if len(refusals) == 0 {
		return
	}
	p.head(head)
	for _, r := range refusals {
		of := p.check(r.HealthCheckKind, r.HealthCheck)
		if r.DryRun {
			of += ", dry run"
		}
		p.item("%s (%s): %s", p.in(c, r.Gate), of, r.Message)
		if r.Until != nil {
			p.item("  opens at %s", p.when(r.Until))
		}
	}
}

func (p *page) earlier(repairs []Repair) {
	if len(repairs) == 0 {
		return
	}
	p.head("Earlier repairs of it, and of others that its owner has made")
	for i := range repairs {
		r := &repairs[i]
		p.item("%s: %s %s, for %s%s", r.Name, r.Phase, p.when(r.Finished), r.Reason, retryText(r.Retry))
		for j := range r.Evidence {
			p.item("  %s: %s", r.Evidence[j].remediation(), p.proofOf(&r.Evidence[j]))
		}
	}
}

func retryText(retry int) string {
	if retry == 0 {
		return ""
	}
	return fmt.Sprintf(", after %s in a row had not lasted", count(retry, "repair"))
}

func (p *page) upcoming(n Next) string {
	switch {
	case n.At == nil:
		return n.Text
	case p.distance(n.At) == 0:
		return "Now " + inSentence(n.Text)
	}
	return "At " + p.when(n.At) + " " + inSentence(n.Text)
}

// inSentence makes the first letter of a sentence small.
func inSentence(text string) string { return strings.ToLower(text[:1]) + text[1:] }

// repairExplanation prints the answer to explain repair/NAME.
func (p *page) repairExplanation(e *RepairExplanation) {
	p.leaderless(e.Controller)
	if e.Message != "" {
		p.printf("%s\n\n", e.Message)
	}
	r := &e.Repair
	p.field("Repair", r.Namespace+"/"+r.Name)
	p.field("Cluster", r.Cluster)
	p.field("Of", strings.ToLower(r.Target.Kind)+" "+r.Target.Name+nodeText(r))
	p.field("Health check", r.HealthCheck)
	p.field("Remedy", strings.Join(slices.Compact(slices.Clone(r.Remedies)), ", "))
	p.field("Why", r.Reason+": "+r.Message)
	p.field("Started", p.when(r.Started)+retryText(r.Retry))
	p.field("Phase", p.in(phaseIn(r.Phase), r.Phase))
	p.field("Finished", p.when(r.Finished))
	p.field("Progress", sentence(r.Progress))
	p.field("Answer", r.Answer)
	if r.Attempts > 0 {
		p.field("Refused", fmt.Sprintf("%s, the last %s", count(r.Attempts, "call"), p.when(r.LastAttempt)))
		p.field("Last error", r.LastError)
	}
	if e.Target != nil && e.Target.Deleting != nil {
		p.field("Deleted", "requested "+p.when(e.Target.Deleting))
	}
	p.field("Unreadable", r.Problem)
	p.steps(r.Steps)
	p.requests(e.Requests)
	standing := e.Requests
	if e.Target != nil {
		p.requests(e.Target.Requests)
		standing = e.Target.Requests
	}
	p.evidence(r.Evidence, standing)
	if e.Target != nil {
		p.ownerAnswer(e.Target.OwnerAnswer)
	}
	if len(e.WaitsFor) > 0 {
		p.head("Waits for")
		for _, w := range e.WaitsFor {
			p.item("%s", w)
		}
	}
	p.head("Next")
	p.item("%s", p.upcoming(e.Next))
	if e.Advice != "" {
		p.item("%s", e.Advice)
	}
	p.leader(e.Controller)
	p.notes(e.Notes)
}

func nodeText(r *Repair) string {
	if r.Node == "" || r.Target.Kind == "Node" {
		return ""
	}
	return " (node " + r.Node + ")"
}

func phaseIn(phase string) colour {
	switch phase {
	case "Running":
		return yellow
	case "Succeeded", "Recovered":
		return green
	}
	return plain
}
