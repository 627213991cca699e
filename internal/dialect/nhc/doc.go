// Package nhc is the dialect of medik8s' NodeHealthCheck (remediation.medik8s.io/v1alpha1). It translates health checks
// and nodes into facts for the core. It translates verdicts back into statuses and events. docs/dialects/nhc.md describes
// both.
//
// Most files are pure: translate.go, steps.go, status.go, events.go and others. Calls of the API server are in client.go.
// The package decides nothing. It knows no other dialect, and of a remedy only its name. The remedy reports whether a
// template exists and can be used.
package nhc
