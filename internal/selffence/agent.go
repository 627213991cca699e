package selffence

import (
	"slices"
	"time"
)

// Action is what an agent does next, besides petting the watchdog.
type Action int

// Actions.
const (
	// Wait does nothing.
	Wait Action = iota
	// ReadLease reads the Lease.
	ReadLease
	// WriteLease writes Request.Lease in place of the Lease with its revision.
	WriteLease
	// AskWitnesses sends a question to all witnesses of the promises that may stand.
	AskWitnesses
	// Reset resets the node at once, without any call.
	Reset
	// Disarm closes the watchdog so that it doesn't fire.
	Disarm
)

// Request is what an agent has sent and got no answer to. Its zero value is none.
type Request struct {
	Action Action
	// Sent is when it was sent.
	Sent time.Duration
	// Lease is what it writes, for WriteLease.
	Lease Lease
}

// Agent is what the agent of a node knows. Times are of CLOCK_BOOTTIME, which goes on while the node sleeps.
type Agent struct {
	// Wanted is the promise to state, and Renewal the time between two grants of it.
	Wanted  Promise
	Renewal time.Duration
	// Stopping is set when the agent is to end. It then withdraws its promise.
	Stopping bool

	AgentState
	// lease is the Lease as it was read or written last. Known is unset where it may have changed.
	lease Lease
	known bool
	// away is set while the last request to the API server got no answer. Unwritten is set from a write that got none until a write is answered.
	away, unwritten bool

	request Request
	// questionSent is when the last question was sent. Agreed has the witnesses that have agreed to it, of each promise that may stand.
	questionSent time.Duration
	agreed       [mayStand][mostMembers]bool
	// condemned is set once the agent has learnt that this boot is condemned.
	condemned bool
	// seen is set once the agent has read the Lease. Before that, an agent without a stored state doesn't know what it has promised.
	seen bool
}

// AgentState is what outlives the process of an agent, but not the boot. It is stored before a request is sent that relies on it.
type AgentState struct {
	// Bound is set if a promise may stand: from before it is first stated until its withdrawal is confirmed.
	Bound bool
	// Granted is when the request for the last grant was sent. Without a grant it is when a promise was first stated, or so long ago that
	// it allows nothing.
	Granted time.Duration
	// Stated is the promise that is known to stand, and Sent the promise that was sent last and may stand. No third one may stand: the agent sends
	// another promise only once both are the same.
	Stated, Sent Promise
	// Lost is set from when the agent finds a promise of its boot that it has not stored, until its next write succeeds. A request that it has not
	// stored may still state another promise.
	Lost bool
}

// mayStand is how many promises may stand at a time.
const mayStand = 2

// promises returns the promises that may stand.
func (s AgentState) promises() [mayStand]Promise { return [mayStand]Promise{s.Stated, s.Sent} }

// NewAgent returns the agent of a boot with what an earlier process of the same boot has stored.
func NewAgent(wanted Promise, renewal time.Duration, s AgentState) Agent {
	return Agent{Wanted: wanted, Renewal: renewal, AgentState: s}
}

// MayPet reports whether the agent may pet the watchdog now.
func (a Agent) MayPet(now time.Duration) bool {
	if a.condemned || a.Lost || !a.Bound && !a.seen {
		return false
	}
	if !a.timed() {
		return true
	}
	return now < a.Granted+a.validity()
}

// Overdue reports whether a promise that may stand was to have the node reset by now. The watchdog has failed, or the node was suspended, which has
// stopped the watchdog and not the clock. A manager may have released the workload of the node. An agent that has lost its state does not know when
// the last grant was sent.
func (s AgentState) Overdue(now time.Duration) bool {
	if !s.Bound || s.Lost {
		return false
	}
	for _, p := range s.promises() {
		if p.Timed && now >= s.Granted+p.Times.Longest() {
			return true
		}
	}
	return false
}

// timed reports whether one of the promises that may stand is timed.
func (s AgentState) timed() bool { return s.Stated.Timed || s.Sent.Timed }

