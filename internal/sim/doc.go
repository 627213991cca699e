// Package sim is a toy cluster in memory, in which the core's promises are checked over time.
//
// It has what makes promises hard to keep: an API server with the truth, caches that lag behind it
// object by object, a machine set, deletions that take their time, remediators that succeed, fail or
// hang and don't let go at once of what was asked of them, owners that replace the machines that are
// marked for them, one at a time or not, refuse for a while or never answer, nodes that flap, vanish and
// register anew, engines that crash between two calls or forget everything, people who delete requests,
// marks and entries of the ledger, two leaders at once, and two clusters of the same nodes. Its passes
// are those of internal/pass: the simulator takes the calls that the machine offers, makes them against
// the pretended cluster, and hands it the results.
//
//	u := sim.New(sim.Setup{Machines: 3, Ticks: 3, Flaps: 2})
//	result := sim.Explore(u, sim.Bounds{Depth: 10})
//
// Explore walks through every interleaving of what can happen, up to a bound, and asks the watcher
// after each step. Time is counted in ticks; nothing sleeps. The package must not be imported but by
// tests, and must not know Kubernetes.
package sim
