package agent

import "errors"

// Reason is why a node has no promise, or not the one that its policy demands.
type Reason string

// Reasons.
const (
	// NotSelected: no policy selects the node.
	NotSelected Reason = "NotSelected"
	// NoWatchdog: there is no such device, or it can't be used.
	NoWatchdog Reason = "NoWatchdog"
	// WatchdogBusy: another program has opened the watchdog.
	WatchdogBusy Reason = "WatchdogBusy"
	// SoftwareWatchdog: the policy demands hardware, and the watchdog is software.
	SoftwareWatchdog Reason = "SoftwareWatchdog"
	// WatchdogTimeout: the timeout that was read back from the device is out of bounds, or is not the one that was promised.
	WatchdogTimeout Reason = "WatchdogTimeout"
	// VirtualMachine: the node is a virtual machine, and the policy doesn't allow that.
	VirtualMachine Reason = "VirtualMachine"
	// NoWitnesses: the policy demands that the node resets when it is cut off, and nothing but the API server grants. The promise is not timed.
	NoWitnesses Reason = "NoWitnesses"
	// StateLost: what an earlier process of this boot has stored can't be read.
	StateLost Reason = "StateLost"
	// StateNotStored: what must outlive the process can't be stored, so that nothing is sent.
	StateNotStored Reason = "StateNotStored"
	// NoAnswer: the API server did not answer, refused a request, or answered with a Lease that can't be read.
	NoAnswer Reason = "NoAnswer"
	// NoPolicies: the policies can't be read.
	NoPolicies Reason = "NoPolicies"
	// Condemned: the node is condemned, and resets.
	Condemned Reason = "Condemned"
	// NotReset: the node could not be reset at once. The watchdog resets it.
	NotReset Reason = "NotReset"
	// NotPetted: the watchdog could not be petted.
	NotPetted Reason = "NotPetted"
	// NotDisarmed: the watchdog could not be disarmed.
	NotDisarmed Reason = "NotDisarmed"
	// Promising: the promise stands.
	Promising Reason = "Promising"
	// Disarmed: no promise stands any more, and the watchdog is disarmed.
	Disarmed Reason = "Disarmed"
	// EarlierBoot: the Lease condemns an earlier boot of the node, and its manager has yet to free it.
	EarlierBoot Reason = "EarlierBoot"
)

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
	var u *UnavailableError
	if errors.As(err, &u) {
		return u.Reason
	}
	return NoWatchdog
}
