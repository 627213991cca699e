// Package quorum is the guard that tells whether the control plane keeps its quorum while one of its members is
// out of service (docs/guards.md). It reads from the API server itself, and only when a member of the control
// plane is about to be repaired.
//
// decide.go is pure, and so is read.go, which turns objects into what decide.go reads; client.go is the thin
// rest. A read that fails is an error, and nothing is known then: quorum is never taken for granted (I4).
//
//	survives, err := guard.Survives(ctx, target) // yes, no, or unknown with the reason
package quorum
