package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
)

// TestRepairsOfHealthCheck: of the repairs of a health check the running come in the order in which they began, twenty at most, and
// the ended from the last on, five at most.
func TestRepairsOfHealthCheck(t *testing.T) {
	s := newScene()
	w := s.assessment()
	add := func(r core.Repair, policy core.ID) {
		r.Policy, r.Target = policy, core.ID{Name: r.Name}
		w.cluster.Repairs = append(w.cluster.Repairs, r)
		w.repairDetails = append(w.repairDetails, ledger.Details{Repair: r})
	}
	for i := range mostRunning + 1 {
		add(core.Repair{Name: fmt.Sprint("r", i), Started: noon.Add(-time.Duration(i) * time.Minute)}, w.policies[0].ID)
	}
	for i, minutes := range []int{3, 1, 2, 5, 4, 6} {
		add(core.Repair{Name: fmt.Sprint("e", minutes), Started: noon.Add(-time.Hour), Ended: noon.Add(-time.Duration(minutes) * time.Minute), Sequence: uint64(i)}, w.policies[0].ID)
	}
	add(core.Repair{Name: "other", Started: noon}, core.ID{Name: "other"})
	var e HealthCheckExplanation
	w.listRepairs(0, &e)
	names := func(repairs []Repair) (all []string) {
		for _, r := range repairs {
			all = append(all, r.Name)
		}
		return all
	}
	running, ended := names(e.Running), strings.Join(names(e.Ended), " ")
	if len(running) != mostRunning || running[0] != "r20" || running[19] != "r1" || e.RunningOmitted != 1 {
		t.Errorf("%q are told as running, and %d are left out", running, e.RunningOmitted)
	}
	if ended != "e1 e2 e3 e4 e5" || e.Retained != 6 {
		t.Errorf("%q are told as ended, of %d", ended, e.Retained)
	}
	few := s.assessment()
	w.cluster.Repairs, w.repairDetails = w.cluster.Repairs[:mostRunning], w.repairDetails[:mostRunning]
	few.cluster.Repairs, few.repairDetails = w.cluster.Repairs, w.repairDetails
	e = HealthCheckExplanation{}
	few.listRepairs(0, &e)
	if len(e.Running) != mostRunning || e.RunningOmitted != 0 {
		t.Errorf("of %d running repairs %d are told", mostRunning, len(e.Running))
	}
}

// TestKeptRequestsThatCount: only objects that Fettle made for the health check, and whose nodes are gone, are told as kept.
func TestKeptRequestsThatCount(t *testing.T) {
	s := newNodeScene(t)
	w := s.assessment()
	kept := func(name string, change func(*core.Request)) core.Request {
		q := core.Request{ID: core.ID{Kind: "Reboot", Name: name}, Own: true, KeptBy: "a/b", Target: core.ID{Kind: "Node", Name: "gone", UID: "gone"}, Policy: w.policies[0].ID, Leaving: true}
		change(&q)
		return q
	}
	w.cluster.Requests = []core.Request{
		kept("kept", func(*core.Request) {}),
		kept("another's", func(q *core.Request) { q.Own = false }),
		kept("free", func(q *core.Request) { q.KeptBy = "" }),
		kept("of-a-node", func(q *core.Request) { q.Target = s.Targets[0].ID }),
		kept("of-another-check", func(q *core.Request) { q.Policy.Name = "other" }),
	}
	var e HealthCheckExplanation
	w.listKept(0, &e)
	if len(e.Kept) != 1 || e.Kept[0].Name != "kept" {
		t.Errorf("as kept are told %+v", e.Kept)
	}
}

