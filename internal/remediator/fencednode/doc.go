// Package fencednode reads and changes the nodes of one cluster for a fencing. It sets and removes taints and the annotations that stand for the
// time of the fencing. It restores a node that was deleted, and counts the workload that is left. Remediators that fence share it. Package fencing decides each step.
package fencednode
