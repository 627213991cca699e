// Package selffencing is the remediator of SelfFenceRemediation. A health checker of nodes creates such an object. The remediator revokes the
// promise that the agent of the node has made. It lets the workload start elsewhere once the node is proven to have been reset, and waits
// until the node is back. It keeps the contract between health checkers and remediators (docs/contract.md).
//
// Package fencing decides each step, from facts alone, and package selffence when a promise has expired. This package reads the facts and
// takes the steps. The loop between them is in reconcile.go, and the status that a restarted process goes on from in record.go. Package fencednode
// reads and changes the nodes, and package nodepromise their promises.
package selffencing
