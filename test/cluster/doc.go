// Package cluster starts a real control plane and a real Fettle for tests. It runs the released binaries against an API
// server for the test alone, with the rights that config/rbac grants.
//
//	c := cluster.Start(t, cluster.Options{})
//	c.InstallFettle(t)
//	fettle := c.StartFettle(t)
//
// It needs the binaries that make build puts into bin/.
package cluster
