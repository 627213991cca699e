package selffence_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

func timed() selffence.Promise {
	return selffence.Promise{
		Boot: "a", Timed: true, Times: selffence.Times{Validity: 10 * time.Second, Watchdog: 15 * time.Second},
		Witnesses: selffence.Members{"x", "y", "z"},
	}
}

func newAgent(s selffence.AgentState) selffence.Agent {
	return selffence.NewAgent(timed(), 3*time.Second, s)
}

// untimed is the first promise of an agent.
func untimed() selffence.Promise {
	return selffence.Promise{Boot: "a", Times: selffence.Times{Watchdog: 15 * time.Second}}
}

// bound returns an agent whose timed promise stands, by a request that was sent at second 100.
func bound(t *testing.T) selffence.Agent {
	t.Helper()
	a := newAgent(selffence.AgentState{}).Read(selffence.Lease{})
	requires(t, a, 97*time.Second, selffence.WriteLease)
	a, r := a.Sends(selffence.WriteLease, 97*time.Second)
	if r.Lease.State != selffence.Promised || r.Lease.Promise != untimed() || r.Lease.Revision != 0 {
		t.Fatalf("the agent states %+v first", r.Lease)
	}
	a = a.Written(6)
	requires(t, a, 100*time.Second, selffence.WriteLease)
	a, r = a.Sends(selffence.WriteLease, 100*time.Second)
	if r.Lease.State != selffence.Promised || r.Lease.Promise != timed() || r.Lease.Revision != 6 {
		t.Fatalf("the agent states %+v", r.Lease)
	}
	return a.Written(7)
}

func requires(t *testing.T, a selffence.Agent, now time.Duration, want selffence.Action) {
	t.Helper()
	if got := a.Next(now); got != want {
		t.Errorf("at %s the agent does %d, want %d", now, got, want)
	}
}

func TestAgentRenews(t *testing.T) {
	t.Parallel()
	a := bound(t)
	requires(t, a, 102*time.Second, selffence.Wait)
	requires(t, a, 103*time.Second, selffence.WriteLease)
	a, r := a.Sends(selffence.WriteLease, 104*time.Second)
	if r.Lease.Revision != 7 {
		t.Errorf("the renewal replaces revision %d, want 7", r.Lease.Revision)
	}
	requires(t, a, 154*time.Second, selffence.Wait) // it is in flight
	if a.MayPet(110 * time.Second) {
		t.Error("a renewal that was not answered counts as a grant")
	}
	if a = a.Written(8); !a.MayPet(114*time.Second-1) || a.MayPet(114*time.Second) {
		t.Error("a grant counts for ten seconds from when the request was sent")
	}
}

// TestFirstPromiseBinds: once a promise was sent it may stand, whatever became of the request.
func TestFirstPromiseBinds(t *testing.T) {
	t.Parallel()
	a := newAgent(selffence.AgentState{}).Read(selffence.Lease{})
	if !a.MayPet(time.Hour) {
		t.Error("an agent that has promised nothing may pet")
	}
	a, _ = a.Sends(selffence.WriteLease, 100*time.Second)
	a = a.Failed()
	requires(t, a, 101*time.Second, selffence.ReadLease)
	again := newAgent(a.AgentState)
	again.Stopping = true
	requires(t, again, 101*time.Second, selffence.ReadLease)
}

// TestFirstPromiseIsNotTimed: witnesses have read no promise before the first one, so they would not agree to it. After an outage the agent states it again, and only
// then a timed one.
func TestFirstPromiseIsNotTimed(t *testing.T) {
	t.Parallel()
	a := newAgent(selffence.AgentState{}).Read(selffence.Lease{Revision: 5, State: selffence.Withdrawn, Promise: timed()})
	a, r := a.Sends(selffence.WriteLease, 100*time.Second)
	if r.Lease.Promise != untimed() || a.Sent != untimed() {
		t.Errorf("the agent states %+v, and its state is %+v", r.Lease.Promise, a.AgentState)
	}
	a = a.Failed()
	if !a.MayPet(time.Hour) || a.Overdue(time.Hour) {
		t.Error("an outage at the first promise has the node reset")
	}
	a = a.Read(selffence.Lease{Revision: 5, State: selffence.Withdrawn, Promise: timed()})
	if _, r = a.Sends(selffence.WriteLease, time.Hour); r.Lease.Promise != untimed() {
		t.Errorf("after an outage the agent states %+v", r.Lease.Promise)
	}
}

