package openshift

import (
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/node"
)

// Acts reports whether any health check may start repairs: it can be followed, is not paused, is no
// dry run, and selects a machine.
func (c *Client) Acts() core.Tri {
	return healthcheck.WhenSynced(c.Served, c.HasSynced, c.store.acts)
}

// ActsOn reports whether such a health check selects any of these nodes. The nodes are UIDs by
// name.
func (c *Client) ActsOn(nodes map[string]string) core.Tri {
	return healthcheck.WhenSynced(c.Served, c.HasSynced, func() bool { return c.actsOn(nodes) })
}

// HasAny reports whether the cluster has any of these nodes.
func (c *Client) HasAny(nodes map[string]string) core.Tri {
	for name, uid := range nodes {
		if c.hasNode(name, uid) {
			return core.Yes
		}
	}
	if c.machines.KindHasSynced("nodes") {
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
	c.nodes.Lookup(func(find func(string) (node.Facts, bool)) { acts = c.store.actsOn(nodes, find) })
	return acts
}

func (s *store) acts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, check := range s.checks {
		if check.policy.Repairs() && len(s.index.Members(check.selection)) > 0 {
			return true
		}
	}
	return false
}

// actsOn leaves out machines that are not judged. An example is a machine whose node belongs to a
// machine of another namespace.
func (s *store) actsOn(nodes map[string]string, find func(string) (node.Facts, bool)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	machines := s.index.Targets()
	for _, check := range s.checks {
		if !check.policy.Repairs() {
			continue
		}
		for _, i := range s.index.Members(check.selection) {
			if s.isOneOf(machines[i], nodes, find) {
				return true
			}
		}
	}
	return false
}

// isOneOf reports whether a machine is judged by one of these nodes.
func (s *store) isOneOf(m *machine, nodes map[string]string, find func(string) (node.Facts, bool)) bool {
	uid, named := nodes[m.node]
	if !named {
		return false
	}
	var t core.Target
	s.fillTarget(&t, m, find)
	return t.Problem == "" && t.Node.UID == uid
}
