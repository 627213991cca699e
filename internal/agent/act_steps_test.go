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

var errNone = errors.New("no answer")

// own is a promise of the boot of idle.
func own() selffence.Promise {
	return selffence.Promise{Boot: bootOfA, Times: selffence.Times{Watchdog: time.Minute}}
}

// bound returns an agent whose Lease states its promise at a revision, granted a moment ago, and what people are told.
func bound(g Grantor, revision uint64) (*node, *[]Reason) {
	n, notes := idle(g), &[]Reason{}
	n.Tell = func(note Note) { *notes = append(*notes, note.Reason) }
	n.agent.AgentState = selffence.AgentState{Bound: true, Granted: n.Boottime(), Stated: own(), Sent: own()}
	n.agent = n.agent.Read(selffence.Lease{Revision: revision, State: selffence.Promised, Promise: own()})
	n.agent.Wanted = own()
	n.stored = State{Boot: bootOfA, Agent: n.agent.AgentState}
	return n, notes
}

// TestWhatIsNext, and when. The time is a minute, and there are five seconds between two grants.
func TestWhatIsNext(t *testing.T) {
	t.Parallel()
	const now = time.Minute
	for sentence, tc := range map[string]struct {
		change func(*node)
		want   selffence.Action
		at     time.Duration
	}{
		"a grant is due later":     {func(*node) {}, selffence.Wait, now + 5*time.Second},
		"a condemnation waits":     {func(n *node) { n.urgent = true }, selffence.WriteLease, 0},
		"it was written just now":  {func(n *node) { n.urgent = true; n.pace.begins(selffence.WriteLease, now) }, selffence.WriteLease, now + time.Second},
		"a grant is due":           {func(n *node) { n.agent.Granted = 0; n.pace.begins(selffence.WriteLease, now) }, selffence.WriteLease, now + time.Second},
		"the Lease is unknown":     {func(n *node) { n.agent = n.agent.Conflicts(); n.pace.begins(selffence.ReadLease, now) }, selffence.ReadLease, now + 2500*time.Millisecond},
		"the state is lost":        {func(n *node) { n.lost = true; n.pace.begins(selffence.ReadLease, now) }, selffence.ReadLease, now + 2500*time.Millisecond},
		"and the node is to reset": {func(n *node) { n.lost = true; condemns(n) }, selffence.Reset, now},
		"the node is to reset":     {condemns, selffence.Reset, now},
		"nothing stands any more":  {func(n *node) { n.agent.Stopping, n.agent.Bound = true, false }, selffence.Disarm, now},
	} {
		n, _ := bound(&grantor{}, 7)
		tc.change(n)
		if action, at := n.next(now); action != tc.want || at != tc.at {
			t.Errorf("%s: the next thing is %d at %s, want %d at %s", sentence, action, at, tc.want, tc.at)
		}
	}
}

func condemns(n *node) {
	n.agent = n.agent.Read(selffence.Lease{State: selffence.Condemned, Promise: selffence.Promise{Boot: bootOfA}})
}

// TestAwayForLonger: a witness agrees for twelve times the time between two grants, where that is longer than five minutes.
func TestAwayForLonger(t *testing.T) {
	t.Parallel()
	n, _ := bound(&grantor{}, 7)
	n.agent.Renewal = time.Minute
	n.learn(selffence.Agent.Failed)
	if n.awayUntil != n.Boottime()+12*time.Minute || !n.Witness.knows.Away {
		t.Errorf("it is away until %s", n.awayUntil)
	}
	n.Witness = nil
	n.learn(selffence.Agent.Conflicts)
	if n.agent.Away() {
		t.Error("without a witness nothing is learnt")
	}
}

// TestResetsCondemned: people are told of a condemned node, and of a reset that has failed. It is stored.
func TestResetsCondemned(t *testing.T) {
	t.Parallel()
	for hardware, want := range map[Hardware][]Reason{&resets{}: {Condemned, NotReset}, resetting{}: {Condemned}} {
		n, notes := bound(&grantor{}, 7)
		n.Hardware = hardware
		n.reset()
		if !slices.Equal(*notes, want) || !n.stored.Condemned {
			t.Errorf("people were told %v, and stored is %+v", *notes, n.stored)
		}
	}
}

