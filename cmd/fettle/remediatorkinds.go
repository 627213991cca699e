package main

import "github.com/fettle-io/fettle/internal/dialect/nhc"

// remediatorKinds returns the kinds of remediation templates that the cluster serves.
func (r *components) remediatorKinds() []nhc.Remediator {
	kinds := r.waker.Templates()
	remediators := make([]nhc.Remediator, 0, len(kinds))
	for _, k := range kinds {
		remediators = append(remediators, nhc.Remediator{
			APIVersion: k.GroupVersion().String(), Kind: k.Kind, Resource: k.Resource, Namespaced: k.Namespaced,
		})
	}
	return remediators
}
