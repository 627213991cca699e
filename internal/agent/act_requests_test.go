package agent

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

// TestReadsTheLease: which answers to a read change an agent, and how.
func TestReadsTheLease(t *testing.T) {
	t.Parallel()
	none := selffence.Lease{}
	of := func(boot string, state selffence.State) selffence.Lease {
		return selffence.Lease{Revision: 9, State: state, Promise: selffence.Promise{Boot: boot, Times: selffence.Times{Watchdog: time.Minute}}}
	}
	for sentence, tc := range map[string]struct {
		lease             selffence.Lease
		creates, stopping bool
		wantCreates       bool
		bound             bool
		told              []Reason
	}{
		"it is gone":                           {none, false, false, false, true, nil},
		"it is gone at the end":                {none, false, true, false, false, nil},
		"it may be created at the end":         {none, true, true, true, true, nil},
		"it may be created":                    {none, true, false, true, true, nil},
		"it was created":                       {of(bootOfA, selffence.Promised), true, true, false, true, nil},
		"it is there at the end":               {of(bootOfA, selffence.Promised), false, true, false, true, nil},
		"an earlier boot has promised":         {of("earlier", selffence.Promised), false, false, false, true, nil},
		"an earlier boot is condemned":         {of("earlier", selffence.Condemned), false, false, false, true, []Reason{EarlierBoot}},
		"this boot is condemned, told by step": {of(bootOfA, selffence.Condemned), false, false, false, true, nil},
	} {
		n, notes := bound(&answers{lease: tc.lease}, 7)
		n.lost, n.creates, n.agent.Stopping = true, tc.creates, tc.stopping
		if err := n.read(t.Context()); err != nil || n.lost || n.creates != tc.wantCreates || n.agent.Bound != tc.bound || !slices.Equal(*notes, tc.told) {
			t.Errorf("%s: lost is %t, creates %t, bound %t, and people were told %v (%v)", sentence, n.lost, n.creates, n.agent.Bound, *notes, err)
		}
	}
	n, _ := bound(&answers{err: errNone}, 7)
	n.lost = true
	if err := n.read(t.Context()); !errors.Is(err, errNone) || !n.lost {
		t.Errorf("without an answer, lost is %t (%v)", n.lost, err)
	}
}

// TestWhatIsALateWrite: a later promise in the Lease is a late write of this agent if it has sent or stated the same. A withdrawal by others is none.
func TestWhatIsALateWrite(t *testing.T) {
	t.Parallel()
	stated, sent := own(), own()
	sent.Times.Watchdog = time.Hour
	for sentence, tc := range map[string]struct {
		promise selffence.Promise
		state   selffence.State
		doubts  bool
		keeps   bool
	}{
		"what it has stated":             {stated, selffence.Promised, true, true},
		"what it has sent":               {sent, selffence.Promised, true, true},
		"what it has sent, as withdrawn": {sent, selffence.Withdrawn, true, false},
		"another promise":                {selffence.Promise{Boot: bootOfA}, selffence.Promised, true, false},
		"without a conflict":             {selffence.Promise{Boot: bootOfA}, selffence.Promised, false, true},
	} {
		n, _ := bound(&answers{lease: selffence.Lease{Revision: 8, State: tc.state, Promise: tc.promise}}, 7)
		n.agent.Stated, n.agent.Sent, n.doubts, n.refused = stated, sent, tc.doubts, 7
		n.Witness.listed(nil, 5, n.Witness.begins())
		if err := n.read(t.Context()); err != nil || (n.Witness.read() > 0) != tc.keeps || n.doubts {
			t.Errorf("%s: the witness has read up to %d, and doubts %t (%v)", sentence, n.Witness.read(), n.doubts, err)
		}
	}
}

