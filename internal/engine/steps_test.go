package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/engine"
)

var quickBuckets = core.Reference{APIVersion: "fix.example/v1", Kind: "FixTemplate", Namespace: "fixers", Name: "quick"}

// twoSteps returns two steps with requests, and a third that hands over.
func twoSteps() []core.Step {
	slow := quickBuckets
	slow.Name = "slow"
	return []core.Step{
		{Remedy: "Ask", Nature: core.CreateRequest, Template: quickBuckets, Limit: 5 * time.Minute},
		{Remedy: "Ask", Nature: core.CreateRequest, Template: slow},
		{Remedy: "Mark", Nature: core.Annotate},
	}
}

// requester is a remedy with requests. It stores its calls.
type requester struct {
	fixture     *fixture
	remedyCalls []core.RemedyCall
}

func (a *requester) Start(ctx context.Context, o core.RemedyCall) (core.RemedyResult, error) {
	name := o.Target.ID.Name
	err := a.fixture.record(ctx, strings.TrimSpace("begin "+name+" "+o.Step.Template.Name))
	a.fixture.mu.Lock()
	defer a.fixture.mu.Unlock()
	a.remedyCalls = append(a.remedyCalls, o)
	if answer := a.fixture.answer[name]; answer != 0 && err == nil {
		return answer, nil
	}
	return core.Accepted, err
}

func (a *requester) Stop(ctx context.Context, r core.Request, _ time.Time) error {
	return a.fixture.record(ctx, "stop "+r.ID.Name)
}

func (a *requester) Withdraw(ctx context.Context, r core.Request) (core.RemedyResult, error) {
	return core.Accepted, a.fixture.record(ctx, "withdraw "+r.ID.Name)
}

// nodeLeases has leases by node. Another holder has those of taken nodes.
type nodeLeases struct {
	fixture *fixture
	taken   map[string]bool
	// renewedBy is that of the last release.
	renewedBy time.Time
}

func (l *nodeLeases) Acquire(ctx context.Context, t core.Target, holder string, during time.Duration) (bool, error) {
	err := l.fixture.record(ctx, "hold "+t.Node.Name+" for "+holder+" "+during.String())
	return err == nil && !l.taken[t.Node.Name], err
}

func (l *nodeLeases) Release(ctx context.Context, node, holder string, renewedBy time.Time) (bool, error) {
	l.fixture.mu.Lock()
	l.renewedBy = renewedBy
	l.fixture.mu.Unlock()
	err := l.fixture.record(ctx, "release "+node+" of "+holder)
	return err == nil, err
}

// factSource adds requests, and calls a function.
type factSource struct {
	fixture  *fixture
	requests []core.Request
	addFacts func(policies []core.Policy, cluster *core.Cluster)
}

func (s *factSource) AddFacts(policies []core.Policy, cluster *core.Cluster) {
	cluster.Requests = append(cluster.Requests, s.requests...)
	if s.addFacts != nil {
		s.addFacts(policies, cluster)
	}
}

// confirming is a dialect that removes confirmations.
type confirming struct{ *dialect }

func (c confirming) WithdrawConfirmation(ctx context.Context, t core.Target) error {
	return c.fixture.record(ctx, "unvouch "+t.ID.Name)
}

// stepFixture is a fixture with one dialect of nodes, whose policy has three steps and holds
// leases.
type stepFixture struct {
	*fixture

	nodes      *dialect
	requester  *requester
	leases     *nodeLeases
	factSource *factSource
}

func newStepFixture(t *testing.T, targets ...core.Target) *stepFixture {
	t.Helper()
	s := newFixture(t)
	c := &stepFixture{fixture: s, requester: &requester{fixture: s}, leases: &nodeLeases{fixture: s, taken: map[string]bool{}}, factSource: &factSource{fixture: s}}
	s.fakes, s.dialects = nil, nil
	c.nodes = s.dialect("Node")
	s.dialects = []engine.Dialect{confirming{c.nodes}}
	s.remedies["Ask"], s.remedies["Mark"] = c.requester, c.requester
	c.nodes.observes(targets...)
	p := &c.nodes.observation.Policies[0]
	p.Steps, p.Holder = twoSteps(), "check"
	c.takeOver()
	return c
}

// takeOver replaces the engine, as a new process.
func (c *stepFixture) takeOver() {
	c.restart()
	c.FactSources, c.NodeLeases = []engine.FactSource{c.factSource}, c.leases
}

// runs makes one pass with the decision of a script.
func (c *stepFixture) runs(script func(d *core.Decision, cluster *core.Cluster)) (did []string, next time.Time, err error) {
	c.Helper()
	next, err = c.PassWith(c.Context(), script)
	did, c.calls = c.calls, nil
	return did, next, err
}

func sick(name string) core.Target { return target("Node", name, dead) }

