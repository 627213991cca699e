package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// twoLeaders returns two engines with one ledger and separate caches, which show a repair on its
// first step. The request of that step has failed.
func twoLeaders(t *testing.T) (one, other *stepFixture) {
	t.Helper()
	one, other = newStepFixture(t, sick("a")), newStepFixture(t, sick("a"))
	other.ledger.stored = one.ledger.stored
	one.ledger.has(runningSteps(sick("a")))
	other.syncCaches()
	for _, c := range []*stepFixture{one, other} {
		c.factSource.requests = []core.Request{request("fix-a", sick("a"), failed)}
	}
	return one, other
}

func failed(r *core.Request) { r.Succeeded = core.No }

// bySlow makes a request belong to the second step.
func bySlow(r *core.Request) { r.Template = twoSteps()[1].Template }

// stepsTaken runs passes until none follows at once, and returns the steps that were taken.
func (c *stepFixture) stepsTaken() []string {
	c.Helper()
	var taken []string
	for range 5 {
		did, next := c.pass()
		for _, line := range did {
			if line == "begin a quick" || line == "begin a slow" || line == "begin a" {
				taken = append(taken, line)
			}
		}
		if !next.Equal(c.now) {
			return taken
		}
	}
	c.Fatal("it passes for ever")
	return nil
}

// TestStepsAreTakenByOneOfTwoLeaders: one leader has taken two steps. The other has seen neither
// and gives up the first. The ledger doesn't go back, and no step is repeated.
func TestStepsAreTakenByOneOfTwoLeaders(t *testing.T) {
	one, other := twoLeaders(t)
	one.wantDid("the second step follows the first", one.stepsTaken(), "begin a slow")
	one.factSource.requests = append(one.factSource.requests, request("fix-a-slowly", sick("a"), failed, bySlow))
	one.wantDid("the third follows that", one.stepsTaken(), "begin a")
	for range 3 {
		other.wantDid("what it would begin was begun", other.stepsTaken())
		other.now = other.now.Add(time.Second)
	}
	if r := one.ledger.of("a")[0]; len(r.Tried) != 2 || r.Begun.IsZero() {
		t.Errorf("the ledger has gone back to %d steps given up, handed over at %s", len(r.Tried), r.Begun)
	}
	other.syncCaches()
	other.nodes.observation.Targets[0].ExternallyRemediated = true
	other.wantDid("the other leader has it", other.stepsTaken())
}

// TestOneOfTwoLeadersEnds a repair. The other one hasn't seen that, and doesn't record another end.
func TestOneOfTwoLeadersEnds(t *testing.T) {
	one, other := twoLeaders(t)
	ends := func(outcome core.Outcome) func(*core.Decision, *core.Cluster) {
		return func(d *core.Decision, _ *core.Cluster) { d.Finishes = []core.Finish{{Outcome: outcome, Text: "over"}} }
	}
	if did, _, err := one.runs(ends(core.Succeeded)); err != nil || !slices.Contains(did, "release a-node of check") {
		t.Errorf("the first did %v, and tells %v", did, err)
	}
	did, next, err := other.runs(ends(core.Withdrawn))
	if err != nil || slices.Contains(did, "release a-node of check") {
		t.Errorf("the second did %v, and tells %v", did, err)
	}
	other.wantNext(next, noon.Add(time.Second))
	if got := one.ledger.of("a")[0].Outcome; got != core.Succeeded {
		t.Errorf("it ended as %s, and then as %s", core.Succeeded, got)
	}
}

// touches writes a repair without changing its progress.
func (l *ledger) touches(name string) {
	for key, r := range l.stored {
		if r.Target.Name == name {
			r.Revision++
			l.stored[key] = r
		}
	}
}

// TestWhoTouchesARepairDelaysIt until the cache shows the write, and no longer. The pass reports no
// error, and loses no expectation.
func TestWhoTouchesARepairDelaysIt(t *testing.T) {
	one, _ := twoLeaders(t)
	one.ledger.touches("a")
	did, next := one.pass()
	if slices.Contains(did, "tell escalated a") {
		t.Errorf("what is not recorded is told: %v", did)
	}
	one.wantNext(next, noon.Add(time.Second))
	one.syncCaches()
	one.wantDid("it goes on", one.stepsTaken(), "begin a slow")
}

// TestRefusedCallThatIsOvertaken keeps its pause, and the next write records it.
func TestRefusedCallThatIsOvertaken(t *testing.T) {
	c := newStepFixture(t, sick("a"))
	c.ledger.has(runningSteps(sick("a"), onStep(1), func(r *core.Repair) { r.Tried[0].Ended = ago(time.Minute) }))
	c.ledger.touches("a")
	c.refuse["begin a slow"] = errDown
	c.wantDid("the call is refused", c.stepsTaken(), "begin a slow")
	c.syncCaches()
	c.wantDid("its pause holds", c.stepsTaken())
	c.now = noon.Add(time.Second)
	c.wantDid("it is over", c.stepsTaken(), "begin a slow")
	wantAttempts(c.fixture, 2, c.now)
}

// TestHandOverThatIsOvertaken is recorded by the next pass that sees the other write.
func TestHandOverThatIsOvertaken(t *testing.T) {
	c := newStepFixture(t, sick("a"))
	c.ledger.has(runningSteps(sick("a"), onStep(2)))
	c.ledger.touches("a")
	did, next, err := c.runs(acts(1))
	if err != nil || !slices.Contains(did, "tell begun a") {
		t.Errorf("it did %v, and tells %v", did, err)
	}
	c.wantNext(next, noon.Add(time.Second))
	c.nodes.observation.Targets[0].ExternallyRemediated = true
	c.syncCaches()
	c.stepsTaken()
	if got := c.ledger.of("a")[0].Begun; !got.Equal(noon) {
		t.Errorf("it was handed over at %s, want %s", got, noon)
	}
	c.wantDid("once that is recorded", c.stepsTaken())
}

// TestFenceKnowsSteps: the step that may begin is the one in the ledger, and not a step that
// another leader has given up. The first step ended long ago, so that no back-off holds the second.
func TestFenceKnowsSteps(t *testing.T) {
	for sentence, want := range map[string][]string{"the ledger has what the cache shows": {"begin a slow"}, "the second step is over": nil} {
		c := newStepFixture(t, sick("a"))
		c.nodes.observation.Policies[0].MaxInFlight = core.Count(1)
		c.ledger.has(runningSteps(sick("a"), onStep(1), func(r *core.Repair) { r.Tried[0].Ended = ago(time.Minute) }))
		if want == nil {
			ahead := c.ledger.of("a")[0]
			ahead.Tried = append(slices.Clone(ahead.Tried), core.StepRecord{Ended: noon, Outcome: core.Failed})
			ahead.Revision++
			c.ledger.stored[ahead.Name] = ahead
		}
		c.wantDid(sentence, c.stepsTaken(), want...)
		if want == nil {
			c.syncCaches()
			c.wantDid("the third is due", c.stepsTaken(), "begin a")
		}
	}
}
