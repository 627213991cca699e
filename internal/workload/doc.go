// Package workload keeps the connections to workload clusters: of each wanted one its nodes, as far as decisions
// read them, and whether that is to be believed.
//
// A cluster is reached by the kubeconfig in the Secret that Cluster API keeps for it. Nothing but nodes is watched
// there, and nothing is written. What a cluster says is believed only while it answers: a connection that has lost
// it says so within about fifteen seconds, and takes in a whole new list before it is believed again.
//
//	clusters := workload.New(workload.Config{…})
//	go clusters.Start(ctx)
//	nodes := clusters.Keep(types.NamespacedName{Namespace: "fleet", Name: "east"})
//	answers, why := nodes.Answers()
package workload
