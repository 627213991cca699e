package agent

import (
	"context"
	"time"
)

// petsPerTimeout is how often the watchdog is petted during its timeout.
const petsPerTimeout = 4

// minTimeout is the shortest timeout of a watchdog.
const minTimeout = time.Second

// keepPetting pets the watchdog while one is open and the agent may, until the context ends. It waits for nothing but time.
func (n *node) keepPetting(ctx context.Context) {
	for {
		every := n.pet()
		if every == 0 {
			select {
			case <-n.opened:
				continue
			case <-ctx.Done():
				return
			}
		}
		if !wait(ctx, every) {
			return
		}
	}
}

// pet pets the watchdog if the agent may. It returns after which time to pet again, or zero if no watchdog is open.
func (n *node) pet() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.device == nil {
		return 0
	}
	if n.mayPet() {
		err := n.device.Pet()
		if err != nil && !n.petsFail {
			n.Tell(Note{Reason: NotPetted, Err: err})
		}
		n.petsFail = err != nil
	}
	timeout, _ := n.device.State()
	return max(timeout, minTimeout) / petsPerTimeout
}

// mayPet reports whether the agent may pet the watchdog now. An agent that doesn't know what an earlier process has promised may not.
// The caller holds the mutex, so that nothing is learnt between the check and the pet.
func (n *node) mayPet() bool { return !n.lost && n.agent.MayPet(n.Boottime()) }

// wait waits for a time, and reports false if the context ends before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
