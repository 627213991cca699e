package nhc

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/slim"
)

// selectedIn returns the names of the members of each policy, and of all targets under "".
func selectedIn(policies []core.Policy, targets []core.Target) map[string][]string {
	members := map[string][]string{"": {}}
	for i := range targets {
		members[""] = append(members[""], targets[i].ID.Name)
	}
	for _, p := range policies {
		members[p.ID.Name] = []string{}
		for _, i := range p.Members {
			members[p.ID.Name] = append(members[p.ID.Name], targets[i].ID.Name)
		}
	}
	return members
}

// TestMembershipFollowsWhatChanges: only selected nodes are targets, whatever is added, deleted or changed.
func TestMembershipFollowsWhatChanges(t *testing.T) {
	type members = map[string][]string
	steps := []struct {
		sentence string
		change   func(*store)
		want     members
	}{
		{"a node comes", func(s *store) { s.putNode(seen("a")) }, members{"": {}}},
		{"a health check comes", func(s *store) { s.putCheck(posted(t, "w", "1", selectsWorkers)) }, members{"": {"a"}, "w": {"a"}}},
		{"a node comes that it does not select", func(s *store) { s.putNode(seen("m", tagged("role", "master"))) }, members{"": {"a"}, "w": {"a"}}},
		{"one comes that sorts before the others", func(s *store) { s.putNode(seen("Z")) }, members{"": {"Z", "a"}, "w": {"Z", "a"}}},
		{"a node is relabelled", func(s *store) { s.putNode(seen("a", tagged("role", "master"))) }, members{"": {"Z"}, "w": {"Z"}}},
		{"another selector", func(s *store) { s.putCheck(posted(t, "w", "2", selectsMasters)) }, members{"": {"a", "m"}, "w": {"a", "m"}}},
		{"a second health check", func(s *store) { s.putCheck(posted(t, "all", "3", selectsAll)) }, members{"": {"Z", "a", "m"}, "w": {"a", "m"}, "all": {"Z", "a", "m"}}},
		{"a node goes", func(s *store) { s.dropNode("a") }, members{"": {"Z", "m"}, "w": {"m"}, "all": {"Z", "m"}}},
		{"a node that never was goes", func(s *store) { s.dropNode("x") }, members{"": {"Z", "m"}, "w": {"m"}, "all": {"Z", "m"}}},
		{"a node comes back", func(s *store) { s.putNode(seen("a")) }, members{"": {"Z", "a", "m"}, "w": {"m"}, "all": {"Z", "a", "m"}}},
		{"a health check goes", func(s *store) { s.dropCheck("all") }, members{"": {"m"}, "w": {"m"}}},
		{"an unknown health check goes", func(s *store) { s.dropCheck("x") }, members{"": {"m"}, "w": {"m"}}},
		{"the other is being deleted", func(s *store) { s.putCheck(leavingSoon(posted(t, "w", "4", selectsMasters))) }, members{"": {}}},
	}
	s := newStore()
	for _, step := range steps {
		step.change(&s)
		if diff := cmp.Diff(step.want, selectedIn(s.snapshot())); diff != "" {
			t.Errorf("after this: %s, members are (-want +got):\n%s", step.sentence, diff)
		}
	}
	if s.index.Len() != 3 || len(s.nodes) != 3 {
		t.Errorf("%d places and %d nodes are kept of 3", s.index.Len(), len(s.nodes))
	}
}

