// Package crd installs the kinds of the simulated world: Machine, MachineSet and Instance, the remediations of nodes, and the
// providers of Cluster API. The YAML files beside it are generated from the types under api/, and can be applied with kubectl
// to any other cluster as well. Those in clusterapi/ are generated from Cluster API's module; package clusterapi completes
// and installs them.
package crd
