// Package peer lets the agents of nodes ask each other. Both sides show a certificate of the agents' own authority, which names their node.
//
// A question is a POST with a short body, and so is its answer. Everything is bounded: connections, questions of a node at a time, bytes and
// times. Neither side follows redirects, uses a proxy, or compresses.
//
// The dates of certificates must not matter. The clocks of all nodes may be wrong, or the API server may be away for a long time. If no agent
// could ask another one then, all nodes would reset. So the authority issues certificates without an end, and is itself replaced often.
package peer