// TestWritesTheLease: the Leases that an agent writes, and its state after each answer.
func TestWritesTheLease(t *testing.T) {
	t.Parallel()
	const promised, withdrawn = selffence.Promised, selffence.Withdrawn
	for sentence, tc := range map[string]struct {
		lease    selffence.Lease
		revision uint64
		written  selffence.State
		known    bool
		doubts   bool
		told     []Reason
	}{
		"a promise":                  {selffence.Lease{Revision: 7, State: promised}, 8, promised, true, false, []Reason{Promising}},
		"the first one":              {selffence.Lease{State: promised}, 1, promised, true, false, []Reason{Promising}},
		"a promise is refused":       {selffence.Lease{Revision: 7, State: promised}, 0, promised, false, true, nil},
		"a withdrawal":               {selffence.Lease{Revision: 7, State: withdrawn}, 8, withdrawn, true, false, nil},
		"one of the first revision":  {selffence.Lease{Revision: 1, State: withdrawn}, 8, withdrawn, true, false, nil},
		"a withdrawal is refused":    {selffence.Lease{Revision: 7, State: withdrawn}, 0, withdrawn, false, true, nil},
		"one without a Lease":        {selffence.Lease{State: withdrawn}, 1, promised, false, false, nil},
		"and that is refused":        {selffence.Lease{State: withdrawn}, 0, promised, false, false, nil},
		"a promise without a Lease ": {selffence.Lease{State: promised}, 0, promised, false, true, nil},
	} {
		a := &answers{revision: tc.revision}
		n, notes := bound(a, 7)
		n.creates, tc.lease.Promise = true, own()
		err := n.write(t.Context(), tc.lease)
		known := n.agent.Next(n.Boottime()) != selffence.ReadLease
		if err != nil || a.written[0].State != tc.written || known != tc.known || n.creates || n.doubts != tc.doubts || !slices.Equal(*notes, tc.told) {
			t.Errorf("%s: it writes %+v, knows it %t, creates %t, doubts %t, told %v (%v)", sentence, a.written, known, n.creates, n.doubts, *notes, err)
		}
		if tc.doubts && n.refused != tc.lease.Revision {
			t.Errorf("%s: refused is %d", sentence, n.refused)
		}
	}
	n, notes := bound(&answers{err: errNone}, 7)
	n.creates = true
	if err := n.write(t.Context(), selffence.Lease{Revision: 7, State: promised}); !errors.Is(err, errNone) || !n.creates || len(*notes) > 0 {
		t.Errorf("without an answer, creates is %t, and people were told %v (%v)", n.creates, *notes, err)
	}
}

// TestRecords: a Lease has the name of the watchdog, and the revision up to which the witness has read. Nothing is urgent after that.
func TestRecords(t *testing.T) {
	t.Parallel()
	n, _ := bound(&answers{}, 7)
	n.urgent, n.device = true, &disarming{}
	n.Witness.listed(nil, 5, n.Witness.begins())
	if r := n.record(selffence.Lease{Revision: 7}); r.Revision != 7 || r.Device != "name" || r.Witnessed != 5 || n.urgent {
		t.Errorf("the record is %+v, and urgent %t", r, n.urgent)
	}
	n.Witness = nil
	if r := n.record(selffence.Lease{}); r.Witnessed != 0 {
		t.Errorf("without a witness the record is %+v", r)
	}
}

// TestWhatIsPromised: people are told why a promise is not timed, where the policy demands that.
func TestWhatIsPromised(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		resets, timed bool
		watchdog      time.Duration
		want          Reason
	}{{false, false, time.Minute, Promising}, {true, true, time.Minute, Promising}, {true, false, time.Minute, NoWitnesses}, {true, false, 2 * time.Hour, TimesOutOfBounds}, {false, false, 2 * time.Hour, Promising}} {
		n := &node{used: Settings{Reset: tc.resets, Validity: time.Minute}}
		if got := n.promises(selffence.Promise{Timed: tc.timed, Times: selffence.Times{Watchdog: tc.watchdog}}); got != tc.want {
			t.Errorf("of %+v people are told %s", tc, got)
		}
	}
}

// TestWhatHasToBeStored: a state that can't be stored matters where another promise may stand, or where the Lease may be created from now on.
func TestWhatHasToBeStored(t *testing.T) {
	t.Parallel()
	for sentence, tc := range map[string]struct {
		change func(*node)
		saves  int
		fails  bool
	}{
		"nothing has changed":     {func(*node) {}, 0, false},
		"an earlier grant":        {func(n *node) { n.agent.Granted++ }, 1, false},
		"it is bound no more":     {func(n *node) { n.agent.Bound = false }, 1, true},
		"another promise is sent": {func(n *node) { n.agent.Sent.Times.Watchdog++ }, 1, true},
		"the Lease is created":    {func(n *node) { n.creates = true }, 1, true},
		"it was before":           {func(n *node) { n.creates, n.stored.Creates = true, true; n.agent.Granted++ }, 1, false},
		"it is no more":           {func(n *node) { n.stored.Creates = true }, 1, false},
		"other settings":          {func(n *node) { n.used.Renewal = time.Hour }, 1, false},
	} {
		for _, fails := range []int{0, 1} {
			n, _ := bound(&answers{}, 7)
			k := &keeps{fails: fails}
			n.Store, n.unstored = k, true
			tc.change(n)
			before := n.stored
			err := n.store()
			if k.saves != tc.saves || errors.Is(err, errNone) != (fails > 0 && tc.fails) {
				t.Errorf("%s: it is stored %d times: %v", sentence, k.saves, err)
			}
			if stored := fails == 0 && tc.saves > 0; n.unstored == stored || stored && (n.stored != k.last || k.last.Agent != n.agent.AgentState || k.last.Creates != n.creates || k.last.Settings != n.used) || !stored && n.stored != before {
				t.Errorf("%s: stored is %+v, and unstored %t", sentence, n.stored, n.unstored)
			}
		}
	}
}

