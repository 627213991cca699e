// Package capi is the dialect of Cluster API's MachineHealthCheck (cluster.x-k8s.io/v1beta2): it translates health
// checks, clusters, machines and nodes into what the core reads, and verdicts back into statuses, conditions of
// machines and events, as docs/dialects/cluster-api.md has it.
//
// A [Client] watches a management cluster. Each workload cluster that has a health check is a fleet of its own, by
// [Client.Dialect], with nodes that are seen through a connection of its own:
//
//	client := capi.NewClient(config)
//	for _, cluster := range client.Clusters() {
//		fleet := client.Dialect(cluster, connectionTo(cluster))
//	}
//
// translate.go, target.go, status.go, mark.go and events.go are pure; client.go, fleet.go, record.go and standby.go are
// the thin rest. It must not decide anything, and must not know other dialects or any remedy beyond its name.
package capi
