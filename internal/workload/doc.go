// Package workload keeps the connections to workload clusters. For each cluster it stores the nodes, as far as
// decisions read them, and whether they are up to date.
//
// The kubeconfig of a cluster is in the Secret that Cluster API keeps for it. A connection watches nodes and writes
// nothing. The stored nodes count only while the cluster answers. A connection notices within about fifteen seconds
// that the cluster does not. It then lists all nodes anew before they count again.
//
//	clusters := workload.New(workload.Config{…})
//	go clusters.Start(ctx)
//	nodes := clusters.Keep(types.NamespacedName{Namespace: "fleet", Name: "east"})
//	answers, why := nodes.Answers()
//
// Direct is for remediators. It keeps no nodes and reaches a cluster whether or not there is a connection. It reads and
// writes single nodes, and lists pods and VolumeAttachments.
package workload
