// Package v1alpha1 has the kinds of the simulated providers of Cluster API. SandboxCluster and SandboxMachine are its
// infrastructure, SandboxBootstrapConfig is its bootstrap; they keep the v1beta2 contract of providers, as the label of
// their definitions says.
//
// +kubebuilder:object:generate=true
// +groupName=sandbox.fettle.io
package v1alpha1