// asked is witnesses that agree, and how long each question may take.
type asked struct {
	agrees bool
	names  chan string
}

func (a asked) Ask(ctx context.Context, name, _ string, _ []byte) ([]byte, error) {
	if at, is := ctx.Deadline(); !is || time.Until(at) > time.Minute { //nolint:forbidigo // it is far from a minute
		return nil, errNone
	}
	a.names <- name
	return []byte(map[bool]string{true: `{"agrees":true}`, false: `{"agrees":false}`}[a.agrees]), nil
}

// TestAsksWitnesses: an agent asks each witness once, and answers count only where they agree. An agent that can't ask remembers the question.
func TestAsksWitnesses(t *testing.T) {
	t.Parallel()
	for sentence, tc := range map[string]struct{ can, agrees bool }{"they agree": {true, true}, "they don't": {true, false}, "it can't ask": {false, true}} {
		a := asked{tc.agrees, make(chan string, 10)}
		n, _ := bound(&answers{}, 7)
		p := own()
		p.Timed, p.Times.Validity, p.Witnesses = true, time.Minute, selffence.Members{"b", "c", "d"}
		n.agent.Stated, n.agent.Sent, n.agent.Granted = p, p, 30*time.Second
		if n.limit = time.Second; tc.can {
			n.Others, n.Peers = noPeers{}, a
		}
		n.agent = n.agent.Failed()
		n.ask(t.Context(), n.Boottime())
		n.running.Wait()
		close(a.names)
		var names []string
		for name := range a.names {
			names = append(names, name)
		}
		slices.Sort(names)
		want := map[bool][]string{true: {"b", "c", "d"}}[tc.can]
		granted := map[bool]time.Duration{true: n.Boottime(), false: 30 * time.Second}[tc.can && tc.agrees]
		if !slices.Equal(names, want) || n.agent.Granted != granted || (len(n.woken) > 0) != (tc.can && tc.agrees) || n.agent.Next(n.Boottime()) == selffence.AskWitnesses {
			t.Errorf("%s: asked were %q, granted is %s, and woken %t", sentence, names, n.agent.Granted, len(n.woken) > 0)
		}
	}
}

// TestAnswersComeBeforeTheWake: the agent that wakes for the answer of a witness knows it.
func TestAnswersComeBeforeTheWake(t *testing.T) {
	t.Parallel()
	n, _ := bound(&answers{}, 7)
	p := own()
	p.Timed, p.Times.Validity, p.Witnesses = true, time.Minute, selffence.Members{"b"}
	n.agent.Stated, n.agent.Sent, n.agent.Granted = p, p, 30*time.Second
	n.agent = n.agent.Failed()
	n.Others, n.Peers, n.limit = noPeers{}, asked{true, make(chan string, 1)}, time.Second
	early := false
	n.Boottime = func() time.Duration { // the agent reads it as it learns, with its lock held
		early = early || len(n.woken) > 0
		return time.Minute
	}
	n.ask(t.Context(), time.Minute)
	n.running.Wait()
	if early || len(n.woken) != 1 {
		t.Errorf("it was woken early: %t, and once: %t", early, len(n.woken) == 1)
	}
}

// TestAnotherPromiseIsNotStored: an agent that can't store another promise goes on with the one before, and sends nothing.
func TestAnotherPromiseIsNotStored(t *testing.T) {
	t.Parallel()
	a := &answers{revision: 8}
	n, notes := bound(a, 7)
	before := n.agent.AgentState
	n.agent.Wanted.Times.Watchdog, n.Store = time.Hour, &keeps{fails: 1}
	n.send(t.Context(), selffence.WriteLease, n.Boottime())
	if n.agent.AgentState != before || len(a.written) > 0 || !n.unstored || !slices.Equal(*notes, []Reason{StateNotStored}) {
		t.Errorf("by %+v it writes %+v, and people were told %v", n.agent.AgentState, a.written, *notes)
	}
}

// TestNoAnswerStoresNothing: the state is stored before a request, and again only once that was answered.
func TestNoAnswerStoresNothing(t *testing.T) {
	t.Parallel()
	k := &keeps{fails: 1}
	n, _ := bound(&answers{err: errNone}, 7)
	n.agent.Granted, n.Store = n.agent.Granted-time.Second, k
	n.send(t.Context(), selffence.WriteLease, n.Boottime())
	if k.saves != 1 || !n.agent.Away() {
		t.Errorf("it is stored %d times", k.saves)
	}
}
