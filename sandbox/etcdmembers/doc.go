// Package etcdmembers simulates the etcd members that kubeadm starts on the machines of a control plane. Cluster API's
// KubeadmControlPlane forwards a port to the pod etcd-NODE and speaks etcd's own protocol there: it lists members and alarms,
// moves the leadership, and removes the member of a machine that goes. Package etcdmembers answers both, the forwarding and
// the protocol, so no pod needs a container.
//
//	members, err := etcdmembers.Listen(ctx, etcdmembers.Config{Client: c, Reader: uncached, Clusters: clusters})
//	err = mgr.Add(members)
//	reconciler.ClusterCache = members.Cache()
//
// A SandboxMachine of a control plane has a member from its first boot until the member is removed. The member works while
// the machine runs and has no fault. Without a majority of members that work there is no leader, and only Status answers.
// The annotation sandbox.fettle.io/etcd raises an alarm.
package etcdmembers
