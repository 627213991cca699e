package nhc

import (
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
)

// Acts reports whether any health check may repair a node: it can be followed, is neither paused nor a dry run, and
// selects a node.
func (c *Client) Acts() core.Tri {
	return healthcheck.WhenSynced(c.Served, c.HasSynced, c.store.acts)
}

// ActsOn reports whether such a health check selects any of these nodes. They are UIDs by name.
func (c *Client) ActsOn(nodes map[string]string) core.Tri {
	return healthcheck.WhenSynced(c.Served, c.HasSynced, func() bool { return c.store.actsOn(nodes) })
}

// HasAny reports whether the cluster has any of these nodes. If it returns Yes or No, the caller needs no answer of another
// dialect.
func (c *Client) HasAny(nodes map[string]string) core.Tri {
	for name, uid := range nodes {
		if c.hasNode(name, uid) {
			return core.Yes
		}
	}
	if c.watched.KindHasSynced("nodes") {
		return core.No
	}
	return core.Unknown
}

func (c *Client) hasNode(name, uid string) bool {
	facts, seen := c.store.factsOf(name)
	return seen && facts.Node.UID == uid
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

func (s *store) actsOn(nodes map[string]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, uid := range nodes {
		entry := s.nodes[name]
		if entry == nil || entry.view.Facts().Node.UID != uid {
			continue
		}
		for _, check := range s.checks {
			if check.policy.Repairs() && entry.In(check.selection) {
				return true
			}
		}
	}
	return false
}
