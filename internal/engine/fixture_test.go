package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/engine"
)

var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

var errDown = errors.New("the API server is down")

// fixture is an engine with fake ports. It has the state of the API server and of the caches, and
// records every call.
type fixture struct {
	*testing.T
	*engine.Engine

	mu    sync.Mutex
	now   time.Time
	clock fakeClock
	calls []string
	// refuse has the errors of calls, by their line in the record. The functions in wait run during
	// the calls.
	refuse map[string]error
	wait   map[string]func(context.Context) error
	// answer has the results of the remedy, by the name of the target. The default is accepted.
	answer map[string]core.RemedyResult

	machines *dialect
	fakes    []*dialect
	dialects []engine.Dialect
	ledger   *ledger
	remedies map[string]engine.Remedy
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{
		T: t, now: noon, clock: fakeClock{agrees: core.Yes}, refuse: map[string]error{}, wait: map[string]func(context.Context) error{}, answer: map[string]core.RemedyResult{},
	}
	s.ledger = &ledger{fixture: s, stored: map[string]core.Repair{}, inStep: core.Yes}
	s.remedies = map[string]engine.Remedy{"Delete": remedy{s}}
	s.machines = s.dialect("Machine")
	s.restart()
	return s
}

// dialect adds a dialect with targets of a kind.
func (s *fixture) dialect(kind string) *dialect {
	d := &dialect{fixture: s, observation: core.Observation{Kind: kind, Observed: core.Yes}, live: map[string]core.Node{}, fingerprints: map[string]string{}}
	s.fakes, s.dialects = append(s.fakes, d), append(s.dialects, d)
	return d
}

// fakeClock says whether the clocks agree, and how far Fettle's clock is ahead.
type fakeClock struct {
	agrees core.Tri
	ahead  time.Duration
}

func (a *fakeClock) Agrees() core.Tri { return a.agrees }

func (a *fakeClock) Corrected(now time.Time) time.Time { return now.Round(0).Add(-a.ahead) }

// restart replaces the engine by one without expectations, as a new process.
func (s *fixture) restart() {
	s.Engine = engine.New(engine.Config{
		Dialects: s.dialects, Ledger: s.ledger, LiveRepairs: s.ledger, RepairDeleter: s.ledger, Remedies: s.remedies,
		Retention: core.Retention{For: 24 * time.Hour, Max: 1000}, Now: func() time.Time { return s.now }, Clock: &s.clock, Log: logr.Discard(),
	})
}

// record records a call and returns its error. Every call must have a time limit.
func (s *fixture) record(ctx context.Context, line string) error {
	s.mu.Lock()
	s.calls = append(s.calls, line)
	refuse, wait := s.refuse[line], s.wait[line]
	s.mu.Unlock()
	if _, limited := ctx.Deadline(); !limited {
		s.Errorf("%s may take for ever", line)
	}
	if wait != nil {
		return wait(ctx)
	}
	return refuse
}

// pass runs one pass. It returns the calls since the last pass, and when the next one is due.
func (s *fixture) pass() (did []string, next time.Time) {
	s.Helper()
	did, next, err := s.tryPass()
	if err != nil {
		s.Fatalf("the pass failed: %v", err)
	}
	return did, next
}

func (s *fixture) tryPass() (did []string, next time.Time, err error) {
	s.Helper()
	next, err = s.Pass(s.Context())
	did, s.calls = s.calls, nil
	return did, next, err
}

// syncCaches updates the caches to the state of the API server.
func (s *fixture) syncCaches() {
	s.ledger.cached = s.ledger.cached[:0]
	for _, r := range s.ledger.stored {
		r.CreatedSameSecond = nil
		s.ledger.cached = append(s.ledger.cached, r)
	}
	for _, d := range s.fakes {
		for i := range d.observation.Targets {
			t := &d.observation.Targets[i]
			t.Deleting = t.Deleting || slices.Contains(d.deleted, t.ID.Name)
		}
	}
}

// dialect returns a fixed observation and records writes.
type dialect struct {
	fixture     *fixture
	observation core.Observation
	err         error
	// live has the nodes of the API server, by name. Other nodes are as observed.
	live    map[string]core.Node
	deleted []string
	// fingerprints has those of the API server, by the policy's name. Others are as observed.
	fingerprints map[string]string
	// onObserve and onAnnounce run before the respective call.
	onObserve, onAnnounce func()
	// events has all emitted events.
	events []core.Event
}

func (d *dialect) Observe() (core.Observation, error) {
	if d.onObserve != nil {
		d.onObserve()
	}
	o := d.observation
	o.Targets = slices.Clone(o.Targets)
	return o, d.err
}

func (d *dialect) ReadNode(ctx context.Context, t core.Target) (core.Node, error) {
	if err := d.fixture.record(ctx, "read "+t.ID.Name); err != nil {
		return core.Node{}, err
	}
	if n, known := d.live[t.Node.Name]; known {
		return n, nil
	}
	return t.Node, nil
}

