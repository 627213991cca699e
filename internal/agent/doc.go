// Package agent runs the agent of a node. The agent keeps the hardware watchdog of the node from firing, and states its promise in the node's
// Lease. Package selffence decides. This package reads the clock, pets the watchdog, sends requests and stores what must outlive the
// process.
//
// One goroutine pets, and waits for nothing else. Another one stores, sends and settles what is promised. Others look up which policy selects the node,
// watch the time, choose witnesses, and ask them. They share one selffence.Agent under a mutex, which is not held during a request or a write to a file.
//
// A grant is a write of the Lease, or the agreement of most witnesses: the agents of other nodes. Without witnesses no promise is timed: if the whole API
// were away, all nodes would reset.
package agent