// disarming is a watchdog that can be disarmed unless there is an error.
type disarming struct {
	Device

	err   error
	calls int
}

func (d *disarming) State() (time.Duration, string) { return time.Minute, "name" }

func (d *disarming) Disarm() error {
	d.calls++
	return d.err
}

// TestDisarms: a watchdog that may have stopped can't be promised before it was opened anew. It is told by its name until then.
func TestDisarms(t *testing.T) {
	t.Parallel()
	failed := Reason(promiselease.WatchdogFailed)
	for sentence, tc := range map[string]struct {
		device   Device
		want     time.Duration
		open     bool
		unusable bool
		refusal  Reason
		told     []Reason
	}{
		"it is disarmed":   {&disarming{}, 0, false, false, "", []Reason{Disarmed}},
		"it fails":         {&disarming{err: errNone}, 5 * time.Second, true, true, failed, []Reason{NotDisarmed}},
		"it has no way":    {&disarming{err: &UnavailableError{Reason: NoWayOut, Err: errNone}}, 5 * time.Second, true, false, "", []Reason{NotDisarmed}},
		"there is none":    {nil, 30 * time.Second, false, false, "", nil},
		"it fails by name": {&disarming{err: &UnavailableError{Reason: NoWatchdog, Err: errNone}}, 5 * time.Second, true, true, failed, []Reason{NotDisarmed}},
	} {
		n, notes := bound(&grantor{}, 7)
		if n.device = tc.device; n.identity() != map[bool]string{true: "name", false: ""}[tc.device != nil] {
			t.Errorf("%s: its name is %q", sentence, n.identity())
		}
		if got := n.disarm(); got != tc.want || n.disarmed() == tc.open || n.unusable != tc.unusable || n.refusal != tc.refusal || !slices.Equal(*notes, tc.told) {
			t.Errorf("%s: the pause is %s, it is disarmed %t and unusable %t by %q, and people were told %v", sentence, got, n.disarmed(), n.unusable, n.refusal, *notes)
		}
		if at := map[bool]time.Duration{true: n.Boottime()}[tc.unusable]; n.failed != at {
			t.Errorf("%s: it has failed at %s", sentence, n.failed)
		}
	}
}

// TestEndsInTime: an agent that can't disarm its watchdog ends at its time, and not at the next try.
func TestEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now() //nolint:forbidigo // the clock of the bubble
		n, _ := bound(&grantor{}, 7)
		n.Boottime = func() time.Duration { return time.Since(begun) + time.Minute } //nolint:forbidigo // the same
		n.agent.AgentState = selffence.AgentState{}
		n.device, n.StopWithin = &disarming{err: errNone}, 12*time.Second
		ctx, end := context.WithCancel(t.Context())
		end()
		if err := n.act(ctx); !errors.Is(err, ErrArmed) || n.Boottime() != time.Minute+12*time.Second {
			t.Errorf("it ends at %s: %v", n.Boottime(), err)
		}
		n.device = &disarming{}
		if err := n.act(ctx); err != nil {
			t.Errorf("once it is disarmed: %v", err)
		}
	})
}

// answers is an API server that answers each request alike, or not at all.
type answers struct {
	lease    selffence.Lease
	revision uint64
	err      error
	reads    int
	written  []promiselease.Record
	limit    time.Duration
}

func (a *answers) Read(ctx context.Context) (selffence.Lease, error) {
	a.reads++
	a.noteLimit(ctx)
	return a.lease, a.err
}

func (a *answers) Write(ctx context.Context, r promiselease.Record) (uint64, error) {
	a.written = append(a.written, r)
	a.noteLimit(ctx)
	return a.revision, a.err
}

func (a *answers) noteLimit(ctx context.Context) {
	if at, is := ctx.Deadline(); is {
		a.limit = time.Until(at) //nolint:forbidigo // the clock of the bubble, or not compared
	}
}

// keeps is a store that fails from some call on.
type keeps struct {
	memory

	saves, fails int
	last         State
}

func (k *keeps) Save(s State) error {
	k.saves++
	if k.fails > 0 && k.saves >= k.fails {
		return errNone
	}
	k.last = s
	return nil
}