// ReadPolicy records only calls that fail or wait, to keep the expected calls of tests short.
func (d *dialect) ReadPolicy(ctx context.Context, id core.ID) (string, error) {
	line := "read policy " + id.Name
	d.fixture.mu.Lock()
	_, refused := d.fixture.refuse[line]
	_, awaited := d.fixture.wait[line]
	d.fixture.mu.Unlock()
	if refused || awaited {
		if err := d.fixture.record(ctx, line); err != nil {
			return "", err
		}
	}
	if fingerprint, changed := d.fingerprints[id.Name]; changed {
		return fingerprint, nil
	}
	return "as it was", nil
}

// WriteStatuses updates the policies as their statuses would after a restart.
func (d *dialect) WriteStatuses(ctx context.Context, reports []core.PolicyReport) map[core.ID]error {
	failed := map[core.ID]error{}
	for _, r := range reports {
		if r.Deferred {
			continue
		}
		if err := d.fixture.record(ctx, "record "+r.Policy.ID.Name); err != nil {
			failed[r.Policy.ID] = err
			continue
		}
		for i := range d.observation.Policies {
			if p := &d.observation.Policies[i]; p.ID == r.Policy.ID {
				p.WasStopped = !r.Tally.Permitted || r.Tally.CoolingDown
			}
		}
	}
	return failed
}

func (d *dialect) EmitEvents(events []core.Event) {
	if d.onAnnounce != nil {
		d.onAnnounce()
	}
	d.events = append(d.events, events...)
	for _, h := range events {
		d.fixture.mu.Lock()
		d.fixture.calls = append(d.fixture.calls, strings.TrimSpace("tell "+h.Kind.String()+" "+h.Target.Name))
		d.fixture.mu.Unlock()
	}
}

// ledger is an API server with repairs, and a cache.
type ledger struct {
	fixture *fixture
	stored  map[string]core.Repair
	cached  []core.Repair
	inStep  core.Tri
	// created counts the repairs ever created.
	created uint64
}

func (l *ledger) Repairs() ([]core.Repair, core.Tri) { return slices.Clone(l.cached), l.inStep }

func (l *ledger) Create(ctx context.Context, e core.NewRepair) (core.Repair, bool, error) {
	if err := l.fixture.record(ctx, "open "+e.Target.ID.Name); err != nil {
		return core.Repair{}, false, err
	}
	l.fixture.mu.Lock()
	defer l.fixture.mu.Unlock()
	if _, exists := l.stored[e.Name]; exists {
		return core.Repair{}, false, nil
	}
	r := core.Repair{
		Namespace: e.Target.ID.Namespace, Name: e.Name, Target: e.Target.ID, Policy: e.Policy.ID, Owner: e.Target.Owner,
		Node: e.Target.Node.Name, Steps: e.Steps, Retry: e.Retry, Started: e.Started, Requested: e.Requested,
	}
	l.created++
	r.Sequence, r.Revision = l.created, 1
	l.stored[e.Name] = r
	return r, true, nil
}

func (l *ledger) Update(ctx context.Context, r core.Repair, _ string, _ error) (core.Repair, bool, error) {
	l.fixture.mu.Lock()
	line := "amend " + r.Target.Name + ": " + changed(l.stored[r.Name], r)
	l.fixture.mu.Unlock()
	if err := l.fixture.record(ctx, line); err != nil {
		return core.Repair{}, false, err
	}
	l.fixture.mu.Lock()
	defer l.fixture.mu.Unlock()
	stored, exists := l.stored[r.Name]
	switch {
	case !exists:
		return r, true, ctx.Err()
	case stored.Revision != r.Revision:
		return core.Repair{}, false, nil
	}
	r.Revision++
	kept := r
	kept.Started = stored.Started    // it is of the spec, which no amendment writes
	kept.Ended = kept.Ended.Round(0) // what is written has no monotonic clock
	l.stored[r.Name] = kept
	return r, true, ctx.Err()
}

// changed describes the difference between two versions of a repair.
func changed(old, fresh core.Repair) string {
	var words []string
	say := func(anew bool, word string) {
		if anew {
			words = append(words, word)
		}
	}
	say(!fresh.Recovered.Equal(old.Recovered) && !fresh.Recovered.IsZero(), "recovered")
	say(!fresh.Recovered.Equal(old.Recovered) && fresh.Recovered.IsZero(), "relapsed")
	say(!fresh.Begun.Equal(old.Begun) && !fresh.Begun.IsZero(), "handed over")
	say(!fresh.Begun.Equal(old.Begun) && fresh.Begun.IsZero(), "not handed over")
	say(fresh.Attempts != old.Attempts, "attempts")
	for _, record := range fresh.Tried[min(len(old.Tried), len(fresh.Tried)):] {
		words = append(words, record.Outcome.String())
	}
	say(!fresh.Running(), fresh.Outcome.String())
	return strings.Join(words, ", ")
}

func (l *ledger) Delete(ctx context.Context, r core.Repair) (bool, error) {
	if err := l.fixture.record(ctx, "drop "+r.Target.Name); err != nil {
		return false, err
	}
	l.fixture.mu.Lock()
	defer l.fixture.mu.Unlock()
	if l.stored[r.Name].Revision > r.Revision {
		return false, nil
	}
	delete(l.stored, r.Name)
	return true, nil
}

