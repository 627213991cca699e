package agent

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// grantor stores one Lease, and refuses each write if conflicts is set.
type grantor struct {
	lease     selffence.Lease
	conflicts bool
}

func (g *grantor) Read(context.Context) (selffence.Lease, error) { return g.lease, nil }

func (g *grantor) Write(_ context.Context, r promiselease.Record) (uint64, error) {
	if g.conflicts {
		return 0, nil
	}
	r.Revision++
	g.lease = r.Lease
	return r.Revision, nil
}

// memory is a store that keeps nothing.
type memory struct{}

func (memory) Load(boot string) (State, error) { return State{Boot: boot}, nil }
func (memory) Save(State) error                { return nil }

// idle returns an agent that does nothing by itself.
func idle(g Grantor) *node {
	return newNode(Config{
		Node: "a", Boot: bootOfA, Witness: NewWitness(), Grantor: g, Store: memory{},
		Boottime: func() time.Duration { return time.Minute }, Tell: func(Note) {},
	})
}

// TestAReadReachesTheWitness: a witness whose agent has read its Lease agrees to nothing, once no request has failed for a time.
func TestAReadReachesTheWitness(t *testing.T) {
	t.Parallel()
	now := time.Hour
	n := idle(&grantor{})
	n.Boottime = func() time.Duration { return now }
	n.learn(selffence.Agent.Failed)
	if !n.Witness.knows.Away {
		t.Error("after a failure it reaches the API server")
	}
	for _, later := range []struct {
		by   time.Duration
		away bool
	}{{0, true}, {awayFor - 1, true}, {1, false}} {
		now += later.by
		if err := n.read(t.Context()); err != nil || n.Witness.knows.Away != later.away {
			t.Errorf("after a read, %s since the failure, it is away: %t (%v)", now-time.Hour, n.Witness.knows.Away, err)
		}
	}
}

// TestDoubts: after a write that was refused, a witness keeps what it has read only where its Lease has a later write of this agent.
func TestDoubts(t *testing.T) {
	t.Parallel()
	own := selffence.Promise{Boot: bootOfA, Times: selffence.Times{Watchdog: time.Minute}}
	for sentence, tc := range map[string]struct {
		revision uint64
		promise  selffence.Promise
		keeps    bool
	}{
		"a later write of its own": {8, own, true},
		"the revision of before":   {7, own, false},
		"an earlier revision":      {6, own, false},
		"another promise":          {8, selffence.Promise{Boot: bootOfA}, false},
	} {
		g := &grantor{conflicts: true}
		n := idle(g)
		n.agent.Bound, n.agent.Stated, n.agent.Sent = true, own, own
		n.Witness.listed(nil, 5, n.Witness.begins())
		if err := n.write(t.Context(), selffence.Lease{Revision: 7, State: selffence.Promised, Promise: own}); err != nil {
			t.Fatal(err)
		}
		g.lease = selffence.Lease{Revision: tc.revision, State: selffence.Promised, Promise: tc.promise}
		for range 2 { // the second read follows no write
			if err := n.read(t.Context()); err != nil || (n.Witness.read() == 5) != tc.keeps {
				t.Errorf("%s: the witness has read up to %d (%v)", sentence, n.Witness.read(), err)
			}
			g.lease.Promise = selffence.Promise{}
			if !tc.keeps {
				n.Witness.listed(nil, 0, n.Witness.begins())
			}
		}
	}
}

// TestACreationIsNoConflict: a Lease that is created only to be withdrawn is read and written again, which is no reason to doubt what was read.
func TestACreationIsNoConflict(t *testing.T) {
	t.Parallel()
	n := idle(&grantor{})
	n.agent.Bound = true
	if err := n.write(t.Context(), selffence.Lease{State: selffence.Withdrawn, Promise: selffence.Promise{Boot: bootOfA}}); err != nil || n.doubts {
		t.Errorf("it doubts: %t (%v)", n.doubts, err)
	}
}

// TestTimeOfARequest: half of the time between two grants, and ten seconds at most.
func TestTimeOfARequest(t *testing.T) {
	t.Parallel()
	for every, want := range map[time.Duration]time.Duration{time.Second: 500 * time.Millisecond, 20 * time.Second: 10 * time.Second, time.Hour: 10 * time.Second} {
		if got := (&node{every: every}).requestTime(); got != want {
			t.Errorf("with %s between two grants a request may take %s, want %s", every, got, want)
		}
	}
}

