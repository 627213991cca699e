// Package redfish emulates the Redfish service of a BMC over TLS on loopback, with faults to order. A host stands
// behind it, and the BMC powers the host. The package knows no cluster, no node and no kubelet.
//
//	bmc, err := redfish.Start(redfish.Config{User: "admin", Password: "secret", Host: host})
//	defer bmc.Close()
//	bmc.Order(func(f *redfish.Faults) { f.SaysOff = true })
//
// Requests, Logins and OpenSessions record the calls of clients. None of them has a password.
package redfish
