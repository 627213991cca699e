// Package nodepromise reads, revokes and frees the promises of the nodes of one cluster for a fencing. Agents state them in Leases. Remediators
// that fence share it. Package fencing decides each step, and package selffence when a promise has expired.
package nodepromise
