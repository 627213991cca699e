package openshift

import (
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/node"
)

// Acts reports whether there is a health check that may have anything repaired: it can be followed, is not paused, is no dry
// run, and selects a machine.
func (c *Client) Acts() core.Tri {
	return healthcheck.Know(c.Served, c.InStep, c.fleet.acts)
}

// ActsOn reports whether such a health check selects any of these nodes, which are UIDs by name.
func (c *Client) ActsOn(nodes map[string]string) core.Tri {
	return healthcheck.Know(c.Served, c.InStep, func() bool { return c.actsOn(nodes) })
}

// HasAny reports whether the cluster has any of these nodes. The caller asks no other dialect once it knows.
func (c *Client) HasAny(nodes map[string]string) core.Tri {
	for name, uid := range nodes {
		if c.hasNode(name, uid) {
			return core.Yes
		}
	}
	if c.machines.HasTaken("nodes") {
		return core.No
	}
	return core.Unknown
}

func (c *Client) hasNode(name, uid string) bool {
	found := false
	c.nodes.Lookup(func(find func(string) (node.Facts, bool)) {
		facts, seen := find(name)
		found = seen && facts.Node.UID == uid
	})
	return found
}

func (c *Client) actsOn(nodes map[string]string) bool {
	acts := false
	c.nodes.Lookup(func(find func(string) (node.Facts, bool)) { acts = c.fleet.actsOn(nodes, find) })
	return acts
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

// actsOn leaves out machines that are not judged, such as a machine that refers to a node of another namespace's machine.
func (f *fleet) actsOn(nodes map[string]string, find func(string) (node.Facts, bool)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	machines := f.roster.Targets()
	for _, check := range f.checks {
		if !check.policy.Repairs() {
			continue
		}
		for _, i := range f.roster.Members(check.selection) {
			if f.isOneOf(machines[i], nodes, find) {
				return true
			}
		}
	}
	return false
}

// isOneOf reports whether the node of a machine is one of these and its own.
func (f *fleet) isOneOf(m *machine, nodes map[string]string, find func(string) (node.Facts, bool)) bool {
	uid, named := nodes[m.node]
	if !named {
		return false
	}
	var t core.Target
	f.fill(&t, m, find)
	return t.Problem == "" && t.Node.UID == uid
}
