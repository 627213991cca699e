// Package template is the remedy that requests a repair from an external remediator. It creates an object from a
// template, the remediation request, which stands until it is withdrawn. docs/contract.md says what a remediator has to know.
//
// Requests have three forms. [NodeRemedy] is about a node, as in medik8s's NodeHealthCheck. [MachineRemedy] is about a
// machine, as in OpenShift's MachineHealthCheck, and [ClusterMachineRemedy] as in Cluster API's.
//
// The steps of policies and repairs name the kinds of templates. [ClusterClient.AddFacts] notes them, and
// [Client.Start] watches them. Each cluster has a [ClusterClient], by [Client.ForCluster], with the requests about its
// own targets.
package template
