package cli

import "time"

// The states of a person's request for a repair.
const (
	requestPending    = "Pending"
	requestServed     = "Served"
	requestLapsed     = "Lapsed"
	requestAhead      = "Ahead"
	requestInherited  = "Inherited"
	requestUnreadable = "Unreadable"
)

// RequestedRepair is a person's request for the repair of a machine or a node, by the annotation fettle.io/repair-requested-at.
type RequestedRepair struct {
	// At is missing where it can't be read.
	At *time.Time `json:"at,omitempty"`
	// State is Pending, Served, Lapsed, Ahead (it was made in the future), Inherited (it was made before the object) or Unreadable. Only a pending request counts.
	State string `json:"state"`
	// Lapses is when a pending request lapses, unless a repair begins before.
	Lapses  *time.Time `json:"lapses,omitempty"`
	Message string     `json:"message"`
}

// RepairRequest is the answer to fettle repair machine/NAME and node/NAME.
type RepairRequest struct {
	Header

	// Written reports whether the request was written; a dry run writes nothing.
	Written bool `json:"written"`
	// Message says what was done.
	Message string `json:"message"`
	// Target is what is to be repaired, as it stands with the request.
	Target ExplainedTarget `json:"target"`
	// HealthChecks are those that select it, with their gates.
	HealthChecks []SelectingCheck `json:"healthChecks"`
	// Undo is the command that takes the request back.
	Undo string `json:"undo"`
}

// SelectingCheck is a health check that selects what is to be repaired.
type SelectingCheck struct {
	Reference

	// Gates are what may hold back its repairs, and how each stands. What holds back this one repair is in the target.
	Gates []GateState `json:"gates"`
}
