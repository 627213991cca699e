package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// act takes one step after the other until the context has ended and the watchdog is disarmed.
func (n *node) act(ctx context.Context) error {
	stop := ctx.Done()
	var deadline time.Duration
	for {
		stopping := ctx.Err() != nil
		if stopping && stop != nil {
			stop, deadline = nil, n.Boottime()+n.StopWithin
		}
		pause, ended := n.step(ctx)
		if ended {
			return nil
		}
		if stopping {
			pause = min(pause, deadline-n.Boottime())
			if n.Boottime() >= deadline {
				return ErrArmed
			}
		}
		if pause > 0 {
			n.await(stop, pause)
		}
	}
}

// await waits for a time, or until something else has changed.
func (n *node) await(stop <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.woken:
	case <-stop:
	}
}

// step does the next thing. It returns how long to wait before the step after it, and whether the agent has ended.
func (n *node) step(ctx context.Context) (time.Duration, bool) {
	stopping := ctx.Err() != nil
	n.settle(stopping)
	now := n.Boottime()
	action, at := n.next(now)
	if at > now {
		return at - now, false
	}
	switch action {
	case selffence.Reset:
		n.reset()
		return resetEvery, false
	case selffence.Disarm:
		if n.stored.Agent.Bound { // else a later process would keep a promise that is withdrawn
			_ = n.store() // people were told
		}
		again := n.disarm()
		if !stopping && n.disarmed() {
			n.explain(ctx)
		}
		return again, stopping && n.disarmed()
	case selffence.ReadLease, selffence.WriteLease:
		n.pace.begins(action, now)
		n.send(context.WithoutCancel(ctx), action, now)
	case selffence.AskWitnesses:
		n.ask(n.background, now) //nolint:contextcheck // answers still count for an agent that withdraws its promise
	case selffence.Wait:
	}
	return 0, false
}

// next returns what to do next, and when.
func (n *node) next(now time.Duration) (selffence.Action, time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	action := n.agent.Next(now)
	if n.lost && action != selffence.Reset {
		action = selffence.ReadLease
	}
	switch action {
	case selffence.ReadLease, selffence.WriteLease:
		return action, n.pace.due(action, n.every)
	case selffence.Wait:
		if n.urgent {
			return selffence.WriteLease, n.pace.due(selffence.WriteLease, n.every)
		}
		return action, n.agent.Granted + n.every
	case selffence.AskWitnesses, selffence.Reset, selffence.Disarm:
	}
	return action, now
}

// learn has the agent learn something.
func (n *node) learn(what func(selffence.Agent) selffence.Agent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.agent = what(n.agent)
	n.toWitness()
}

// For awayFor, or so many times the time between two grants if that is longer, a witness agrees after the last of its requests that got no answer. An
// API server that is overloaded answers some agents alone. When it is back after an outage, agents reach it at different times. A node that is condemned
// gains nothing by it: its witnesses agree no more once they have read that.
const (
	awayFor    = 5 * time.Minute
	awayGrants = 12
)

// toWitness passes on to the witness of this node whether the API server is away, or was so lately. The caller holds the mutex.
func (n *node) toWitness() {
	if n.Witness == nil {
		return
	}
	now := n.Boottime()
	if n.agent.Unreached() {
		n.awayUntil = now + max(awayFor, awayGrants*n.agent.Every())
	}
	n.Witness.isAway(now < n.awayUntil)
}

// resetEvery is how often a reset is tried again that has failed.
const resetEvery = time.Second

// reset resets the node. The watchdog does it if nothing else can. It comes before what is stored, since storing may hang.
func (n *node) reset() {
	if n.isOverdue() {
		if err := n.Hardware.Reset(); err != nil {
			n.note(NotReset, err)
		}
		return
	}
	n.note(Condemned, nil)
	if err := n.Hardware.Reset(); err != nil {
		n.note(NotReset, err)
	}
	s := n.stored
	s.Condemned = true
	_ = n.save(s) // nothing else is left to do
}

// openAgain is how long a watchdog is left alone that could not be used.
const openAgain = 30 * time.Second

// disarmAgain is how often disarming is tried again that has failed.
const disarmAgain = 5 * time.Second

// disarm disarms the watchdog, and returns how long there is nothing else to do.
func (n *node) disarm() time.Duration {
	n.mu.Lock()
	device := n.device
	var err error
	if device != nil {
		err = device.Disarm()
	}
	if err == nil {
		n.device = nil
	}
	n.mu.Unlock()
	switch {
	case err != nil:
		if reasonOf(err) != NoWayOut { // nothing can be promised with it before it was opened anew
			n.unusable, n.failed, n.refusal = true, n.Boottime(), Reason(promiselease.WatchdogFailed)
		}
		n.note(NotDisarmed, err)
		return disarmAgain
	case device == nil:
		return openAgain
	}
	n.note(Disarmed, nil)
	return 0
}

func (n *node) disarmed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.device == nil
}

