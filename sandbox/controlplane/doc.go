// Package controlplane runs a real Kubernetes control plane inside this process: etcd, the API server and the
// controller manager, each started from its own published code, with RBAC on and everything on loopback. It knows
// nothing of nodes, machines or the purpose of the cluster. There can be one in a process at a time, since Kubernetes
// keeps global state.
//
//	plane, err := controlplane.Start(ctx, controlplane.Config{...}) // returns when the API is ready
//	select {
//	case err := <-plane.Died(): // a component ended on its own
//	case <-ctx.Done():
//	}
//	plane.Stop() // controller manager, then API server, then etcd
package controlplane
