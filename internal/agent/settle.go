package agent

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

// settle has the agent want what its settings demand, and opens the watchdog for it.
//
// An agent that stops wanting a promise withdraws it and disarms the watchdog. Only then can it want another promise, or use another
// watchdog.
func (n *node) settle(stopping bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost {
		return
	}
	a := &n.agent
	n.adopt()
	if n.device == nil && n.used != (Settings{}) && (a.Bound || !stopping) {
		n.open() // also for a promise that is to be withdrawn: an earlier process has armed the watchdog
	}
	a.Stopping = a.Stopping || stopping || n.used == (Settings{}) || n.found.Watchdog != n.used.Watchdog
	if !a.Stopping && n.device != nil {
		n.used = *n.found
	}
	n.demand()
	if !a.Stopping && n.device != nil {
		n.want()
	}
	a.Renewal = n.used.renewal()
	n.every = a.Every()
	n.limit = n.requestTime()
}

// demand demands the witnesses of the settings that are used. Witnesses are chosen anew after none were demanded: those of before may be gone.
func (n *node) demand() {
	before := len(n.demanded)
	if n.demanded = n.used.demands(); len(n.demanded) == 0 {
		n.members = selffence.Members{}
	} else if before == 0 {
		signal(n.demanding)
	}
}

// adopt uses the settings that were found last, where no promise binds the agent to others.
func (n *node) adopt() {
	if n.agent.Bound || n.found == nil || n.device != nil && (n.unusable || n.found.Watchdog != n.used.Watchdog) {
		return
	}
	n.used, n.agent.Stopping = *n.found, false
	if n.used == (Settings{}) {
		n.note(NotSelected, nil)
	}
}

// open opens the watchdog. That counts as a pet, so the agent does it only where it may pet. Without a watchdog it wants no promise.
func (n *node) open() {
	now := n.Boottime()
	if n.unusable && now < n.failed+openAgain {
		n.agent.Stopping = true
		return
	}
	if !n.mayPet() {
		return
	}
	device, err := n.Hardware.Open(n.used.Watchdog, n.mayPet)
	if device == nil && reasonOf(err) == MayNotPet {
		return
	}
	if n.unusable = err != nil; n.unusable {
		n.failed, n.agent.Stopping, n.refusal = now, true, reasonOf(err)
		n.note(n.refusal, err)
	}
	if n.device = device; device != nil {
		signal(n.opened)
	}
}

// want has the agent want the promise of its settings. The protocol goes on with the promise that it has sent last while another may stand, and
// the agent while it can't store another one.
func (n *node) want() {
	a := &n.agent
	timeout, _ := n.device.State()
	switch {
	case a.Bound && a.AgentState.Sent.Times.Watchdog != timeout:
		a.Stopping = true
		n.note(WatchdogTimeout, nil)
	case a.Bound && n.unstored:
		a.Wanted = a.AgentState.Sent
	default:
		a.Wanted = n.used.promise(n.Boot, timeout, n.members)
	}
}

// promise returns the promise to state with a watchdog of a timeout. It is timed only with witnesses: if nothing but the API server granted and
// that were away, all nodes would reset.
func (s Settings) promise(boot string, timeout time.Duration, members selffence.Members) selffence.Promise {
	p := selffence.Promise{Boot: boot, Times: selffence.Times{Watchdog: timeout}}
	if times := s.times(timeout); times.Valid() && slices.Contains(s.demands(), len(namesOf(members))) {
		p.Timed, p.Times, p.Witnesses = true, times, members
	}
	return p
}

// times returns the times of a timed promise with a watchdog of a timeout.
func (s Settings) times(timeout time.Duration) selffence.Times {
	return selffence.Times{Validity: s.Validity, Watchdog: timeout}
}
