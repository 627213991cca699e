package fencepolicy

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// RequiresBoth returns the policy that requires both power and promise of a node with labels, or nil if none does. It fails where it is not known
// which policy applies, and one may require both.
func (r Rule) RequiresBoth(of labels.Labels) (*v1alpha1.FencePolicy, error) {
	if !slices.ContainsFunc(r.policies, func(p ruled) bool { return requiresBoth(p.FencePolicy) }) {
		return nil, nil //nolint:nilnil // none does
	}
	policy, err := r.Applies(of)
	if policy == nil || !requiresBoth(policy) {
		return nil, err
	}
	return policy, nil
}

func requiresBoth(p *v1alpha1.FencePolicy) bool {
	return p.Spec.RequiredProof == v1alpha1.PowerAndPromise
}
