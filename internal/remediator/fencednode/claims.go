package fencednode

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Holder is a remediation that fences a node.
type Holder struct {
	Kind string
	types.NamespacedName
}

// String returns the holder for a message.
func (h Holder) String() string { return h.Kind + " " + h.NamespacedName.String() }

// WaitProblem returns the problem of another remediation that has to wait until the holder has fenced a node.
func (h Holder) WaitProblem(node string) Problem {
	return Problem{Reason: AnotherRemediation, Message: h.String() + " fences node " + node + ", and this one waits until it has ended"}
}

// Claims has which remediation fences which node, so that remediators of several kinds take turns. It is safe for concurrent use. A process
// that has just started has no claims: a remediation that has begun claims its node anew.
type Claims struct {
	mu     sync.Mutex
	byNode map[string]Holder
}

// NewClaims returns claims of no node.
func NewClaims() *Claims { return &Claims{byNode: map[string]Holder{}} }

// Claim has a remediation fence a node, unless another one does. It returns which one does.
func (c *Claims) Claim(node string, by Holder) Holder {
	c.mu.Lock()
	defer c.mu.Unlock()
	if holder, held := c.byNode[node]; held {
		return holder
	}
	c.byNode[node] = by
	return by
}

// Holds reports whether a remediation has claimed a node.
func (c *Claims) Holds(node string, by Holder) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byNode[node] == by
}

// Holder returns which remediation has claimed a node, if one has.
func (c *Claims) Holder(node string) (Holder, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	holder, held := c.byNode[node]
	return holder, held
}

// Release ends the claims of a remediation.
func (c *Claims) Release(by Holder) { c.ReleaseOthers(by, "") }

// ReleaseOthers ends the claims of a remediation of all nodes but one.
func (c *Claims) ReleaseOthers(by Holder, node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for claimed, holder := range c.byNode {
		if holder == by && claimed != node {
			delete(c.byNode, claimed)
		}
	}
}

// Len returns how many nodes are claimed.
func (c *Claims) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byNode)
}
