// Package clusterapi makes the sandbox a management cluster of Cluster API. The reconcilers, the admission webhooks and
// the conversion between v1beta1 and v1beta2 are Cluster API's own, from its module. Package provider simulates its
// providers. Health checks are left to the users of the sandbox, unless they ask for Cluster API's reconciler. So are
// KubeadmControlPlanes; their reconciler finds the etcd members of package etcdmembers.
//
//	running, err := clusterapi.Start(ctx, clusterapi.Config{Client: admin, Certificate: pair, Log: log})
//	…
//	defer running.Stop()
//
// The definitions of the kinds and the list of webhooks are generated from the module too: hack/generate.
package clusterapi
