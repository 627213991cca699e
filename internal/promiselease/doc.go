// Package promiselease reads and writes promises in Leases of the API coordination.k8s.io/v1, for the protocol of package selffence. The truth
// is in annotations. The fields of the spec are for people and for other tools, and are never read.
//
// The package is pure. A Lease that can't be decoded wholly is an error, and never a part of a promise. Each promise has one text: a Lease that
// can be decoded is encoded to the same annotations again.
package promiselease
