// Package owner is the remedy that has a machine of Cluster API ask its owner to replace it, by the condition
// OwnerRemediated: the owner chooses when, and answers in the same condition (docs/reference/cluster-api.md#owners).
// What is asked stands until it is withdrawn, or the owner has begun.
package owner
