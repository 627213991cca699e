package promiselease

import "github.com/fettle-io/fettle/api/fettle/annotation"

// Reason is why a Lease states no promise.
type Reason string

// Reasons.
const (
	// Revision: the resource version is no number.
	Revision Reason = "Revision"
	// Unknown: an annotation of the group fettle.io is not one of a promise. It may change the meaning of the others.
	Unknown Reason = "Unknown"
	// State: the state is none of Promised, Withdrawn and Condemned.
	State Reason = "State"
	// Boot: there is no boot ID.
	Boot Reason = "Boot"
	// Timed: it is not stated whether the promise is timed.
	Timed Reason = "Timed"
	// Times: a time is missing, is not in its usual form, or is out of bounds.
	Times Reason = "Times"
	// Device: the identity of the watchdog is too long, or not printable.
	Device Reason = "Device"
	// Witnesses: the names of the witnesses are too many, no names of nodes, or not in order.
	Witnesses Reason = "Witnesses"
	// Condemner: a condemned Lease doesn't name its remediation, or another Lease names one.
	Condemner Reason = "Condemner"
	// Why: the reason for no promise is none that an agent states, or the Lease is not withdrawn.
	Why Reason = "Why"
	// Read: the revision that was read as a witness is no number.
	Read Reason = "Read"
	// Address: the address of the agent is no IP address with a port.
	Address Reason = "Address"
	// Change: the Lease is not in the state that the change is for.
	Change Reason = "Change"
)

// Error says why a Lease can't be decoded, encoded or changed. Its text has nothing of the Lease.
type Error struct{ Reason Reason }

func (e Error) Error() string {
	switch e.Reason {
	case Revision:
		return "the resource version of the Lease is no number"
	case Unknown:
		return "the Lease has an unknown annotation of fettle.io"
	case State:
		return annotation.PromiseState + " of the Lease must be Promised, Withdrawn or Condemned"
	case Boot:
		return annotation.PromiseBoot + " of the Lease must be a UUID in lower case"
	case Timed:
		return annotation.PromiseTimed + " of the Lease must be true or false"
	case Times:
		return annotation.PromiseValidity + " and " + annotation.PromiseWatchdog + " of the Lease must be durations from 1s to 1h0m0s"
	case Device:
		return annotation.PromiseDevice + " of the Lease must have at most 64 printable characters of ASCII"
	case Witnesses:
		return annotation.PromiseWitnesses + " of the Lease must be up to five names of nodes in order, each once"
	case Condemner:
		return annotation.CondemnedBy + " of the Lease must be the UID of a remediation if the Lease is condemned, and missing otherwise"
	case Why:
		return annotation.NoPromiseReason + " of the Lease must be a reason that this version knows if the Lease is withdrawn, and missing otherwise"
	case Read:
		return annotation.Witnessed + " of the Lease must be a resource version"
	case Address:
		return annotation.AgentAddress + " of the Lease must be an IP address with a port"
	case Change:
		return "the Lease is in another state"
	}
	return "the Lease states no promise"
}
