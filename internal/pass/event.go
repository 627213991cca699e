package pass

import (
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// EventKind is a kind of event.
type EventKind int

// What a pass reports while it goes on, for logs, metrics and people. The comment of each names the fields of the Event that it sets.
const (
	// Decided: the decision is final, and nothing has been done yet: Samples.
	Decided EventKind = iota + 1
	// Noted are all happenings before they are aggregated: Happenings.
	Noted
	// Announced are happenings to publish: Source, Happenings.
	Announced
	// QuorumNotKnown: the read of the quorum has failed: Target, Err.
	QuorumNotKnown
	// PolicyChanged: a policy has changed after it was read: Policy.
	PolicyChanged
	// Overtaken: another writer has changed a repair: Repair.
	Overtaken
	// NoRoom: what others have recorded leaves no room for a repair: Repair, Target.
	NoRoom
	// Recorded: a repair was recorded: Policy, Repair, Ladder, Samples.
	Recorded
	// Refused: a remedy was refused: Policy, Target, Repair, Remedy, Err.
	Refused
	// Begun: a remedy was accepted: Policy, Target, Repair, Remedy, First, Asks, Took. First is set for the first step of a
	// repair, Asks where the remedy has made a request that stands, and Took is how long ago the repair started.
	Begun
	// Busy: another holder has what a repair needs: Target, Repair.
	Busy
	// Changed: a target has changed before its repair began: Target, Repair, Beginning.
	Changed
	// StepGivenUp: a step was given up: Repair.
	StepGivenUp
	// RequestWithdrawn: a request was taken back: Policy, Remedy.
	RequestWithdrawn
	// LeaseLost: another holder has taken the lease of a node under repair: Target, Holder.
	LeaseLost
	// LeaseLeftBehind: a lease that no repair accounts for was given back: Node, Holder.
	LeaseLeftBehind
	// LeaseKept: a lease could not be given back: Node, Holder, Err.
	LeaseKept
	// Ended: a repair has ended: Repair.
	Ended
)

// Event is one thing that a pass reports.
type Event struct {
	Kind       EventKind
	Source     int
	Policy     *core.Policy
	Target     core.ID
	Node       string
	Holder     string
	Repair     core.Repair
	Remedy     string
	Beginning  core.Beginning
	First      bool
	Asks       bool
	Took       time.Duration
	Err        error
	Happenings []core.Happening
	Samples    []core.Sample
	Ladder     []core.Step
}

// Events returns what has happened since it was called last, in order.
func (p *Pass) Events() []Event {
	events := p.events
	p.events = nil
	return events
}

func (p *Pass) report(e Event) { p.events = append(p.events, e) }

// announce reports happenings, and those to publish by the source of their policy. A policy that is gone has none.
func (p *Pass) announce(happenings []core.Happening) {
	if len(happenings) > 0 {
		p.report(Event{Kind: Noted, Happenings: append([]core.Happening(nil), happenings...)})
	}
	core.Relate(happenings, p.fleet.Repairs)
	announced := make([][]core.Happening, len(p.config.Sources))
	for _, h := range p.state.digest.Take(happenings, p.now) {
		if source, known := p.policySource[h.Policy]; known {
			announced[source] = append(announced[source], h)
		}
	}
	for source, hs := range announced {
		if len(hs) > 0 {
			p.report(Event{Kind: Announced, Source: source, Happenings: hs})
		}
	}
}
