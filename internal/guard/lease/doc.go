// Package lease is the guard of a node's lease: the right to take the node out of service, of which everybody
// who means to do that holds at most one. By agreement with node maintenance and the health checks of medik8s
// it is the Lease node-NAME in the namespace medik8s-leases (docs/guards.md).
//
// lease.go is pure and says whose a lease is, and what it becomes when it is taken; client.go is the thin rest.
// What [Client.AddFacts] tells comes from a cache and is for refusals and people; [Client.Acquire] reads and writes
// the API server itself, and only what it says permits anything.
//
//	held, err := leases.Acquire(ctx, target, "fettle.io/NodeHealthCheck-workers", 11*time.Minute)
//	if err != nil || !held {
//		return // somebody else is at work on the node, or nobody knows
//	}
package lease
