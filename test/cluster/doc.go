// Package cluster starts a real control plane and a real Fettle for tests. It runs the released binaries against an API
// server for the test alone, with the rights that config/rbac grants.
//
//	c := cluster.Start(t, cluster.Options{})
//	c.InstallFettle(t)
//	fettle := c.StartFettle(t)
//
// Tests of one control plane that don't meet are subtests that run beside each other:
//
//	beside := cluster.Beside(t)
//	defer beside.Wait()
//	for name, test := range tests {
//		beside.Run(name, func(t *testing.T) { test(t, c) })
//	}
//
// It needs the binaries that make build puts into bin/.
package cluster