// TestPace: two reads are half of the time between two grants apart, and at most 5s. Two writes are a quarter of it apart, and at most 1s. After a
// failure each request waits as long as a read.
func TestPace(t *testing.T) {
	t.Parallel()
	const now = time.Hour
	for _, tc := range []struct{ renewal, reads, writes time.Duration }{
		{2 * time.Second, time.Second, 500 * time.Millisecond}, {4 * time.Second, 2 * time.Second, time.Second}, {5 * time.Second, 2500 * time.Millisecond, time.Second},
		{10 * time.Second, 5 * time.Second, time.Second}, {time.Minute, 5 * time.Second, time.Second},
	} {
		var p pace
		if got := p.due(selffence.ReadLease, tc.renewal); got != 0 {
			t.Errorf("the first request is due at %s", got)
		}
		p.begins(selffence.ReadLease, now)
		if got := p.due(selffence.ReadLease, tc.renewal); got != now+tc.reads {
			t.Errorf("with %s between two grants, the next read is due after %s", tc.renewal, got-now)
		}
		if got := p.due(selffence.WriteLease, tc.renewal); got != 0 {
			t.Errorf("a write after a read is due at %s", got)
		}
		p.begins(selffence.WriteLease, now)
		if got := p.due(selffence.WriteLease, tc.renewal); got != now+tc.writes {
			t.Errorf("with %s between two grants, the next write is due after %s", tc.renewal, got-now)
		}
		p.fails(now + 1)
		if got := p.due(selffence.WriteLease, tc.renewal); got != now+1+tc.reads {
			t.Errorf("with %s between two grants, the write after a failure is due after %s", tc.renewal, got-now)
		}
	}
}

// TestAsks: an agent has witnesses only where it has all that takes.
func TestAsks(t *testing.T) {
	t.Parallel()
	l := &listing{}
	for _, tc := range []struct {
		config Config
		want   bool
	}{
		{Config{Others: l, Peers: l, Witness: NewWitness()}, true}, {Config{Peers: l, Witness: NewWitness()}, false},
		{Config{Others: l, Witness: NewWitness()}, false}, {Config{Others: l, Peers: l}, false},
	} {
		if got := (&node{Config: tc.config}).asks(); got != tc.want {
			t.Errorf("with %+v it asks: %t", tc.config, got)
		}
	}
}

// says is an agent that answers each question with a text, or an error.
type says struct {
	text string
	err  error
}

func (s says) Ask(context.Context, string, string, []byte) ([]byte, error) {
	return []byte(s.text), s.err
}

// TestAnswersOfWitnesses: only an answer that has nothing else counts.
func TestAnswersOfWitnesses(t *testing.T) {
	t.Parallel()
	for answer, want := range map[says][2]bool{
		{`{"agrees":true}`, nil}:                 {true, true},
		{`{"agrees":false}`, nil}:                {false, true},
		{`{"agrees":true} {}`, nil}:              {false, false},
		{`{"agrees":true,"x":1}`, nil}:           {false, false},
		{`{"agrees":true}`, errors.New("later")}: {false, false},
		{"", nil}:                                {false, false},
	} {
		agrees, answers := (&node{Config: Config{Peers: answer}}).asksWitness(t.Context(), "b")
		if got := [2]bool{agrees, answers}; got != want {
			t.Errorf("%+v: it agrees and has answered: %t, want %t", answer, got, want)
		}
	}
}

// quick is a watchdog of a timeout, which counts the pets.
type quick struct {
	timeout time.Duration
	pets    int
}

func (q *quick) State() (time.Duration, string) { return q.timeout, "" }
func (q *quick) Pet() error                     { q.pets++; return nil }
func (*quick) Disarm() error                    { return nil }

// TestPauseBetweenPets: a quarter of the timeout, and a quarter of a second at least.
func TestPauseBetweenPets(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{time.Minute: 15 * time.Second, time.Second: 250 * time.Millisecond, 0: 250 * time.Millisecond} {
		n, q := idle(&grantor{}), &quick{timeout: timeout}
		n.agent.Bound, n.device = true, q
		if got := n.pet(); got != want || q.pets != 1 {
			t.Errorf("with a timeout of %s, the pause after %d pets is %s", timeout, q.pets, got)
		}
	}
}

