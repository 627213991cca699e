// Package core judges targets, and decides which of them are repaired, and how.
//
// It is pure: facts go in, a decision comes out, and the same facts give the same decision. It
// reads no clock, calls nothing and holds no lock. The time is an argument. A failure outside of
// the core is a value here: an unreadable fact is Unknown, and a broken policy has a Problem.
//
//	decision := core.Decide(policies, cluster, now)
//	for _, s := range decision.Starts { … }   // record a repair, then call its remedy
//	sleepUntil(decision.NextAt)
//
// The files are in rooms, from the bottom to the top: nouns, judging, indexing, gating, planning, expectations and reports.
// A file uses what its own room declares, and what the rooms below it do. The table is in hack/rooms.txt, and
// hack/check-house compares it with the code.
//
// The promises of the core are I1 to I12 in docs/invariants.md. Each has a test here.
package core
