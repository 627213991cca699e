// Package upgrade is the guard of cluster upgrades. OpenShift reports an upgrade in its
// ClusterVersion. Cluster API reports it in the Cluster of a workload cluster, which
// internal/clusterapi reads. In all other clusters the answer is no, and an administrator pauses
// the health checks (docs/guards.md).
//
// progress.go is pure, and client.go watches. It makes no other call.
//
//	upgrades := upgrade.NewClient(upgrade.Config{Informers: informers, Served: served, Wake: wake})
//	upgrades.AddFacts(policies, &cluster) // cluster.Upgrading is yes, no or unknown
//	versions := upgrade.NewClient(upgrade.Config{Informers: informers, Served: served, Wake: wake})
//	versions.AddFacts(policies, &cluster) // cluster.Upgrading is yes, no or unknown
package upgrade
