// Package v1alpha1 has the kinds of the simulated cloud: Instance, which a person can break, and SimulatedProviderSpec,
// which is what a Machine's spec.providerSpec.value holds.
//
// +kubebuilder:object:generate=true
// +groupName=sandbox.fettle.io
package v1alpha1