func TestPutNodeTellsWhetherADecisionCanChange(t *testing.T) {
	cases := map[string]struct {
		reason string
		put    any
		want   bool
	}{
		"a heartbeat":             {"it lives, and nothing else", seen("a", beating), false},
		"a label of others":       {"no selector reads it", seen("a", tagged("zone", "z")), false},
		"an annotation of others": {"no decision reads it", seen("a", noted("a", "b")), false},
		"a status":                {"", seen("a", notReady), true},
		"a label that unselects":  {"it has left", seen("a", tagged("role", "none")), true},
		"a label that reselects":  {"another health check has it", seen("a", tagged("role", "master")), true},
		"a namesake":              {"it is another node", seen("a", renamed("other")), true},
		"an exclusion":            {"", seen("a", tagged(v1alpha1.ExcludeLabel, "true")), true},
		"a confirmation":          {"", seen("a", noted(v1alpha1.ConfirmedHealthyAnnotation, "")), true},
		"an upgrade":              {"", seen("a", noted(slim.DesiredConfigAnnotation, "b")), true},
		"its end":                 {"", seen("a", departing), true},
		"another node":            {"it is selected", seen("b"), true},
		"an unselected node":      {"no health check selects it", seen("b", tagged("role", "none")), false},
		"an unselected node ails": {"no health check selects it", seen("stray", tagged("role", "none"), notReady), false},
		"what is selected now":    {"a health check has it", seen("stray"), true},
		"something else":          {"", posted(t, "w", "1", selectsWorkers), false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := newStore()
			s.putCheck(posted(t, "w", "1", selectsWorkers))
			s.putCheck(posted(t, "m", "1", selectsMasters))
			s.putNode(seen("a"))
			s.putNode(seen("stray", tagged("role", "none")))
			if got := s.putNode(tc.put); got != tc.want {
				t.Errorf("it can change a decision: %t, want %t. %s", got, tc.want, tc.reason)
			}
		})
	}
}

func TestDroppingTellsWhetherADecisionCanChange(t *testing.T) {
	s := newStore()
	s.putCheck(posted(t, "w", "1", selectsWorkers))
	s.putNode(seen("a"))
	s.putNode(seen("stray", tagged("role", "none")))
	for sentence, tc := range map[string]struct{ got, want bool }{
		"a node that is selected":       {s.dropNode("a"), true},
		"an unselected node goes":       {s.dropNode("stray"), false},
		"a node that never was":         {s.dropNode("x"), false},
		"a health check":                {s.dropCheck("w"), true},
		"a health check that never was": {s.dropCheck("x"), false},
	} {
		if tc.got != tc.want {
			t.Errorf("the end of %s can change a decision: %t, want %t", sentence, tc.got, tc.want)
		}
	}
}

func TestPutCheckTellsWhetherADecisionCanChange(t *testing.T) {
	recreated := posted(t, "w", "9", selectsWorkers)
	recreated.SetUID("another-uid")
	older := posted(t, "w", "4", selectsMasters)
	older.SetUID("another-uid")
	counted := posted(t, "w", "6", selectsWorkers)
	counted.Object["status"] = map[string]any{"observedNodes": int64(3)}
	cases := map[string]struct {
		reason string
		put    any
		want   bool
	}{
		"the same again":     {"nothing has changed", posted(t, "w", "5", selectsWorkers), false},
		"a revision more":    {"metadata that no decision reads", posted(t, "w", "6", selectsWorkers), false},
		"its status":         {"numbers decide nothing", counted, false},
		"a pause":            {"it holds remediation back", posted(t, "w", "6", pausedWorkers), true},
		"another selector":   {"it has other members", posted(t, "w", "6", selectsMasters), true},
		"another one":        {"it has never been seen", posted(t, "other", "6", selectsWorkers), true},
		"a namesake":         {"it is another health check", recreated, true},
		"its end":            {"it selects nothing any more", leavingSoon(posted(t, "w", "6", selectsWorkers)), true},
		"the end of another": {"it was unknown", leavingSoon(posted(t, "other", "6", selectsWorkers)), false},
		"an older namesake":  {"revisions compare within one health check", older, true},
		"an older revision":  {"a late word does not count", posted(t, "w", "4", selectsMasters), false},
		"something else":     {"", seen("a"), false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := newStore()
			if !s.putCheck(posted(t, "w", "5", selectsWorkers)) {
				t.Error("a health check that is new changes nothing")
			}
			if got := s.putCheck(tc.put); got != tc.want {
				t.Errorf("it can change a decision: %t, want %t. %s", got, tc.want, tc.reason)
			}
		})
	}
}

