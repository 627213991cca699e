package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// fullTarget has each part of the answer about a target.
func fullTarget() ExplainedTarget {
	at := func(d time.Duration) *time.Time { return instant(noon.Add(d)) }
	evidence := []Evidence{{Remediation: Reference{Kind: "PowerRemediation", Name: "gone", UID: "gone"}, Method: "PowerOff", Proven: at(-time.Minute)}}
	return ExplainedTarget{
		Target: Target{
			Reference: Reference{Kind: "Machine", Namespace: "machines", Name: "node-a"}, Cluster: "east", Node: "node-a", Owner: &Reference{Kind: "MachineSet", Name: "workers"},
			Health: "unhealthy", Since: at(-time.Hour), Repair: "node-a-1",
			Lead: &Lead{HealthCheck: Reference{Kind: "NodeHealthCheck", Name: "nodes"}, Of: &Reference{Kind: "Node", Name: "node-a"}},
			Verdicts: []Verdict{
				{HealthCheck: "all", HealthCheckKind: "MachineHealthCheck", Health: "unhealthy", Message: "it is silent"},
				{HealthCheck: "nodes", HealthCheckKind: "NodeHealthCheck", Health: "suspect", Message: "it is silent", Since: at(-time.Minute), Until: at(time.Minute)},
				{HealthCheck: "young", HealthCheckKind: "NodeHealthCheck", Health: "suspect", Message: "it is silent", Until: at(time.Minute)},
			},
			HeldBy: []Refusal{
				{Gate: "Paused", HealthCheck: "all", HealthCheckKind: "MachineHealthCheck", Message: "it is paused", Until: at(time.Minute)},
				{Gate: "Paused", HealthCheck: "young", HealthCheckKind: "NodeHealthCheck", Message: "it is paused", DryRun: true},
				{Gate: "LeaseHeld", HealthCheck: "nodes", HealthCheckKind: "NodeHealthCheck", Message: "it is not known", Unknown: true},
			},
		},
		Sibling: &Reference{Kind: "Node", Name: "node-a"}, Deleting: at(-time.Second), Excluded: true, ConfirmedHealthy: true,
		RepairRequest: &RequestedRepair{At: at(-time.Minute), Lapses: at(time.Hour)}, Recovery: &Recovery{Until: at(time.Minute)},
		Lease: &NodeLease{Holder: "us", Until: at(time.Minute), Ours: true}, BMCProblem: "none names it", Promise: &NodePromise{Missing: "NoWatchdog", Message: "so"},
		Steps:    []Step{{Remedy: "Mark", State: stepPlanned}, {Remedy: "Delete", State: stepPlanned, Timeout: "5m0s"}},
		Requests: []Request{{Reference: Reference{Kind: "Fence", Name: "node-a"}, Created: at(-time.Minute)}}, Evidence: evidence,
		OwnerAnswer: &OwnerAnswer{Owner: Reference{Kind: "MachineSet", Name: "workers"}, Requested: true, Since: at(-time.Minute)},
		Earlier:     []Repair{{Name: "node-a-0", Phase: "Recovered", Finished: at(-time.Hour), Reason: "NodeGone", Evidence: evidence}},
		Next:        Next{Text: "Nothing."},
	}
}

// TestPagesOfExplanations: each part of an answer is in its place. A missing leader is told first, and the leader last.
func TestPagesOfExplanations(t *testing.T) {
	leads, none := header(), header()
	leads.Notes = []string{"A note."}
	none.Controller = &Controller{Leads: "no", Message: "NO LEADER."}
	node := ExplainedTarget{
		Target:  Target{Reference: Reference{Kind: "Node", Name: "node-b"}, Node: "node-b", Health: "healthy", Verdicts: []Verdict{{HealthCheck: "nodes", HealthCheckKind: "NodeHealthCheck", Health: "healthy", Message: "it is healthy"}}},
		Sibling: &Reference{Kind: "Machine", Namespace: "machines", Name: "b"}, Deleting: instant(noon), Finalizers: []string{"a", "b"},
		Recovery: &Recovery{Confirm: "kubectl"}, Lease: &NodeLease{Holder: "others", Until: instant(noon)}, Next: Next{At: instant(noon), Text: "It goes."},
	}
	other := ExplainedTarget{
		Target: Target{Reference: Reference{Kind: "Node", Name: "node-c"}, Node: "other", Health: "unjudged"}, Unselected: "The nearest is none.",
		Lease: &NodeLease{}, Recovery: &Recovery{Confirm: "kubectl", Until: instant(noon)}, Next: Next{At: instant(noon.Add(time.Minute)), Text: "It goes."},
	}
	target := fullTarget()
	repair := Repair{
		Namespace: "machines", Name: "node-a-1", Cluster: "east", Target: Reference{Kind: "Machine", Name: "node-a"}, Node: "node-a", HealthCheck: "all",
		Remedies: []string{"Mark", "Mark", "Delete"}, Reason: "NodeGone", Message: "so", Started: instant(noon), Retry: 1, Phase: "Running", Progress: "it goes on",
		Answer: "not yet", Attempts: 1, LastAttempt: instant(noon), LastError: "denied", Problem: "part of it can't be read", Steps: target.Steps, Evidence: target.Evidence,
	}
	over := Repair{Namespace: "machines", Name: "node-b-1", Target: Reference{Kind: "Machine", Name: "b"}, Phase: "Recovered", Finished: instant(noon)}
	withdrawn := Repair{Namespace: "machines", Name: "node-c-1", Target: Reference{Kind: "Node", Name: "node-c"}, Node: "node-c", Phase: "Withdrawn"}
	var text strings.Builder
	for _, e := range []Explanation{
		{Header: leads, Targets: []ExplainedTarget{target, node}}, {Header: none, Targets: []ExplainedTarget{other}}, {Message: "There is none."},
	} {
		text.WriteString("$ fettle explain\n" + tinted(func(p *page) { p.explanation(&e) }) + "\n")
	}
	for _, e := range []RepairExplanation{
		{Header: leads, Repair: repair, Target: &target, WaitsFor: []string{"a", "b"}, Advice: "Wait.", Next: Next{Text: "Nothing."}},
		{Header: none, Message: "It is gone.", Repair: over, Requests: target.Requests, Next: Next{Text: "Nothing."}},
		{Repair: withdrawn, Next: Next{Text: "Nothing."}},
	} {
		text.WriteString("$ fettle explain repair\n" + tinted(func(p *page) { p.repairExplanation(&e) }) + "\n")
	}
	golden(t, "explain-pages.txt", text.String())
}

