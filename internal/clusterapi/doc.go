// Package clusterapi has the kinds of Cluster API for all parts of Fettle. It decodes the fields of Machines and
// Clusters that decisions read. It writes the conditions by which a health check reports a machine's health, and
// requests from the machine's owner that it replaces the machine.
//
// A machine has its conditions in two lists: the conditions of v1beta2, and the deprecated conditions, which v1beta1
// shows. Every writer keeps both lists, each by its own rules. [Machine.Patch] renders the changes, and [Writer] writes
// them:
//
//	changes := clusterapi.HealthCheckFailed(m, node, findings)
//	written, err := writer.Write(ctx, m, changes)
//
// The package must not decide which machine is healthy.
package clusterapi
