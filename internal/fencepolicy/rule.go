package fencepolicy

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// Rule says which policy applies to which node: the oldest that selects the node, and of two as old the first by name.
type Rule struct{ policies []ruled }

// ruled is a policy with its selector.
type ruled struct {
	*v1alpha1.FencePolicy

	selector labels.Selector
	// failed is why the selector can't be read.
	failed error
}

// NewRule returns the rule of policies. It keeps them, and changes neither them nor their order.
func NewRule(all []v1alpha1.FencePolicy) Rule {
	r := Rule{policies: make([]ruled, 0, len(all))}
	for i := range all {
		selector, err := metav1.LabelSelectorAsSelector(&all[i].Spec.NodeSelector)
		r.policies = append(r.policies, ruled{&all[i], selector, err})
	}
	slices.SortFunc(r.policies, func(a, b ruled) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return r
}

// Applies returns the policy that applies to a node with labels, or nil if none selects it. If the selector of a policy can't be read that would
// come first, then it is not known which one applies.
func (r Rule) Applies(of labels.Labels) (*v1alpha1.FencePolicy, error) {
	i, err := r.applies(of)
	if i < 0 || err != nil {
		return nil, err
	}
	return r.policies[i].FencePolicy, nil
}

// applies returns the position of the policy that applies. It is that of the policy that can't be read if there is an error, and negative if
// none selects the node.
func (r Rule) applies(of labels.Labels) (int, error) {
	for i, p := range r.policies {
		if p.failed != nil {
			return i, fmt.Errorf("reading the selector of FencePolicy %s: %w", p.Name, p.failed)
		}
		if p.selector.Matches(of) {
			return i, nil
		}
	}
	return -1, nil
}
