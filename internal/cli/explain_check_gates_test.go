package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// gateText prints the gates of a health check.
func gateText(w *assessment, policy int) string {
	return printed(false, func(p *page) { p.gateStates(w.policies[policy].ID.Name, w.gatesOf(policy)) })
}

// TestGatesOfHealthChecks: each gate of a health check is told with its numbers, whatever the gates of others are.
func TestGatesOfHealthChecks(t *testing.T) {
	text := ""
	for _, scene := range []struct {
		name   string
		change func(*nodeScene)
	}{
		{"Control planes of two health checks. The quorum of one node is not known, another is lost, and a third is healthy.", func(s *nodeScene) {
			s.ready(0, "Unknown", 8*time.Minute)
			s.ready(1, "Unknown", 8*time.Minute)
			for i := range 3 {
				s.Targets[i].ControlPlane, s.Targets[i].QuorumReadAt = true, noon
			}
			s.Targets[0].QuorumSurvives, s.Targets[1].QuorumSurvives = core.No, core.Unknown
			s.check("other", time.Hour).Members = []int{2, 3}
			s.Policies[0].Members = []int{0, 1, 4}
			s.Policies[0].ShortCircuit.MaxUnhealthy = core.Percent(100)
		}},
		{"All are healthy while the cluster is upgraded, and a template is missing.", func(s *nodeScene) {
			s.around.versions["version"] = true
			s.Policies[0].Steps[1].Template.Name = "rare"
		}},
		{"A range, no pause after a storm, and a pool that is given up at once.", func(s *nodeScene) {
			p := &s.Policies[0]
			p.ShortCircuit.Range, p.StormCooldown, p.Backoff = &core.Range{From: 0, To: 3}, 0, core.Backoff{GiveUpAfter: 1}
		}},
		{"Two others are paused, and so hold its targets back.", func(s *nodeScene) {
			s.ready(0, "Unknown", 8*time.Minute)
			s.ready(1, "Unknown", 8*time.Minute)
			for _, name := range []string{"young", "younger"} {
				s.check(name, time.Hour).Paused = true
			}
		}},
		{"A dry run is held back by a lease as it would be.", func(s *nodeScene) {
			s.ready(0, "Unknown", 8*time.Minute)
			s.lease("node-a", "node-maintenance", 10*time.Minute, time.Hour)
			s.Policies[0].DryRun = true
			s.check("young", time.Hour).DryRun = true
		}},
	} {
		s := newNodeScene(t)
		scene.change(s)
		w := s.assessment()
		text += "# " + scene.name + "\n"
		for i := range w.policies {
			text += gateText(w, i)
		}
		text += "\n"
	}
	golden(t, "check-gates.txt", text)
}

// TestGateThatHoldsSeveral: a gate opens for the first of its targets, if time opens it, and names each target once and five at most.
func TestGateThatHoldsSeveral(t *testing.T) {
	minutes := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	for sentence, tc := range map[string]struct {
		untils []time.Time
		want   time.Time
	}{
		"the first opens first":  {[]time.Time{minutes(1), minutes(2)}, minutes(1)},
		"the second opens first": {[]time.Time{minutes(2), minutes(1), minutes(3)}, minutes(1)},
		"the second never opens": {[]time.Time{minutes(1), {}}, minutes(1)},
		"the first never opens":  {[]time.Time{{}, minutes(1)}, time.Time{}},
	} {
		w, gates := newScene().assessment(), []GateState(nil)
		for i, until := range tc.untils {
			gates = w.addRefusal(gates, 0, core.Refusal{Gate: core.BackingOff, Target: i, Until: until})
		}
		if len(gates) != 1 || gates[0].Holds != len(tc.untils) || !timeOf(gates[0].Until).Equal(tc.want) {
			t.Errorf("%s: %+v", sentence, gates)
		}
	}
	s := newScene()
	s.Targets = append(s.Targets, s.Targets...)
	for i := range s.Targets {
		s.Targets[i].ID.Name = fmt.Sprint("worker-", i/2*2)
	}
	s.Targets = append(s.Targets, s.Targets[0], s.Targets[0])
	s.Targets[10].ID.Name, s.Targets[11].ID.Name = "worker-x", "worker-y"
	w, gates := s.assessment(), []GateState(nil)
	for i := range s.Targets {
		gates = w.addRefusal(gates, 0, core.Refusal{Gate: core.NoOwner, Target: i})
	}
	if diff := cmp.Diff("worker-0 worker-2 worker-4 worker-6 worker-8", strings.Join(gates[0].Names, " ")); diff != "" || gates[0].Holds != 12 {
		t.Errorf("it holds %d (-want +got):\n%s", gates[0].Holds, diff)
	}
}

// TestGatesOfWrittenQuorum: without a gate about an unknown quorum, that of a lost one stays.
func TestGatesOfWrittenQuorum(t *testing.T) {
	s := newScene()
	s.Targets[0].ControlPlane = true
	if gates := s.assessment().gatesOf(0); !slices.ContainsFunc(gates, func(g GateState) bool { return g.Gate == core.QuorumLost.String() && g.State == gateOpen }) {
		t.Errorf("the gates are %+v", gates)
	}
}