// TestSends: the memory of an agent after an answer, after none, and where its state can't be stored.
func TestSends(t *testing.T) {
	t.Parallel()
	const read, write = selffence.ReadLease, selffence.WriteLease
	for sentence, tc := range map[string]struct {
		action   selffence.Action
		revision uint64
		fails    int
		err      error
		before   bool
		creates  bool
		sent     int
		away     bool
		unstored bool
		told     []Reason
	}{
		"a read":                             {read, 0, 0, nil, false, false, 1, false, false, nil},
		"a read that fails":                  {read, 0, 0, errNone, false, false, 1, true, false, []Reason{NoAnswer}},
		"a creation":                         {write, 0, 0, nil, false, false, 1, false, false, []Reason{Promising}},
		"a creation that fails":              {write, 0, 0, errNone, false, true, 1, true, false, []Reason{NoAnswer}},
		"a write of the first Lease fails":   {write, 1, 0, errNone, false, false, 1, true, false, []Reason{NoAnswer}},
		"a write fails after a creation":     {write, 7, 0, errNone, true, true, 1, true, false, []Reason{NoAnswer}},
		"a creation that can't be stored":    {write, 0, 1, nil, false, false, 0, false, true, []Reason{StateNotStored}},
		"another creation":                   {write, 0, 1, nil, true, true, 0, false, true, []Reason{StateNotStored}},
		"a creation can't be stored then":    {write, 0, 2, nil, false, false, 1, false, false, []Reason{Promising}},
		"a read in place of an other answer": {read, 7, 0, nil, true, true, 1, false, false, nil},
	} {
		a, k := &answers{revision: 1, err: tc.err}, &keeps{fails: tc.fails}
		n, notes := bound(a, tc.revision)
		n.Store, n.creates = k, tc.before
		if tc.revision == 0 {
			n.agent.AgentState = selffence.AgentState{}
			n.agent, n.stored = n.agent.Read(selffence.Lease{}), State{Boot: bootOfA}
		}
		before := n.agent.AgentState
		n.send(t.Context(), tc.action, n.Boottime())
		if sent := a.reads + len(a.written); n.creates != tc.creates || sent != tc.sent || n.agent.Away() != tc.away || n.unstored != tc.unstored || !slices.Equal(*notes, tc.told) {
			t.Errorf("%s: creates %t, sent %d, away %t, unstored %t, told %v", sentence, n.creates, sent, n.agent.Away(), n.unstored, *notes)
		}
		if fails := tc.err != nil || tc.unstored; n.pace.after != fails || fails && n.pace.failed != n.Boottime() {
			t.Errorf("%s: the pace is %+v", sentence, n.pace)
		}
		if n.agent.InFlight() != (selffence.Request{}) || tc.unstored && n.agent.AgentState != before {
			t.Errorf("%s: in flight is %+v, by %+v", sentence, n.agent.InFlight(), n.agent.AgentState)
		}
	}
}

// TestTellsWhatIsNotStored: a withdrawal that was confirmed and can't be stored is told.
func TestTellsWhatIsNotStored(t *testing.T) {
	t.Parallel()
	n, notes := bound(&answers{revision: 8}, 7)
	n.agent.Stopping, n.Store = true, &keeps{fails: 1}
	n.send(t.Context(), selffence.WriteLease, n.Boottime())
	if n.agent.Bound || !slices.Equal(*notes, []Reason{StateNotStored}) {
		t.Errorf("bound is %t, and people were told %v", n.agent.Bound, *notes)
	}
}

// TestStepsKeepTheirPace: the request after a failure waits as long as a read.
func TestStepsKeepTheirPace(t *testing.T) {
	t.Parallel()
	n, _ := bound(&answers{err: errNone}, 7)
	n.used, n.found = Settings{Renewal: 5 * time.Second}, &Settings{Renewal: 5 * time.Second}
	n.Hardware, n.device = &counting{}, unused{}
	n.agent.Granted = 0
	if pause, ended := n.step(t.Context()); pause != 0 || ended || !n.pace.after || !n.pace.known[selffence.WriteLease] {
		t.Errorf("the pause is %s, it has ended: %t, and the pace is %+v", pause, ended, n.pace)
	}
	if pause, ended := n.step(t.Context()); pause != 2500*time.Millisecond || ended {
		t.Errorf("the pause after it is %s, and it has ended: %t", pause, ended)
	}
}
