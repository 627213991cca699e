package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// busyStatus has each form of a row of each table.
func busyStatus() *Status {
	at := func(d time.Duration) *time.Time { return instant(noon.Add(d)) }
	one, machine, node := 1, "Machine", "Node"
	check := func(kind, name string, change func(*HealthCheck)) HealthCheck {
		h := HealthCheck{Reference: Reference{Kind: kind, Namespace: "machines", Name: name}, TargetKind: machine, Total: 3, Healthy: 2, Repairs: repairsAllowed}
		change(&h)
		return h
	}
	step := func(remedy, state string) Step { return Step{Remedy: remedy, State: state} }
	templated := func(kind, state string) Step {
		return Step{State: state, Template: &Template{Kind: kind, Name: "usual"}}
	}
	repair := func(name, kind string, change func(*Repair)) Repair {
		r := Repair{
			Namespace: "machines", Name: name, Target: Reference{Kind: kind, Name: "of-" + name}, Node: "node-" + name,
			HealthCheck: "a", HealthCheckKind: "MachineHealthCheck", Reason: "NodeGone", Started: at(-time.Minute),
		}
		change(&r)
		return r
	}
	return &Status{
		Header: Header{Controller: &Controller{Leads: "unknown", Message: "It is not known."}, Notes: []string{"A note.", "Another note."}},
		HealthChecks: []HealthCheck{
			check("MachineHealthCheck", "a", func(h *HealthCheck) { h.Phase, h.Healthy, h.MostInFlight, h.InFlight = "Enabled", 3, &one, 1 }),
			check("MachineHealthCheck", "b", func(h *HealthCheck) {
				h.Phase, h.Repairs, h.Reason, h.Message, h.Next = "Disabled", repairsStopped, "InvalidSpec", "it is wrong", &Next{Text: "Never."}
			}),
			check("NodeHealthCheck", "c", func(h *HealthCheck) {
				h.Namespace, h.Phase, h.Repairs, h.Reason, h.Message, h.DryRun = "", "Paused", repairsStopped, "Paused", "it is paused.", true
				h.Next = &Next{At: at(0), Text: "node-a fails"}
			}),
			check("NodeHealthCheck", "d", func(h *HealthCheck) {
				h.Phase, h.Repairs, h.Reason, h.AsWritten, h.Cluster = "Remediating", repairsUnknown, "Unread", true, "east"
				h.Next = &Next{At: at(time.Minute), Text: "node-a fails"}
			}),
			check("NodeHealthCheck", "e", func(h *HealthCheck) { h.AsWritten, h.Healthy, h.DryRun = true, 3, true }),
		},
		NotHealthy: []Target{
			{
				Reference: Reference{Kind: machine, Namespace: "machines", Name: "worker-a"}, Node: "node-a", Health: "unhealthy", Reason: "NodeGone",
				Since: at(-time.Hour), Repair: "worker-a-1", Cluster: "east",
				HeldBy: []Refusal{{Gate: "Paused"}, {Gate: "Paused"}, {Gate: "Paused", DryRun: true}, {Gate: "LeaseHeld", Unknown: true}, {Gate: "Paused"}},
			},
			{Reference: Reference{Kind: node, Name: "node-b"}, Node: "node-b", Health: "suspect", Until: at(time.Minute)},
			{Reference: Reference{Kind: node, Name: "node-c"}, Node: "node-c", Health: "unknown"},
			{Reference: Reference{Kind: node, Name: "node-d"}, Node: "node-d", Health: "gone"},
			{Reference: Reference{Kind: node, Name: "node-e"}, Node: "node-e", Health: "healthy"},
			{Reference: Reference{Kind: node, Name: "node-f"}, Node: "node-f", Health: "unjudged"},
		},
		Repairs: []Repair{
			repair("no-steps", machine, func(r *Repair) { r.Cluster, r.Answer = "east", "not yet" }),
			repair("one-step", machine, func(r *Repair) { r.Steps, r.Attempts, r.LastError = []Step{step("Delete", stepDue)}, 1, "denied" }),
			repair("one-of-two", machine, func(r *Repair) {
				r.Steps, r.Attempts, r.LastError = []Step{step("Delete", stepUnderWay), step("Mark", stepPlanned)}, 2, "denied"
			}),
			repair("second-of-two", machine, func(r *Repair) { r.Steps = []Step{step("Delete", "Failed"), step("Mark", stepUnknown)} }),
			repair("none-left", machine, func(r *Repair) { r.Steps = []Step{step("Delete", "Failed")} }),
			repair("one-template", node, func(r *Repair) { r.Steps = []Step{templated("FenceTemplate", stepEnded)} }),
			repair("templates", node, func(r *Repair) {
				r.HealthCheckKind = "NodeHealthCheck"
				r.Steps = []Step{templated("FenceTemplate", "TimedOut"), templated("RebootTemplate", stepDue)}
			}),
		},
		UnreachableBMCs: []BMCState{{Name: "bmc-a", Node: "node-a", Reason: "Timeout", Since: at(-time.Minute), Message: "so"}, {Name: "bmc-b", Node: "node-b", Reason: "Timeout"}},
		WithPromise:     []NodePromise{{Node: "node-a", Policy: "all"}, {Node: "node-b", Policy: "some"}},
		WithoutPromise:  []NodePromise{{Node: "node-c", Policy: "all", Missing: "NoWatchdog", Message: "so"}, {Node: "node-d", Policy: "all", Missing: "NoWatchdog", Message: "so"}},
	}
}