// validity returns the shortest validity of the promises that may stand.
func (s AgentState) validity() time.Duration {
	if !s.Stated.Timed {
		return s.Sent.Times.Validity
	}
	if !s.Sent.Timed {
		return s.Stated.Times.Validity
	}
	return min(s.Stated.Times.Validity, s.Sent.Times.Validity)
}

// perValidity is how often a promise is renewed at least while a grant is valid, as in a FencePolicy.
const perValidity = 3

// Every returns the time between two grants. It is shorter than that of the wanted promise while one may stand that was made for shorter times.
func (a Agent) Every() time.Duration {
	if !a.timed() {
		return a.Renewal
	}
	return min(a.Renewal, a.validity()/perValidity)
}

// Next returns what to do now. The caller calls Sends before it sends something.
func (a Agent) Next(now time.Duration) Action {
	switch {
	case a.condemned, a.Overdue(now):
		return Reset
	case a.Stopping && !a.Bound:
		return Disarm
	case a.request.Action != Wait: // one request at a time
	case a.asksWitnesses(now):
		return AskWitnesses
	case !a.known:
		return ReadLease
	case a.lease.State == Condemned: // of an earlier boot; its manager frees the Lease
		return ReadLease
	case a.Stopping, !a.Bound, now >= a.Granted+a.Every():
		return WriteLease
	}
	return Wait
}

// certain reports whether it is certain which promise stands, or will stand. No request that states another one may still be carried out.
func (s AgentState) certain() bool { return s.Stated == s.Sent && !s.Lost }

// states returns the promise to state next. While another promise may still come to stand, it is the promise that was sent last: the state has
// no room for a third. The first promise is not timed. Until witnesses have read it, they agree to nothing. A promise is renewed before a timed one takes
// its place, unless its grant is recent. With an old grant the timed one would allow nothing, and might be overdue, until its request is answered.
func (a Agent) states(now time.Duration) Promise {
	if !a.Bound {
		return a.Wanted.untimed()
	}
	old := a.Wanted.Timed && now+a.Renewal >= a.Granted+a.Wanted.Times.Validity
	if old || !a.certain() {
		return a.AgentState.Sent
	}
	return a.Wanted
}

// asksWitnesses reports whether the agent queries its witnesses: the API server does not answer, and they may grant.
func (a Agent) asksWitnesses(now time.Duration) bool {
	return a.witnessed() && a.away && now >= a.Granted+a.Every() && now >= a.questionSent+a.Every()
}

// witnessed reports whether witnesses may grant. Each timed promise that may stand has to have witnesses. A request that the agent has not
// stored may name others.
func (s AgentState) witnessed() bool {
	for _, p := range s.promises() {
		if p.Timed && p.Witnesses.Majority() == 0 {
			return false
		}
	}
	return s.timed() && !s.Lost
}

