// Package quorum is the guard of etcd's quorum. It reads whether the control plane keeps its quorum
// without one of its members (docs/guards.md). It reads from the API server, and only before the
// repair of a member of the control plane.
//
// decide.go and read.go are pure. read.go turns objects into the facts that decide.go reads, and
// client.go makes the calls. A failed read is an error, and quorum is unknown then (I4).
//
//	survives, err := guard.Survives(ctx, target) // yes, no, or unknown with the reason
//	survives, err := guard.Survives(ctx, target) // yes, no, or unknown with the reason
package quorum