// runningSteps returns a running repair of a target with these steps.
func runningSteps(t core.Target, changes ...func(*core.Repair)) core.Repair {
	return running(t, append([]func(*core.Repair){func(r *core.Repair) { r.Steps, r.Holder = twoSteps(), "check" }}, changes...)...)
}

func onStep(n int) func(*core.Repair) {
	return func(r *core.Repair) {
		for i := range n {
			r.Tried = append(r.Tried, core.StepRecord{Ended: ago(time.Duration(n-i) * time.Second), Outcome: core.Failed})
		}
	}
}

// request returns a request for a target by the first step.
func request(name string, t core.Target, changes ...func(*core.Request)) core.Request {
	r := core.Request{
		ID: core.ID{Kind: "Fix", Namespace: "fixers", Name: name, UID: name + "-uid"}, Remedy: "Ask", Template: quickBuckets,
		Target: t.ID, Policy: policy("workers", nil).ID, Created: ago(time.Minute), Own: true,
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

// acts returns the decision to take the next step of the first repairs.
func acts(n int) func(*core.Decision, *core.Cluster) {
	return func(d *core.Decision, cluster *core.Cluster) {
		for i := range n {
			cluster.Targets[i].NodeReadAt = noon
			d.StepStarts = append(d.StepStarts, core.StepStart{Repair: i, Target: i, Step: len(cluster.Repairs[i].Tried), Verdict: core.Verdict{Target: i}})
		}
	}
}

func TestStepIsTakenAsRecorded(t *testing.T) {
	cases := map[string]struct {
		reason  string
		records int
		spoil   func(*core.Policy)
		did     []string
	}{
		"the first":                      {"its limit, and a margin", 0, nil, []string{"hold a-node for check 6m0s", "begin a quick", "tell begun a"}},
		"the second, which has no limit": {"ten minutes", 1, nil, []string{"hold a-node for check 11m0s", "begin a slow", "tell begun a"}},
		"a hand-over":                    {"it is recorded", 2, nil, []string{"hold a-node for check 11m0s", "begin a", "amend a: handed over", "tell begun a"}},
		"another health check by now": {
			"the repair goes by its own ladder", 1, func(p *core.Policy) { p.Steps = []core.Step{{Remedy: "Delete"}} },
			[]string{"hold a-node for check 11m0s", "begin a slow", "tell begun a"},
		},
		"no leases": {"they are the policy's to hold", 0, func(p *core.Policy) { p.Holder = "" }, []string{"begin a quick", "tell begun a"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			c := newStepFixture(t, sick("a"))
			c.ledger.has(runningSteps(sick("a"), onStep(tc.records)))
			if tc.spoil != nil {
				tc.spoil(&c.nodes.observation.Policies[0])
			}
			did, _, err := c.runs(acts(1))
			if err != nil {
				t.Fatalf("the pass failed: %v", err)
			}
			c.wantDid(tc.reason, did, append([]string{"record workers"}, tc.did...)...)
			want := core.RemedyCall{
				Target: c.requester.remedyCalls[0].Target, Policy: policy("workers", nil).ID, Step: twoSteps()[tc.records], Repair: core.RepairName(sick("a").ID, 1),
			}
			if diff := cmp.Diff(want, c.requester.remedyCalls[0]); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRequestIsItsOwnBeforeItIsShown: a repair whose target recovers at once waits for its request,
// which no cache shows yet.
func TestRequestIsItsOwnBeforeItIsShown(t *testing.T) {
	c := newStepFixture(t, sick("a"))
	c.ledger.has(runningSteps(sick("a")))
	if did, _, err := c.runs(acts(1)); err != nil || !slices.Contains(did, "begin a quick") {
		t.Fatalf("it does %v, %v", did, err)
	}
	_, cluster, err := c.Observed()
	if err != nil || len(cluster.Requests) != 1 || !cluster.Requests[0].Own {
		t.Errorf("it sees the requests %+v, %v", cluster.Requests, err)
	}
}

// TestReadsOfOneTaskRunInBoundedParallel: after a slow call, one task reads all policies of the target again.
func TestReadsOfOneTaskRunInBoundedParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStepFixture(t, sick("n"))
		c.ledger.has(runningSteps(sick("n"), onStep(1)))
		for i := range 40 {
			c.nodes.observation.Policies = append(c.nodes.observation.Policies, policy(fmt.Sprintf("p-%d", i), []int{0}))
		}
		var reads, at, most atomic.Int32
		for _, p := range c.nodes.observation.Policies {
			c.wait["read policy "+p.ID.Name] = func(ctx context.Context) error {
				reads.Add(1)
				most.Store(max(most.Load(), at.Add(1)))
				defer at.Add(-1)
				return withGrace(ctx, time.Second)
			}
		}
		c.wait["hold n-node for check 11m0s"] = func(context.Context) error {
			c.now = c.now.Add(time.Minute)
			return nil
		}
		if _, _, err := c.runs(acts(1)); err != nil || reads.Load() != 2*41 || most.Load() != 32 {
			t.Errorf("there are %d reads, %d at a time, and the pass tells %v", reads.Load(), most.Load(), err)
		}
	})
}

// TestHandOverIsRemembered, with the time in the ledger.
func TestHandOverIsRemembered(t *testing.T) {
	c := newStepFixture(t, sick("a"))
	c.ledger.has(runningSteps(sick("a"), onStep(2)))
	if _, _, err := c.runs(acts(1)); err != nil {
		t.Fatalf("the pass failed: %v", err)
	}
	if got := c.ledger.of("a")[0].Begun; !got.Equal(noon) {
		t.Errorf("it was handed over at %s, want %s", got, noon)
	}
}

// TestHandOverIsReported, but not if another controller had marked the target: then Fettle did nothing.
func TestHandOverIsReported(t *testing.T) {
	for sentence, tc := range map[string]struct {
		marked bool
		did    []string
	}{
		"by Fettle":       {false, []string{"tell begun a"}},
		"by another hand": {true, nil},
	} {
		c := newStepFixture(t, sick("a"))
		c.nodes.observation.Targets[0].ExternallyRemediated = tc.marked
		c.ledger.has(runningSteps(sick("a"), onStep(2)))
		did, _, err := c.runs(acts(1))
		if err != nil {
			t.Fatalf("the pass failed: %v", err)
		}
		want := append([]string{"record workers", "hold a-node for check 11m0s", "begin a", "amend a: handed over"}, tc.did...)
		c.wantDid(sentence, did, want...)
	}
}

// TestOnlyTheFirstStepNeedsTheNodeAnew, unless a step deletes.
func TestOnlyTheFirstStepNeedsTheNodeAnew(t *testing.T) {
	last := func(p *core.Repair) { p.Steps = append(slices.Clip(twoSteps()[:1]), core.Step{Remedy: "Delete"}) }
	worker, master := sick("a"), sick("a")
	master.ControlPlane = true
	cases := map[string]struct {
		target core.Target
		change []func(*core.Repair)
		begins bool
	}{
		"the first step":                      {worker, nil, false},
		"a further step":                      {worker, []func(*core.Repair){onStep(1)}, true},
		"a further step of the control plane": {master, []func(*core.Repair){onStep(1)}, false},
		"a further hand-over":                 {worker, []func(*core.Repair){onStep(2)}, true},
		"a step that destroys":                {worker, []func(*core.Repair){last, onStep(1)}, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			c := newStepFixture(t, tc.target)
			c.ledger.has(runningSteps(tc.target, tc.change...))
			did, _, err := c.runs(func(d *core.Decision, cluster *core.Cluster) {
				acts(1)(d, cluster)
				cluster.Targets[0].NodeReadAt = ago(time.Minute)
			})
			if err != nil {
				t.Fatalf("the pass failed: %v", err)
			}
			if begun := slices.Contains(did, "tell begun a"); begun != tc.begins {
				t.Errorf("with its node read a minute ago it begins: %t; %v", begun, did)
			}
		})
	}
}

// TestFurtherStepNeedsTheNodeAnew if acquiring the lease took long, and the target may belong to
// the control plane or its owner replaces it. Other steps go on.
func TestFurtherStepNeedsTheNodeAnew(t *testing.T) {
	for name, c := range map[string]struct {
		target func(*core.Target)
		nature core.Nature
		begins bool
	}{
		"of the control plane":              {func(t *core.Target) { t.ControlPlane = true }, core.CreateRequest, false},
		"of the control plane by its label": {func(t *core.Target) { t.ControlPlaneByLabel = true }, core.CreateRequest, false},
		"its owner replaces it":             {func(*core.Target) {}, core.AskOwner, false},
		"the step creates a request":        {func(*core.Target) {}, core.CreateRequest, true},
	} {
		for _, took := range []time.Duration{4 * time.Second, 5 * time.Second} {
			of := sick("a")
			c.target(&of)
			s := newStepFixture(t, of)
			s.ledger.has(runningSteps(of, onStep(1), func(r *core.Repair) {
				r.Tried[0].Ended = ago(time.Minute)
				r.Steps[1].Nature = c.nature
			}))
			s.wait["hold a-node for check 11m0s"] = func(context.Context) error {
				s.now = s.now.Add(took)
				return nil
			}
			did, _, err := s.runs(func(d *core.Decision, cluster *core.Cluster) {
				acts(1)(d, cluster)
				// The last read of the health check is younger, and counts as long.
				read := ago(5 * time.Second)
				cluster.Targets[0].NodeReadAt, cluster.Targets[0].QuorumReadAt, cluster.Targets[0].QuorumSurvives = read, read, core.Yes
			})
			want := c.begins || took < 5*time.Second
			if begun := slices.Contains(did, "begin a slow"); begun != want || err != nil {
				t.Errorf("%s, with a lease that took %s it begins: %t; %v, %v", name, took, begun, did, err)
			}
			if emitted := slices.Contains(did, "amend a: attempts") && slices.Contains(did, "tell refused a"); emitted == want {
				t.Errorf("%s, with a lease that took %s the refusal is told: %t; %v", name, took, emitted, did)
			}
		}
	}
}

// TestStatusOfAPolicyThatIsNotSettledWaits: the steps of the policy are unknown yet, and its status
// would soon change.
func TestStatusOfAPolicyThatIsNotSettledWaits(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m"))
	p := &s.machines.observation.Policies[0]
	p.Steps = []core.Step{{Remedy: "Ask", Nature: core.CreateRequest, Pending: true}}
	did, _ := s.pass()
	s.wantDid("its template is not read yet", did)
	p.Steps = []core.Step{{Remedy: "Ask", Nature: core.CreateRequest}}
	did, _ = s.pass()
	s.wantDid("it is", did, "record workers")
}

// TestUnknownStep: a repair without readable steps can't go on, and blocks no other.
func TestUnknownStep(t *testing.T) {
	c := newStepFixture(t, sick("a"), sick("b"))
	c.ledger.has(runningSteps(sick("a"), func(r *core.Repair) { r.Steps = nil }), runningSteps(sick("b")))
	did, _, err := c.runs(func(d *core.Decision, cluster *core.Cluster) {
		slices.SortFunc(cluster.Repairs, func(a, b core.Repair) int { return strings.Compare(a.Name, b.Name) })
		acts(2)(d, cluster)
	})
	if err == nil || !strings.Contains(err.Error(), "no step left") || slices.Contains(did, "tell begun a") || !slices.Contains(did, "tell begun b") {
		t.Errorf("it did %v, and tells %v", did, err)
	}
}

// TestLeaseOfAnotherHolder makes a recorded repair wait, and blocks no other.
func TestLeaseOfAnotherHolder(t *testing.T) {
	c := newStepFixture(t, sick("a"), sick("b"))
	c.leases.taken["a-node"] = true
	did, next := c.pass()
	if slices.Contains(did, "begin a quick") || !slices.Contains(did, "open a") || !slices.Contains(did, "tell begun b") {
		t.Errorf("a is to be recorded and to wait, and b to begin: %v", did)
	}
	c.wantNext(next, noon.Add(time.Minute)) // a watch tells when the lease is given back; the request for b is not shown yet
	c.refuse["hold a-node for check 6m0s"] = errDown
	if _, _, err := c.tryPass(); err == nil || !strings.Contains(err.Error(), "lease of the node of Node machines/a") {
		t.Errorf("a lease that can't be taken gives %v", err)
	}
	wantAttempts(c.fixture, 0, time.Time{})
}

// TestRemedyThatIsBusy: a cache shows when the remedy is free.
func TestRemedyThatIsBusy(t *testing.T) {
	c := newStepFixture(t, sick("a"))
	c.answer["a"] = core.Busy
	did, next := c.pass()
	c.wantDid("nothing is told", did, "read a", "record workers", "open a", "hold a-node for check 6m0s", "begin a quick")
	c.wantNext(next, noon.Add(time.Minute)) // unless the cache shows the repair by then
	c.syncCaches()
	_, next = c.pass()
	c.wantNext(next, time.Time{})
}

// TestRequestThatIsNeverShown: a user deletes a request before any cache shows it, so no event
// follows. The next pass is due when the expectation expires.
func TestRequestThatIsNeverShown(t *testing.T) {
	c := newStepFixture(t, sick("a"))
	c.ledger.has(runningSteps(sick("a")))
	_, next := c.pass()
	c.wantNext(next, noon.Add(time.Minute))
}

// advances returns the decision to give up the step of the first repairs, each with the request at
// its index.
func advances(n int) func(*core.Decision, *core.Cluster) {
	return func(d *core.Decision, cluster *core.Cluster) {
		slices.SortFunc(cluster.Repairs, func(a, b core.Repair) int { return strings.Compare(a.Name, b.Name) })
		for i := range n {
			a := core.Escalation{Repair: i, Target: i, Request: -1, Outcome: core.TimedOut, Text: "too slow"}
			if i < len(cluster.Requests) {
				a.Request = i
			}
			d.Escalations = append(d.Escalations, a)
		}
	}
}

// TestStepIsGivenUp: the remediator is stopped before the record is written. A crash in between
// repeats the stop, and never loses it.
func TestStepIsGivenUp(t *testing.T) {
	c := newStepFixture(t, sick("a"))
	c.ledger.has(runningSteps(sick("a"), func(r *core.Repair) { r.Begun = ago(time.Minute) }))
	c.factSource.requests = []core.Request{request("fix-a", sick("a"))}
	c.refuse["amend a: not handed over, TimedOut"] = errDown
	did, next, err := c.runs(advances(1))
	if err == nil || !next.IsZero() {
		t.Errorf("a record that fails gives %v and the next pass at %s", err, next)
	}
	c.wantDid("nothing is told that isn't recorded", did, "record workers", "stop fix-a", "amend a: not handed over, TimedOut")

	c.takeOver()
	c.refuse = map[string]error{}
	did, next, err = c.runs(advances(1))
	if err != nil {
		t.Fatalf("the pass failed: %v", err)
	}
	c.wantDid("the same again is harmless", did, "record workers", "stop fix-a", "amend a: not handed over, TimedOut", "tell escalated a")
	c.wantNext(next, noon) // the next step is due
	if diff := cmp.Diff([]core.StepRecord{{Ended: noon, Outcome: core.TimedOut, Text: "too slow"}}, c.ledger.of("a")[0].Tried); diff != "" {
		t.Errorf("records of steps (-want +got):\n%s", diff)
	}
}

// TestStepThatIsGivenUpSaysWhatFollows: the next step, or that there is none.
func TestStepThatIsGivenUpSaysWhatFollows(t *testing.T) {
	for want, given := range map[string]int{"too slow; step 2 of 3 is next": 0, "too slow; no step is left, so repair it by hand": 2} {
		c := newStepFixture(t, sick("a"))
		c.ledger.has(runningSteps(sick("a"), onStep(given)))
		if _, _, err := c.runs(advances(1)); err != nil {
			t.Fatalf("the pass failed: %v", err)
		}
		emitted := c.nodes.events
		if len(emitted) != 1 || emitted[0].Kind != core.EventEscalated || emitted[0].Text != want {
			t.Errorf("it tells %+v, want %q", emitted, want)
		}
	}
}

// TestOnlyRunningRemediatorsAreStopped: a remediator that has succeeded, or that has no request, isn't
// stopped.
func TestOnlyRunningRemediatorsAreStopped(t *testing.T) {
	for sentence, requests := range map[string][]core.Request{
		"there is no request": nil, "it has succeeded": {request("fix-a", sick("a"), func(r *core.Request) { r.Succeeded = core.Yes })},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := newStepFixture(t, sick("a"))
			c.ledger.has(runningSteps(sick("a")))
			c.factSource.requests = requests
			did, _, err := c.runs(advances(1))
			if err != nil {
				t.Fatalf("the pass failed: %v", err)
			}
			c.wantDid(sentence, did, "record workers", "amend a: TimedOut", "tell escalated a")
		})
	}
}

