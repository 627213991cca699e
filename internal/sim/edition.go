package sim

import (
	"fmt"
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// edition is one version of all policies.
type edition struct {
	// edited counts the edits.
	edited int
	// paused is set while a user has paused every policy, removed while they are deleted, and strict while they permit less.
	paused, removed, strict bool
}

// fingerprint returns the fingerprint of the policies of this edition.
func (v edition) fingerprint() string {
	if v.removed {
		return ""
	}
	return fmt.Sprint("edit ", v.edited)
}

// edit applies an edit of all policies. The engines see it at once, unless their watches of policies lag.
func (u *Universe) edit(k Kind) {
	v := &u.truth.edition
	v.edited++
	switch k { //nolint:exhaustive // the others are no edits
	case Pause:
		v.paused = !v.paused
	case Remove:
		v.removed = !v.removed
	case Edit:
		v.strict = !v.strict
	}
	for _, e := range u.engines {
		if !u.setup.LaggingPolicies {
			e.edition = u.editionFor(e)
		}
	}
}

// stricter returns a policy that permits less: fewer unhealthy members and repairs at a time, and longer waits for conditions.
func stricter(p core.Policy) core.Policy {
	p.ShortCircuit.MaxUnhealthy, p.MaxInFlight = core.Count(1), core.Count(1)
	p.Criteria.Conditions = slices.Clone(p.Criteria.Conditions)
	for i := range p.Criteria.Conditions {
		p.Criteria.Conditions[i].For += tick
	}
	return p
}
