package openshift

import (
	"context"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/slim"
)

// MachineKinds are the resources that MachineOf needs, by the names of their definitions.
var MachineKinds = []string{"machines.machine.openshift.io"} //nolint:gochecknoglobals // a constant list

// WatchMachines starts the informers of machines and nodes, whether or not the cluster serves
// health checks of machines. Like Watch, it may be called again.
func (c *Client) WatchMachines(ctx context.Context) error {
	return c.machines.Watch(ctx, c.Informers,
		informer.Kind{Plural: "machines", Object: &Machine{}, Handler: c.handler(c.store.putMachine, c.store.dropMachine)},
		informer.Kind{Plural: "nodes", Object: &slim.Node{}, Handler: c.handler(c.nodes.Put, c.nodes.Remove)},
	)
}

// MachinesSynced reports whether the caches of machines and nodes are in sync.
func (c *Client) MachinesSynced() bool { return c.machines.HasSynced() }

// MachineOf returns the machine of a node, where machines are no targets themselves. Then the
// cluster has no health checks of machines, or they are not observed. It returns the zero ID for
// none, and false while that is unknown.
func (c *Client) MachineOf(t core.Target) (core.ID, bool) {
	switch {
	case t.ID.Kind == machineKind, c.MachinesServed == nil, c.MachinesServed() == core.No:
		return core.ID{}, true
	case !c.MachinesSynced():
		return core.ID{}, false
	}
	var found core.ID
	c.nodes.Lookup(func(find func(string) (node.Facts, bool)) { found = c.store.machineOf(t.ID, find) })
	return found, true
}

// machineOf returns the machine that refers to a node. It leaves out machines that can't be read or
// share their node with another machine, since the node may not be theirs.
func (s *store) machineOf(of core.ID, find func(string) (node.Facts, bool)) core.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.index.All() {
		if m.node != of.Name {
			continue
		}
		var t core.Target
		s.fillTarget(&t, m, find)
		if t.Problem == "" && t.Node.Name == of.Name {
			return t.ID
		}
	}
	return core.ID{}
}