// TestOneFailureBlocksNoOtherTarget, for any kind of call of running repairs.
func TestOneFailureBlocksNoOtherTarget(t *testing.T) {
	script := func(d *core.Decision, cluster *core.Cluster) {
		advances(2)(d, cluster)
		for i := range 2 {
			d.Withdrawals = append(d.Withdrawals, core.Withdrawal{Request: i, Text: "healthy"})
			d.LeaseHolds = append(d.LeaseHolds, core.LeaseHold{Target: i, Holder: "check", For: time.Minute})
			d.LeaseReleases = append(d.LeaseReleases, core.NodeLease{Node: cluster.Targets[i].ID.Name + "-left", Holder: "check"})
			d.Finishes = append(d.Finishes, core.Finish{Repair: 2 + i, Outcome: core.Succeeded})
		}
	}
	calls := []string{
		"stop fix-%", "amend %: TimedOut", "withdraw fix-%", "hold %-node for check 1m0s", "release %-left of check", "amend z%: Succeeded", "release z%-node of check", "unvouch z%",
	}
	for _, call := range calls {
		t.Run(call, func(t *testing.T) {
			a, b, za, zb := sick("a"), sick("b"), sick("za"), sick("zb")
			za.ConfirmedHealthy, zb.ConfirmedHealthy = true, true
			c := newStepFixture(t, a, b, za, zb)
			c.ledger.has(runningSteps(a), runningSteps(b), runningSteps(za), runningSteps(zb))
			c.factSource.requests = []core.Request{request("fix-a", a), request("fix-b", b)}
			c.refuse[strings.ReplaceAll(call, "%", "a")] = errDown
			did, _, err := c.runs(script)
			if (err == nil) != strings.HasPrefix(call, "release z") { // which is told, and no reason to look again
				t.Errorf("the pass gives %v", err)
			}
			for _, other := range calls {
				if line := strings.ReplaceAll(other, "%", "b"); !slices.Contains(did, line) {
					t.Errorf("%q is missing: %v", line, did)
				}
			}
		})
	}
}

