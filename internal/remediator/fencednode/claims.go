package fencednode

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Holder is a remediation that fences a node.
type Holder struct {
	Kind string
	types.NamespacedName

	UID types.UID
}

// String returns the holder for a message.
func (h Holder) String() string { return h.Kind + " " + h.NamespacedName.String() }

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

// Release ends the claims of a remediation.
func (c *Claims) Release(by Holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, holder := range c.byNode {
		if holder == by {
			delete(c.byNode, node)
		}
	}
}