// Witnesses returns the witnesses to ask, in order and each once: those of the timed promises that may stand.
func (s AgentState) Witnesses() []string {
	var names []string
	for _, p := range s.promises() {
		if p.Timed {
			names = append(names, p.Witnesses[:]...)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// Sends returns the agent that sends a request, and the request. Its AgentState has to be stored before the request is sent.
func (a Agent) Sends(action Action, now time.Duration) (Agent, Request) {
	r := Request{Action: action, Sent: now}
	switch action {
	case AskWitnesses:
		a.questionSent, a.agreed = now, [mayStand][mostMembers]bool{}
		return a, r
	case WriteLease:
		r.Lease = Lease{Revision: a.lease.Revision, State: Promised, Promise: a.states(now)}
		if a.Stopping {
			r.Lease = Lease{Revision: a.lease.Revision, State: Withdrawn, Promise: a.AgentState.Sent}
			break
		}
		if !a.Bound {
			a.Bound, a.Granted = true, now
		}
		a.Sent = r.Lease.Promise
	case ReadLease, Wait, Reset, Disarm:
	}
	a.request = r
	return a, r
}

// Unsent returns the agent that has not sent its request, since it could not store its state. Before is its state before Sends.
func (a Agent) Unsent(before AgentState) Agent {
	if before.Bound {
		before.Granted = a.Granted // witnesses may have granted meanwhile
	}
	a.AgentState, a.request = before, Request{}
	a.questionSent, a.agreed = 0, [mayStand][mostMembers]bool{} // answers are about the witnesses of what was not sent, too
	return a
}

// Failed returns the agent whose request got no answer. A write may have been carried out all the same, or still be.
func (a Agent) Failed() Agent {
	a.unwritten = a.unwritten || a.request.Action == WriteLease
	a.request, a.known, a.away = Request{}, false, true
	return a
}

// Conflicts returns the agent whose write was refused, since the Lease has another revision by now.
func (a Agent) Conflicts() Agent {
	a.request, a.known, a.away, a.unwritten = Request{}, false, false, false
	return a
}

// Written returns the agent whose write has succeeded. That is a grant from when the write was sent.
func (a Agent) Written(revision uint64) Agent {
	r := a.request
	a.lease, a.known, a.away, a.unwritten, a.request = r.Lease, true, false, false, Request{}
	a.lease.Revision = revision
	if r.Lease.State == Withdrawn {
		a.AgentState = AgentState{}
		return a
	}
	a.Stated, a.Granted, a.Lost = r.Lease.Promise, r.Sent, false
	a.questionSent, a.agreed = 0, [mayStand][mostMembers]bool{} // answers are about the witnesses that were stated before
	return a
}

// Read returns the agent that has read the Lease. Reading grants nothing.
func (a Agent) Read(l Lease) Agent {
	a.lease, a.known, a.seen, a.away, a.request = l, true, true, false, Request{}
	switch {
	case l.condemns(a.Wanted.Boot):
		a.condemned = true
	case l.Promise.Boot != a.Wanted.Boot:
	case l.State == Withdrawn:
		// A promise stays bound: its request may have got no answer, and be carried out on this revision. Only the next write shows that it won't.
	case l.State == Promised && !a.Bound: // what was stored is lost, and the agent waits for a grant
		a.AgentState = AgentState{Bound: true, Granted: -maxTime, Stated: l.Promise, Sent: l.Promise, Lost: true}
	case l.State == Promised:
		a.Stated = l.Promise
	}
	a.questionSent, a.agreed = 0, [mayStand][mostMembers]bool{}
	return a
}

// Deleted returns the agent that has read that there is no Lease, while no request is left that could create it. So no promise may stand.
func (a Agent) Deleted() Agent {
	a = a.Read(Lease{})
	a.AgentState = AgentState{}
	return a
}

// Agrees returns the agent with the answer of a witness to the question that was sent at an instant. A majority is a grant from then. While two
// timed promises may stand it takes a majority of the witnesses of each. A manager waits for those of the promise that it has revoked.
func (a Agent) Agrees(witness string, sent time.Duration) Agent {
	if sent != a.questionSent || sent == 0 || !a.witnessed() {
		return a
	}
	grants := true
	for i, p := range a.promises() {
		count := 0
		for j, name := range p.Witnesses {
			a.agreed[i][j] = a.agreed[i][j] || name != "" && name == witness
			if a.agreed[i][j] {
				count++
			}
		}
		grants = grants && (!p.Timed || count >= p.Witnesses.Majority())
	}
	if grants {
		a.Granted = max(a.Granted, sent)
	}
	return a
}

// InFlight returns the request to the API server that is in flight, or none.
func (a Agent) InFlight() Request { return a.request }

// Awaits reports whether a request is the one in flight. An answer to another one comes too late.
func (a Agent) Awaits(r Request) bool { return a.request.Action != Wait && a.request == r }

// Away reports whether the last request to the API server got no answer.
func (a Agent) Away() bool { return a.away }

// Unreached reports whether this agent, as a witness, does not reach the API server either. Reading is not enough: where writes alone get no answer, no
// agent can renew.
func (a Agent) Unreached() bool { return a.away || a.unwritten }

// Counts reports whether a witness has agreed to the last question.
func (a Agent) Counts() bool { return a.agreed != [mayStand][mostMembers]bool{} }