// send stores the state of the agent, sends a request, and has the agent learn from the answer.
func (n *node) send(ctx context.Context, action selffence.Action, now time.Duration) {
	var request selffence.Request
	var before selffence.AgentState
	n.learn(func(a selffence.Agent) selffence.Agent {
		before = a.AgentState
		a, request = a.Sends(action, now)
		return a
	})
	created := n.creates
	n.creates = n.creates || action == selffence.WriteLease && request.Lease.Revision == 0
	if err := n.store(); err != nil {
		n.creates, n.unstored = created, true
		n.learn(func(a selffence.Agent) selffence.Agent { return a.Unsent(before) })
		n.pace.fails(n.Boottime())
		n.note(StateNotStored, err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.requestTime())
	defer cancel()
	var err error
	if action == selffence.ReadLease {
		err = n.read(ctx)
	} else {
		err = n.write(ctx, request.Lease)
	}
	if err != nil {
		n.fail(err)
		return
	}
	if err := n.store(); err != nil {
		n.note(StateNotStored, err)
	}
}

// read reads the Lease.
func (n *node) read(ctx context.Context) error {
	l, err := n.Grantor.Read(ctx)
	if err != nil {
		return err
	}
	n.creates = n.creates && l == (selffence.Lease{}) // a Lease that is there is not created again
	n.mu.Lock()
	own := l.State == selffence.Promised && (l.Promise == n.agent.Stated || l.Promise == n.agent.Sent)
	if l == (selffence.Lease{}) && n.agent.Stopping && !n.creates {
		n.agent = n.agent.Deleted()
	} else {
		n.agent = n.agent.Read(l)
	}
	n.lost = false
	n.toWitness()
	n.mu.Unlock()
	if n.doubts && (!own || l.Revision <= n.refused) { // else it was a late write of this agent
		n.forgets()
	}
	n.doubts = false
	if l.State == selffence.Condemned && l.Promise.Boot != n.Boot {
		n.note(EarlierBoot, nil)
	}
	return nil
}

// write writes the Lease.
func (n *node) write(ctx context.Context, l selffence.Lease) error {
	again := l.State == selffence.Withdrawn && l.Revision == 0
	if again {
		l.State = selffence.Promised // a Lease is created with a promise, and withdrawn then
	}
	revision, err := n.Grantor.Write(ctx, n.record(l))
	if err != nil {
		return err
	}
	n.creates = false
	if revision == 0 || again {
		n.learn(selffence.Agent.Conflicts)
		if !again {
			n.doubts, n.refused = true, l.Revision
		}
		return nil
	}
	n.learn(func(a selffence.Agent) selffence.Agent { return a.Written(revision) })
	if l.State == selffence.Promised {
		n.note(n.promises(l.Promise), nil)
	}
	return nil
}

// record returns what to write with a Lease. As a witness, this agent acknowledges by it what it has read.
func (n *node) record(l selffence.Lease) promiselease.Record {
	r := promiselease.Record{Lease: l, Device: n.identity()}
	n.mu.Lock()
	n.urgent = false
	n.mu.Unlock()
	if n.Witness != nil {
		r.Witnessed = n.Witness.read()
	}
	return r
}

// promises returns what to tell of a promise that stands.
func (n *node) promises(p selffence.Promise) Reason {
	switch {
	case !n.used.Reset || p.Timed:
		return Promising
	case !n.used.times(p.Times.Watchdog).Valid():
		return TimesOutOfBounds
	}
	return NoWitnesses
}

// identity returns the name of the open watchdog for itself.
func (n *node) identity() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.device == nil {
		return ""
	}
	_, identity := n.device.State()
	return identity
}

// maxRequestTime bounds how long a request may take.
const maxRequestTime = 10 * time.Second

// requestTime is how long a request may take: half of the time between two grants.
func (n *node) requestTime() time.Duration { return min(n.every/2, maxRequestTime) }

// fail has the agent learn that a request got no answer.
func (n *node) fail(err error) {
	n.learn(selffence.Agent.Failed)
	n.pace.fails(n.Boottime())
	n.note(NoAnswer, err)
}

// store stores the state of the agent. A failure counts for nothing if the stored state binds the agent to the same promise: it has an
// earlier grant, and so allows less.
func (n *node) store() error {
	n.mu.Lock()
	state := n.agent.AgentState
	n.mu.Unlock()
	before := n.stored.Agent
	s := n.stored
	s.Creates, s.Settings, s.Agent = n.creates, n.used, state
	creates := n.stored.Creates
	err := n.save(s)
	if before.Bound == state.Bound && before.Sent == state.Sent && (creates || !n.creates) {
		return nil
	}
	return err
}

// save stores a state.
func (n *node) save(s State) error {
	if s == n.stored {
		return nil
	}
	if err := n.Store.Save(s); err != nil {
		return fmt.Errorf("storing the state of the agent: %w", err)
	}
	n.stored, n.unstored = s, false
	return nil
}