func TestAgentLearnsThatItIsCondemned(t *testing.T) {
	t.Parallel()
	a := bound(t)
	a, _ = a.Sends(selffence.WriteLease, 104*time.Second)
	a = a.Conflicts()
	if again := a.Read(selffence.Lease{Revision: 8, State: selffence.Promised, Promise: timed()}); !again.MayPet(109*time.Second) || again.MayPet(110*time.Second) {
		t.Error("reading the Lease changes what is granted")
	}
	requires(t, a, 104*time.Second, selffence.ReadLease)
	other := a.Read(selffence.Lease{Revision: 9, State: selffence.Condemned, Promise: selffence.Promise{Boot: "earlier"}})
	requires(t, other, 104*time.Second, selffence.ReadLease)
	if !other.MayPet(105 * time.Second) {
		t.Error("a condemnation of an earlier boot counts for this one")
	}
	a = a.Read(selffence.Lease{Revision: 9, State: selffence.Condemned, Promise: timed()})
	requires(t, a, 104*time.Second, selffence.Reset)
	if a.MayPet(104 * time.Second) {
		t.Error("a condemned agent may pet")
	}
}

func TestAgentStops(t *testing.T) {
	t.Parallel()
	a := bound(t)
	a.Stopping, a.Wanted.Times.Validity = true, time.Second
	requires(t, a, 101*time.Second, selffence.WriteLease)
	a, r := a.Sends(selffence.WriteLease, 101*time.Second)
	if r.Lease.State != selffence.Withdrawn || r.Lease.Promise.Boot != "a" {
		t.Errorf("the agent writes %+v", r.Lease)
	}
	requires(t, a, 101*time.Second, selffence.Wait)
	if a.MayPet(110 * time.Second) {
		t.Error("the promise ends before its withdrawal is confirmed")
	}
	if !a.MayPet(109 * time.Second) {
		t.Error("a promise that was never sent counts")
	}
	withdrawn := a.Written(8)
	requires(t, withdrawn, 101*time.Second, selffence.Disarm)
	if withdrawn.AgentState != (selffence.AgentState{}) {
		t.Errorf("the state of the agent is %+v", withdrawn.AgentState)
	}
	still := a.Failed().Read(selffence.Lease{Revision: 7, State: selffence.Promised, Promise: timed()})
	requires(t, still, 101*time.Second, selffence.WriteLease)
	lost := a.Failed()
	requires(t, lost, 101*time.Second, selffence.ReadLease)
	lost = lost.Read(selffence.Lease{Revision: 8, State: selffence.Withdrawn, Promise: timed()})
	requires(t, lost, 101*time.Second, selffence.WriteLease) // an earlier request may still be carried out
	if lost, r = lost.Sends(selffence.WriteLease, 101*time.Second); r.Lease.State != selffence.Withdrawn || r.Lease.Revision != 8 {
		t.Errorf("the agent writes %+v", r.Lease)
	}
	requires(t, lost.Written(9), 101*time.Second, selffence.Disarm)
	requires(t, a.Failed().Deleted(), 101*time.Second, selffence.Disarm)
}

func TestWitnessesGrant(t *testing.T) {
	t.Parallel()
	a := bound(t)
	a, _ = a.Sends(selffence.WriteLease, 103*time.Second)
	a = a.Failed()
	requires(t, a, 102*time.Second, selffence.ReadLease) // a renewal is not due
	requires(t, a, 105*time.Second, selffence.AskWitnesses)
	a, _ = a.Sends(selffence.AskWitnesses, 105*time.Second)
	requires(t, a, 105*time.Second, selffence.ReadLease) // the API server is tried between two questions
	for _, answer := range []struct {
		from string
		sent time.Duration
	}{{"x", 105 * time.Second}, {"x", 105 * time.Second}, {"stranger", 105 * time.Second}, {"", 105 * time.Second}, {"y", 104 * time.Second}} {
		if a = a.Agrees(answer.from, answer.sent); a.MayPet(110 * time.Second) {
			t.Fatalf("the answer %+v is a grant", answer)
		}
	}
	if a = a.Agrees("z", 105*time.Second); !a.MayPet(115*time.Second-1) || a.MayPet(115*time.Second) {
		t.Error("two of three witnesses grant from when the question was sent")
	}
	requires(t, a.Failed(), 107*time.Second, selffence.ReadLease)
	requires(t, a.Failed(), 108*time.Second, selffence.AskWitnesses)
}