// TestDemands: how many witnesses a promise is to name, the preferred number first.
func TestDemands(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		settings Settings
		want     []int
	}{{Settings{}, nil}, {Settings{Witnesses: 3}, nil}, {Settings{Reset: true}, []int{5, 3}}, {Settings{Reset: true, Witnesses: 1}, []int{1}}} {
		if got := tc.settings.demands(); !slices.Equal(got, tc.want) {
			t.Errorf("%+v demand %d", tc.settings, got)
		}
	}
}

// TestConnections: how long a connection may take, and how often its other side is to show that it is there.
func TestConnections(t *testing.T) {
	t.Parallel()
	if d := direct(); d.Timeout != 5*time.Second || d.KeepAlive != 30*time.Second || listener().KeepAlive != 30*time.Second {
		t.Errorf("it takes %s, and shows that each %s, or %s to others", d.Timeout, d.KeepAlive, listener().KeepAlive)
	}
}

// resets counts the resets of a node, which all fail.
type resets struct {
	Hardware

	count int
}

func (r *resets) Reset() error {
	r.count++
	return errors.New("no way")
}

// overdue returns an agent whose promise was to have reset the node, and its notes.
func overdue(h Hardware) (*node, *[]Reason) {
	n, notes := idle(&grantor{}), &[]Reason{}
	p := selffence.Promise{Boot: bootOfA, Timed: true, Times: selffence.Times{Validity: time.Second, Watchdog: time.Second}}
	n.agent.AgentState = selffence.AgentState{Bound: true, Granted: time.Second, Stated: p, Sent: p}
	n.Hardware, n.Tell = h, func(note Note) { *notes = append(*notes, note.Reason) }
	return n, notes
}

// TestOverdueIsToldOnce: a node that can't be reset is tried again each second. People are told once, and again once it was not overdue in between.
func TestOverdueIsToldOnce(t *testing.T) {
	t.Parallel()
	h := &resets{}
	n, notes := overdue(h)
	for range 3 {
		n.resetIfOverdue()
	}
	n.agent.Granted = n.Boottime()
	n.resetIfOverdue()
	n.agent.Granted = time.Second
	n.resetIfOverdue()
	if want := []Reason{Overdue, NotReset, Overdue, NotReset}; h.count != 4 || !slices.Equal(*notes, want) {
		t.Errorf("it was reset %d times, and people were told %v, want %v", h.count, *notes, want)
	}
}

// TestResetOfAnOverdueNode: the goroutine that acts resets it too, and says why that fails. It is not condemned.
func TestResetOfAnOverdueNode(t *testing.T) {
	t.Parallel()
	h := &resets{}
	n, notes := overdue(h)
	n.reset()
	if h.count != 1 || !slices.Equal(*notes, []Reason{NotReset}) || n.stored.Condemned {
		t.Errorf("it was reset %d times, and people were told %v; stored is %+v", h.count, *notes, n.stored)
	}
}

// TestTimersOfTheNode: where the clock of the node calls each second, the timers of Go are not used. They are where it can't.
func TestTimersOfTheNode(t *testing.T) {
	t.Parallel()
	failed := errors.New("no timer")
	for sentence, tc := range map[string]struct {
		each  func(context.Context, func()) error
		count int
		told  bool
	}{
		"it calls": {func(_ context.Context, do func()) error { do(); return nil }, 1, false},
		"it can't": {func(context.Context, func()) error { return failed }, 3, true},
		"none":     {nil, 3, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &resets{}
			n, notes := overdue(h)
			n.EachSecond = tc.each
			ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
			defer cancel()
			n.watchTime(ctx)
			if h.count != tc.count || slices.Contains(*notes, NoBootTimer) != tc.told {
				t.Errorf("%s: it was reset %d times in 3.5s, and people were told %v", sentence, h.count, *notes)
			}
		})
	}
}

// TestSpread: each node has a moment of its own within an hour.
func TestSpread(t *testing.T) {
	t.Parallel()
	for node, want := range map[string]time.Duration{"n": 343445553 * time.Microsecond, "a": 226002220 * time.Microsecond} {
		if got := spread(node); got != want {
			t.Errorf("that of node %s is %s, want %s", node, got, want)
		}
	}
}
