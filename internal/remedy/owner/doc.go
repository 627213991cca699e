// Package owner is the remedy that marks a Cluster API machine for its owner, which replaces it. The mark is the
// condition OwnerRemediated. The owner chooses when, and answers in the same condition (docs/reference/cluster-api.md#owners). A
// request stands until it is withdrawn, or the owner has begun.
package owner