// TestWitnessesOfBothPromises: while two promises may stand, a grant takes a majority of the witnesses of each that is timed.
func TestWitnessesOfBothPromises(t *testing.T) {
	t.Parallel()
	other, hold, alone := timed(), timed(), timed()
	other.Witnesses = selffence.Members{"v", "w", "x"}
	hold.Timed = false
	alone.Witnesses = selffence.Members{}
	all := []string{"v", "w", "x", "y", "z"}
	for name, c := range map[string]struct {
		before  selffence.AgentState
		queried []string
		answers []string
		want    bool
	}{
		"the first majority":             {selffence.AgentState{Stated: timed(), Sent: other}, all, []string{"y", "z"}, false},
		"the second majority":            {selffence.AgentState{Stated: timed(), Sent: other}, all, []string{"v", "w"}, false},
		"both":                           {selffence.AgentState{Stated: timed(), Sent: other}, all, []string{"y", "z", "v", "w"}, true},
		"one of both, and one of each":   {selffence.AgentState{Stated: timed(), Sent: other}, all, []string{"v", "x", "y"}, true},
		"from Hold to Reset":             {selffence.AgentState{Stated: hold, Sent: other}, []string{"v", "w", "x"}, []string{"v", "w"}, true},
		"from Hold to Reset, the former": {selffence.AgentState{Stated: hold, Sent: other}, []string{"v", "w", "x"}, []string{"y", "z"}, false},
		"from Reset to Hold":             {selffence.AgentState{Stated: other, Sent: hold}, []string{"v", "w", "x"}, []string{"x", "w"}, true},
		"the first promise of all":       {selffence.AgentState{Sent: timed()}, []string{"x", "y", "z"}, []string{"x", "z"}, true},
		"one without witnesses":          {selffence.AgentState{Stated: alone, Sent: timed()}, []string{"x", "y", "z"}, []string{"x", "y", "z"}, false},
		"the other without witnesses":    {selffence.AgentState{Stated: timed(), Sent: alone}, []string{"x", "y", "z"}, []string{"x", "y", "z"}, false},
		"none is timed":                  {selffence.AgentState{Stated: hold, Sent: hold}, nil, []string{"x", "y", "z"}, false},
		"what was stored is lost":        {selffence.AgentState{Stated: timed(), Sent: timed(), Lost: true}, []string{"x", "y", "z"}, []string{"x", "y", "z"}, false},
	} {
		c.before.Bound, c.before.Granted = true, 100*time.Second
		a := newAgent(c.before).Failed()
		if got := a.Witnesses(); !slices.Equal(got, c.queried) {
			t.Errorf("%s: the witnesses to query are %q", name, got)
		}
		a, _ = a.Sends(selffence.AskWitnesses, 105*time.Second)
		for _, from := range c.answers {
			a = a.Agrees(from, 105*time.Second)
		}
		if got := a.Granted == 105*time.Second; got != c.want {
			t.Errorf("%s: granted is %t, want %t", name, got, c.want)
		}
	}
}

// TestWitnessesOfPromiseRead: once the agent has read which promise stands, its witnesses suffice.
func TestWitnessesOfPromiseRead(t *testing.T) {
	t.Parallel()
	a := bound(t)
	a.Wanted.Witnesses = selffence.Members{"x", "v", "w"}
	a, _ = a.Sends(selffence.WriteLease, 104*time.Second)
	a = a.Failed()
	requires(t, a, 105*time.Second, selffence.AskWitnesses)
	a, _ = a.Sends(selffence.ReadLease, 105*time.Second)
	a = a.Read(selffence.Lease{Revision: 8, State: selffence.Promised, Promise: a.Wanted}).Failed()
	a, _ = a.Sends(selffence.AskWitnesses, 108*time.Second)
	if !a.Agrees("x", 108*time.Second).Agrees("v", 108*time.Second).MayPet(117 * time.Second) {
		t.Error("witnesses of a promise that was read grant nothing")
	}
}

// TestHold: without a timed promise the node goes on until it learns that it is condemned.
func TestHold(t *testing.T) {
	t.Parallel()
	a := newAgent(selffence.AgentState{})
	a.Wanted.Timed = false
	a = a.Read(selffence.Lease{})
	a, _ = a.Sends(selffence.WriteLease, 100*time.Second)
	if a = a.Written(7); !a.MayPet(100 * time.Hour) {
		t.Error("the agent stops petting")
	}
	condemned := a.Wanted
	if a = a.Read(selffence.Lease{Revision: 8, State: selffence.Condemned, Promise: condemned}); a.MayPet(101 * time.Second) {
		t.Error("a condemned agent may pet")
	}
	observed := selffence.Observation{}.Observe(selffence.Lease{Revision: 8, State: selffence.Condemned, Promise: condemned, By: "uid"}, at(0))
	if when, ok := observed.Expiry("uid"); ok {
		t.Errorf("a promise that is not timed expires at %s", when)
	}
}

