package agent

import (
	"errors"

	"github.com/fettle-io/fettle/internal/watchdog"
)

// Reason is why a node has no promise, or another one than its policy demands. The reasons of package watchdog are reasons too.
type Reason string

// Reasons.
const (
	// NotSelected: no policy selects the node.
	NotSelected Reason = "NotSelected"
	// NoWatchdog: there is no such device, or it can't be used.
	NoWatchdog = Reason(watchdog.NoWatchdog)
	// MayNotPet: the agent may not pet the watchdog, so it doesn't open it.
	MayNotPet = Reason(watchdog.MayNotPet)
	// WatchdogTimeout: the watchdog has another timeout than was promised.
	WatchdogTimeout = Reason(watchdog.WatchdogTimeout)
	// NoWayOut: the watchdog can't be disarmed before the next boot.
	NoWayOut = Reason(watchdog.NoWayOut)
	// NoWitnesses: the policy demands that the node resets when it is cut off, and there are fewer witnesses than it demands. The promise is not timed.
	NoWitnesses Reason = "NoWitnesses"
	// TimesOutOfBounds: the policy demands that, and the timeout of the watchdog is out of the bounds of a timed promise.
	TimesOutOfBounds Reason = "TimesOutOfBounds"
	// StateLost: the state that an earlier process of this boot has stored can't be read.
	StateLost Reason = "StateLost"
	// StateNotStored: the state of the agent can't be stored, so that nothing is sent.
	StateNotStored Reason = "StateNotStored"
	// NoAnswer: the API server did not answer, refused a request, or answered with a Lease that can't be read.
	NoAnswer Reason = "NoAnswer"
	// NoPolicies: the policies can't be read.
	NoPolicies Reason = "NoPolicies"
	// EarlierBoot: the Lease condemns an earlier boot of the node, and its manager has yet to free it.
	EarlierBoot Reason = "EarlierBoot"
	// NoCertificate: the agent has no certificate by which other agents know it, or could not replace it.
	NoCertificate Reason = "NoCertificate"
	// NotListening: the agent can't listen for other agents.
	NotListening Reason = "NotListening"
	// Condemned: the node is condemned, and resets.
	Condemned Reason = "Condemned"
	// NotReset: the node could not be reset at once. The watchdog resets it.
	NotReset Reason = "NotReset"
	// Overdue: the node runs for longer than it has promised, since its watchdog has failed or it was suspended. It is reset.
	Overdue Reason = "Overdue"
	// NoBootTimer: there is no timer that goes on while the node is suspended.
	NoBootTimer Reason = "NoBootTimer"
	// NotPetted: the watchdog could not be petted.
	NotPetted Reason = "NotPetted"
	// NotDisarmed: the watchdog could not be disarmed.
	NotDisarmed Reason = "NotDisarmed"
	// Promising: the promise stands.
	Promising Reason = "Promising"
	// Disarmed: no promise stands any more, and the watchdog is disarmed.
	Disarmed Reason = "Disarmed"
)

// text returns what a reason says to people.
//
//nolint:cyclop // a table
func (r Reason) text() string {
	switch r {
	case NotSelected:
		return "no FencePolicy selects the node, so it has no promise"
	case NoWitnesses:
		return "the promise stands, and is not timed: there are fewer witnesses than the FencePolicy demands, so a node that is cut off goes on"
	case TimesOutOfBounds:
		return "the promise stands, and is not timed: the timeout of the watchdog is not from 1s to 1h, so a node that is cut off goes on"
	case StateLost:
		return "what an earlier process has stored can't be read, so the watchdog is not petted before the Lease is read"
	case StateNotStored:
		return "what must outlive the process can't be stored, so nothing new is promised"
	case NoAnswer:
		return "the Lease of the node can't be read or written"
	case NoPolicies:
		return "the FencePolicies can't be read, so the agent goes on as before"
	case EarlierBoot:
		return "an earlier boot of the node is condemned, so the node has no promise until its remediation is over"
	case NotListening:
		return "this agent can't listen for other agents, so it answers none"
	case NoCertificate:
		return "this agent has no certificate, or can't replace it, so other agents may not know it"
	case Condemned:
		return "the node is condemned, and is reset"
	case NotReset:
		return "the node could not be reset at once, so the watchdog is to reset it"
	case Overdue:
		return "the node runs for longer than it has promised, since its watchdog has failed or it was suspended, and is reset"
	case NoBootTimer:
		return "there is no timer that goes on while the node is suspended, so a node that wakes runs for a second more before it is reset"
	case NotPetted:
		return "the watchdog could not be petted"
	case NotDisarmed:
		return "the watchdog can't be disarmed, so it resets the node once the agent ends"
	case Promising:
		return "the promise of the node stands"
	case Disarmed:
		return "no promise of the node stands, and the watchdog is disarmed"
	case WatchdogTimeout:
		return "the timeout of the watchdog will not do, or is not what was promised"
	case NoWatchdog, MayNotPet, NoWayOut:
	}
	return "the node has no promise without a watchdog that will do"
}

// UnavailableError says why a watchdog can't be used.
type UnavailableError struct {
	Reason Reason
	Err    error
}

func (e *UnavailableError) Error() string { return string(e.Reason) + ": " + e.Err.Error() }

// Unwrap returns what went wrong.
func (e *UnavailableError) Unwrap() error { return e.Err }

// reasonOf returns why a watchdog could not be opened.
func reasonOf(err error) Reason {
	if u, is := errors.AsType[*UnavailableError](err); is {
		return u.Reason
	}
	return NoWatchdog
}