// TestI12WithdrawalsDontWaitForCreations that hang, nor for statuses that can't be written.
func TestI12WithdrawalsDontWaitForCreations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well := target("Node", "well")
		c := newStepFixture(t, sick("a"), well)
		c.ledger.has(runningSteps(sick("a")))
		c.factSource.requests = []core.Request{request("fix-well", well)}
		c.refuse["record workers"] = nil
		start := clock()
		var withdrawn time.Duration
		c.wait["begin a quick"] = func(ctx context.Context) error { return withGrace(ctx, 24*time.Hour) }
		c.wait["withdraw fix-well"] = func(context.Context) error {
			withdrawn = clock().Sub(start)
			return nil
		}
		did, _, err := c.runs(func(d *core.Decision, cluster *core.Cluster) {
			acts(1)(d, cluster)
			d.Withdrawals = []core.Withdrawal{{Request: 0, Target: 1, Text: "healthy"}}
		})
		if err != nil || withdrawn != 0 || !slices.Contains(did, "tell relieved well") || !slices.Contains(did, "begin a quick") {
			t.Errorf("it was withdrawn after %s: %v, %v", withdrawn, did, err)
		}
	})
}

// TestI12WithdrawalGoesOn while the policy is paused or gone, or its status can't be written.
func TestI12WithdrawalGoesOn(t *testing.T) {
	cases := map[string]struct {
		spoil   func(*stepFixture)
		policy  int
		emitted bool
	}{
		"paused":                {func(c *stepFixture) { c.nodes.observation.Policies[0].Paused = true }, 0, true},
		"a status not written":  {func(c *stepFixture) { c.refuse["record workers"] = errDown }, 0, true},
		"a policy that is gone": {func(c *stepFixture) { c.nodes.observation.Policies = nil }, -1, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			c := newStepFixture(t, target("Node", "a"))
			c.factSource.requests = []core.Request{request("fix-a", sick("a"))}
			tc.spoil(c)
			did, _, _ := c.runs(func(d *core.Decision, _ *core.Cluster) {
				d.Withdrawals = []core.Withdrawal{{Request: 0, Policy: tc.policy, Target: -1, Text: "healthy"}}
			})
			if !slices.Contains(did, "withdraw fix-a") || slices.Contains(did, "tell relieved a") != tc.emitted {
				t.Errorf("it did %v", did)
			}
		})
	}
}

