// Package upgrade is the guard that knows whether the cluster is being upgraded. OpenShift says so in its
// ClusterVersion. A workload cluster of Cluster API says it in its Cluster, which internal/clusterapi reads. No other cluster
// says it anywhere, so elsewhere the answer is no, and an administrator pauses the health checks (docs/guards.md).
//
// progress.go is pure; client.go is the thin rest, which reads a cache and nothing else.
//
//	versions := upgrade.NewClient(upgrade.Config{Informers: informers, Served: served, Wake: wake})
//	versions.AddFacts(policies, &fleet) // fleet.Upgrading is yes, no or unknown
package upgrade
