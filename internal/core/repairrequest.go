package core

import "time"

// RepairRequest is a user's request for the repair of a target. The zero value is none.
type RepairRequest struct {
	// At is when the user made it, in whole seconds; zero where that can't be read.
	At time.Time
	// Unreadable is set where the user's text is no time.
	Unreadable bool
	// Ahead is set when At lay further in the future than clocks differ when the request was first seen.
	Ahead bool
}

// ReadRepairRequest reads the text of a user: a time such as 2026-11-23T09:12:59Z.
func ReadRepairRequest(text string) RepairRequest {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Unix() <= 0 {
		return RepairRequest{Unreadable: true}
	}
	return RepairRequest{At: at.UTC().Truncate(time.Second)}
}

const (
	// RequestLasts is how long a request counts that no repair has served. Gates may hold it back for days, and the
	// user may not want the repair any more then.
	RequestLasts = time.Hour
	// requestAhead is how far the clock of a user may be ahead, or behind.
	requestAhead = time.Minute
)

// RepairRequestState is the state of a user's request.
type RepairRequestState int8

// The states of a request. Only a pending one makes its target unhealthy.
const (
	// RequestPending: the target is to be repaired, or its repair is under way.
	RequestPending RepairRequestState = iota + 1
	// RequestServed: a repair of the target has done its work or has ended since.
	RequestServed
	// RequestLapsed: no repair has begun in time.
	RequestLapsed
	// RequestAhead: it was made in the future.
	RequestAhead
	// RequestInherited: it is older than the target, which has it from a template or a backup. A target that replaces another would
	// be repaired for it once more.
	RequestInherited
	// RequestUnreadable: it has no time that can be read.
	RequestUnreadable
)

// RepairRequestStatus is a user's request about a target, and its state.
type RepairRequestStatus struct {
	Target int
	RepairRequest

	State RepairRequestState
	// Lapses is when a pending request lapses; zero when a repair is under way for it.
	Lapses time.Time
}