func TestWitness(t *testing.T) {
	t.Parallel()
	promised := selffence.Lease{Revision: 5, State: selffence.Promised, Promise: timed()}
	condemned := selffence.Lease{Revision: 6, State: selffence.Condemned, Promise: timed()}
	for name, c := range map[string]struct {
		w     selffence.Witness
		lease selffence.Lease
		boot  string
		want  bool
	}{
		"away as well":           {selffence.Witness{Read: 5, Away: true}, promised, "a", true},
		"reaches the API server": {selffence.Witness{Read: 5}, promised, "a", false},
		"has read the first":     {selffence.Witness{Read: 1, Away: true}, promised, "a", true},
		"has read nothing":       {selffence.Witness{Away: true}, promised, "a", false},
		"knows of condemnation":  {selffence.Witness{Read: 6, Away: true}, condemned, "a", false},
		"knows another boot":     {selffence.Witness{Read: 5, Away: true}, promised, "b", false},
		"knows no Lease":         {selffence.Witness{Read: 5, Away: true}, selffence.Lease{}, "", false},
	} {
		if got := c.w.Agrees(c.lease, c.boot); got != c.want {
			t.Errorf("%s: the witness agrees: %t, want %t", name, got, c.want)
		}
	}
}

// TestLostState: a promise of this boot binds an agent that has lost what it stored.
func TestLostState(t *testing.T) {
	t.Parallel()
	if !newAgent(selffence.AgentState{}).Read(selffence.Lease{Revision: 7, Promise: timed()}).MayPet(time.Hour) {
		t.Error("a Lease that says nothing binds")
	}
	a := newAgent(selffence.AgentState{}).Read(selffence.Lease{Revision: 7, State: selffence.Promised, Promise: timed()})
	long := timed()
	long.Times.Validity = time.Hour
	if newAgent(selffence.AgentState{}).Read(selffence.Lease{Revision: 7, State: selffence.Promised, Promise: long}).MayPet(0) {
		t.Error("the agent pets without a grant, just after the node has started")
	}
	if a.MayPet(0) || a.MayPet(100*time.Second) {
		t.Error("the agent pets without a grant")
	}
	requires(t, a, 100*time.Second, selffence.WriteLease)
	if a, _ = a.Sends(selffence.WriteLease, 100*time.Second); a.MayPet(100 * time.Second) {
		t.Error("a request is a grant")
	}
	if a = a.Written(8); !a.MayPet(109 * time.Second) {
		t.Error("a grant does not count")
	}
}

// TestShortestValidity: of the promises that may stand, the shortest counts.
func TestShortestValidity(t *testing.T) {
	t.Parallel()
	long, short, hold := timed(), timed(), timed()
	short.Times.Validity, hold.Timed, hold.Times.Validity = time.Second, false, time.Second
	for name, c := range map[string]struct {
		stated, sent selffence.Promise
		want         time.Duration
	}{
		"one":             {long, long, 10 * time.Second},
		"shorter":         {long, short, time.Second},
		"longer":          {short, long, time.Second},
		"timed from now":  {hold, long, 10 * time.Second},
		"timed until now": {long, hold, 10 * time.Second},
	} {
		a := newAgent(selffence.AgentState{Bound: true, Granted: time.Minute, Stated: c.stated, Sent: c.sent})
		if !a.MayPet(time.Minute+c.want-1) || a.MayPet(time.Minute+c.want) {
			t.Errorf("%s: a grant is not valid for %s", name, c.want)
		}
	}
}