// TestNamesOfKinds: the kinds of health checks are named where an answer has several, wherever it names them.
func TestNamesOfKinds(t *testing.T) {
	lead := func(kind string) *Lead { return &Lead{HealthCheck: Reference{Kind: kind}} }
	for sentence, tc := range map[string]struct {
		target Target
		want   bool
	}{
		"nothing":         {Target{}, false},
		"one kind":        {Target{Lead: lead("A"), Verdicts: []Verdict{{HealthCheckKind: "A"}}, HeldBy: []Refusal{{HealthCheckKind: "A"}}}, false},
		"a lead":          {Target{Lead: lead("B"), Verdicts: []Verdict{{HealthCheckKind: "A"}}}, true},
		"a gate":          {Target{Verdicts: []Verdict{{HealthCheckKind: "A"}}, HeldBy: []Refusal{{HealthCheckKind: "B"}}}, true},
		"two verdicts":    {Target{Verdicts: []Verdict{{HealthCheckKind: "A"}, {HealthCheckKind: "B"}}}, true},
		"a lead and gate": {Target{Lead: lead("A"), HeldBy: []Refusal{{HealthCheckKind: "B"}}}, true},
	} {
		if got := (&Explanation{Targets: []ExplainedTarget{{Target: tc.target}}}).mixed(); got != tc.want {
			t.Errorf("%s: kinds are named: %t", sentence, got)
		}
	}
}

// TestRoles: which of several health checks leads is told, and which does for a verdict that would.
func TestRoles(t *testing.T) {
	lead := &Lead{HealthCheck: Reference{Kind: "K", Name: "old"}}
	for _, tc := range []struct {
		want     string
		verdict  Verdict
		verdicts int
		target   Target
	}{
		{" (dry run)", Verdict{DryRun: true, Leads: true}, 2, Target{}},
		{"", Verdict{Leads: true}, 1, Target{Repair: "r"}},
		{"", Verdict{Leads: true}, 1, Target{}},
		{" (leads the repair)", Verdict{Leads: true, Health: "unhealthy"}, 2, Target{Repair: "r", Lead: lead}},
		{" (leads: it is the oldest that finds it unhealthy)", Verdict{Leads: true, Health: "unhealthy"}, 2, Target{Lead: lead}},
		{"", Verdict{}, 2, Target{Repair: "r"}},
		{"", Verdict{Health: "unhealthy"}, 2, Target{}},
		{"", Verdict{Health: "suspect"}, 2, Target{Lead: lead}},
		{" (old leads)", Verdict{Health: "unhealthy"}, 1, Target{Repair: "r", Lead: lead}},
	} {
		tc.target.Verdicts = make([]Verdict, tc.verdicts)
		if got := new(page).role(&tc.verdict, &ExplainedTarget{Target: tc.target}); got != tc.want {
			t.Errorf("of %+v on %+v it says %q, want %q", tc.verdict, tc.target, got, tc.want)
		}
	}
}

// TestLongFinalizers are cut.
func TestLongFinalizers(t *testing.T) {
	long := strings.Repeat("a", sanitize.MaxPart)
	for finalizers, want := range map[string]string{long: long, long + "b": long[:sanitize.MaxPart-len("…")] + "…"} {
		if diff := cmp.Diff(", waiting for finalizers "+want, finalizersText([]string{finalizers})); diff != "" {
			t.Errorf("of %d bytes (-want +got):\n%s", len(finalizers), diff)
		}
	}
}
