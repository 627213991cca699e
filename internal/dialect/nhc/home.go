package nhc

import (
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
)

// Acts reports whether there is a health check that may have anything repaired: it can be followed, is not paused, is no dry
// run, and selects a node.
func (c *Client) Acts() core.Tri {
	return healthcheck.Know(c.Served, c.InStep, c.fleet.acts)
}

// ActsOn reports whether such a health check selects any of these nodes, which are UIDs by name.
func (c *Client) ActsOn(nodes map[string]string) core.Tri {
	return healthcheck.Know(c.Served, c.InStep, func() bool { return c.fleet.actsOn(nodes) })
}

// HasAny reports whether the cluster has any of these nodes. The caller asks no other dialect once it knows.
func (c *Client) HasAny(nodes map[string]string) core.Tri {
	for name, uid := range nodes {
		if c.hasNode(name, uid) {
			return core.Yes
		}
	}
	if c.watched.HasTaken("nodes") {
		return core.No
	}
	return core.Unknown
}

func (c *Client) hasNode(name, uid string) bool {
	facts, seen := c.fleet.factsOf(name)
	return seen && facts.Node.UID == uid
}

func (f *fleet) acts() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, check := range f.checks {
		if check.policy.Repairs() && len(f.roster.Members(check.selection)) > 0 {
			return true
		}
	}
	return false
}

func (f *fleet) actsOn(nodes map[string]string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, uid := range nodes {
		s := f.nodes[name]
		if s == nil || s.seen.Facts().Node.UID != uid {
			continue
		}
		for _, check := range f.checks {
			if check.policy.Repairs() && s.In(check.selection) {
				return true
			}
		}
	}
	return false
}