// TestOverdue: an agent resets a node that runs for longer than it has promised. Its watchdog has failed, or the node was suspended.
func TestOverdue(t *testing.T) {
	t.Parallel()
	hold, short := timed(), timed()
	hold.Timed, short.Times.Validity = false, 4*time.Second
	const longest = 55 * time.Second // of 10s and three times 15s
	for name, c := range map[string]struct {
		before selffence.AgentState
		after  time.Duration
	}{
		"one promise":         {selffence.AgentState{Bound: true, Stated: timed(), Sent: timed()}, longest},
		"the shorter of both": {selffence.AgentState{Bound: true, Stated: timed(), Sent: short}, longest - 6*time.Second},
		"it becomes timed":    {selffence.AgentState{Bound: true, Stated: hold, Sent: timed()}, longest},
		"it was timed":        {selffence.AgentState{Bound: true, Stated: timed(), Sent: hold}, longest},
		"the first":           {selffence.AgentState{Bound: true, Sent: timed()}, longest},
		"not timed":           {selffence.AgentState{Bound: true, Stated: hold, Sent: hold}, 0},
		"nothing may stand":   {selffence.AgentState{Stated: timed(), Sent: timed()}, 0},
		"lost":                {selffence.AgentState{Bound: true, Stated: timed(), Sent: timed(), Lost: true}, 0},
	} {
		c.before.Granted = time.Minute
		a := newAgent(c.before)
		if c.after == 0 {
			if a.Overdue(time.Hour) || a.Next(time.Hour) == selffence.Reset {
				t.Errorf("%s: it is overdue", name)
			}
			continue
		}
		if at := time.Minute + c.after; a.Overdue(at-1) || a.Next(at-1) == selffence.Reset || !a.Overdue(at) || a.Next(at) != selffence.Reset {
			t.Errorf("%s: it is not overdue %s after its last grant", name, c.after)
		}
	}
}

// TestNoWitnesses: without witnesses the agent queries none, and no answer is a grant.
func TestNoWitnesses(t *testing.T) {
	t.Parallel()
	p := timed()
	p.Witnesses = selffence.Members{}
	a := newAgent(selffence.AgentState{Bound: true, Granted: 50 * time.Second, Stated: p, Sent: p}).Failed()
	requires(t, a, 100*time.Second, selffence.ReadLease)
	if a.Agrees("x", 0).MayPet(61 * time.Second) {
		t.Error("an answer without a question is a grant")
	}
	one := p
	one.Witnesses[0] = "x"
	hold := one
	hold.Timed = false
	requires(t, newAgent(selffence.AgentState{Bound: true, Granted: 50 * time.Second, Stated: hold, Sent: hold}).Failed(), 100*time.Second, selffence.ReadLease)
	a = newAgent(selffence.AgentState{Bound: true, Granted: 50 * time.Second, Stated: one, Sent: one}).Failed()
	requires(t, a, 100*time.Second, selffence.AskWitnesses)
	a, _ = a.Sends(selffence.AskWitnesses, 100*time.Second)
	if a.Counts() || !a.Agrees("x", 100*time.Second).MayPet(105*time.Second) {
		t.Error("the only witness does not grant")
	}
	if !a.Agrees("x", 100*time.Second).Counts() {
		t.Error("the answer is not counted")
	}
}

func TestLateAnswers(t *testing.T) {
	t.Parallel()
	a := bound(t)
	if a.Awaits(a.InFlight()) {
		t.Error("the agent awaits an answer to nothing")
	}
	a, first := a.Sends(selffence.WriteLease, 103*time.Second)
	if !a.Awaits(first) {
		t.Error("the agent does not await the answer to its request")
	}
	a = a.Failed()
	if a, _ = a.Sends(selffence.ReadLease, 104*time.Second); a.Awaits(first) {
		t.Error("the agent awaits the answer to a request that it has given up")
	}
}

// TestTwoMayStand: while two promises may stand, the agent sends no third. Its state has room for two.
func TestTwoMayStand(t *testing.T) {
	t.Parallel()
	a := bound(t)
	less, more := timed(), timed()
	less.Times.Validity, more.Times.Validity = 9*time.Second, time.Minute
	a.Wanted = less
	a, _ = a.Sends(selffence.WriteLease, 103*time.Second)
	a = a.Failed()
	a, _ = a.Sends(selffence.ReadLease, 104*time.Second)
	a = a.Read(selffence.Lease{Revision: 7, State: selffence.Promised, Promise: timed()})
	a.Wanted = more
	a, r := a.Sends(selffence.WriteLease, 105*time.Second)
	if r.Lease.Promise != less || a.Sent != less || a.Stated != timed() {
		t.Errorf("the agent sends %+v, and its state is %+v", r.Lease.Promise, a.AgentState)
	}
	a = a.Written(8)
	if a, r = a.Sends(selffence.WriteLease, 106*time.Second); r.Lease.Promise != more || a.Stated != less {
		t.Errorf("once it is certain which promise stands, the agent sends %+v, and its state is %+v", r.Lease.Promise, a.AgentState)
	}
}

