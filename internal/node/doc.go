// Package node keeps what decisions read of Nodes, and nothing else: the facts of each node by its
// name, taken from watch events as they come. It tells which events changed a fact, so that a
// heartbeat costs a comparison and no pass.
//
// It must not call the API server.
package node
