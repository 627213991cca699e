package cli

import "time"

// These are the states of a user's repair request.
const (
	requestPending    = "Pending"
	requestServed     = "Served"
	requestLapsed     = "Lapsed"
	requestAhead      = "Ahead"
	requestInherited  = "Inherited"
	requestUnreadable = "Unreadable"
)

// RequestedRepair is a user's request for the repair of a machine or a node, by the annotation
// fettle.io/repair-requested-at.
type RequestedRepair struct {
	// At is missing where it can't be read.
	At *time.Time `json:"at,omitempty"`
	// State is Pending, Served, Lapsed, Ahead (it is in the future), Inherited (it is older than the object) or
	// Unreadable. Only a pending request counts.
	State string `json:"state"`
	// Lapses is when a pending request lapses, unless a repair begins before.
	Lapses  *time.Time `json:"lapses,omitempty"`
	Message string     `json:"message"`
}

// RepairRequest is the answer to fettle repair machine/NAME and node/NAME.
type RepairRequest struct {
	Header

	// Written reports whether the request was written. A dry run writes nothing.
	Written bool `json:"written"`
	// Message says what was done.
	Message string `json:"message"`
	// Target is the target of the repair, with the request.
	Target ExplainedTarget `json:"target"`
	// HealthChecks are the health checks that select it, with their gates.
	HealthChecks []SelectingCheck `json:"healthChecks"`
	// Undo is the command that withdraws the request.
	Undo string `json:"undo"`
}

// SelectingCheck is a health check that selects the target of a repair.
type SelectingCheck struct {
	Reference

	// Gates are the gates that don't depend on a target, with their states. Target.HeldBy has the others.
	Gates []GateState `json:"gates"`
}
