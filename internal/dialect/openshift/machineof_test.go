package openshift

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer/informertest"
	"github.com/fettle-io/fettle/internal/slim"
)

// TestMachineOfNode: without health checks of machines, the machine of a node is known once the
// machines have been read.
func TestMachineOfNode(t *testing.T) {
	in, served := informertest.New(), core.Unknown
	c := NewClient(Config{
		Informers: in, Wake: func() {},
		Served: func() core.Tri { return core.No }, MachinesServed: func() core.Tri { return served },
	})
	node := func(name string) core.Target {
		return core.Target{ID: core.ID{Kind: "Node", Name: name, UID: name + "-uid"}}
	}
	wants := func(why, of, want string, known bool) {
		t.Helper()
		if id, is := c.MachineOf(node(of)); id.Name != want || is != known {
			t.Errorf("%s: the machine of %s is %q, known: %t; want %q, %t", why, of, id.Name, is, want, known)
		}
	}
	wants("the definitions have not been read", "m-node", "", false)
	served = core.No
	wants("there are no machines", "m-node", "", true)
	served = core.Yes
	wants("machines are not watched yet", "m-node", "", false)
	if err := c.WatchMachines(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	wants("machines have not been taken in", "m-node", "", false)
	in.SetSynced(true)
	if in.Of("MachineHealthCheck").Gets > 0 {
		t.Error("health checks of machines are watched, which are not served")
	}
	for _, m := range []*Machine{aMachine("m"), aMachine("one", refer("shared")), aMachine("two", refer("shared"))} {
		in.Of("Machine").Handler.OnAdd(m, true)
	}
	for _, name := range []string{"m-node", "shared", "alone"} {
		n := &slim.Node{}
		n.Name = name
		in.Of("Node").Handler.OnAdd(n, true)
	}
	wants("one machine refers to it", "m-node", "m", true)
	wants("two machines refer to it", "shared", "", true)
	wants("no machine refers to it", "alone", "", true)
	if id, known := c.MachineOf(core.Target{ID: core.ID{Kind: "Machine", Name: "m"}, Node: core.Node{Name: "m-node"}}); id != (core.ID{}) || !known {
		t.Errorf("a machine has the machine %v, known: %t", id, known)
	}
	served = core.No
	wants("machines are no longer served", "m-node", "", true)
}
