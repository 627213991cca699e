package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// stored is a store that has a state.
type stored struct {
	State

	err error
}

func (s stored) Load(string) (State, error) { return s.State, s.err }

func (stored) Save(State) error { return nil }

// noPeers has no other nodes.
type noPeers struct{ Others }

func (noPeers) Ask(context.Context, string, string, []byte) ([]byte, error) { return nil, errQuestion }

// TestBeginsWithWhatWasPromised: until it has a watchdog, an agent wants the promise that an earlier process has sent last. It keeps the witnesses of that
// if it can ask witnesses.
func TestBeginsWithWhatWasPromised(t *testing.T) {
	t.Parallel()
	sent := selffence.Promise{
		Boot: "b", Timed: true, Times: selffence.Times{Validity: time.Minute, Watchdog: time.Minute}, Witnesses: selffence.Members{"x", "y", "z"},
	}
	s := State{Boot: "b", Agent: selffence.AgentState{Bound: true, Stated: sent, Sent: sent}}
	c := Config{Boot: "b", Store: stored{State: s}, Boottime: func() time.Duration { return 0 }, Tell: func(Note) {}}
	if n := newNode(c); n.agent.Wanted != sent || n.members != (selffence.Members{}) {
		t.Errorf("an agent without witnesses wants %+v, with %v", n.agent.Wanted, n.members)
	}
	c.Others, c.Peers, c.Witness = noPeers{}, noPeers{}, NewWitness()
	if n := newNode(c); n.agent.Wanted != sent || n.members != sent.Witnesses {
		t.Errorf("an agent with witnesses wants %+v, with %v", n.agent.Wanted, n.members)
	}
	c.Store = stored{State: State{Boot: "b"}}
	if n := newNode(c); n.agent.Wanted != (selffence.Promise{Boot: "b"}) {
		t.Errorf("an agent that has stored nothing wants %+v", n.agent.Wanted)
	}
}

// TestAddressesAreReadAfterANote: other goroutines read them meanwhile.
func TestAddressesAreReadAfterANote(t *testing.T) {
	t.Parallel()
	a := NewAddresses(Directory(t.TempDir()))
	if err := a.note([]string{"a"}, map[string]promiselease.Record{"a": {}}); err != nil || !a.mu.TryLock() {
		t.Errorf("they are locked after a note: %v", err)
	}
}

// stating is an Explainer that counts how often a reason was stated.
type stating struct {
	calls int
	err   error
}

func (s *stating) Explain(context.Context, string, promiselease.NoPromise) error {
	s.calls++
	return s.err
}

// TestReadsAfterAReason: the Lease has another revision after a reason was stated, and may have it after a failure. So it is read before it is written.
func TestReadsAfterAReason(t *testing.T) {
	t.Parallel()
	for _, fails := range []error{nil, errQuestion} {
		e := &stating{err: fails}
		n := newNode(Config{Boot: "b", Store: stored{State: State{Boot: "b"}}, Explainer: e, Boottime: func() time.Duration { return time.Hour }, Tell: func(Note) {}})
		n.unfound = true
		n.agent = n.agent.Read(selffence.Lease{Revision: 7, State: selffence.Withdrawn})
		if got := n.agent.Next(0); got != selffence.WriteLease {
			t.Fatalf("before, the agent is to do %d", got)
		}
		n.explain(t.Context())
		if got := n.agent.Next(0); e.calls != 1 || got != selffence.ReadLease || n.agent.Away() != (fails != nil) {
			t.Errorf("after %d calls, which fail with %v, the agent is to do %d", e.calls, fails, got)
		}
	}
}

// TestExplainsNothingBeforeACreation is over: the reason would be created in its place.
func TestExplainsNothingBeforeACreation(t *testing.T) {
	t.Parallel()
	e := &stating{}
	n := newNode(Config{Boot: "b", Store: stored{State: State{Boot: "b", Creates: true}}, Explainer: e, Boottime: func() time.Duration { return 0 }, Tell: func(Note) {}})
	n.unfound = true
	n.explain(t.Context())
	if e.calls > 0 {
		t.Error("a reason is stated")
	}
}

// TestWhyNoPromise: a node has no promise since its watchdog won't do, or since no policy was ever read.
func TestWhyNoPromise(t *testing.T) {
	t.Parallel()
	used, busy := Settings{Renewal: time.Second}, Reason(promiselease.WatchdogBusy)
	for _, c := range []struct {
		node *node
		want promiselease.NoPromise
	}{
		{&node{used: used, unusable: true, refusal: busy}, promiselease.WatchdogBusy},
		{&node{used: used, refusal: busy, found: &used}, ""},
		{&node{unusable: true, refusal: busy, found: &used}, ""},
		{&node{unfound: true}, promiselease.PolicyUnreadable},
		{&node{unfound: true, found: &used}, ""},
		{&node{}, ""},
	} {
		if got := c.node.whyNoPromise(); got != c.want {
			t.Errorf("of %+v the reason is %q, want %q", c.node, got, c.want)
		}
	}
}

