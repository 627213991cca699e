// Package sim simulates a cluster in memory, and checks the promises of docs/invariants.md over time.
//
// The simulation has the faults that make promises hard to keep:
//
//   - The API server has the truth. Caches lag behind it, object by object. Writes are lost, or their answers are.
//   - A machine set replaces machines. Deletions take their time, or never end.
//   - Remediators succeed, fail or hang. They don't let go at once of their requests.
//   - Owners replace the machines that are marked for them, one at a time or not. Some refuse for a while, or never answer.
//   - Nodes flap, vanish and register anew. The quorum of the control plane changes.
//   - Engines crash between two calls, and forget everything. Two may lead at once.
//   - Calls fail, panic, are skipped, or are cut off with their pass. Statuses are not written.
//   - Users pause, edit and delete policies, and delete requests, marks and entries of the ledger. Other tools take leases.
//   - Two clusters may have the same nodes.
//
// Clocks step. Each engine has a clock of its own, and its monotonic clock never steps. The API server's clock dates
// machines and requests, and nodes date their conditions by clocks that are fast, behind, or step. Marks and what remediators report are dated by a clock that is
// right. An engine always knows whether its clock agrees with the API server's: internal/guard/clock measures that, and has
// tests of its own. No world has both clocks jump by minutes. Nothing shows that two clocks are wrong alike.
//
// The passes are those of internal/pass, from the snapshot of all observations on. The simulator takes the calls that the
// step machine offers, makes them against the simulated cluster, and returns the results. Reports to users are among them: why
// nothing is known, conditions of machines, and confirmations that are withdrawn. The rule by which a workload cluster yields
// is that of internal/core. The simulator has stand-ins for what has I/O: the dialects, the remedies, the stores, and the runner
// of calls.
//
//	u := sim.New(sim.Setup{Machines: 3, Ticks: 3, Flaps: 2})
//	result := sim.Explore(u, sim.Bounds{Depth: 10})
//
// Explore walks through every interleaving of these steps, up to a bound, and runs the checker after each step. Time is
// counted in ticks; nothing sleeps. Only tests may import the package, and it must not import Kubernetes.
package sim
