// Package v1alpha1 has the kinds of the simulated remediators, which stand for those that clusters without a Machine API
// install: RebootRemediation brings a node back as it was, ReprovisionRemediation makes it anew. Each comes with the
// template that health checks name, and follows the contract of external remediators.
//
// +kubebuilder:object:generate=true
// +groupName=sandbox.fettle.io
package v1alpha1
