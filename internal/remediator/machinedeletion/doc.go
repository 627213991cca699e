// Package machinedeletion is the remediator of MachineDeletionRemediation: whoever checks the health of
// nodes creates one, and the node's machine is deleted, once, for its owner to replace. It keeps the
// contract between health checkers and remediators, docs/contract.md; what it promises of its own is in
// docs/remedies/machine-deletion-remediation.md.
//
//	finalizer ─▶ which machine, read live ─▶ recorded by its UID ─▶ deleted ─▶ gone ─▶ replaced: Succeeded
//
// decide.go says what comes next, from facts alone; client.go and work.go find the facts out and do it.
// It judges nobody's health, and holds nothing back: how many at a time, and whether the quorum of a
// control plane survives, is the health checker's to know.
package machinedeletion
