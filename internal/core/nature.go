package core

// Nature is the kind of a remedy. What a nature means to decisions is its [Effect].
type Nature int8

// The natures. The zero Nature asks for the most before it acts.
const (
	// Delete: Fettle deletes the target, and the owner is counted on to replace it.
	Delete Nature = iota
	// CreateRequest: Fettle creates an object that asks a remediator, and deletes that object when it is needed no more.
	CreateRequest
	// Annotate: Fettle marks the target, and the outside remediator removes the mark (Target.ExternallyRemediated).
	Annotate
	// AskOwner: Fettle marks the target for its owner, who replaces it. Fettle removes the mark when it is needed no more.
	AskOwner
)

// Effect is what a remedy does, as far as decisions depend on it. Code asks for an effect rather than for a nature, so that a new
// nature is a row in the table of effects.
type Effect struct {
	// Deletes is set when Fettle itself deletes the target, which never recovers then.
	Deletes bool
	// OwnerReplaces is set when the owner is counted on to replace the target, so that it must have an owner.
	OwnerReplaces bool
	// OwnerDecides is set when the owner decides when the target is replaced, one at a time where that matters and with the quorum
	// of a control plane in mind. The target itself shows the request to its owner, and the owner's answer.
	OwnerDecides bool
	// NeedsWithdrawal is set when what Fettle asks for stands, as a [Request], until Fettle withdraws it.
	NeedsWithdrawal bool
	// CreatesRequest is set when Fettle creates an object of its own as a request, made from the template of the step. The object may be out
	// of view, and nothing but its name keeps it from being created twice.
	CreatesRequest bool
	// MarksForRemediator is set when the remedy leaves the target to an outside remediator: Target.ExternallyRemediated lasts as long as that is at work, and
	// the record of the repair tells by StepState.Begun that Fettle has asked for it.
	MarksForRemediator bool
}

var effects = [...]Effect{
	Delete:        {Deletes: true, OwnerReplaces: true},
	CreateRequest: {NeedsWithdrawal: true, CreatesRequest: true},
	Annotate:      {MarksForRemediator: true},
	AskOwner:      {NeedsWithdrawal: true, OwnerReplaces: true, OwnerDecides: true},
}

// Effect returns what remedies of the nature do. An unknown nature has the effect of the zero one.
func (n Nature) Effect() Effect {
	if n < 0 || int(n) >= len(effects) {
		return effects[0]
	}
	return effects[n]
}
