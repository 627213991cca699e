// Package lease is the guard of node leases. A node lease is the exclusive right to take a node out
// of service. By agreement with the node maintenance operator and medik8s it is the Lease node-NAME
// in the namespace medik8s-leases (docs/guards.md).
//
// lease.go is pure: it decides who holds a lease, and renders an acquired one. client.go makes the
// calls. [Client.AddFacts] reads a cache, for refusals and messages. [Client.Acquire] reads and
// writes the API server, and only its result permits a remedy.
//
//	held, err := leases.Acquire(ctx, target, "fettle.io/NodeHealthCheck-workers", 11*time.Minute)
//	if err != nil || !held {
//		return // another holder works on the node, or the state of the lease is unknown
//	}
//	held, err := leases.Acquire(ctx, target, "fettle.io/NodeHealthCheck-workers", 11*time.Minute)
//	if err != nil || !held {
//		return // another holder works on the node, or its state is unknown
//	}
package lease
