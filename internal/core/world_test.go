package core_test

import (
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// noon is when the small worlds of these tests are looked at, unless a test says otherwise.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// ago is the instant a while before noon.
func ago(d time.Duration) time.Time { return noon.Add(-d) }

// TestMain makes property tests look at more worlds than the library would.
func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if !set {
		_ = flag.Set("rapid.checks", "1500")
		_ = flag.Set("rapid.nofailfile", "true")
	}
	os.Exit(m.Run())
}

var pool = core.ID{Kind: "MachineSet", Namespace: "machines", Name: "workers", UID: "workers-uid"}

// machine is a machine of the pool that is a day old and whose node is Ready, all of it read live.
func machine(name string, changes ...func(*core.Target)) core.Target {
	t := core.Target{
		ID:          core.ID{Kind: "Machine", Namespace: "machines", Name: name, UID: name + "-uid"},
		Created:     ago(24 * time.Hour),
		Owner:       pool,
		StartupFrom: ago(24 * time.Hour),
		Node: core.Node{State: core.NodePresent, Name: name + "-node", UID: name + "-node-uid", Conditions: []core.Condition{
			{Type: "Ready", Status: "True", Since: ago(24 * time.Hour)},
		}},
		NodeReadAt: noon,
		Revision:   "7",
		Parts:      core.NoParts(),
	}
	for _, change := range changes {
		change(&t)
	}
	return t
}

func ready(status string, since time.Time) func(*core.Target) {
	return func(t *core.Target) {
		t.Node.Conditions = []core.Condition{{Type: "Ready", Status: status, Since: since}}
	}
}

func condition(kind, status string, since time.Time) func(*core.Target) {
	return func(t *core.Target) {
		t.Node.Conditions = append(slices.Clone(t.Node.Conditions), core.Condition{Type: kind, Status: status, Since: since})
	}
}

func awaited(from time.Time) func(*core.Target) {
	return func(t *core.Target) {
		t.Node, t.NodeReadAt, t.StartupFrom = core.Node{State: core.NodeAwaited}, time.Time{}, from
	}
}

func nodeIs(state core.NodeState) func(*core.Target) {
	return func(t *core.Target) { t.Node = core.Node{State: state, Name: t.Node.Name} }
}

func failed(since time.Time) func(*core.Target) {
	return func(t *core.Target) { t.Failed, t.FailedSince = true, since }
}

func unreadable(what string) func(*core.Target) {
	return func(t *core.Target) { t.Problem = what }
}

func created(at time.Time) func(*core.Target) { return func(t *core.Target) { t.Created = at } }
func ownedBy(o core.ID) func(*core.Target)    { return func(t *core.Target) { t.Owner = o } }
func readAt(at time.Time) func(*core.Target)  { return func(t *core.Target) { t.NodeReadAt = at } }
func deleting(t *core.Target)                 { t.Deleting = true }
func externallyRemediated(t *core.Target)     { t.ExternallyRemediated = true }
func controlPlane(t *core.Target)             { t.ControlPlane, t.QuorumReadAt = true, noon }

// dead has had a node that is not Ready for an hour, which is longer than any policy allows.
func dead(t *core.Target) { ready("False", ago(time.Hour))(t) }

const patience = 5 * time.Minute

