package pass

import (
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// EventKind is a kind of event.
type EventKind int

// A pass reports these while it goes on, for logs, metrics and users. The comment of each names the fields of the Event that it sets.
const (
	// Decided: the decision is final, and nothing has been done yet: Samples.
	Decided EventKind = iota + 1
	// NewEvents are all events for users before they are aggregated: Events.
	NewEvents
	// AggregatedEvents are events to publish: Dialect, Events.
	AggregatedEvents
	// QuorumNotKnown: the read of the quorum has failed: Target, Err.
	QuorumNotKnown
	// PolicyChanged: a policy has changed after it was read: Policy.
	PolicyChanged
	// RepairConflict: another writer has changed a repair: Repair.
	RepairConflict
	// NotAdmitted: other leaders' repairs leave no room for a repair: Repair, Target.
	NotAdmitted
	// RepairRecorded: a repair was recorded: Policy, Repair, Ladder, Samples.
	RepairRecorded
	// RemedyRefused: a remedy was refused: Policy, Target, Repair, Remedy, Err.
	RemedyRefused
	// RemedyAccepted: a remedy was accepted: Policy, Target, Repair, Remedy, First, RequestCreated, Took. First is set
	// for the first step of a repair, and RequestCreated where the remedy has created a request. Took is how long ago
	// the repair started.
	RemedyAccepted
	// LeaseBusy: another holder has the lease that a repair needs: Target, Repair.
	LeaseBusy
	// TargetChanged: a target has changed before its repair began: Target, Repair, RemedyResult.
	TargetChanged
	// StepGivenUp: a step was given up: Repair.
	StepGivenUp
	// RequestWithdrawn: a request was withdrawn: Policy, Remedy.
	RequestWithdrawn
	// LeaseLost: another holder has taken the lease of a node under repair: Target, Holder.
	LeaseLost
	// OrphanedLeaseReleased: a lease without a repair was released: Node, Holder.
	OrphanedLeaseReleased
	// LeaseNotReleased: a lease could not be released: Node, Holder, Err.
	LeaseNotReleased
	// RepairEnded: a repair has ended: Repair.
	RepairEnded
)

// Event is one report of a pass.
type Event struct {
	Kind           EventKind
	Dialect        int
	Policy         *core.Policy
	Target         core.ID
	Node           string
	Holder         string
	Repair         core.Repair
	Remedy         string
	RemedyResult   core.RemedyResult
	First          bool
	RequestCreated bool
	Took           time.Duration
	Err            error
	Events         []core.Event
	Samples        []core.LatencySample
	Ladder         []core.Step
}

// Events returns the events since the last call, in order.
func (p *Pass) Events() []Event {
	events := p.events
	p.events = nil
	return events
}

func (p *Pass) report(e Event) { p.events = append(p.events, e) }

// emit reports events, and the events to publish by the dialect of their policy. Nothing is published for a policy that
// is gone.
func (p *Pass) emit(events []core.Event) {
	if len(events) > 0 {
		p.report(Event{Kind: NewEvents, Events: append([]core.Event(nil), events...)})
	}
	core.RelateRepairs(events, p.cluster.Repairs)
	aggregated := make([][]core.Event, len(p.config.Dialects))
	for _, h := range p.state.aggregator.Add(events, p.now) {
		if dialect, known := p.policyDialect[h.Policy]; known {
			aggregated[dialect] = append(aggregated[dialect], h)
		}
	}
	for dialect, hs := range aggregated {
		if len(hs) > 0 {
			p.report(Event{Kind: AggregatedEvents, Dialect: dialect, Events: hs})
		}
	}
}
