// Package openshift is the dialect of OpenShift's MachineHealthCheck
// (machine.openshift.io/v1beta1): it translates health checks, machines and nodes into what the core
// reads, and verdicts back into status and events, as docs/dialects/openshift.md has it.
//
// translate.go, status.go and events.go are pure; client.go is the thin rest. It must not decide
// anything, and must not know other dialects or any remedy beyond its name.
package openshift
