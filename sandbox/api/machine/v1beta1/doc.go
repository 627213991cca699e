// Package v1beta1 has the kinds of the simulated Machine API: Machine and MachineSet, with the names and the JSON shape
// that clusters with a real Machine API use. Only fields that the simulation or its users read are here; it has no logic
// but what every user of the types would repeat.
//
// +kubebuilder:object:generate=true
// +groupName=machine.openshift.io
package v1beta1
