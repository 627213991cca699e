package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// twoLeaders are two engines on one ledger, each with caches of its own that show a repair on its first step. What was
// asked for in that step has failed.
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

// bySlow has a request ask by the second step.
func bySlow(r *core.Request) { r.Template = ladder()[1].Template }

// stepsTaken passes until nothing follows at once, and gives the steps that were taken.
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

// TestStepsAreTakenByOneOfTwoLeaders: one has taken two steps, while the other has seen neither and gives up the first.
// The ledger does not go back, and the other takes none of them again.
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
	other.wantDid("it is in the hands of somebody else", other.stepsTaken())
}

// TestOneOfTwoLeadersEnds a repair, and the other, which has not seen that, does not end it differently.
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

// touches has somebody write a repair without a word about how far it has come.
func (l *ledger) touches(name string) {
	for key, r := range l.stored {
		if r.Target.Name == name {
			r.Revision++
			l.stored[key] = r
		}
	}
}

// TestWhoTouchesARepairDelaysIt, until the cache shows that, and no longer. Nobody is told of an error, and nothing is
// forgotten.
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

// TestRefusedCallThatIsOvertaken is not forgotten: its pause holds, and the next record has it.
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

// TestHandOverThatIsOvertaken is recorded by the next pass that sees what somebody else has written.
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

// TestFenceKnowsSteps: what may begin is the step that the ledger has by now, not a step that another leader has given up. The
// first step was given up long ago, so that nothing else holds back the second.
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
