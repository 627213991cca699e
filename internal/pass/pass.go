package pass

import (
	"maps"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// Config is what a pass knows about its caller. It is the same for all passes over a cluster.
type Config struct {
	Dialects []Dialect
	// Remedies has the remedies by name, and whether their requests can be withdrawn.
	Remedies map[string]bool
	// Leases, Quorum and Siblings are set where the caller can hold leases, read the quorum and look up siblings.
	Leases, Quorum, Siblings bool
	// Samples is set where durations are measured.
	Samples bool
	// Retention bounds how long finished repairs are kept.
	Retention core.Retention
	// Decide is core.Decide, or a stand-in for it.
	Decide func(policies []core.Policy, cluster core.Cluster, now time.Time) core.Decision
}

// Dialect describes one API by which administrators write health checks.
type Dialect struct {
	// ReportsBlocked is set where it can report why nothing is known, WritesConditions where it writes judgements on
	// targets, and WithdrawsConfirmations where it removes confirmations.
	ReportsBlocked, WritesConditions, WithdrawsConfirmations bool
}

// State is what one pass leaves to the next. Its zero value is the state of a process that has just started. Two passes
// must not use it at the same time.
type State struct {
	Expectations core.Expectations

	deduplicator core.Deduplicator
	aggregator   core.Aggregator
	latencies    core.LatencyRecorder
	// lostLeases has the leases that other holders have taken from running repairs, so that each is reported once.
	lostLeases map[leaseKey]bool
	// usedConfirmations has the targets whose confirmation is to be removed, since it is not needed any more.
	usedConfirmations []core.ID
	// unanswered has the targets with a repair whose creation got no answer, and until when that repair may turn up.
	unanswered map[core.ID]time.Time
	// unjudged has the policies whose status says that they are not judged, with the number of targets that it says
	// they select.
	unjudged map[core.ID]int
}

// Clone returns an equal State that shares nothing that changes.
func (s *State) Clone() *State {
	return &State{
		Expectations: s.Expectations.Clone(), deduplicator: s.deduplicator.Clone(), aggregator: s.aggregator.Clone(), latencies: s.latencies.Clone(),
		unanswered: maps.Clone(s.unanswered), lostLeases: maps.Clone(s.lostLeases), usedConfirmations: slices.Clone(s.usedConfirmations), unjudged: maps.Clone(s.unjudged),
	}
}

// unansweredFor is how long a repair may take to appear in the cache whose creation had no answer.
const unansweredFor = time.Minute

// repeatAfter is how soon a pass is repeated after it could not decide: a target has changed, or another writer has
// recorded a repair.
const repeatAfter = time.Second

// Pass is one pass. Its methods must not be called concurrently.
type Pass struct {
	config Config
	state  *State
	stages [lastStage + 1]stage

	// now is the instant of the decision.
	now      time.Time
	policies []core.Policy
	cluster  core.Cluster
	decision core.Decision
	// policyDialect, targetDialect and unknown are as in the snapshot.
	policyDialect map[core.ID]int
	targetDialect []int
	unknown       []int

	progress [lastStage + 1]progress
	// clock is the last reading of the clocks.
	clock   ClockReading
	calls   []Call
	pending map[int]Call
	lastID  int
	events  []Event
	// failures are the errors of each stage that had some.
	failures [][]error

	reading    liveReading
	status     statusWriting
	starts     []pendingStart
	starting   starting
	running    runningRepairs
	conditions conditionWriting
	ahead      readAhead
	ends       []ending
	// awaited has the targets whose confirmation is withdrawn once a cache shows the end of their repair.
	awaited  []core.ID
	deleting deleting
}

// New begins a pass. It owns the slices of the snapshot from then on, and the state until the pass is over.
func New(c Config, state *State, s Snapshot) *Pass {
	p := &Pass{
		config: c, state: state, stages: stages, now: s.Clock.Now, clock: s.Clock, policies: s.Policies, cluster: s.Cluster,
		policyDialect: s.PolicyDialect, targetDialect: s.TargetDialect, unknown: s.Unknown, pending: map[int]Call{},
	}
	if p.cluster.Observed != core.Yes {
		state.Expectations.OverlayTests(nil, &p.cluster, p.now)
		for s := ReportingBlocked + 1; s <= lastStage; s++ {
			p.progress[s].over = true
		}
		p.advance()
		return p
	}
	maps.DeleteFunc(state.unanswered, func(_ core.ID, until time.Time) bool { return !until.After(p.now) })
	state.Expectations.Overlay(&p.cluster, p.now)
	// Expectations may be of a kind that no dialect observes, so such repairs and requests are left out.
	p.cluster.Repairs = slices.DeleteFunc(p.cluster.Repairs, func(r core.Repair) bool { return !s.Kinds[r.Target.Kind] })
	p.cluster.Requests = slices.DeleteFunc(p.cluster.Requests, func(r core.Request) bool { return !s.Kinds[r.Target.Kind] })
	state.Expectations.OverlayPolicies(p.policies)
	state.Expectations.OverlayTests(p.policies, &p.cluster, p.now)
	p.decision = c.Decide(p.policies, p.cluster, p.now)
	p.advance()
	return p
}

// Calls returns the calls that may be made now and that it has not returned before.
func (p *Pass) Calls() []Call {
	calls := p.calls
	p.calls = nil
	return calls
}

// offer adds calls of a task to the calls to make.
func (p *Pass) offer(s Stage, i int, calls []Call) {
	t := &p.progress[s].tasks[i]
	for place := range calls {
		c := &calls[place]
		p.lastID++
		c.ID, c.Stage, c.Task, c.First, c.place = p.lastID, s, i, !t.begun, place
		p.pending[c.ID] = *c
		p.calls = append(p.calls, *c)
	}
	t.begun = t.begun || len(calls) > 0
}

// Done takes in the result of a call. It ignores a call that has its result already, or that belongs to another pass.
func (p *Pass) Done(c Call, r Result) {
	call, waits := p.pending[c.ID]
	if !waits {
		return
	}
	delete(p.pending, c.ID)
	p.clock = r.Clock
	t := &p.progress[call.Stage].tasks[call.Task]
	t.clock = r.Clock
	t.waiting--
	if take := p.stages[call.Stage].steps[t.step-1].take; take != nil {
		take(p, t, &call, &r)
	}
	p.proceed(call.Stage, call.Task)
	p.advance()
}

// Over reports whether the pass has come to its end.
func (p *Pass) Over() bool { return p.progress[ReportingBlocked].over && p.progress[lastStage].over }

// Deciding reports whether the live reads are not over yet. Until then a pass over an observed cluster writes nothing.
func (p *Pass) Deciding() bool { return !p.progress[ReadingLive].over }

// Policies returns the policies that the pass decides on, and Cluster what it knows of the cluster.
func (p *Pass) Policies() []core.Policy { return p.policies }

// Cluster returns the facts that the pass decides on.
func (p *Pass) Cluster() *core.Cluster { return &p.cluster }

// Decision returns what the pass has decided last.
func (p *Pass) Decision() *core.Decision { return &p.decision }

// Failures returns the errors so far, those of one stage together.
func (p *Pass) Failures() [][]error { return p.failures }

// Next returns when the next pass is due without any event, once this one is over; zero for never. After a failure the
// caller repeats the pass in any case.
func (p *Pass) Next() time.Time {
	if p.cluster.Observed != core.Yes {
		return time.Time{}
	}
	next := earliest(earliest(p.wakeUp(), p.deleting.next), earliest(p.state.aggregator.NextAt(), p.state.Expectations.ExpectedUntil()))
	for _, until := range p.state.unanswered { // no event tells of a repair that turns up
		next = earliest(next, until)
	}
	if p.running.changed { // the next step is due
		next = p.now
	}
	// Repairs that have ended made room that this decision could not count on.
	freedPlace := len(p.decision.Finishes) > 0 && !p.failed(EndingRepairs)
	repeat := p.starting.repeat || p.status.more || p.conditions.more || p.running.conflict
	if repeat || freedPlace || p.reading.undecided {
		next = earliest(next, p.now.Add(repeatAfter))
	}
	return next
}

// later returns the instant of the pass at which the clock shows now. It is measured by the monotonic clock, so a clock
// that is set during the pass ends nothing early.
func (p *Pass) later(now time.Time) time.Time { return p.now.Add(now.Sub(p.now)) }

// answeredAt returns the instant of the last answer. The caches may lack the writes of the pass for some time from then
// on, however long ago they were decided.
func (p *Pass) answeredAt() time.Time { return p.later(p.clock.Now) }

// ageAt returns how long before an instant the caches were read.
func (p *Pass) ageAt(now time.Time) time.Duration { return p.cluster.Age + now.Sub(p.now) }

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
