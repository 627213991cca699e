package cli

import (
	"fmt"
	"slices"
	"strings"
)

// checkResult prints the answer to fettle check.
func (p *page) checkResult(r *CheckResult) {
	for i := range r.Documents {
		p.document(&r.Documents[i])
	}
	p.grants(r.Grants)
	for _, n := range r.Notes {
		p.printf("%s %s\n", p.in(red, "not checked:"), n)
	}
	c := green
	if r.Outcome != passed {
		c = red
	}
	p.printf("%s\n", p.in(c, r.Message))
}

func (p *page) document(d *Document) {
	what := strings.TrimSpace(d.Kind + " " + qualified(Reference{Namespace: d.Namespace, Name: d.Name}))
	p.printf("%s:%d %s\n", d.File, d.Line, what)
	if d.Skipped != "" {
		p.item("skipped: %s", d.Skipped)
	}
	for _, f := range d.Problems {
		p.finding(p.in(red, "problem"), f)
	}
	for _, f := range d.Warnings {
		p.finding(p.in(yellow, "warning"), f)
	}
	switch d.Admission {
	case accepted:
		p.item("The API server would accept it.")
	case refused:
		p.item("%s: the API server would refuse it: %s", p.in(red, "problem"), d.AdmissionMessage)
	case notTried:
		p.item("Whether the API server would accept it is not known: %s.", d.AdmissionMessage)
	}
	for _, u := range d.Unchecked {
		p.item("%s: %s", p.in(yellow, "not checked"), u)
	}
	if d.Effect != nil {
		p.effect(d.Effect)
	}
	p.printf("\n")
}

func (p *page) finding(word string, f Finding) {
	if f.Line > 0 {
		word += fmt.Sprintf(", line %d", f.Line)
	}
	p.item("%s: %s", word, f.Message)
}

func (p *page) effect(e *Effect) {
	h := &e.HealthCheck
	kind := strings.ToLower(h.TargetKind)
	if e.Exists {
		p.item("It replaces the health check of that name.")
	}
	if h.Total > 0 {
		p.item("It selects %s: %s. %d of them %s healthy.", count(h.Total, kind), firstOf(e.Selected, h.Total), h.Healthy, are(h.Healthy))
	}
	for i := range e.NotHealthy {
		t := &e.NotHealthy[i]
		p.item("  %s is %s: %s%s", t.Name, p.in(healthIn(t.Health), t.Health), messageOf(t, h.Reference), p.heldText(t))
	}
	if left := h.Total - h.Healthy - len(e.NotHealthy); left > 0 {
		p.item("  … and %d more", left)
	}
	p.item("Now: %s", p.now(e))
	if len(e.Unknown) > 0 {
		p.item("%s: %s.", p.in(yellow, "This answer depends on unknown facts"), strings.Join(e.Unknown, "; "))
	}
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func messageOf(t *Target, check Reference) string {
	for _, v := range t.Verdicts {
		if v.HealthCheck == check.Name && v.HealthCheckKind == check.Kind {
			return v.Message
		}
	}
	return t.Reason
}

func (p *page) heldText(t *Target) string {
	switch {
	case t.Until != nil:
		return "; unhealthy at " + p.when(t.Until)
	case len(t.HeldBy) > 0:
		return "; held back by " + heldBy(t.HeldBy)
	}
	return ""
}

// now says what the health check would do at once.
func (p *page) now(e *Effect) string {
	h := &e.HealthCheck
	would := "it repairs "
	if h.DryRun {
		would = "as a dry run it reports that it would repair "
	}
	switch {
	case h.Repairs == repairsUnknown:
		return "it is not known whether it repairs anything."
	case h.Repairs == repairsStopped:
		return fmt.Sprintf("it repairs nothing, since %s", h.Message)
	case len(e.RepairsNow) > 0:
		return fmt.Sprintf("%s%s at once; repairs go on while at most %d are not healthy.", would, firstOf(e.RepairsNow, len(e.RepairsNow)), h.MostUnhealthy)
	case len(e.OthersRepair) > 0:
		return fmt.Sprintf("it leads no repair; another health check has %s repaired at once.", firstOf(e.OthersRepair, len(e.OthersRepair)))
	case cantTell(e):
		return "it is not known whether it repairs anything."
	case h.Next != nil:
		return "it repairs nothing yet; " + p.next(h.Next) + "."
	}
	return fmt.Sprintf("it repairs nothing; repairs would go on while at most %d are not healthy.", h.MostUnhealthy)
}

// cantTell reports whether a target might be repaired at once, and every gate that may hold is unknown.
func cantTell(e *Effect) bool {
	return slices.ContainsFunc(e.NotHealthy, func(t Target) bool {
		return len(t.HeldBy) > 0 && !slices.ContainsFunc(t.HeldBy, func(r Refusal) bool { return !r.Unknown })
	})
}

// firstOf lists the first names, and the number of the others.
func firstOf(names []string, total int) string {
	shown := names[:min(len(names), mostNames)]
	text := strings.Join(shown, ", ")
	if left := total - len(shown); left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}
