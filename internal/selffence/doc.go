// Package selffence is the protocol by which nodes fence themselves. It is pure: it reads no clock and makes no call.
//
// An agent on each node keeps the hardware watchdog of the node from firing, but only while it holds a grant. A grant is a write of
// the node's Lease that succeeded, or the answers of a majority of witnesses while the API server is away. The agent states in the
// Lease what it promises: how long a grant is valid, and the timeout of its watchdog. A manager condemns the node by a write of the
// same Lease, so that the next renewal conflicts. From then on the agent gets no grant, and after a time that follows from the promise
// the watchdog has reset the node. That is the proof PromiseExpired of package fencing.
//
// Clocks need not agree. Only their rates do, within five percent.
package selffence
