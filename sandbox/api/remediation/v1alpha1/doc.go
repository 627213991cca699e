// Package v1alpha1 has the kinds of the simulated remediators, like the remediators of clusters without a Machine API:
// RebootRemediation brings a node back as it was, ReprovisionRemediation reinstalls it. Each comes with the template
// that health checks name, and follows the contract of external remediators.
//
// +kubebuilder:object:generate=true
// +groupName=sandbox.fettle.io
package v1alpha1
