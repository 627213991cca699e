// Package fencepolicy decides what FencePolicies amount to: which of them applies to which node, what the Lease of a node promises, and what a
// policy says about both. The agent of a node, the controller and the command line decide by this package alike.
//
// The package is pure: it makes no call and reads no clock.
package fencepolicy