// TestLostRequests: an agent that has lost its state does not know which requests are under way. It pets and queries witnesses only after a write of its own.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	hold := timed()
	hold.Timed = false
	if newAgent(selffence.AgentState{}).MayPet(0) {
		t.Error("an agent without a stored state pets before it has read the Lease")
	}
	for _, p := range []selffence.Promise{timed(), hold} {
		a := newAgent(selffence.AgentState{}).Read(selffence.Lease{Revision: 7, State: selffence.Promised, Promise: p})
		if a.MayPet(0) {
			t.Errorf("the agent pets by %+v, which may be replaced", p)
		}
		away := a.Failed()
		requires(t, away, 100*time.Second, selffence.ReadLease)
		away, _ = away.Sends(selffence.AskWitnesses, 100*time.Second)
		if away = away.Agrees("x", 100*time.Second).Agrees("y", 100*time.Second); away.Granted >= 0 {
			t.Error("witnesses grant that may be replaced already")
		}
		a = newAgent(a.AgentState).Read(selffence.Lease{Revision: 7, State: selffence.Promised, Promise: p})
		if a, _ = a.Sends(selffence.WriteLease, 101*time.Second); a.MayPet(101*time.Second) || a.Sent != p {
			t.Errorf("before its write has succeeded, the agent pets by %+v", a.AgentState)
		}
		if a = a.Written(8); !a.MayPet(102*time.Second) || a.Lost {
			t.Errorf("after it, the agent does not pet by %+v", a.AgentState)
		}
	}
}

// TestLostRepeats: before its write has succeeded, an agent that has lost its state states no other promise than it has read.
func TestLostRepeats(t *testing.T) {
	t.Parallel()
	a := newAgent(selffence.AgentState{}).Read(selffence.Lease{Revision: 7, State: selffence.Promised, Promise: timed()})
	a.Wanted.Times.Validity = time.Minute
	if _, r := a.Sends(selffence.WriteLease, 101*time.Second); r.Lease.Promise != timed() {
		t.Errorf("the agent states %+v", r.Lease.Promise)
	}
}

// TestAnswersAboutOthers: an answer counts for the witnesses that were stated when the question was sent.
func TestAnswersAboutOthers(t *testing.T) {
	t.Parallel()
	for name, learns := range map[string]func(selffence.Agent, selffence.Promise) selffence.Agent{
		"by a write": func(a selffence.Agent, p selffence.Promise) selffence.Agent {
			a.Wanted = p
			a, _ = a.Sends(selffence.WriteLease, 106*time.Second)
			return a.Written(8)
		},
		"by reading": func(a selffence.Agent, p selffence.Promise) selffence.Agent {
			a.AgentState.Sent = p
			return a.Read(selffence.Lease{Revision: 8, State: selffence.Promised, Promise: p})
		},
	} {
		a, other := bound(t), timed()
		other.Witnesses = selffence.Members{"u", "v", "w"}
		a = a.Failed()
		a, _ = a.Sends(selffence.AskWitnesses, 105*time.Second)
		a = learns(a.Agrees("x", 105*time.Second), other)
		granted := a.Granted
		if a.Counts() {
			t.Errorf("%s: an answer of x counts for u", name)
		}
		for _, late := range []time.Duration{0, 105 * time.Second} {
			if a = a.Agrees("u", late).Agrees("v", late); a.Granted != granted {
				t.Errorf("%s: the answers to an earlier question are a grant", name)
			}
		}
	}
}

func TestAway(t *testing.T) {
	t.Parallel()
	a := bound(t)
	if a.Away() || !a.Failed().Away() || a.Failed().Conflicts().Away() {
		t.Error("an agent is away while the API server did not answer its last request")
	}
}

// TestWithdrawnLeaseAndLateWrite: a Lease that is still withdrawn doesn't show that a promise which got no answer won't be carried out.
func TestWithdrawnLeaseAndLateWrite(t *testing.T) {
	t.Parallel()
	p := selffence.Promise{Boot: "a", Times: selffence.Times{Watchdog: 10 * time.Second}}
	withdrawn := selffence.Lease{Revision: 7, State: selffence.Withdrawn, Promise: p}
	a := selffence.NewAgent(p, 5*time.Second, selffence.AgentState{}).Read(withdrawn)
	a, late := a.Sends(selffence.WriteLease, time.Minute)
	a = a.Failed().Read(withdrawn)
	a.Stopping = true
	if action := a.Next(time.Minute + 3*time.Second); action == selffence.Disarm {
		t.Errorf("the agent disarms the watchdog while %+v may be carried out", late)
	}
}

