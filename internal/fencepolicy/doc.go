// Package fencepolicy decides which FencePolicy applies to which node. It also decides what the Lease of a node promises, and what the status of
// a policy says about both. The agent of a node, the controller and the command line decide by this package alike.
//
// The package is pure: it makes no call and reads no clock.
package fencepolicy
