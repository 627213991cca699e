// Package node stores the facts of Nodes that decisions read, by the names of the nodes. It reports
// which watch events changed a fact, so that a heartbeat costs a comparison and no pass.
//
// It must not call the API server.
package node
