// Package fencing decides how a node is fenced: it takes the record of a fencing and what is known, and returns the next step.
//
// Fencing stops a node so that its workload may start elsewhere. A node that doesn't answer may still run its pods, so the workload is
// released only with a [Proof] that the node has stopped. Silence, a condition, an accepted command and the success of a task prove
// nothing (promise I13).
//
// The package is pure. The caller runs the steps one at a time. It writes a record before it takes the next step, so
// that another process goes on from that record. It reads the facts that a step needs. Nothing is kept between two
// calls of [Next] but the record, the facts and what the caller knows of the power since its process began.
//
// The order of a fencing is that of the phases:
//
//	Preparing    the boot ID is recorded, and the node gets a NoExecute taint of Fettle's own
//	PoweringOff  the power is commanded off, until there is a proof
//	Releasing    the node is tainted out of service or deleted, until its pods and volumes are gone
//	PoweringOn   the power is commanded on, until it is observed on
//	Booting      the node becomes Ready under another boot ID
//	Restoring    what was changed on the node is changed back, the taint last
package fencing
