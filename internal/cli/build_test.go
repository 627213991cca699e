package cli

import (
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
