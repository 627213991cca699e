// Package openshift is the dialect of OpenShift's MachineHealthCheck (machine.openshift.io/v1beta1).
// It translates health checks, machines and nodes into policies and targets of the core. It renders
// the core's reports as statuses and events (docs/dialects/openshift.md).
//
// translate.go, status.go and events.go are pure. client.go watches, reads and writes. The package
// decides nothing. It knows no other dialect, and remedies only by their names.
package openshift
