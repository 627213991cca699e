// Package metal tests PowerRemediations on the sandbox's bare-metal hosts, which have emulated BMCs with faults to order.
// The hosts log which pods run on them, so that a test fails if one pod of a StatefulSet ran twice at a time.
package metal
