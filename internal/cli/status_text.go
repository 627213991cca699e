package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// statusPage prints a status for people.
type statusPage struct {
	page

	// limit bounds the rows of a table; 0 is no limit.
	limit int
	// namespaces is set to show them.
	namespaces bool
	// where names the namespaces of the status.
	where string
	// command is the command of the user.
	command string
}

// all prints the whole status.
func (p *statusPage) all(s *Status) {
	p.controller(s.Controller)
	p.notes(s.Notes)
	if len(s.HealthChecks) == 0 {
		p.printf("There are no health checks %s.%s\n", p.where, p.elsewhere())
		return
	}
	p.mixed = s.mixed()
	p.printf("\n")
	p.healthChecks(s.HealthChecks)
	p.stopped(s.HealthChecks)
	p.printf("\n")
	if len(s.NotHealthy) == 0 {
		p.printf("%s\n", p.allHealthyText(s))
	} else {
		p.targets(s.NotHealthy)
	}
	if len(s.Repairs) > 0 {
		p.printf("\n")
		p.repairs(s.Repairs)
	}
	if len(s.UnreachableBMCs) > 0 {
		p.printf("\n")
		p.unreachable(s.UnreachableBMCs)
	}
	if len(s.WithPromise) > 0 {
		p.printf("\n")
		p.withPromise(s.WithPromise)
	}
	if len(s.WithoutPromise) > 0 {
		p.printf("\n")
		p.withoutPromise(s.WithoutPromise)
	}
	if len(s.NotHealthy) > 0 {
		t := s.NotHealthy[0]
		p.printf("\n%s explain %s/%s%s says more.\n", p.command, strings.ToLower(t.Kind), t.Name, inNamespace(t.Namespace)+p.inCluster(s, &t))
	}
}

// mixed reports whether there are health checks of several kinds.
func (s *Status) mixed() bool {
	return slices.ContainsFunc(s.HealthChecks, func(h HealthCheck) bool { return h.Kind != s.HealthChecks[0].Kind })
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " -n " + namespace
}

// inCluster returns the flag that distinguishes a target from others of its name.
func (p *statusPage) inCluster(s *Status, t *Target) string {
	twin := func(o Target) bool { return o.Name == t.Name && o.Namespace == t.Namespace && o.Cluster != t.Cluster }
	switch {
	case !slices.ContainsFunc(s.NotHealthy, twin):
		return ""
	case t.Cluster == "":
		return " --" + clusterFlag + "=''"
	}
	return " --" + clusterFlag + " " + t.Cluster
}

func (p *statusPage) elsewhere() string {
	if p.namespaces {
		return ""
	}
	return " Add -A to look in all namespaces."
}

func (p *page) controller(c *Controller) {
	if c == nil {
		return
	}
	switch c.Leads {
	case "yes":
		p.printf("Fettle: %s leads (lease %s, renewed %s).\n", p.in(green, c.Holder), c.Lease, p.ago(c.Renewed))
	case "no":
		p.printf("%s\n", p.in(red, c.Message))
		if c.Holder != "" && c.Renewed != nil {
			p.printf("Lease %s was last renewed by %s, %s.\n", c.Lease, c.Holder, p.ago(c.Renewed))
		}
	default:
		p.printf("%s\n", p.in(yellow, c.Message))
	}
}

func (p *page) notes(notes []string) {
	for _, n := range notes {
		p.printf("%s\n", p.in(yellow, n))
	}
}