// TestTimedAfterOutage: a timed promise in place of an untimed promise allows the agent to go on petting while its request is under way, however
// long the API server was away before.
func TestTimedAfterOutage(t *testing.T) {
	t.Parallel()
	hold := timed()
	hold.Timed = false
	stands := selffence.Lease{Revision: 7, State: selffence.Promised, Promise: hold}
	a := newAgent(selffence.AgentState{Bound: true, Granted: time.Minute, Stated: hold, Sent: hold}).Failed()
	a, _ = a.Sends(selffence.ReadLease, time.Hour)
	a = a.Read(stands)
	a, r := a.Sends(selffence.WriteLease, time.Hour)
	if r.Lease.Promise != hold || !a.MayPet(2*time.Hour) {
		t.Errorf("after an outage the agent states %+v", r.Lease.Promise)
	}
	a = a.Written(8)
	requires(t, a, time.Hour+3*time.Second, selffence.WriteLease)
	if _, r = a.Sends(selffence.WriteLease, time.Hour+7*time.Second); r.Lease.Promise != hold {
		t.Errorf("by a grant that leaves less than a renewal the agent states %+v", r.Lease.Promise)
	}
	if a, r = a.Sends(selffence.WriteLease, time.Hour+7*time.Second-1); r.Lease.Promise != timed() || !a.MayPet(time.Hour+10*time.Second-1) {
		t.Errorf("after a grant the agent states %+v", r.Lease.Promise)
	}
}

// TestShorterPromise: a promise of shorter times takes the place of a longer one only after that was renewed. By the old grant the short one would be
// overdue before its request is answered.
func TestShorterPromise(t *testing.T) {
	t.Parallel()
	long := timed()
	long.Times.Validity = 15 * time.Minute
	for name, change := range map[string]func(*selffence.Promise){
		"others witnesses too": func(p *selffence.Promise) { p.Witnesses = selffence.Members{"u", "v", "w"} },
		"a shorter validity":   func(*selffence.Promise) {},
	} {
		a := newAgent(selffence.AgentState{Bound: true, Stated: long, Sent: long}).Read(selffence.Lease{Revision: 7, State: selffence.Promised, Promise: long})
		change(&a.Wanted)
		const now = 4 * time.Minute
		a, r := a.Sends(selffence.WriteLease, now)
		if r.Lease.Promise != long || a.Overdue(now) || !a.MayPet(now+10*time.Second) || a.Failed().Next(now) == selffence.Reset {
			t.Errorf("%s: the agent states %+v, overdue: %t", name, r.Lease.Promise, a.Overdue(now))
		}
		a = a.Written(8)
		requires(t, a, now+3*time.Second, selffence.WriteLease)
		if a, r = a.Sends(selffence.WriteLease, now+3*time.Second); r.Lease.Promise != a.Wanted || !a.MayPet(now+10*time.Second-1) {
			t.Errorf("%s: after that the agent states %+v", name, r.Lease.Promise)
		}
	}
}

// TestWritesHang: a witness does not reach the API server for good until a write of its own is answered. Reading proves nothing: no agent can renew.
func TestWritesHang(t *testing.T) {
	t.Parallel()
	a := bound(t)
	if a.Unreached() {
		t.Error("an agent whose write was answered reaches nothing")
	}
	stands := selffence.Lease{Revision: 7, State: selffence.Promised, Promise: timed()}
	read, _ := a.Sends(selffence.ReadLease, 103*time.Second)
	if read = read.Failed(); !read.Unreached() || read.Read(stands).Unreached() {
		t.Error("an agent reaches the API server from when a read is answered to when one is not")
	}
	hangs, _ := a.Sends(selffence.WriteLease, 103*time.Second)
	hangs = hangs.Failed().Read(stands)
	if !hangs.Unreached() || hangs.Away() {
		t.Error("an agent whose write got no answer reaches the API server once it has read")
	}
	silent, _ := hangs.Sends(selffence.ReadLease, 105*time.Second)
	if !silent.Failed().Read(stands).Unreached() {
		t.Error("an agent whose write got no answer reaches the API server once a read got none either")
	}
	hangs, _ = hangs.Sends(selffence.WriteLease, 106*time.Second)
	if !hangs.Unreached() || hangs.Written(8).Unreached() || hangs.Conflicts().Unreached() {
		t.Error("a write that is answered counts for nothing")
	}
}

// TestNotStored: an agent that can't store what a request relies on has not sent it. Its former promise stands.
func TestNotStored(t *testing.T) {
	t.Parallel()
	first := newAgent(selffence.AgentState{}).Read(selffence.Lease{})
	sent, _ := first.Sends(selffence.WriteLease, 100*time.Second)
	if got := sent.Unsent(first.AgentState); got != first {
		t.Errorf("the agent is %+v, want %+v", got, first)
	}
	a := bound(t)
	a.Wanted.Witnesses = selffence.Members{"x", "v", "w"}
	before := a.AgentState
	a, _ = a.Sends(selffence.WriteLease, 104*time.Second)
	a.Granted = 105 * time.Second // witnesses have granted meanwhile
	a = a.Unsent(before)
	if a.Stated != timed() || a.Sent != timed() || a.Granted != 105*time.Second || a.InFlight() != (selffence.Request{}) {
		t.Errorf("the state of the agent is %+v", a.AgentState)
	}
}

