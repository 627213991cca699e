package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// conditionWriter is a dialect that writes conditions of targets.
type conditionWriter struct {
	*dialect

	// most bounds the writes of one pass, if it isn't 0.
	most   int
	marked map[string]bool
	// hurried is set if the context had ended.
	hurried bool
}

func (m *conditionWriter) WriteConditions(ctx context.Context, policies []core.Policy, cluster *core.Cluster, judged []core.CombinedVerdict) (bool, error) {
	written := 0
	m.hurried = ctx.Err() != nil
	for _, j := range judged {
		name := cluster.Targets[j.Target].ID.Name
		if j.RemedyCalled || m.marked[name] {
			continue
		}
		if m.most > 0 && written == m.most {
			return true, nil
		}
		if err := m.fixture.record(ctx, "mark "+name+" "+j.Verdict.Health.String()+" by "+policies[j.Policy].ID.Name); err != nil {
			return false, err
		}
		written++
		m.marked[name] = true
	}
	return false, nil
}

func (m *conditionWriter) ReportBlocked(ctx context.Context) error {
	return m.fixture.record(ctx, "stand by")
}

// marking returns a fixture whose dialect writes conditions.
func marking(t *testing.T) (*fixture, *conditionWriter) {
	t.Helper()
	s := newFixture(t)
	m := &conditionWriter{dialect: s.machines, marked: map[string]bool{}}
	s.dialects[0] = m
	s.restart()
	return s, m
}

// TestMarksMakeWay for a pass that is due, and for the reading of nodes before that.
func TestMarksMakeWay(t *testing.T) {
	for left, hurries := range map[time.Duration]bool{time.Hour: false, 2 * time.Minute: false, time.Second: true, time.Millisecond: true} {
		t.Run(left.String(), func(t *testing.T) {
			s, m := marking(t)
			s.machines.observes(machine("a", unhealthySince(0)), machine("b"))
			s.machines.observation.Policies[0].Criteria.Conditions[0].For = left
			s.pass()
			if m.hurried != hurries {
				t.Errorf("%s before a deadline it hurries: %t", left, m.hurried)
			}
		})
	}
}

// TestTargetsAreMarked, except those whose remedy is called: the remedy writes their conditions.
func TestTargetsAreMarked(t *testing.T) {
	s, _ := marking(t)
	s.machines.observes(machine("a"), machine("b", dead))
	did, _ := s.pass()
	slices.Sort(did)
	s.wantDid("b is repaired and a is well", did, "begin b", "mark a healthy by workers", "open b", "read b", "record workers", "tell begun b")
}

// TestMarksAreLeftForLater: the pass goes on, and the next one soon writes the rest.
func TestMarksAreLeftForLater(t *testing.T) {
	s, m := marking(t)
	m.most = 1
	s.machines.observes(machine("a"), machine("b"))
	did, next := s.pass()
	s.wantDid("one of two is marked", did, "record workers", "mark a healthy by workers")
	if !next.Equal(noon.Add(time.Second)) {
		t.Errorf("the next pass is due at %s", next)
	}
	did, next = s.pass()
	s.wantDid("so is the other", did, "record workers", "mark b healthy by workers")
	if !next.IsZero() {
		t.Errorf("nothing is left, and the next pass is due at %s", next)
	}
}

// TestMarkThatFails: repairs go on, and the pass fails.
func TestMarkThatFails(t *testing.T) {
	s, _ := marking(t)
	s.refuse["mark a healthy by workers"] = errDown
	s.machines.observes(machine("a"), machine("b", dead))
	did, _, err := s.tryPass()
	if err == nil || !slices.Contains(did, "begin b") {
		t.Errorf("the pass gives %v; it did %q", err, did)
	}
}

// TestWhoKnowsNothingSaysSo: a dialect without facts reports why, and nothing else happens.
func TestWhoKnowsNothingSaysSo(t *testing.T) {
	s, _ := marking(t)
	s.machines.observes(machine("a", dead))
	s.machines.observation.Observed = core.Unknown
	did, _ := s.pass()
	s.wantDid("the cluster is not known", did, "stand by")
	s.refuse["stand by"] = errDown
	if _, _, err := s.tryPass(); err == nil {
		t.Error("the report failed, and the pass reports no error")
	}
	s.machines.observation.Observed = core.Yes
	if did, _ := s.pass(); !slices.Contains(did, "begin a") {
		t.Errorf("now it is known; it did %q", did)
	}
}

// owner is a remedy that marks targets for their owner.
type owner struct {
	*fixture

	remedyCalls []core.RemedyCall
}

func (o *owner) Start(ctx context.Context, order core.RemedyCall) (core.RemedyResult, error) {
	o.remedyCalls = append(o.remedyCalls, order)
	return core.Accepted, o.record(ctx, "ask the owner of "+order.Target.ID.Name)
}
func (o *owner) Stop(ctx context.Context, r core.Request, _ time.Time) error {
	return o.record(ctx, "stop "+r.Target.Name)
}
func (o *owner) Withdraw(ctx context.Context, r core.Request) (core.RemedyResult, error) {
	return core.Accepted, o.record(ctx, "withdraw "+r.Target.Name)
}

// TestRepairIsRequestedFromTheOwner goes through a repair by an owner.
func TestRepairIsRequestedFromTheOwner(t *testing.T) {
	s := newFixture(t)
	machines := &owner{fixture: s}
	s.remedies["Mark"] = machines
	step := core.Step{Remedy: "Mark", Nature: core.AskOwner}
	s.machines.observes(machine("a", dead, func(t *core.Target) { t.ControlPlane = true }))
	s.machines.observation.Policies[0].Steps = []core.Step{step}
	did, _ := s.pass()
	s.wantDid("asked, whatever the quorum", did, "read a", "record workers", "open a", "read running", "ask the owner of a", "tell begun a")
	if f := machines.remedyCalls[0].Findings; len(f) != 1 || f[0].Reason != core.ConditionMet {
		t.Errorf("the owner is told %+v", f)
	}
	s.syncCaches()
	q := core.Request{
		ID: core.ID{Kind: "Machine", Name: "a", UID: "a-uid@1"}, Remedy: "Mark", Target: s.machines.observation.Targets[0].ID, Created: noon, Own: true, Answers: true, Answer: "not now",
	}
	s.machines.observation.Requests = []core.Request{q}
	did, _ = s.pass()
	s.wantDid("the owner answers", did, "record workers", "amend a: ")
	if r := s.ledger.of("a")[0]; r.Answer != "not now" {
		t.Errorf("recorded as the answer: %q", r.Answer)
	}
	s.syncCaches()
	s.machines.observation.Targets[0].Node = node("a", "True", 0)
	did, _ = s.pass()
	s.wantDid("a has recovered", did, "record workers", "withdraw a", "tell relieved a")
	s.syncCaches()
	s.machines.observation.Requests = nil
	did, _ = s.pass()
	s.wantDid("the mark is gone", did, "record workers", "amend a: recovered, Succeeded")
}
