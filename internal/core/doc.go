// Package core decides which targets of a fleet are unhealthy and which repairs may start.
//
// It is pure: facts go in, a decision comes out, and the same facts give the same decision. It
// reads no clock, calls nothing and holds no lock; "now" is an argument. Everything that can go
// wrong in the world arrives here as a value: an unreadable fact is Unknown, a broken policy is a
// policy with a Problem.
//
//	decision := core.Decide(policies, fleet, now)
//	for _, s := range decision.Starts { … }   // record a repair, then start its remedy
//	sleepUntil(decision.NextAt)
//
// What must always hold is numbered I1 to I12 in docs/invariants.md; each has a test here.
package core
