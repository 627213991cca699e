package core

// Nature is the kind of a remedy. What a nature means to decisions is its [Effect].
type Nature int8

// The natures. The zero Nature asks for the most before it acts.
const (
	// Destroys: Fettle deletes the target, and the owner is counted on to replace it.
	Destroys Nature = iota
	// Requests: Fettle creates an object that asks a remediator, and deletes that object when it is needed no more.
	Requests
	// HandsOver: Fettle marks the target, and the outside remediator removes the mark (Target.Claimed).
	HandsOver
	// Delegates: Fettle marks the target for its owner, who replaces it. Fettle removes the mark when it is needed no more.
	Delegates
)

// Effect is what a remedy does, as far as decisions depend on it. Code asks for an effect rather than for a nature, so that a new
// nature is a row in the table of effects.
type Effect struct {
	// Deletes is set when Fettle itself deletes the target, which never recovers then.
	Deletes bool
	// OwnerReplaces is set when the owner is counted on to replace the target, so that it must have an owner.
	OwnerReplaces bool
	// OwnerDecides is set when the owner decides when the target is replaced, one at a time where that matters and with the quorum
	// of a control plane in mind. The target itself shows that the owner is asked, and how the owner answers.
	OwnerDecides bool
	// Stands is set when what Fettle asks for stands, as a [Request], until Fettle withdraws it.
	Stands bool
	// AsksRemediator is set when a remediator is asked by an object of its own, made from the template of the step. The object may be out
	// of view, and nothing but its name keeps it from being created twice.
	AsksRemediator bool
	// Claims is set when the remedy leaves the target to an outside remediator: Target.Claimed lasts as long as that is at work, and
	// the record of the repair tells by StepState.Begun that Fettle has asked for it.
	Claims bool
}

var effects = [...]Effect{
	Destroys:  {Deletes: true, OwnerReplaces: true},
	Requests:  {Stands: true, AsksRemediator: true},
	HandsOver: {Claims: true},
	Delegates: {Stands: true, OwnerReplaces: true, OwnerDecides: true},
}

// Effect returns what remedies of the nature do. An unknown nature has the effect of the zero one.
func (n Nature) Effect() Effect {
	if n < 0 || int(n) >= len(effects) {
		return effects[0]
	}
	return effects[n]
}
