package core

// Nature is the kind of a remedy. Decisions depend on its [Effect] alone.
type Nature int8

// The natures. The zero Nature has the most requirements before it acts.
const (
	// Delete: Fettle deletes the target, and the owner replaces it.
	Delete Nature = iota
	// CreateRequest: Fettle creates an object as a request to a remediator, and deletes that object when it is needed no more.
	CreateRequest
	// Annotate: Fettle marks the target, and the outside remediator removes the mark (Target.ExternallyRemediated).
	Annotate
	// AskOwner: Fettle marks the target for its owner, who replaces it. Fettle removes the mark when it is needed no more.
	AskOwner
)

// Effect is what a remedy does, as far as decisions depend on it. Code reads an effect and not a nature, so that a new
// nature is a row in the table of effects.
type Effect struct {
	// Deletes is set when Fettle itself deletes the target, which never recovers then.
	Deletes bool
	// OwnerReplaces is set when the owner must replace the target, so that the target must have an owner.
	OwnerReplaces bool
	// OwnerDecides is set when the owner decides when to replace the target. The owner replaces one target at a time where that matters,
	// and protects the quorum of a control plane. The target itself shows the request to its owner, and the owner's answer.
	OwnerDecides bool
	// NeedsWithdrawal is set when the remedy makes a [Request], which stands until Fettle withdraws it.
	NeedsWithdrawal bool
	// CreatesRequest is set when Fettle creates an object of its own as a request, made from the template of the step. No cache may
	// show the object, and nothing but its name prevents a second one.
	CreatesRequest bool
	// MarksForRemediator is set when the remedy marks the target for an outside remediator. Target.ExternallyRemediated lasts while the
	// remediator works. StepState.Begun records when Fettle made the mark.
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
