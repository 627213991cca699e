// Package capi is the dialect of Cluster API's MachineHealthCheck (cluster.x-k8s.io/v1beta2). It translates health
// checks, clusters, machines and nodes into facts for the core. It translates verdicts back into statuses, conditions of
// machines and events. docs/dialects/cluster-api.md describes both.
//
// A [Client] watches a management cluster. Each workload cluster that has a health check has a [Dialect] of its own. The
// dialect sees the nodes of the workload cluster through a connection:
//
//	client := capi.NewClient(config)
//	for _, cluster := range client.Clusters() {
//		dialect := client.Dialect(cluster, connectionTo(cluster))
//	}
//
// Most files are pure: translate.go, target.go, status.go, events.go and others. Calls of the API server are in client.go,
// dialect.go, record.go, blocked.go and machineconditions.go. The package decides nothing. It knows no other dialect, and
// of a remedy only its name.
package capi