// TestPagesOfAStatus: a limit bounds each table, and the column of namespaces is there for all of them.
func TestPagesOfAStatus(t *testing.T) {
	page := func(s *Status, limit int, namespaces bool) string {
		return tinted(func(p *page) {
			sp := statusPage{page: *p, limit: limit, where: "in any namespace", command: "kubectl fettle", namespaces: namespaces}
			sp.all(s)
		})
	}
	few := busyStatus()
	few.Controller = nil
	few.WithPromise, few.WithoutPromise = few.WithPromise[:1], few.WithoutPromise[:1]
	golden(t, "status-pages.txt", "$ fettle status -A --limit 0\n"+page(busyStatus(), 0, true)+
		"\n$ fettle status -A --limit 1\n"+page(busyStatus(), 1, true)+"\n$ fettle status --limit 2\n"+page(few, 2, false))
	for namespaces, want := range map[bool]string{
		false: "<yellow:A note.>\nThere are no health checks in any namespace. Add -A to look in all namespaces.\n",
		true:  "<yellow:A note.>\nThere are no health checks in any namespace.\n",
	} {
		none := busyStatus()
		none.Header, none.HealthChecks = Header{Notes: []string{"A note."}}, nil
		if diff := cmp.Diff(want, page(none, 0, namespaces)); diff != "" {
			t.Errorf("without a health check it prints (-want +got):\n%s", diff)
		}
	}
}

// TestPagesOfControllers: the page names the controller that leads, or else the last that led.
func TestPagesOfControllers(t *testing.T) {
	controller := func(leads, holder string, renewed *time.Time) Controller {
		return Controller{Leads: leads, Holder: holder, Lease: "ns/lease", Renewed: renewed, Message: "So."}
	}
	for _, tc := range []struct {
		want string
		c    Controller
	}{
		{"Fettle: <green:fettle-0> leads (lease ns/lease, renewed 2s ago).\n", controller("yes", "fettle-0", instant(noon.Add(-2*time.Second)))},
		{"Fettle: <green:fettle-0> leads (lease ns/lease, renewed 0s ago).\n", controller("yes", "fettle-0", instant(noon.Add(2*time.Second)))},
		{"<red:So.>\nLease ns/lease was last renewed by fettle-0, 60m ago.\n", controller("no", "fettle-0", instant(noon.Add(-time.Hour)))},
		{"<red:So.>\n", controller("no", "fettle-0", nil)},
		{"<red:So.>\n", controller("no", "", instant(noon))},
		{"<yellow:So.>\n", controller("unknown", "", nil)},
	} {
		if diff := cmp.Diff(tc.want, tinted(func(p *page) { p.controller(&tc.c) })); diff != "" {
			t.Errorf("of %+v it prints (-want +got):\n%s", tc.c, diff)
		}
	}
}

// TestAllHealthy: the sentence in place of the table names the kinds that are selected.
func TestAllHealthy(t *testing.T) {
	check := func(kind string, total int) HealthCheck { return HealthCheck{TargetKind: kind, Total: total} }
	for _, tc := range []struct {
		want    string
		checks  []HealthCheck
		repairs []Repair
	}{
		{"No machine or node is selected by 1 health check.", []HealthCheck{check("Machine", 0)}, nil},
		{"No machine or node is selected by 2 health checks.", []HealthCheck{check("Machine", 0), check("Node", 0)}, nil},
		{"The one node that is selected is healthy, and nothing is under repair.", []HealthCheck{check("Machine", 0), check("Node", 1)}, nil},
		{"The one machine that is selected is healthy.", []HealthCheck{check("Machine", 1)}, make([]Repair, 1)},
		{"All machines are healthy, and nothing is under repair.", []HealthCheck{check("Machine", 2), check("Machine", 1), check("Node", 0)}, nil},
		{"All nodes and machines are healthy.", []HealthCheck{check("Node", 1), check("Machine", 1)}, make([]Repair, 1)},
	} {
		if got := new(statusPage).allHealthyText(&Status{HealthChecks: tc.checks, Repairs: tc.repairs}); got != tc.want {
			t.Errorf("it says %q, want %q", got, tc.want)
		}
	}
}

// TestTwinsInClusters: the command for more names the cluster, where a machine of the same name is in another.
func TestTwinsInClusters(t *testing.T) {
	target := func(namespace, name, cluster string) Target {
		return Target{Reference: Reference{Kind: "Machine", Namespace: namespace, Name: name}, Cluster: cluster}
	}
	for _, tc := range []struct {
		want    string
		targets []Target
	}{
		{"", []Target{target("a", "m", "east")}},
		{"", []Target{target("a", "m", "east"), target("b", "m", "west"), target("a", "n", "west"), target("a", "m", "east")}},
		{" --" + clusterFlag + " east", []Target{target("a", "m", "east"), target("a", "m", "west")}},
		{" --" + clusterFlag + "=''", []Target{target("a", "m", ""), target("a", "m", "west")}},
	} {
		if got := new(statusPage).inCluster(&Status{NotHealthy: tc.targets}, &tc.targets[0]); got != tc.want {
			t.Errorf("among %+v the first is named by %q, want %q", tc.targets, got, tc.want)
		}
	}
}