// TestReplacementIsReportedOnce for a target, however many of its steps had a request. A recorder would
// write equal events twice.
func TestReplacementIsReportedOnce(t *testing.T) {
	c := newStepFixture(t, target("Node", "a"), target("Node", "b"))
	c.factSource.requests = []core.Request{request("fix-a", sick("a")), request("fix-a-again", sick("a")), request("fix-b", sick("b"))}
	did, _, err := c.runs(func(d *core.Decision, _ *core.Cluster) {
		for i, target := range []int{0, 0, 1} {
			d.Withdrawals = append(d.Withdrawals, core.Withdrawal{Request: i, Target: target, Text: "healthy"})
		}
	})
	if err != nil {
		t.Fatalf("the pass failed: %v", err)
	}
	slices.Sort(did) // requests are withdrawn beside each other
	c.wantDid("a has two", did, "record workers", "tell relieved a", "tell relieved b", "withdraw fix-a", "withdraw fix-a-again", "withdraw fix-b")
}

// TestRequestOfAnUnknownRemedy can't be withdrawn, and an event says so.
func TestRequestOfAnUnknownRemedy(t *testing.T) {
	for _, remedy := range []string{"Bless", "Delete"} {
		c := newStepFixture(t, sick("a"))
		c.factSource.requests = []core.Request{request("fix-a", sick("a"), func(r *core.Request) { r.Remedy = remedy })}
		did, _, err := c.runs(func(d *core.Decision, _ *core.Cluster) { d.Withdrawals = []core.Withdrawal{{}} })
		if err == nil || !strings.Contains(err.Error(), remedy) || slices.Contains(did, "tell relieved a") {
			t.Errorf("it did %v, and tells %v", did, err)
		}
	}
}