func TestTargetIsANodeAlone(t *testing.T) {
	ready := core.Condition{Type: "Ready", Status: "True", Since: before(time.Hour)}
	plain := core.Target{
		ID: nodeID("a"), Created: before(24 * time.Hour), Revision: "7", Parts: core.NoParts(),
		Node: core.Node{State: core.NodePresent, Name: "a", UID: "a-uid", Conditions: []core.Condition{ready}},
	}
	cases := map[string]struct {
		node   *slim.Node
		change func(*core.Target)
	}{
		"a worker":             {seen("a"), func(*core.Target) {}},
		"a control-plane node": {seen("a", tagged("node-role.kubernetes.io/master", "")), func(t *core.Target) { t.ControlPlane, t.Node.ControlPlane = true, true }},
		"a node being deleted": {seen("a", departing), func(t *core.Target) { t.Deleting = true }},
		"an excluded one":      {seen("a", tagged(v1alpha1.ExcludeLabel, "true")), func(t *core.Target) { t.Node.Excluded = true }},
		"confirmed healthy":    {seen("a", noted(v1alpha1.ConfirmedHealthyAnnotation, "x")), func(t *core.Target) { t.ConfirmedHealthy = true }},
		"one in an upgrade":    {seen("a", noted(slim.DesiredConfigAnnotation, "x")), func(t *core.Target) { t.Node.Upgrading = true }},
		"its newest revision":  {seen("a", beating), func(t *core.Target) { t.Revision = "8" }},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := newStore()
			s.putCheck(posted(t, "w", "1", selectsAll))
			s.putNode(seen("a"))
			s.putNode(tc.node)
			want := plain
			tc.change(&want)
			_, targets := s.snapshot()
			if diff := cmp.Diff([]core.Target{want}, targets); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSnapshotsAreApart: a pass may write to a snapshot, and the next snapshot does not have that.
func TestSnapshotsAreApart(t *testing.T) {
	s := newStore()
	s.putNode(seen("a"))
	s.putCheck(posted(t, "w", "1", selectsWorkers))
	policies, targets := s.snapshot()
	targets[0].Deleting, targets[0].Failed, policies[0].Paused = true, true, true
	again, nodes := s.snapshot()
	if nodes[0].Deleting || nodes[0].Failed || again[0].Paused {
		t.Error("a change of one snapshot shows in the next")
	}
}

// TestNewestNodeIsKept: a store that pointed into the first of a thousand heartbeats would keep a second copy of every
// node in memory.
func TestNewestNodeIsKept(t *testing.T) {
	s := newStore()
	s.putCheck(posted(t, "w", "1", selectsWorkers))
	s.putNode(seen("a"))
	newest := seen("a", beating)
	if s.putNode(newest) {
		t.Fatal("a heartbeat changes a decision")
	}
	if _, targets := s.snapshot(); &targets[0].Node.Conditions[0] != &newest.Conditions[0] {
		t.Error("the conditions are those of a node that is no longer cached")
	}
	for name := range s.nodes {
		if unsafe.StringData(name) != unsafe.StringData(newest.Name) {
			t.Error("the name is that of a node that is no longer cached")
		}
	}
}

// TestRecordsAreNotThoseOfNamesakes: the status of a health check is not written to another one with its name.
func TestRecordsAreNotThoseOfNamesakes(t *testing.T) {
	s := newStore()
	s.putCheck(posted(t, "w", "1", selectsWorkers))
	if r, known := s.statusOf(checkID("w")); !known || r.revision != "1" {
		t.Errorf("its record is %+v, known: %t", r, known)
	}
	if _, known := s.statusOf(core.ID{Kind: "NodeHealthCheck", Name: "w", UID: "another"}); known {
		t.Error("a namesake has its record")
	}
}

// TestSelectorIndexAgreesWithMatchingAnew draws changes, and compares the members with those of a naive match.
func TestSelectorIndexAgreesWithMatchingAnew(t *testing.T) {
	specs := map[string]labels.Selector{
		selectsWorkers: labels.SelectorFromSet(labels.Set{"role": "worker"}),
		selectsMasters: labels.SelectorFromSet(labels.Set{"role": "master"}),
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := newStore()
		roles, checks := map[string]string{}, map[string]string{}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		for revision := range rapid.IntRange(1, 30).Draw(rt, "changes") {
			n := name.Draw(rt, "name")
			switch rapid.IntRange(0, 4).Draw(rt, "change") {
			case 0, 1:
				roles[n] = rapid.SampledFrom([]string{"worker", "master", "none"}).Draw(rt, "role")
				s.putNode(seen(n, tagged("role", roles[n])))
			case 2:
				delete(roles, n)
				s.dropNode(n)
			case 3:
				checks[n] = rapid.SampledFrom([]string{selectsWorkers, selectsMasters}).Draw(rt, "spec")
				s.putCheck(posted(t, n, fmt.Sprint(revision+1), checks[n]))
			case 4:
				delete(checks, n)
				s.dropCheck(n)
			}
			if rapid.Bool().Draw(rt, "look") {
				s.snapshot()
			}
		}
		want := map[string][]string{"": {}}
		for check := range checks {
			want[check] = []string{}
		}
		for _, n := range []string{"a", "b", "c", "d"} {
			selected := false
			for check, spec := range checks {
				if role, exists := roles[n]; exists && specs[spec].Matches(labels.Set{"role": role}) {
					want[check] = append(want[check], n)
					selected = true
				}
			}
			if selected {
				want[""] = append(want[""], n)
			}
		}
		if diff := cmp.Diff(want, selectedIn(s.snapshot())); diff != "" {
			rt.Errorf("members (-matched anew +got):\n%s", diff)
		}
	})
}

func TestFactsOfANode(t *testing.T) {
	s := newStore()
	s.putNode(seen("a"))
	if facts, known := s.factsOf("a"); !known || facts.Node.UID != "a-uid" {
		t.Errorf("known: %t, facts: %+v", known, facts)
	}
	if facts, known := s.factsOf("b"); known || facts.Node.State != core.NodeUnseen {
		t.Errorf("of no node there are facts: %+v", facts)
	}
}

// TestLabelsHaveOneName: the dialect and the decoder of nodes use the same label.
func TestLabelsHaveOneName(t *testing.T) {
	if slim.ConfirmedHealthyAnnotation != v1alpha1.ConfirmedHealthyAnnotation {
		t.Errorf("a person's word is read from %s", slim.ConfirmedHealthyAnnotation)
	}
	if !node.FactsOf(seen("a", tagged(v1alpha1.ExcludeLabel, "true"))).Node.Excluded {
		t.Errorf("the label %s excludes no node", v1alpha1.ExcludeLabel)
	}
}

// crowd returns a store of many nodes in no order, all of them selected.
func crowd(tb testing.TB, size int) *store {
	tb.Helper()
	s := newStore()
	c := &healthCheck{selector: labels.SelectorFromSet(labels.Set{"role": "worker"})}
	c.policy.ID = checkID("w")
	s.storeCheck("w", c)
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(size) {
		s.putNode(seen(fmt.Sprintf("n-%06d", i), tagged("kubernetes.io/hostname", fmt.Sprint(i))))
	}
	s.snapshot()
	return &s
}

// TestHeartbeatCostsNothing: nearly every event is a heartbeat.
func TestHeartbeatCostsNothing(t *testing.T) {
	s := crowd(t, 100)
	n := seen("n-000077", tagged("kubernetes.io/hostname", "77"), beating)
	changed := false
	if got := testing.AllocsPerRun(100, func() { changed = s.putNode(n) || changed }); got > 0 || changed {
		t.Errorf("a heartbeat allocates %.0f times; a decision can change: %t", got, changed)
	}
}

// TestSnapshotCostsTheSameWhateverTheNumber: a snapshot reuses the memory of its targets.
func TestSnapshotCostsTheSameWhateverTheNumber(t *testing.T) {
	s := crowd(t, 1000)
	if got := testing.AllocsPerRun(10, func() { s.snapshot() }); got > 10 {
		t.Errorf("a snapshot of 1000 nodes allocates %.0f times", got)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	s := crowd(b, 50_000)
	b.ReportAllocs()
	for b.Loop() {
		s.snapshot()
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	s := crowd(b, 5_000)
	n := seen("n-000077", tagged("kubernetes.io/hostname", "77"), beating)
	b.ReportAllocs()
	for b.Loop() {
		s.putNode(n)
	}
}
