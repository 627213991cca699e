// Package powercycle is the remediator of PowerRemediation. A health checker of nodes creates such an object. The
// remediator powers the node's host off. It lets the workload start elsewhere once the host is proven to be off, and then
// powers the host on again. It keeps the contract between health checkers and remediators (docs/contract.md).
//
// Package fencing decides each step, from facts alone. This package reads the facts and takes the steps. The loop between
// them is in reconcile.go, and the power of hosts in hosts.go. In clusters.go are the differences for nodes of workload
// clusters, and in record.go the status that a restarted process goes on from. Package fencednode reads and changes the nodes. The
// remediator judges no health and has no limits. How many repairs may run, and whether the quorum of a control plane
// survives, is for the health checker to decide.
package powercycle