// policy is a day old, selects these targets and repairs any number of them one at a time.
func policy(name string, members []int, changes ...func(*core.Policy)) core.Policy {
	p := core.Policy{
		ID:      core.ID{Kind: "HealthCheck", Namespace: "machines", Name: name, UID: name + "-uid"},
		Created: ago(24 * time.Hour),
		Members: members,
		Criteria: core.Criteria{
			NodeStartup: 10 * time.Minute,
			Conditions: []core.ConditionCriterion{
				{Type: "Ready", Status: "False", For: patience},
				{Type: "Ready", Status: "Unknown", For: patience},
			},
		},
		ShortCircuit: core.ShortCircuit{MaxUnhealthy: core.Percent(100)},
		MaxInFlight:  core.Count(1),
		Backoff:      core.DefaultBackoff(),
		Steps:        []core.Step{{Remedy: "Delete"}},
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func paused(p *core.Policy)  { p.Paused = true }
func dryRun(p *core.Policy)  { p.DryRun = true }
func noSteps(p *core.Policy) { p.Steps = nil }

func needsNoOwner(p *core.Policy) { p.Steps = []core.Step{{Remedy: "Mark", Nature: core.Annotate}} }

func problem(text string) func(*core.Policy) { return func(p *core.Policy) { p.Problem = text } }

// advice is what a user does about a gate.
func advice(g core.Gate, text string) func(*core.Policy) {
	return func(p *core.Policy) { p.Advice = core.Advice{g: text} }
}
func maxUnhealthy(a core.Amount) func(*core.Policy) {
	return func(p *core.Policy) { p.ShortCircuit = core.ShortCircuit{MaxUnhealthy: a} }
}

func minHealthy(a core.Amount) func(*core.Policy) {
	return func(p *core.Policy) { p.ShortCircuit = core.ShortCircuit{MinHealthy: &a} }
}

func unhealthyRange(from, to int) func(*core.Policy) {
	return func(p *core.Policy) { p.ShortCircuit.Range = &core.Range{From: from, To: to} }
}
func maxInFlight(a core.Amount) func(*core.Policy) { return func(p *core.Policy) { p.MaxInFlight = a } }
func since(at time.Time) func(*core.Policy)        { return func(p *core.Policy) { p.Created = at } }

func criteria(conditions ...core.ConditionCriterion) func(*core.Policy) {
	return func(p *core.Policy) { p.Criteria.Conditions = conditions }
}

// repair is a running repair of a target, led by a policy, that began a minute ago.
func repair(t core.Target, p core.Policy, changes ...func(*core.Repair)) core.Repair {
	r := core.Repair{
		Namespace: t.ID.Namespace, Name: core.RepairName(t.ID, 1), Target: t.ID, Policy: p.ID, Owner: t.Owner,
		Started: ago(time.Minute), Steps: p.Steps,
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func started(at time.Time) func(*core.Repair) { return func(r *core.Repair) { r.Started = at } }
func retry(n int) func(*core.Repair)          { return func(r *core.Repair) { r.Retry = n } }
func number(n int) func(*core.Repair) {
	return func(r *core.Repair) { r.Name = core.RepairName(r.Target, n) }
}

func ended(at time.Time) func(*core.Repair) {
	return func(r *core.Repair) { r.Ended, r.Outcome = at, core.Succeeded }
}

func attempts(n int, last time.Time) func(*core.Repair) {
	return func(r *core.Repair) { r.Attempts, r.LastAttempt = n, last }
}

func clusterOf(targets []core.Target, repairs ...core.Repair) core.Cluster {
	return core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Targets: targets, Repairs: repairs}
}

// machines makes n machines, of which the first few are changed.
func machines(n, changed int, changes ...func(*core.Target)) []core.Target {
	targets := make([]core.Target, n)
	for i := range targets {
		targets[i] = machine("m-" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		if i < changed {
			targets[i] = machine("m-"+string(rune('a'+i%26))+string(rune('a'+i/26)), changes...)
		}
	}
	return targets
}

// all are the indices of n targets.
func all(n int) []int {
	indices := make([]int, n)
	for i := range indices {
		indices[i] = i
	}
	return indices
}

// refusedBy returns the gates that hold back a target, in the order in which they did.
func refusedBy(d core.Decision, target int) []core.Gate {
	var gates []core.Gate
	for _, r := range d.Refusals {
		if r.Target == target && !r.DryRun {
			gates = append(gates, r.Gate)
		}
	}
	return gates
}

// begun returns the targets of the repairs that start.
func begun(d core.Decision) []int {
	var targets []int
	for _, s := range d.Starts {
		targets = append(targets, s.Target)
	}
	return targets
}

// quorumOf has the guard say the same of every member of the control plane, as just read.
func quorumOf(f *core.Cluster, survives core.Tri) {
	f.Targets = slices.Clone(f.Targets)
	for i := range f.Targets {
		f.Targets[i].QuorumSurvives, f.Targets[i].QuorumReadAt = survives, noon
	}
}
