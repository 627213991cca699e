// Package nhc is the dialect of medik8s' NodeHealthCheck (remediation.medik8s.io/v1alpha1): it translates
// health checks and nodes into what the core reads, and verdicts back into status and events, as
// docs/dialects/nhc.md has it.
//
// translate.go, ladder.go, status.go and events.go are pure; client.go is the thin rest. It must not decide
// anything, and must not know other dialects or any remedy beyond its name: whether a template exists and can be
// used is for the remedy to say.
package nhc