// TestRecoveryIsNoted before any other call for the repair, and cleared after a relapse.
func TestRecoveryIsNoted(t *testing.T) {
	c := newStepFixture(t, sick("a"))
	c.ledger.has(runningSteps(sick("a")))
	note := func(at time.Time) func(*core.Decision, *core.Cluster) {
		return func(d *core.Decision, cluster *core.Cluster) {
			acts(1)(d, cluster)
			d.Notes = []core.Note{{Repair: 0, Recovered: at}}
		}
	}
	did, next, err := c.runs(note(noon))
	c.wantDid("the step has its turn in the next pass", did, "record workers", "amend a: recovered")
	c.wantNext(next, noon)
	c.syncCaches()
	again, _, errAgain := c.runs(func(d *core.Decision, cluster *core.Cluster) {
		advances(1)(d, cluster)
		d.Notes = []core.Note{{Repair: 0}}
	})
	if err != nil || errAgain != nil {
		t.Errorf("the passes gave %v, %v", err, errAgain)
	}
	c.wantDid("both are written at once, since a record is written in full", again, "record workers", "amend a: relapsed, TimedOut", "tell escalated a")
}

func TestEndGivesBackWhatWasHeld(t *testing.T) {
	ends := func(d *core.Decision, cluster *core.Cluster) {
		for i := range cluster.Repairs {
			if cluster.Repairs[i].Running() {
				d.Finishes = append(d.Finishes, core.Finish{Repair: i, Outcome: core.Succeeded, Text: "healthy"})
			}
		}
	}
	confirmed := target("Node", "a", func(t *core.Target) { t.ConfirmedHealthy = true })
	gone := target("Node", "gone")
	namesake := target("Node", "other", func(t *core.Target) { t.ID.UID = confirmed.ID.UID })
	cases := map[string]struct {
		reason string
		target core.Target
		of     core.Target
		change func(*core.Repair)
		did    []string
	}{
		"its lease":                   {"", target("Node", "a"), target("Node", "a"), nil, []string{"release a-node of check"}},
		"a person's word":             {"once nothing waits for it", confirmed, confirmed, nil, []string{"release a-node of check", "unvouch a"}},
		"the lease of a deleted node": {"the ledger knows its node", confirmed, gone, nil, []string{"release gone-node of check"}},
		"none it never held":          {"", confirmed, confirmed, func(r *core.Repair) { r.Holder = "" }, []string{"unvouch a"}},
		"one of another target":       {"the UID of a was written into it", confirmed, namesake, nil, []string{"release other-node of check"}},
		"that of a policy gone":       {"the ledger knows its holder", target("Node", "a"), target("Node", "a"), func(r *core.Repair) { r.Policy.UID = "other" }, []string{"release a-node of check"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			c := newStepFixture(t, tc.target)
			r := runningSteps(tc.of)
			if tc.change != nil {
				tc.change(&r)
			}
			c.ledger.has(r)
			did, _, err := c.runs(ends)
			if err != nil {
				t.Fatalf("the pass failed: %v", err)
			}
			c.wantDid(tc.reason, did, append([]string{"record workers", "amend " + tc.of.ID.Name + ": Succeeded"}, tc.did...)...)
		})
	}
}