// TestErrorsOfCredentials: people are told what can't be read.
func TestErrorsOfCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, credentialsFile), make([]byte, maxCredentials+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Directory(dir).loadCredentials(); !errors.Is(err, errLong) {
		t.Errorf("a long file: %v", err)
	}
	if _, _, err := (credentials{}).identity("n"); !errors.Is(err, errAuthorities) {
		t.Errorf("no authorities: %v", err)
	}
}

// resetting is hardware that resets the node, and returns as if it had.
type resetting struct{ Hardware }

func (resetting) Reset() error { return nil }

// TestAResetThatReturns without an error has not failed.
func TestAResetThatReturns(t *testing.T) {
	t.Parallel()
	late := selffence.Promise{Boot: "b", Timed: true, Times: selffence.Times{Validity: time.Minute, Watchdog: time.Minute}}
	var told []Reason
	n := newNode(Config{
		Boot: "b", Store: stored{State: State{Boot: "b", Agent: selffence.AgentState{Bound: true, Stated: late, Sent: late}}}, Hardware: resetting{},
		Boottime: func() time.Duration { return time.Hour }, Tell: func(n Note) { told = append(told, n.Reason) },
	})
	n.resetIfOverdue()
	n.resetIfOverdue()
	if len(told) != 1 || told[0] != Overdue {
		t.Errorf("people were told %v", told)
	}
}

// counting is hardware that counts how often its watchdog is opened.
type counting struct {
	Hardware

	opened int
	err    error
}

func (c *counting) Open(Watchdog, func() bool) (Device, error) {
	c.opened++
	if c.err != nil {
		return nil, c.err
	}
	return unused{}, nil
}

// unused is a watchdog.
type unused struct{ Device }

func (unused) State() (time.Duration, string) { return time.Minute, "" }

// settling returns an agent with a policy that has read that there is no Lease.
func settling(t *testing.T, s selffence.AgentState) (*node, *counting) {
	t.Helper()
	h := &counting{}
	used := Settings{Watchdog: Watchdog{Device: "/dev/watchdog", Timeout: time.Minute}, Renewal: time.Second, Validity: time.Minute}
	n := newNode(Config{
		Boot: "b", Store: stored{State: State{Boot: "b", Settings: used, Agent: s}}, Hardware: h, Boottime: func() time.Duration { return time.Hour }, Tell: func(Note) {},
	})
	n.agent = n.agent.Read(selffence.Lease{})
	return n, h
}

// TestOpensAtTheEnd: an agent that is to end opens the watchdog for a promise of an earlier process alone.
func TestOpensAtTheEnd(t *testing.T) {
	t.Parallel()
	p := selffence.Promise{Boot: "b", Times: selffence.Times{Watchdog: time.Minute}}
	for _, c := range []struct {
		state    selffence.AgentState
		stopping bool
		want     int
	}{{stopping: true}, {want: 1}, {selffence.AgentState{Bound: true, Stated: p, Sent: p}, true, 1}, {selffence.AgentState{Bound: true, Stated: p, Sent: p}, false, 1}} {
		n, h := settling(t, c.state)
		n.settle(c.stopping)
		if h.opened != c.want {
			t.Errorf("bound %t, stopping %t: the watchdog is opened %d times", c.state.Bound, c.stopping, h.opened)
		}
	}
}

// TestSettlesByOtherSettings: questions may take as long as the settings allow. An agent that is to end keeps those of its promise.
func TestSettlesByOtherSettings(t *testing.T) {
	t.Parallel()
	n, _ := settling(t, selffence.AgentState{})
	n.settle(false)
	if n.limit != time.Second/2 {
		t.Errorf("a question may take %s", n.limit)
	}
	longer := n.used
	longer.Renewal = 4 * time.Second
	n.found = &longer
	n.settle(false)
	if n.used != longer || n.limit != 2*time.Second {
		t.Errorf("a question may take %s, by %+v", n.limit, n.used)
	}
	p := selffence.Promise{Boot: "b", Times: selffence.Times{Watchdog: time.Minute}}
	n, _ = settling(t, selffence.AgentState{Bound: true, Stated: p, Sent: p})
	n.settle(false)
	before, wanted := n.used, n.agent.Wanted
	longer.Validity, longer.Reset, longer.Witnesses = time.Hour, true, 3
	n.found = &longer
	n.agent.Wanted = selffence.Promise{Boot: "b"}
	n.settle(true)
	if n.used != before || n.agent.Wanted == wanted {
		t.Errorf("at its end the agent wants %+v by %+v", n.agent.Wanted, n.used)
	}
}

// TestSettlesLater: a bound agent that may not pet, and so has no watchdog, keeps the settings of its promise.
func TestSettlesLater(t *testing.T) {
	t.Parallel()
	p := selffence.Promise{Boot: "b", Times: selffence.Times{Watchdog: time.Minute}}
	n, h := settling(t, selffence.AgentState{Bound: true, Stated: p, Sent: p})
	h.err = &UnavailableError{Reason: MayNotPet, Err: errQuestion}
	before, longer := n.used, n.used
	longer.Validity = time.Hour
	n.found = &longer
	n.settle(false)
	if n.used != before || h.opened != 1 {
		t.Errorf("after opening the watchdog %d times, the agent uses %+v", h.opened, n.used)
	}
}

