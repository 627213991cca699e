package cli

import (
	"fmt"
	"slices"
	"strings"
)

// checkExplanation prints the answer to explain nodehealthcheck/NAME and machinehealthcheck/NAME.
func (p *page) checkExplanation(e *HealthCheckExplanation) {
	p.leaderless(e.Controller)
	h := &e.HealthCheck
	p.field("Health check", h.Kind+" "+qualified(h.Reference))
	p.field("API", e.Group)
	p.field("Cluster", h.Cluster)
	p.field("Phase", h.Phase)
	p.field("Selects", selects(e))
	p.field("Repairs", p.repairsOf(h))
	p.members(e)
	p.gateStates("Gates", e.Gates)
	p.underWay(e)
	p.kept(e)
	p.endedRepairs(e)
	p.shared(e.Shared)
	if e.Idle != "" && e.Idle != e.Next.Text { // a text of texts
		p.head("Why nothing happens now")
		p.item("%s", e.Idle)
	}
	p.head("Next")
	p.item("%s", p.comingUp(e.Next))
	p.leader(e.Controller)
	p.notes(e.Notes)
}

// selects returns the number of selected targets, and their verdicts.
func selects(e *HealthCheckExplanation) string {
	var parts []string
	c := e.Counts
	for _, of := range []struct {
		n    int
		text string
	}{
		{c.Healthy, "healthy"}, {c.Unhealthy, "unhealthy"}, {c.Suspect, "suspect"}, {c.Unknown, "unknown"}, {c.Gone, "being deleted"},
		{c.Behind, "gone and not replaced yet"},
	} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of.n, of.text))
		}
	}
	text := count(e.HealthCheck.Total, strings.ToLower(e.HealthCheck.TargetKind))
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	if e.HealthCheck.AsWritten {
		text += " (as its controller has written last)"
	}
	return text
}

// repairsOf says whether repairs are allowed.
func (p *page) repairsOf(h *HealthCheck) string {
	sp := statusPage{page: *p}
	c := sp.allowed(h)
	return p.in(c.colour, c.text)
}

func (p *page) members(e *HealthCheckExplanation) {
	if len(e.NotHealthy) == 0 {
		return
	}
	p.head("Not healthy")
	sp := statusPage{page: *p}
	sp.targets(e.NotHealthy)
	p.left(e.Omitted, strings.ToLower(e.NotHealthy[0].Kind))
}

// left prints how many rows were left out.
func (p *page) left(n int, word string) {
	if n > 0 {
		p.printf("… and %s more (fettle status --limit 0 shows all)\n", count(n, word))
	}
}

func (p *page) gateStates(head string, gates []GateState) {
	if len(gates) == 0 {
		return
	}
	p.head(head)
	for i := range gates {
		g := &gates[i]
		text := p.in(stateIn(g.State), stateWord(g.State))
		if g.Holds > 0 {
			text += fmt.Sprintf(", for %d (%s)", g.Holds, someOf(g.Names, g.Holds))
		}
		if g.Message != "" {
			text += ": " + g.Message
		}
		of := ""
		if g.HealthCheck != nil {
			of = " of " + g.HealthCheck.Kind + " " + qualified(*g.HealthCheck)
		}
		p.item("%s%s is %s", g.Gate, of, text)
		if g.Until != nil {
			p.item("  opens at %s", p.when(g.Until))
		}
	}
}

func stateWord(state string) string {
	if state == gateUnknown {
		return "not known"
	}
	return strings.ToLower(state)
}

func stateIn(state string) colour {
	switch state {
	case gateClosed:
		return red
	case gateUnknown:
		return yellow
	}
	return green
}

// someOf lists some of the names.
func someOf(names []string, n int) string {
	text := strings.Join(names, ", ")
	if n > len(names) {
		text += ", …"
	}
	return text
}

func (p *page) underWay(e *HealthCheckExplanation) {
	if len(e.Running) == 0 {
		return
	}
	p.head("Repairs under way")
	for i := range e.Running {
		r := &e.Running[i]
		parts := []string{
			fmt.Sprintf("%s: of %s%s", r.Name, r.Target.Name, nodeText(r)), "for " + r.Reason, "started " + p.when(r.Started),
			stepText(r), r.Answer, refusedCalls(r), r.Problem,
		}
		parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
		p.item("%s", strings.Join(parts, ", "))
	}
	p.left(e.RunningOmitted, "repair")
}

// kept prints the objects that outlast their targets. The status lists their nodes until the objects are gone.
func (p *page) kept(e *HealthCheckExplanation) {
	if len(e.Kept) == 0 {
		return
	}
	kind := strings.ToLower(e.HealthCheck.TargetKind)
	p.head("Remediation objects of " + kind + "s that are gone")
	for i := range e.Kept {
		r := &e.Kept[i]
		p.item("%s %s: %s", r.Kind, qualified(r.Reference), p.answerOf(r))
	}
	p.left(e.KeptOmitted, "object")
	p.item("The status lists their %ss as under remediation until they are gone. %s", kind, keptAdvice)
}

// stepText returns the step under way, for repairs with several steps.
func stepText(r *Repair) string {
	switch step := stepOf(r); step {
	case "":
		return ""
	case noStepLeft:
		return "no step is left"
	default:
		return "step " + step
	}
}

func (p *page) endedRepairs(e *HealthCheckExplanation) {
	if len(e.Ended) == 0 {
		return
	}
	p.head("Repairs that ended last")
	for i := range e.Ended {
		r := &e.Ended[i]
		p.item("%s: of %s, %s %s, for %s%s", r.Name, r.Target.Name, p.in(phaseIn(r.Phase), r.Phase), p.when(r.Finished), r.Reason, retryText(r.Retry))
	}
	if n := e.Retained - len(e.Ended); n > 0 {
		p.item("… and %s before (kubectl get repairs%s)", count(n, "repair"), inNamespace(e.Ended[0].Namespace))
	}
}

func (p *page) shared(shared []Sharing) {
	if len(shared) == 0 {
		return
	}
	p.head("Other health checks that select the same targets")
	for i := range shared {
		s := &shared[i]
		rule := "is younger, and leads only what this one does not find unhealthy"
		switch {
		case s.DryRun:
			rule = "is a dry run, which leads nothing"
		case s.Older:
			rule = "is older, and leads where both find the same unhealthy"
		}
		p.item("%s %s selects %d of them too (%s). It %s. Now it leads %d of them, and this one %d.",
			s.HealthCheck.Kind, qualified(s.HealthCheck), s.Count, someOf(s.Names, s.Count), rule, s.LedByIt, s.LedHere)
	}
}

// comingUp prints what happens next, for a text that may begin with a name.
func (p *page) comingUp(n Next) string {
	text := strings.TrimSuffix(n.Text, ".") + "."
	switch {
	case n.At == nil:
		return text
	case p.distance(n.At) == 0:
		return "Now " + text
	}
	return "At " + p.when(n.At) + " " + text
}
