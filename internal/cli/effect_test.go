package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestLimitWarnings: check warns of a percentage by which one unhealthy target is too many already.
func TestLimitWarnings(t *testing.T) {
	all := core.Percent(100)
	for name, c := range map[string]struct {
		limits core.ShortCircuit
		most   int
		want   []Finding
	}{
		"one may be unhealthy": {core.ShortCircuit{MaxUnhealthy: core.Percent(40)}, 1, nil},
		"all must be healthy":  {core.ShortCircuit{MinHealthy: &all}, 0, []Finding{{Field: "spec.minHealthy", Message: "100% of 5 machines is all of them, so nothing is repaired: one unhealthy machine is too many already"}}},
		"a small percentage":   {core.ShortCircuit{MaxUnhealthy: core.Percent(1)}, 0, []Finding{{Field: "spec.maxUnhealthy", Message: "1% of 5 machines is 0, so nothing is repaired: one unhealthy machine is too many already"}}},
		"no percentage":        {core.ShortCircuit{MaxUnhealthy: core.Percent(0)}, 0, nil},
		"none":                 {core.ShortCircuit{MaxUnhealthy: core.Count(0)}, 0, nil},
		"a number":             {core.ShortCircuit{MaxUnhealthy: core.Count(1)}, 0, nil},
	} {
		got := limitWarnings(&c.limits, &HealthCheck{TargetKind: "Machine", Total: 5, MostUnhealthy: c.most})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: it warns (-want +got):\n%s", name, diff)
		}
	}
}

// TestUnknowns: check says which facts are unknown, if the health check needs them, and each once.
func TestUnknowns(t *testing.T) {
	s := newNodeScene(t)
	s.around.templates.Hide(requestKind("Fence"), "you may not list fences.fix.example")
	s.around.unread.leases, s.around.unread.upgrade = "you may not list leases", "you may not list clusterversions"
	s.Policies[0].Steps = append(s.Policies[0].Steps, s.Policies[0].Steps[1])
	other := s.check("other", time.Hour)
	other.Steps, other.Holder, other.WaitsForUpgrades = other.Steps[:1], "", false
	w := s.assessment()
	var got [][]string
	for i := range w.policies {
		got = append(got, w.unknowns(i))
	}
	want := [][]string{{"you may not list fences.fix.example", "you may not list leases", "you may not list clusterversions"}, nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unknown to the health checks are (-want +got):\n%s", diff)
	}
	w.blocked = &Blocked{Message: "its nodes can't be seen"}
	if got := w.unknowns(1); len(got) != 1 || got[0] != "its nodes can't be seen" {
		t.Errorf("where nothing can be judged: %q", got)
	}
	w.blocked.Halted = true
	if got := w.unknowns(1); len(got) > 0 {
		t.Errorf("where the controller judges nothing either: %q", got)
	}
}

// TestNamesOfEffects: check names at most ten of the selected targets, and as many that are not healthy.
func TestNamesOfEffects(t *testing.T) {
	s := newScene()
	for i := range 7 {
		m := s.Targets[0]
		m.ID.Name, m.ID.UID, m.Node.Name, m.Node.UID = fmt.Sprintf("more-%d", i), fmt.Sprintf("more-%d", i), fmt.Sprintf("node-%d", i), fmt.Sprintf("node-%d", i)
		s.Targets = append(s.Targets, m)
	}
	for i := range s.Targets {
		s.Policies[0].Members = append(s.Policies[0].Members[:i:i], i)
	}
	for i := 1; i < len(s.Targets); i++ {
		s.ready(i, "Unknown", time.Hour)
	}
	for members, want := range map[int][2]int{12: {10, 10}, 11: {10, 10}, 10: {10, 9}, 2: {2, 1}, 1: {1, 0}} {
		s.Policies[0].Members = s.Policies[0].Members[:12][:members]
		e := s.assessment().effect(0)
		if got := [2]int{len(e.Selected), len(e.NotHealthy)}; got != want {
			t.Errorf("of %d machines it names %v, want %v", members, got, want)
		}
	}
}
