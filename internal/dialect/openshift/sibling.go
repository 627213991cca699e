package openshift

import (
	"context"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lean"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/watching"
)

// MachineKinds are the resources without which no machine is known, by the name of their definitions.
var MachineKinds = []string{"machines.machine.openshift.io"} //nolint:gochecknoglobals // a constant list

// WatchMachines begins to watch machines and nodes, whether or not the cluster serves health checks of machines. Like
// Watch, it may be called again.
func (c *Client) WatchMachines(ctx context.Context) error {
	return c.machines.Begin(ctx, c.Informers,
		watching.Kind{Plural: "machines", Object: &Machine{}, Handler: c.handler(c.fleet.putMachine, c.fleet.dropMachine)},
		watching.Kind{Plural: "nodes", Object: &lean.Node{}, Handler: c.handler(c.putNode, c.nodes.Remove)},
	)
}

// MachinesInStep tells whether the machines and nodes have been taken in.
func (c *Client) MachinesInStep() bool { return c.machines.InStep() }

// MachineOf returns the machine of a node, where machines are no targets themselves: the cluster has no health checks of
// machines, or they are not observed. It returns the zero ID for none, and false while that is not known.
func (c *Client) MachineOf(t core.Target) (core.ID, bool) {
	switch {
	case t.ID.Kind == machineKind, c.MachinesServed == nil, c.MachinesServed() == core.No:
		return core.ID{}, true
	case !c.MachinesInStep():
		return core.ID{}, false
	}
	var found core.ID
	c.nodes.Lookup(func(find func(string) (node.Facts, bool)) { found = c.fleet.machineOf(t.ID, find) })
	return found, true
}

// machineOf returns the machine that refers to a node. Of a machine whose facts can't be read, or that shares the node with
// another one, it is not known that the node is its own.
func (f *fleet) machineOf(of core.ID, find func(string) (node.Facts, bool)) core.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.roster.All() {
		if m.node != of.Name {
			continue
		}
		var t core.Target
		f.fill(&t, m, find)
		if t.Problem == "" && t.Node.Name == of.Name {
			return t.ID
		}
	}
	return core.ID{}
}
