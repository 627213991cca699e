// Package cluster gives tests a real control plane and a real Fettle: it runs the binaries that
// people run, against an API server of their own, under the rights that config/rbac grants.
//
//	c := cluster.Start(t, cluster.Options{})
//	c.InstallFettle(t)
//	fettle := c.StartFettle(t)
//
// It needs the binaries that make build puts into bin/.
package cluster
