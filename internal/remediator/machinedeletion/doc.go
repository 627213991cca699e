// Package machinedeletion is the remediator of MachineDeletionRemediation. A health checker of nodes creates such an
// object. The remediator deletes the node's machine once, for its owner to replace. It keeps the contract between
// health checkers and remediators (docs/contract.md), and its own promises are in
// docs/remedies/machine-deletion-remediation.md.
//
//	finalizer ─▶ which machine, read live ─▶ recorded by its UID ─▶ deleted ─▶ gone ─▶ replaced: Succeeded
//
// decide.go decides the next step, from facts alone. client.go and work.go read the facts and take the steps. The
// remediator judges no health, and has no limits. How many repairs may run, and whether the quorum of a control plane
// survives, is for the health checker to decide.
package machinedeletion
