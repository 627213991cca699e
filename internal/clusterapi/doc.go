// Package clusterapi is what the parts of Fettle share that know Cluster API: its Machines and Clusters, of which it
// decodes what decisions read, and the conditions by which a health check tells of a machine's health and asks its
// owner to replace it.
//
// A machine has its conditions in two lists: those of v1beta2, and the deprecated ones that v1beta1 shows. Every
// writer keeps both, each by the rules of its own. [Machine.Patch] renders what is to change in them, and [Writer]
// writes it:
//
//	changes := clusterapi.HealthCheckFailed(m, node, findings)
//	written, err := writer.Write(ctx, m, changes)
//
// It must not decide who is healthy.
package clusterapi
