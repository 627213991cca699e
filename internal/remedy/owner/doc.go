// Package owner is the remedy that asks the owner of a Cluster API machine to replace it, by the condition
// OwnerRemediated. The owner chooses when, and answers in the same condition (docs/reference/cluster-api.md#owners). A
// request stands until it is withdrawn, or the owner has begun.
package owner
