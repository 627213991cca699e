// Package agent runs the agent of a node, which keeps the hardware watchdog of the node from firing and states in the node's Lease what it
// promises. Package selffence decides. This package reads the clock, pets the watchdog, sends requests and stores what must outlive the
// process.
//
// One goroutine pets, and waits for nothing else. Another one stores, sends and settles what is promised. A third one looks up which policy
// selects the node. The first two share one selffence.Agent under a mutex, which is not held during a request or a write to a file.
//
// The API server is the only grantor so far. So no promise is timed: if the whole API were away, all nodes would reset.
package agent
