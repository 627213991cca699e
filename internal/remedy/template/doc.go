// Package template is the remedy that asks an outside remediator, by an object that is made from a template and
// stands until it is withdrawn. docs/contract.md is what a remediator has to know of it.
//
// Requests have three forms. [NodeRemedy] asks for a node, in the way of medik8s's NodeHealthCheck; [MachineRemedy]
// asks for a machine, in the way of OpenShift's MachineHealthCheck, and [ClusterMachineRemedy] in that of Name API's.
// Which kinds there are, ladders tell: [ClusterClient.AddFacts] takes note of them, and [Client.Start] watches them. Each fleet has
// a docket, by [Client.ForCluster], on which are the requests about its targets and no others.
package template
