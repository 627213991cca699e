// Package agentsigner issues the certificates by which the agents of nodes know each other. An agent gets one for its own node alone. The API
// server has put the node into the token of the agent's pod, and states it in the request.
//
// The certificates have no end, so that agents need no right time and no API server (see package peer). The authority that issues them ends
// instead. It is replaced each week, and a week later no agent trusts it any more.
package agentsigner