// TestQuestionNotSent: answers to a question that the agent has not sent don't count, and it is sent at once.
func TestQuestionNotSent(t *testing.T) {
	t.Parallel()
	a := bound(t)
	if a.Agrees("x", 0).Counts() {
		t.Error("an agent counts an answer, and has queried no witness")
	}
	a, _ = a.Sends(selffence.WriteLease, 104*time.Second)
	a = a.Failed()
	requires(t, a, 104*time.Second, selffence.AskWitnesses)
	a, _ = a.Sends(selffence.AskWitnesses, 104*time.Second)
	if a = a.Agrees("x", 104*time.Second); !a.Counts() {
		t.Error("an answer doesn't count")
	}
	if a = a.Unsent(a.AgentState); a.Counts() {
		t.Error("an answer counts to what was not sent")
	}
	requires(t, a, 104*time.Second, selffence.AskWitnesses)
}

// TestNextPromise: a promise that is not timed needs no recent grant. An agent that has lost its state first states what it has read.
func TestNextPromise(t *testing.T) {
	t.Parallel()
	a := bound(t)
	a.Wanted = untimed()
	if _, r := a.Sends(selffence.WriteLease, 103*time.Second); r.Lease.Promise != untimed() {
		t.Errorf("the agent states %+v", r.Lease.Promise)
	}
	lost := selffence.NewAgent(untimed(), 3*time.Second, selffence.AgentState{}).Read(selffence.Lease{Revision: 7, State: selffence.Promised, Promise: timed()})
	lost, r := lost.Sends(selffence.WriteLease, 103*time.Second)
	if r.Lease.Promise != timed() {
		t.Errorf("an agent that knows too little states %+v", r.Lease.Promise)
	}
	if _, r = lost.Written(8).Sends(selffence.WriteLease, 106*time.Second); r.Lease.Promise != untimed() {
		t.Errorf("then it states %+v", r.Lease.Promise)
	}
}

// TestLeaseDeleted: an agent that stops has read that there is no Lease, and so it reaches the API server.
func TestLeaseDeleted(t *testing.T) {
	t.Parallel()
	a, _ := bound(t).Sends(selffence.WriteLease, 103*time.Second)
	a = a.Failed()
	a.Stopping = true
	a, _ = a.Sends(selffence.ReadLease, 104*time.Second)
	if a = a.Deleted(); a.Away() || a.InFlight() != (selffence.Request{}) {
		t.Errorf("the agent waits for %+v", a.InFlight())
	}
	requires(t, a, 104*time.Second, selffence.Disarm)
}

// TestEvery: an agent renews a promise for shorter times in time, also if it wants a promise of a longer renewal.
func TestEvery(t *testing.T) {
	t.Parallel()
	hold, long := timed(), timed()
	hold.Timed, hold.Times.Validity, long.Times.Validity = false, time.Second, time.Hour
	for name, c := range map[string]struct {
		renewal      time.Duration
		stated, sent selffence.Promise
		want         time.Duration
	}{
		"a short renewal":   {3 * time.Second, timed(), timed(), 3 * time.Second},
		"a long renewal":    {time.Minute, timed(), timed(), 10 * time.Second / 3},
		"one of two":        {time.Minute, long, timed(), 10 * time.Second / 3},
		"the other":         {time.Minute, timed(), long, 10 * time.Second / 3},
		"none is timed":     {time.Minute, hold, hold, time.Minute},
		"timed from now on": {time.Minute, hold, timed(), 10 * time.Second / 3},
	} {
		a := selffence.NewAgent(long, c.renewal, selffence.AgentState{Bound: true, Granted: 100 * time.Second, Stated: c.stated, Sent: c.sent})
		stands := selffence.Lease{Revision: 7, State: selffence.Promised, Promise: c.stated}
		if a = a.Read(stands); a.Every() != c.want {
			t.Errorf("%s: it renews every %s, want %s", name, a.Every(), c.want)
		}
		requires(t, a, 100*time.Second+c.want-1, selffence.Wait)
		requires(t, a, 100*time.Second+c.want, selffence.WriteLease)
	}
}