// allHealthyText says that every selected target is healthy.
func (p *statusPage) allHealthyText(s *Status) string {
	total := 0
	var kinds []string
	for i := range s.HealthChecks {
		h := &s.HealthChecks[i]
		total += h.Total
		if kind := strings.ToLower(h.TargetKind); h.Total > 0 && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	rest := ", and nothing is under repair."
	if len(s.Repairs) > 0 { // of targets that no health check selects
		rest = "."
	}
	switch total {
	case 0:
		return fmt.Sprintf("No machine or node is selected by %s.", count(len(s.HealthChecks), "health check"))
	case 1:
		return "The one " + kinds[0] + " that is selected is healthy" + rest
	}
	return fmt.Sprintf("All %ss are healthy%s", strings.Join(kinds, "s and "), rest)
}

// kindIf returns a kind, where there are several to distinguish.
func (p *statusPage) kindIf(kind string) cell {
	if !p.mixed {
		return text("")
	}
	return text(kind)
}

func (p *statusPage) healthChecks(checks []HealthCheck) {
	rows := make([][]cell, 0, len(checks))
	for i := range checks {
		h := &checks[i]
		row := []cell{text(""), p.kindIf(h.Kind), text(h.Name), text(h.Cluster), p.phase(h), p.healthyOf(h), p.allowed(h), text(inFlight(h)), text(p.next(h.Next))}
		if p.namespaces {
			row[0] = text(h.Namespace)
		}
		rows = append(rows, row)
	}
	rows, left := limited(rows, p.limit)
	p.table([]string{"NAMESPACE", "KIND", "HEALTH CHECK", "CLUSTER", "PHASE", "HEALTHY", "REPAIRS", "IN FLIGHT", "NEXT"}, rows)
	p.more(left, "health check")
}

func (p *statusPage) phase(h *HealthCheck) cell {
	switch h.Phase {
	case "Disabled":
		return cell{h.Phase, red}
	case "Paused", "Remediating":
		return cell{h.Phase, yellow}
	}
	return text(h.Phase)
}

func (p *statusPage) healthyOf(h *HealthCheck) cell {
	c := cell{fmt.Sprintf("%d/%d", h.Healthy, h.Total), green}
	if h.AsWritten {
		c = cell{c.text + " as written", yellow}
	}
	if h.Healthy < h.Total {
		c.colour = yellow
	}
	return c
}

func (p *statusPage) allowed(h *HealthCheck) cell {
	c := cell{"allowed", green}
	switch h.Repairs {
	case repairsStopped:
		c = cell{"stopped: " + h.Reason, red}
	case repairsUnknown:
		c = cell{"can't tell: " + h.Reason, yellow}
	}
	if h.DryRun {
		c.text += " (dry run)"
	}
	return c
}

func inFlight(h *HealthCheck) string {
	if h.MostInFlight == nil {
		return strconv.Itoa(h.InFlight)
	}
	return fmt.Sprintf("%d/%d", h.InFlight, *h.MostInFlight)
}

func (p *page) next(n *Next) string {
	if n == nil {
		return "-"
	}
	if n.At == nil {
		return n.Text
	}
	if p.distance(n.At) == 0 {
		return n.Text + " now"
	}
	return n.Text + " at " + p.when(n.At)
}

// stopped prints below the table why repairs are stopped, since that takes a sentence.
func (p *statusPage) stopped(checks []HealthCheck) {
	shown := 0
	for i := range checks {
		h := &checks[i]
		if h.Repairs != repairsStopped {
			continue
		}
		if p.limit > 0 && shown == p.limit {
			return
		}
		shown++
		p.printf("\n%s: %s\n", p.in(red, p.check(h.Kind, h.Name)+" repairs nothing"), sentence(h.Message))
	}
}

func (p *statusPage) targets(targets []Target) {
	rows := make([][]cell, 0, len(targets))
	several := slices.ContainsFunc(targets, func(t Target) bool { return t.Kind != targets[0].Kind })
	head := targets[0].Kind
	if several {
		head = "target"
	}
	for i := range targets {
		t := &targets[i]
		node, kind := t.Node, ""
		if t.Kind == "Node" {
			node = ""
		}
		if several {
			kind = t.Kind
		}
		row := []cell{
			text(""), text(kind), text(t.Name), text(t.Cluster), text(node), {t.Health, healthIn(t.Health)}, text(t.Reason),
			text(p.clock(t.Since)), text(p.when(t.Until)), {heldBy(t.HeldBy), red}, text(t.Repair),
		}
		if p.namespaces {
			row[0] = text(t.Namespace)
		}
		rows = append(rows, row)
	}
	rows, left := limited(rows, p.limit)
	p.table([]string{"NAMESPACE", "KIND", strings.ToUpper(head), "CLUSTER", "NODE", "VERDICT", "REASON", "SINCE", "UNHEALTHY AT", "HELD BY", "REPAIR"}, rows)
	p.more(left, strings.ToLower(head))
}

func heldBy(refusals []Refusal) string {
	var names []string
	for _, r := range refusals {
		name := r.Gate
		if r.Unknown {
			name += "?"
		}
		if r.DryRun {
			name += " (dry run)"
		}
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

func (p *statusPage) repairs(repairs []Repair) {
	rows := make([][]cell, 0, len(repairs))
	for i := range repairs {
		r := &repairs[i]
		node := r.Node
		if r.Target.Kind == "Node" {
			node = ""
		}
		row := []cell{
			text(""), text(r.Name), text(r.Target.Name), text(r.Cluster), text(node), text(p.check(r.HealthCheckKind, r.HealthCheck)), text(r.Reason),
			text(stepOf(r)), text(p.when(r.Started)), text(r.Answer), text(refusedCalls(r)),
		}
		if p.namespaces {
			row[0] = text(r.Namespace)
		}
		rows = append(rows, row)
	}
	rows, left := limited(rows, p.limit)
	p.table([]string{"NAMESPACE", "REPAIR UNDER WAY", "OF", "CLUSTER", "NODE", "HEALTH CHECK", "REASON", "STEP", "STARTED", "ANSWER", "LAST ERROR"}, rows)
	p.more(left, "repair")
}

// noStepLeft stands in the place of the step once all were tried.
const noStepLeft = "none left"

// stepOf returns the number of the step under way, and its remediator, for repairs with several steps or a template.
func stepOf(r *Repair) string {
	at := slices.IndexFunc(r.Steps, func(s Step) bool {
		return slices.Contains([]string{stepDue, stepUnderWay, stepUnknown, stepEnded}, s.State)
	})
	switch {
	case at >= 0 && r.Steps[at].Template != nil:
		return fmt.Sprintf("%d/%d %s", at+1, len(r.Steps), strings.TrimSuffix(r.Steps[at].Template.Kind, "Template"))
	case at >= 0 && len(r.Steps) > 1:
		return fmt.Sprintf("%d/%d %s", at+1, len(r.Steps), r.Steps[at].Remedy)
	case at < 0 && len(r.Steps) > 0:
		return noStepLeft
	}
	return ""
}

func refusedCalls(r *Repair) string {
	if r.Attempts == 0 {
		return ""
	}
	return fmt.Sprintf("%s refused: %s", count(r.Attempts, "call"), r.LastError)
}
