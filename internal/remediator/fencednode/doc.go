// Package fencednode reads and changes the nodes of one cluster for a fencing: its taints, what is set for the time of the fencing, what is
// restored after a node was deleted, and what is left of the workload. Remediators that fence share it. Package fencing decides each step.
package fencednode