// TestSettlesOnceItsLeaseIsRead: an agent that has lost its state does not know its promise, and so uses no other settings before.
func TestSettlesOnceItsLeaseIsRead(t *testing.T) {
	t.Parallel()
	n, _ := settling(t, selffence.AgentState{})
	before := n.used
	n.lost, n.found = true, &Settings{}
	n.settle(false)
	if n.used != before || n.agent.Stopping || n.told != "" {
		t.Errorf("it uses %+v, stopping is %t, and people were told %q", n.used, n.agent.Stopping, n.told)
	}
	n.lost = false
	n.settle(false)
	if n.used != (Settings{}) || !n.agent.Stopping || n.told != NotSelected {
		t.Errorf("then it uses %+v, stopping is %t, and people were told %q", n.used, n.agent.Stopping, n.told)
	}
}

// TestAnotherWatchdog: an agent disarms the watchdog that it has opened before it uses another one.
func TestAnotherWatchdog(t *testing.T) {
	t.Parallel()
	n, h := settling(t, selffence.AgentState{})
	n.settle(false)
	before, other := n.used, n.used
	other.Watchdog.Device = "/dev/watchdog1"
	n.found = &other
	n.settle(false)
	if n.used != before || !n.agent.Stopping || h.opened != 1 {
		t.Errorf("it uses %+v, stopping is %t, and opened were %d", n.used, n.agent.Stopping, h.opened)
	}
	n.device = nil
	n.settle(false)
	if n.used != other || n.agent.Stopping || h.opened != 2 {
		t.Errorf("then it uses %+v, stopping is %t, and opened were %d", n.used, n.agent.Stopping, h.opened)
	}
}

// TestDemandsWake: witnesses that are demanded from now on are chosen at once.
func TestDemandsWake(t *testing.T) {
	t.Parallel()
	n, _ := settling(t, selffence.AgentState{})
	n.settle(false)
	if len(n.demanding) > 0 {
		t.Error("witnesses are demanded")
	}
	demanding := n.used
	demanding.Reset, demanding.Witnesses = true, 3
	n.found = &demanding
	n.settle(false)
	if len(n.demanding) != 1 {
		t.Error("nothing says that witnesses are demanded")
	}
}

// TestKeepsWhatIsStored: an agent that can't store another promise goes on with the promise of its last write.
func TestKeepsWhatIsStored(t *testing.T) {
	t.Parallel()
	p := selffence.Promise{Boot: "b", Timed: true, Times: selffence.Times{Watchdog: time.Minute, Validity: 2 * time.Hour}, Witnesses: selffence.Members{"x", "y", "z"}}
	n, _ := settling(t, selffence.AgentState{Bound: true, Stated: p, Sent: p})
	n.settle(false)
	if n.agent.Wanted == p {
		t.Fatal("the agent wants no other promise")
	}
	n.unstored = true
	n.settle(false)
	if n.agent.Wanted != p {
		t.Errorf("the agent wants %+v", n.agent.Wanted)
	}
}

// TestOpensFromTheBegin: an agent opens the watchdog also right after a boot, and not while it may not pet. A device that is armed is kept.
func TestOpensFromTheBegin(t *testing.T) {
	t.Parallel()
	n, h := settling(t, selffence.AgentState{})
	n.Boottime = func() time.Duration { return time.Second }
	n.settle(false)
	if h.opened != 1 {
		t.Errorf("after a second the watchdog is opened %d times", h.opened)
	}
	p := selffence.Promise{Boot: "b", Timed: true, Times: selffence.Times{Watchdog: time.Minute, Validity: time.Minute}}
	n, h = settling(t, selffence.AgentState{Bound: true, Stated: p, Sent: p})
	n.settle(false)
	if h.opened != 0 {
		t.Errorf("an agent that may not pet opens the watchdog %d times", h.opened)
	}
	n, _ = settling(t, selffence.AgentState{})
	n.Hardware = armed{}
	n.settle(false)
	if n.device == nil || !n.agent.Stopping {
		t.Error("an armed watchdog is forgotten")
	}
}

// armed is hardware whose watchdog is armed when it is refused.
type armed struct{ Hardware }

func (armed) Open(Watchdog, func() bool) (Device, error) {
	return unused{}, &UnavailableError{Reason: MayNotPet, Err: errQuestion}
}

// TestNoTimedPromiseOutOfBounds: a promise whose times are out of bounds is not timed.
func TestNoTimedPromiseOutOfBounds(t *testing.T) {
	t.Parallel()
	s := Settings{Validity: time.Minute, Reset: true, Witnesses: 3}
	for timeout, want := range map[time.Duration]bool{time.Minute: true, time.Hour: true, time.Hour + 1: false} {
		if p := s.promise("b", timeout, selffence.Members{"x", "y", "z"}); p.Timed != want || p.Times.Watchdog != timeout {
			t.Errorf("with a watchdog of %s, the promise is %+v", timeout, p)
		}
	}
}