// TestEndLeavesTheLeaseOfANamesake: the repair of a deleted node doesn't release the lease that the
// repair of the next node of that name holds.
func TestEndLeavesTheLeaseOfANamesake(t *testing.T) {
	again := target("Node", "a", dead, func(t *core.Target) { t.ID.UID = "later" })
	for sentence, tc := range map[string]struct {
		repairs []core.Repair
		did     []string
	}{
		"under repair":     {[]core.Repair{runningSteps(target("Node", "a")), runningSteps(again, func(r *core.Repair) { r.Name += "-again" })}, nil},
		"not under repair": {[]core.Repair{runningSteps(target("Node", "a"))}, []string{"release a-node of check"}},
	} {
		c := newStepFixture(t, again)
		c.ledger.has(tc.repairs...)
		did, _, err := c.runs(func(d *core.Decision, cluster *core.Cluster) {
			for i := range cluster.Repairs {
				if cluster.Repairs[i].Target.UID != "later" {
					d.Finishes = []core.Finish{{Repair: i, Outcome: core.Succeeded, Text: "replaced"}}
				}
			}
		})
		if err != nil {
			t.Fatalf("%s: the pass failed: %v", sentence, err)
		}
		c.wantDid(sentence, did, append([]string{"record workers", "amend a: Succeeded"}, tc.did...)...)
		if released := len(tc.did) > 0; released == c.leases.renewedBy.IsZero() {
			t.Errorf("%s: a lease that was renewed after %s is released", sentence, c.leases.renewedBy)
		}
	}
}

// TestHandsOffGivesNothingBack: another controller that follows the same health check may hold the
// lease under the same name.
func TestHandsOffGivesNothingBack(t *testing.T) {
	confirmed := target("Node", "a", func(t *core.Target) { t.ConfirmedHealthy = true })
	c := newStepFixture(t, confirmed)
	c.ledger.has(runningSteps(confirmed))
	did, _, err := c.runs(func(d *core.Decision, _ *core.Cluster) {
		d.Finishes = []core.Finish{{Outcome: core.Withdrawn, Text: "it rehearses", RecordOnly: true}}
	})
	if err != nil {
		t.Fatalf("the pass failed: %v", err)
	}
	c.wantDid("the record alone ends", did, "record workers", "amend a: Withdrawn")
}

// TestWordThatIsNotTakenBackIsTriedAgain: a confirmation that stays would end the next repair too
// early.
func TestWordThatIsNotTakenBackIsTriedAgain(t *testing.T) {
	c := newStepFixture(t, target("Node", "a", func(t *core.Target) { t.ConfirmedHealthy = true }))
	c.ledger.has(runningSteps(target("Node", "a")))
	c.refuse["unvouch a"] = errDown
	nothing := func(*core.Decision, *core.Cluster) {}
	did, _, err := c.runs(func(d *core.Decision, _ *core.Cluster) { d.Finishes = []core.Finish{{Outcome: core.Succeeded}} })
	if err == nil || !slices.Contains(did, "amend a: Succeeded") {
		t.Errorf("it did %v and tells %v", did, err)
	}
	for range 2 {
		did, _, err = c.runs(nothing)
		if err == nil {
			t.Error("the pass did not fail")
		}
		c.wantDid("it is tried again, and nothing else", did, "record workers", "unvouch a")
	}
	c.refuse = map[string]error{}
	did, _, _ = c.runs(nothing)
	c.wantDid("it is taken back", did, "record workers", "unvouch a")
	did, _, _ = c.runs(nothing)
	c.wantDid("once", did, "record workers")
}