// TestSharedHealthChecks: each other health check is told once with the targets that both select, each target once and five at most by name.
func TestSharedHealthChecks(t *testing.T) {
	s := newNodeScene(t)
	s.machines = newScene()
	s.machines.Targets[1].Node = s.machines.Targets[0].Node // two machines of one node
	sixth := s.Targets[4]
	sixth.ID.Name, sixth.ID.UID, sixth.Node.Name, sixth.Node.UID = "node-f", "node-uid-f", "node-f", "node-uid-f"
	s.Targets = append(s.Targets, sixth)
	s.Policies[0].Members = []int{0, 1, 2, 3, 4, 5}
	s.check("young", time.Hour)
	s.check("apart", time.Hour).Members = nil
	s.bothReady(0, "Unknown", 8*time.Minute)
	w := s.assessment()
	var text strings.Builder
	for policy := range w.policies {
		fmt.Fprintf(&text, "%s\n", w.policies[policy].ID)
		for _, of := range w.sharedWith(policy) {
			fmt.Fprintf(&text, "  %s: %d (%s), older: %t, led by it: %d, led here: %d\n", of.HealthCheck.Name, of.Count, strings.Join(of.Names, " "), of.Older, of.LedByIt, of.LedHere)
		}
	}
	golden(t, "check-shared.txt", text.String())
}

// TestOwnVerdictsOfAHealthCheck: a health check lists the machines that it does not find healthy, with its own verdicts. A machine
// that it finds healthy is listed only under repair.
func TestOwnVerdictsOfAHealthCheck(t *testing.T) {
	s := newScene()
	s.ready(0, "Unknown", 8*time.Minute)
	s.ready(1, "False", 8*time.Minute)
	s.repair(2, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	young := s.check("young", time.Hour)
	young.Criteria.Conditions = []core.ConditionCriterion{{Type: "Ready", Status: "Unknown", For: 10 * time.Minute}}
	w := s.assessment()
	var got []string
	for policy := range w.policies {
		for _, target := range w.explainCheck(policy).NotHealthy {
			got = append(got, fmt.Sprintf("%s: %s is %s", w.policies[policy].ID.Name, target.Name, target.Health))
		}
	}
	want := []string{
		"example: worker-b is unhealthy", "example: worker-a is unhealthy", "example: worker-c is healthy",
		"young: worker-a is suspect", "young: worker-c is healthy",
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestIdleHealthChecks: why a health check does nothing is said by what it selects.
func TestIdleHealthChecks(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*scene)
		want   string
	}{
		"none selected": {func(s *scene) { s.Policies[0].Members = nil }, "It selects nothing."},
		"one selected":  {func(s *scene) { s.Policies[0].Members = []int{0} }, "Everything that it selects is healthy."},
		"a dry run beside another, which leads nothing": {func(s *scene) {
			s.ready(0, "Unknown", time.Hour)
			s.Targets[0].Owner = core.ID{}
			s.Policies[0].Created = noon
			s.Policies[0].DryRun, s.Policies[0].ShortCircuit.MaxUnhealthy = true, core.Percent(100)
			young := *s.check("young", time.Minute)
			young.Criteria.Conditions = nil
			s.Policies = []core.Policy{young, s.Policies[0]}
		}, "Of its 5 machines 1 is unhealthy: 1 held back by NoOwner; it is a dry run, which repairs nothing."},
	} {
		s := newScene()
		tc.change(s)
		w := s.assessment()
		if got := w.explainCheck(len(w.policies) - 1).Idle; got != tc.want {
			t.Errorf("%s: %q, want %q", sentence, got, tc.want)
		}
	}
	s := newNodeScene(t)
	goneScenes["replacing-without-limit"](s)
	s.withoutFirst()
	s.Policies[0].MaxInFlight, s.Policies[0].ShortCircuit.MaxUnhealthy = core.Count(1), core.Percent(100)
	s.ready(0, "Unknown", time.Hour)
	if got, want := s.assessment().explainCheck(0).Idle, "Of its 4 nodes 1 is unhealthy: 1 held back by InFlightLimit."; got != want {
		t.Errorf("while a replacement is awaited: %q, want %q", got, want)
	}
}
