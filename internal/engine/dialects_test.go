package engine_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// two returns a fixture with a second dialect, whose targets are nodes.
func two(t *testing.T) (*fixture, *dialect) {
	t.Helper()
	s := newFixture(t)
	nodes := s.dialect("Node")
	s.restart()
	return s, nodes
}

// TestDialectsSideBySide: each dialect gets its own policies and targets, wherever they are in the
// snapshot.
func TestDialectsSideBySide(t *testing.T) {
	s, nodes := two(t)
	s.machines.observes(machine("a"), machine("b", dead), machine("c"))
	nodes.observation.Targets = []core.Target{target("Node", "x", dead), target("Node", "y"), target("Node", "z", dead)}
	nodes.observation.Policies = []core.Policy{policy("odd", []int{0, 1}), policy("even", []int{2}, func(p *core.Policy) { p.Paused = true })}
	did, _ := s.pass()
	slices.Sort(did)
	s.wantDid("b and x are repaired, and z is paused", did,
		"begin b", "begin x", "open b", "open x", "read b", "read x", "record even", "record odd", "record workers", "tell begun b", "tell begun x")
	if diff := cmp.Diff([][]string{{"b"}, {"x"}}, [][]string{s.machines.deleted, nodes.deleted}); diff != "" {
		t.Errorf("deleted by dialect (-want +got):\n%s", diff)
	}
}

// publisher records the calls of one dialect.
type publisher struct {
	*dialect

	reported, emitted, read []string
}

func (p *publisher) WriteStatuses(ctx context.Context, reports []core.PolicyReport) map[core.ID]error {
	for _, r := range reports {
		p.reported = append(p.reported, r.Policy.ID.Name)
		for _, m := range r.Policy.Members {
			p.reported = append(p.reported, r.Policy.ID.Name+" has member "+string(rune('0'+m)))
		}
	}
	return p.dialect.WriteStatuses(ctx, reports)
}

func (p *publisher) EmitEvents(events []core.Event) {
	for _, h := range events {
		p.emitted = append(p.emitted, h.Target.Name)
	}
}

func (p *publisher) ReadNode(ctx context.Context, t core.Target) (core.Node, error) {
	p.read = append(p.read, t.ID.Name)
	return p.dialect.ReadNode(ctx, t)
}

func TestEachDialectHearsOfItsOwn(t *testing.T) {
	s, nodes := two(t)
	first, second := &publisher{dialect: s.machines}, &publisher{dialect: nodes}
	s.machines.observes(machine("m", dead))
	nodes.observes(target("Node", "n", dead))
	nodes.observation.Policies[0].ID.Name, nodes.observation.Policies[0].ID.UID = "nodes", "nodes-uid"
	s.dialects[0], s.dialects[1] = first, second
	s.Dialects = s.dialects
	if _, err := s.Pass(t.Context()); err != nil {
		t.Fatalf("the pass failed: %v", err)
	}
	want := [][]string{{"workers", "workers has member 0"}, {"m"}, {"m"}, {"nodes", "nodes has member 1"}, {"n"}, {"n"}}
	got := [][]string{first.reported, first.emitted, first.read, second.reported, second.emitted, second.read}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reported, told and read by dialect (-want +got):\n%s", diff)
	}
}

// TestDialectThatIsNotServedBlocksNoOther: a dialect that isn't served has no policies that could
// block a repair.
func TestDialectThatIsNotServedBlocksNoOther(t *testing.T) {
	s, nodes := two(t)
	s.machines.observation = core.Observation{Kind: "Machine", Observed: core.No}
	nodes.observes(target("Node", "n", dead))
	s.ledger.has(running(machine("gone")))
	did, _ := s.pass()
	s.wantDid("nodes are repaired, and repairs of machines are left alone", did, "read n", "record workers", "open n", "begin n", "tell begun n")
}

// TestUnknownDialectBlocksAll: it may have a policy that applies to any target.
func TestUnknownDialectBlocksAll(t *testing.T) {
	for _, kind := range []string{"the first", "the last"} {
		t.Run(kind, func(t *testing.T) {
			s, nodes := two(t)
			unknown := map[string]*dialect{"the first": s.machines, "the last": nodes}[kind]
			s.machines.observes(machine("m", dead))
			nodes.observes(target("Node", "n", dead))
			unknown.observation.Observed = core.Unknown
			did, next := s.pass()
			s.wantDid("nothing is decided", did)
			s.wantNext(next, time.Time{})
		})
	}
}

// TestRepairsOfUnobservedKindsAreSkipped: the engine doesn't end, continue or delete
// them.
func TestRepairsOfUnobservedKindsAreSkipped(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m"))
	s.ledger.has(
		running(target("Other", "a")),
		running(target("Other", "b"), endedAt(ago(48*time.Hour))),
	)
	for range 2 {
		did, next := s.pass()
		s.wantDid("nothing is wrong with m", did, "record workers")
		s.wantNext(next, time.Time{})
	}
}

// TestI15FloodIsPrunedBitByBit: a pass deletes a bounded number of expired repairs, and the next
// pass follows soon.
func TestI15FloodIsPrunedBitByBit(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m"))
	for i := range 250 {
		s.ledger.has(running(target("Machine", "gone-"+strconv.Itoa(i)), endedAt(ago(48*time.Hour))))
	}
	for _, want := range []int{100, 100, 50, 0} {
		did, next := s.pass()
		dropped := slices.DeleteFunc(did, func(line string) bool { return !strings.HasPrefix(line, "drop ") })
		if len(dropped) != want {
			t.Errorf("%d are deleted in one pass, want %d", len(dropped), want)
		}
		if soon := want == 100; soon != next.Equal(noon.Add(time.Second)) {
			t.Errorf("after %d were deleted the next pass is at %s", want, next)
		}
		s.syncCaches()
	}
}

// TestDialectThatFallsOutOfStep: expectations alone don't end a repair.
func TestDialectThatFallsOutOfStep(t *testing.T) {
	s, nodes := two(t)
	s.machines.observes(machine("m"))
	nodes.observes(target("Node", "n", dead))
	nodes.observation.Policies[0].ID.UID = "nodes-uid"
	s.pass()
	nodes.observation.Observed = core.Unknown
	did, _ := s.pass()
	s.wantDid("the state of n is unknown", did)
	nodes.observation.Observed = core.No
	did, _ = s.pass()
	s.wantDid("its API is gone, and its repair is left alone", did, "record workers")
	s.syncCaches()
	did, _ = s.pass()
	s.wantDid("the same when the ledger shows the repair", did, "record workers")
	nodes.observation.Observed = core.Yes
	did, _ = s.pass()
	s.wantDid("it is being deleted", did, "record workers", "record workers")
}

// TestNothingIsObservedWithoutADialect: without a served dialect, an empty snapshot isn't the state of the cluster.
func TestNothingIsObservedWithoutADialect(t *testing.T) {
	s := newFixture(t)
	for _, served := range []core.Tri{core.No, core.Unknown, core.Yes} {
		s.machines.observation.Observed = served
		_, cluster, err := s.Observed()
		if want := served == core.Yes; (cluster.Observed == core.Yes) != want || err != nil {
			t.Errorf("a dialect is served: %s, and the cluster is observed: %s (%v)", served, cluster.Observed, err)
		}
	}
}