// TestConfirmationIsClearedWithTheLastRequest, also if no repair has that request. A running repair removes
// the confirmation at its end.
func TestConfirmationIsClearedWithTheLastRequest(t *testing.T) {
	confirmed := target("Node", "a", func(t *core.Target) { t.ConfirmedHealthy = true })
	for sentence, tc := range map[string]struct {
		target  core.Target
		repairs []core.Repair
		settled bool
		refuse  string
		used    bool
	}{
		"both are taken back":         {confirmed, nil, true, "", true},
		"one still stands":            {confirmed, nil, true, "withdraw fix-a", false},
		"there is no confirmation":    {target("Node", "a"), nil, true, "", false},
		"the target is not healthy":   {confirmed, nil, false, "", false},
		"a repair of it runs":         {confirmed, []core.Repair{runningSteps(confirmed)}, true, "", false},
		"a repair of it has ended":    {confirmed, []core.Repair{runningSteps(confirmed, endedAt(ago(time.Minute)))}, true, "", true},
		"that is refused once":        {confirmed, nil, true, "unvouch a", true},
		"a repair of another is on":   {confirmed, []core.Repair{runningSteps(sick("b"))}, true, "", true},
		"the other one still is here": {confirmed, nil, true, "withdraw fix-a-slowly", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := newStepFixture(t, tc.target)
			c.ledger.has(tc.repairs...)
			c.factSource.requests = []core.Request{request("fix-a", confirmed), request("fix-a-slowly", confirmed)}
			c.refuse[tc.refuse] = errDown
			did, _, err := c.runs(func(d *core.Decision, _ *core.Cluster) {
				for i := range 2 {
					d.Withdrawals = append(d.Withdrawals, core.Withdrawal{Request: i, TargetHealthy: tc.settled, Text: "healthy"})
				}
			})
			cleared := slices.DeleteFunc(did, func(line string) bool { return line != "unvouch a" })
			if (err != nil) != (tc.refuse != "") || (len(cleared) == 1) != tc.used || len(cleared) > 1 {
				t.Errorf("it did %v, and tells %v", cleared, err)
			}
			did, _, _ = c.runs(func(*core.Decision, *core.Cluster) {})
			if again := slices.Contains(did, "unvouch a"); again != (tc.refuse == "unvouch a") {
				t.Errorf("it is taken back again: %t", again)
			}
		})
	}
}

// TestLostLeaseIsReportedOnce, and again if it is lost again.
func TestLostLeaseIsReportedOnce(t *testing.T) {
	c := newStepFixture(t, sick("a"), sick("b"))
	var emitted []string
	c.Engine.Log = lines(&emitted)
	holds := func(d *core.Decision, _ *core.Cluster) {
		d.LeaseHolds = []core.LeaseHold{{Target: 0, Holder: "check", For: time.Minute}, {Target: 1, Holder: "check", For: time.Minute}}
	}
	for i, taken := range []bool{true, true, false, true} {
		c.leases.taken["a-node"] = taken
		if did, _, err := c.runs(holds); err != nil || len(did) != 3 {
			t.Errorf("pass %d did %v and tells %v", i, did, err)
		}
	}
	n := 0
	for _, line := range emitted {
		if strings.Contains(line, "taken the lease") {
			n++
		}
	}
	if n != 2 {
		t.Errorf("a lease that was lost twice is told %d times: %v", n, emitted)
	}
	c.NodeLeases = nil
	did, _, err := c.runs(holds)
	c.wantDid("there are no leases to hold", did, "record workers")
	if err != nil {
		t.Errorf("the pass tells %v", err)
	}
}

// TestEntryThatIsGoneUnseen: a user deletes a repair before any cache shows it. The expectation
// expires, however often the engine reads.
func TestEntryThatIsGoneUnseen(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead))
	s.machines.observation.Policies[0].MaxInFlight = core.Count(1)
	s.refuse["read running"] = errDown
	if _, _, err := s.tryPass(); err == nil || len(s.ledger.stored) != 1 {
		t.Fatalf("the pass gives %v, with %d recorded", err, len(s.ledger.stored))
	}
	delete(s.refuse, "read running")
	clear(s.ledger.stored)
	for range 61 {
		s.now = s.now.Add(time.Second)
		if did, _ := s.pass(); slices.Contains(did, "begin a") {
			return
		}
	}
	t.Error("a minute later the pass still waits for the deleted repair")
}
