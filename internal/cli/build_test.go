package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// TestRepairsInOrder: status lists the repairs that run in its namespace, the oldest first, and those of an unknown age last.
func TestRepairsInOrder(t *testing.T) {
	s := newScene()
	running := v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning}
	for machine, ago := range map[int]time.Duration{0: time.Minute, 1: time.Hour, 2: 2 * time.Minute, 3: 0, 4: 3 * time.Minute} {
		if r := s.repair(machine, ago, running); machine == 3 {
			r.Spec.StartedAt.Time = time.Time{}
		}
	}
	for namespace, want := range map[string][]string{"": {"worker-b", "worker-e", "worker-c", "worker-a", "worker-d"}, "machines": {"worker-b", "worker-e", "worker-c", "worker-a", "worker-d"}, "elsewhere": nil} {
		var names []string
		for _, r := range buildStatus([]*assessment{s.assessment()}, namespace, header()).Repairs {
			names = append(names, r.Target.Name)
		}
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("in namespace %q (-want +got)\n%s", namespace, d)
		}
	}
}

// TestWhatStopsAHealthCheck: a pause is told before a clock that is wrong, and that before a cooldown, which ends by itself.
func TestWhatStopsAHealthCheck(t *testing.T) {
	for _, tc := range []struct {
		paused, skewed, cooling bool
		want                    core.Gate
	}{
		{true, true, true, core.PolicyPaused}, {false, true, true, core.ClockSkewed}, {false, false, true, core.StormCooldown}, {true, true, false, core.PolicyPaused},
	} {
		s := newScene()
		s.ready(0, "Unknown", time.Hour)
		p := &s.Policies[0]
		p.Paused = tc.paused
		if tc.skewed {
			p.ClockGate = core.ClockSkewed
		}
		if tc.cooling {
			p.WasStopped, p.StormCooldown = true, 30*time.Second
			p.Cooldown = core.CooldownState{First: noon.Add(-10 * time.Second), Last: noon.Add(-10 * time.Second), Unhealthy: 1}
		}
		if r, stopped := s.assessment().stopped(0); !stopped || r.Gate != tc.want {
			t.Errorf("%+v: it is stopped: %t, by %v", tc, stopped, r.Gate)
		}
	}
}

// TestLastErrorOfARepair: the error of a refused call is told with the pause after it, where there is one.
func TestLastErrorOfARepair(t *testing.T) {
	const pause = "the last 4 calls of the remedy were refused; it is tried again after a pause"
	for failure, want := range map[string]string{"": pause, "no": pause + "; the last error is: no"} {
		s := newScene()
		scenes["refused-call"](s)
		for _, r := range s.repairs {
			r.Status.LastError = failure
		}
		if held := s.assessment().target(0).HeldBy; len(held) != 1 || held[0].Gate != core.AttemptPause.String() || held[0].Message != want {
			t.Errorf("with the error %q it is held by %+v", failure, held)
		}
	}
}

// TestPhaseOfAHealthCheckThatCannotBeRead: it has one, also where its templates may not be listed.
func TestPhaseOfAHealthCheckThatCannotBeRead(t *testing.T) {
	for problem, want := range map[string]string{"": "", "spec.minHealthy is \"x\"": "Disabled"} {
		s := newNodeScene(t)
		s.Policies[0].Problem = problem
		s.around.templates.Hide(templateKind("Fence"), "you may not list fencetemplates.fix.example")
		if got := s.assessment().healthCheck(0).Phase; got != want {
			t.Errorf("with the problem %q its phase is %q, want %q", problem, got, want)
		}
	}
}

// TestNotHealthyUnseen: where a cluster can't be seen, a machine counts as it says of itself, the longest unhealthy first. A repair
// counts as well, and a machine that says nothing is not known to be healthy. While the controller judges nothing, none is.
func TestNotHealthyUnseen(t *testing.T) {
	for _, tc := range []struct {
		halted bool
		want   []string
	}{
		{false, []string{"east-c", "east-b", "east-d", "west-c", "east-a"}}, {true, []string{"west-c", "east-a", "east-b", "east-c", "east-d", "east-e"}},
	} {
		s := newClusterScene(t)
		s.unseen["east"] = "you may not"
		if tc.halted {
			s.edit("Cluster/east", "spec: {}", "spec: {paused: true}")
		}
		s.machine("east", "d", "MachineSet", "cluster.x-k8s.io/v1beta2", "pool: workers")
		s.machine("east", "e", "MachineSet", "cluster.x-k8s.io/v1beta2", "pool: workers")
		for name, condition := range map[string]string{"b": `"False", lastTransitionTime: "2026-08-01T11:50:00Z"`, "c": `"False", lastTransitionTime: "2026-08-01T11:40:00Z"`,
			"d": `"True", lastTransitionTime: "2026-08-01T11:55:00Z"`, "e": `"True", lastTransitionTime: "2026-08-01T11:55:00Z"`} {
			s.edit("Machine/east-"+name, "status: {", "status: {conditions: [{type: HealthCheckSucceeded, reason: Because, status: "+condition+"}], ")
		}
		s.edit("Machine/west-c", "  labels:", "  deletionTimestamp: \"2026-08-01T11:59:00Z\"\n  finalizers: [machine.cluster.x-k8s.io]\n  labels:")
		s.repair("east", "east-d", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
		var got []string
		for _, n := range notHealthy(s.view().decided()) {
			got = append(got, n.in.cluster.Targets[n.target].ID.Name)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("with its judgement halted %t, these are not healthy (-want +got)\n%s", tc.halted, d)
		}
	}
}

// TestDoubtedByADryRun: a machine is told as not healthy also where a dry run alone finds it so.
func TestDoubtedByADryRun(t *testing.T) {
	s := newScene()
	s.ready(1, "Unknown", time.Hour)
	s.check("dry", time.Hour).DryRun = true
	s.Policies[0].Criteria.Conditions = nil
	w := s.assessment()
	if v, _ := w.worst(1); v.Health != core.Healthy {
		t.Fatalf("the health check that acts finds it %v", v.Health)
	}
	for target, want := range []bool{false, true} {
		if _, ails := w.isNotHealthy(target); ails != want {
			t.Errorf("machine %d is not healthy: %t", target, ails)
		}
	}
}

// TestErrorWithoutAPause: the last error of a repair is not told with another gate than the pause after it.
func TestErrorWithoutAPause(t *testing.T) {
	s := newScene()
	scenes["refused-call"](s)
	w := s.assessment()
	w.refusalsOf[0] = []core.Refusal{{Gate: core.PolicyPaused}, {Gate: core.AttemptPause}}
	for _, held := range w.target(0).HeldBy {
		if told := strings.Contains(held.Message, "the last error is: "); told != (held.Gate == core.AttemptPause.String()) {
			t.Errorf("it is held by %+v", held)
		}
	}
}

// TestLeaderOfMachinesWithOneNode: the verdict on one of two machines that name the same node leads, and not the other.
func TestLeaderOfMachinesWithOneNode(t *testing.T) {
	s := newNodeScene(t)
	s.machines = newScene()
	s.machines.Policies[0].Created = noon.Add(-72 * time.Hour)
	s.machines.Targets[1].Node.Name = "node-a"
	for i := range 2 {
		s.machines.ready(i, "Unknown", time.Hour)
	}
	w := s.assessment()
	for i, want := range []bool{true, false} {
		if verdicts := w.target(i).Verdicts; len(verdicts) != 1 || verdicts[0].Leads != want || verdicts[0].Health != core.Unhealthy.String() {
			t.Errorf("machine %d has the verdicts %+v", i, verdicts)
		}
	}
}