// Running returns the stored repairs, whatever the cache has.
func (l *ledger) Running(ctx context.Context) ([]core.Repair, error) {
	if err := l.fixture.record(ctx, "read running"); err != nil {
		return nil, err
	}
	l.fixture.mu.Lock()
	defer l.fixture.mu.Unlock()
	var running []core.Repair
	for _, r := range l.stored {
		if r.Running() {
			running = append(running, r)
		}
	}
	return running, nil
}

// of returns the stored repairs of a target.
func (l *ledger) of(target string) []core.Repair {
	var found []core.Repair
	for _, r := range l.stored {
		if r.Target.Name == target {
			found = append(found, r)
		}
	}
	return found
}

// remedy deletes targets.
type remedy struct{ fixture *fixture }

func (r remedy) Start(ctx context.Context, o core.RemedyCall) (core.RemedyResult, error) {
	t := o.Target
	if err := r.fixture.record(ctx, "begin "+t.ID.Name); err != nil {
		return 0, err
	}
	r.fixture.mu.Lock()
	defer r.fixture.mu.Unlock()
	if answer := r.fixture.answer[t.ID.Name]; answer != 0 {
		return answer, nil
	}
	for _, d := range r.fixture.fakes {
		if d.observation.Kind == t.ID.Kind {
			d.deleted = append(d.deleted, t.ID.Name)
		}
	}
	return core.Accepted, nil
}

// target returns a target of a kind that is a day old, in its own pool. Its node is Ready.
func target(kind, name string, changes ...func(*core.Target)) core.Target {
	t := core.Target{
		ID:          core.ID{Kind: kind, Namespace: "machines", Name: name, UID: name + "-uid"},
		Created:     ago(24 * time.Hour),
		Owner:       core.ID{Kind: "MachineSet", Namespace: "machines", Name: name + "-set", UID: name + "-set-uid"},
		StartupFrom: ago(24 * time.Hour),
		Node:        node(name, "True", 24*time.Hour),
		Revision:    "7",
		Parts:       core.NoParts(),
	}
	for _, change := range changes {
		change(&t)
	}
	return t
}

func machine(name string, changes ...func(*core.Target)) core.Target {
	return target("Machine", name, changes...)
}

// node returns the node of a target. Its Ready condition has had its status for a while.
func node(target, ready string, since time.Duration) core.Node {
	return core.Node{
		State: core.NodePresent, Name: target + "-node", UID: target + "-node-uid",
		Conditions: []core.Condition{{Type: "Ready", Status: ready, Since: ago(since)}},
	}
}

// dead makes the node of a target not Ready for longer than any policy here allows.
func dead(t *core.Target) { t.Node = node(t.ID.Name, "False", time.Hour) }

// unseen sets a node that the cache doesn't have.
func unseen(t *core.Target) { t.Node = core.Node{State: core.NodeUnseen, Name: t.Node.Name} }

// policy returns a policy that selects these targets of its dialect, and repairs all of them at a
// time if it must.
func policy(name string, members []int, changes ...func(*core.Policy)) core.Policy {
	p := core.Policy{
		ID:      core.ID{Kind: "HealthCheck", Namespace: "machines", Name: name, UID: name + "-uid"},
		Created: ago(24 * time.Hour), Fingerprint: "as it was",
		Members: members,
		Criteria: core.Criteria{NodeStartup: 10 * time.Minute, Conditions: []core.ConditionCriterion{
			{Type: "Ready", Status: "False", For: 5 * time.Minute},
		}},
		ShortCircuit: core.ShortCircuit{MaxUnhealthy: core.Percent(100)},
		MaxInFlight:  core.Unlimited(),
		Backoff:      core.DefaultBackoff(),
		Steps:        []core.Step{{Remedy: "Delete"}},
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

// observes sets the targets of a dialect, with one policy for all of them.
func (d *dialect) observes(targets ...core.Target) {
	members := make([]int, len(targets))
	for i := range members {
		members[i] = i
	}
	d.observation.Targets = targets
	d.observation.Policies = []core.Policy{policy("workers", members)}
}

// running returns a repair of a target that an earlier process recorded.
func running(t core.Target, changes ...func(*core.Repair)) core.Repair {
	r := core.Repair{
		Namespace: "machines", Name: core.RepairName(t.ID, 1), Target: t.ID, Node: t.Node.Name, Owner: t.Owner, Started: ago(time.Minute),
		Policy: policy("workers", nil).ID, Steps: policy("workers", nil).Steps,
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func endedAt(at time.Time) func(*core.Repair) {
	return func(r *core.Repair) { r.Started, r.Ended, r.Outcome = at, at, core.Succeeded }
}

func (l *ledger) has(repairs ...core.Repair) {
	for _, r := range repairs {
		r.Revision = max(1, r.Revision)
		l.stored[r.Name] = r
	}
	l.fixture.syncCaches()
}

// reported returns the events since the last call, sorted.
func (s *fixture) reported() string {
	var lines []string
	for _, line := range s.calls {
		if strings.HasPrefix(line, "tell ") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}
