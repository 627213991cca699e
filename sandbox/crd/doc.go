// Package crd installs the kinds of the simulated world: Machine, MachineSet and Instance, and the remediations of nodes.
// The YAML files beside it are generated from the types under api/, and can be applied with kubectl to any other cluster as
// well.
package crd
