// Package template is the remedy that asks an external remediator for a repair. It creates an object from a template,
// the remediation request, which stands until it is withdrawn. docs/contract.md says what a remediator has to know.
//
// Requests have three forms. [NodeRemedy] asks for a node, as medik8s's NodeHealthCheck does. [MachineRemedy] asks for
// a machine, as OpenShift's MachineHealthCheck does, and [ClusterMachineRemedy] as Cluster API's does.
//
// The steps of policies and repairs name the kinds of templates. [ClusterClient.AddFacts] notes them, and
// [Client.Start] watches them. Each cluster has a [ClusterClient], by [Client.ForCluster], with the requests about its
// own targets.
package template
