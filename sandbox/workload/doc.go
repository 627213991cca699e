// Package workload makes a sandbox known as a workload cluster to another one, which is its management cluster. It
// writes what a user and a control-plane provider would: the Cluster, its infrastructure, the secret with its
// kubeconfig, and a KubeadmControlPlane. Unless a reconciler acts on that, its status says that all is well. If asked
// to, it adds machines.
//
//	c, err := workload.NewClient(managementConfig)
//	err = workload.Register(ctx, c, workload.Cluster{Namespace: "default", Name: "east", Kubeconfig: raw, Workers: 3})
//	err = workload.Await(ctx, c, types.NamespacedName{Namespace: "default", Name: "east"})
package workload
