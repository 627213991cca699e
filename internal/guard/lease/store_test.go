package lease

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestReadingOfLeases: a lease is valid while its time lasts, and other objects are no leases of
// nodes.
func TestReadingOfLeases(t *testing.T) {
	held := render(core.Node{Name: "Node-A", UID: "a"}, &record{holder: "maintenance", acquired: noon, renewed: noon, duration: time.Hour})
	elsewhere := held.DeepCopy()
	elsewhere.SetNamespace("kube-node-lease")
	r := NewReading()
	if !r.Put(held) || r.Put(held) || r.Put(elsewhere) {
		t.Error("the lease of a node changes something the first time, and one elsewhere never")
	}
	at := func(now time.Time) core.Lease {
		cluster := core.Cluster{Targets: []core.Target{{Node: core.Node{Name: "Node-A"}}, {Node: core.Node{Name: "node-b"}}}}
		r.AddFacts(&cluster, now)
		if cluster.Targets[1].Lease != (core.Lease{}) {
			t.Errorf("the lease of another is %+v", cluster.Targets[1].Lease)
		}
		return cluster.Targets[0].Lease
	}
	if got := at(noon.Add(time.Minute)); got.Holder != "maintenance" || !got.Until.Equal(noon.Add(time.Hour)) {
		t.Errorf("it is held as %+v", got)
	}
	if got := at(noon.Add(time.Hour)); got.Holder != "" {
		t.Errorf("after its time it is held as %+v", got)
	}
	if got := at(noon.Add(-time.Hour)); !got.Until.Equal(noon) {
		t.Errorf("renewed in the future, it is held as %+v, want an hour from now", got)
	}
	r.Drop(Namespace + "/node-node-a")
	if got := at(noon.Add(time.Minute)); got.Holder != "" {
		t.Errorf("a lease that is gone is held as %+v", got)
	}
}

// TestStoredLeases: each difference that may change a decision counts, and no object but the lease of a node.
func TestStoredLeases(t *testing.T) {
	first := record{holder: "maintenance", renewed: noon, duration: time.Hour}
	b, node := store{}, core.Node{Name: "n"}
	if !b.put(object("n"), noon) || b.put(object("n"), noon) {
		t.Error("an empty lease counts once")
	}
	for _, change := range []func(*record){
		func(*record) {}, func(r *record) { r.holder = "another" }, func(r *record) { r.renewed = noon.Add(time.Second) }, func(r *record) { r.duration = time.Minute },
	} {
		change(&first)
		if !b.put(render(node, &first), noon) || b.put(render(node, &first), noon.Add(time.Minute)) {
			t.Errorf("%+v counts once", first)
		}
		if got := b["n"].seen; !got.Equal(noon) {
			t.Errorf("%+v was first seen at %s", first, got)
		}
	}
	elsewhere, nameless := render(core.Node{Name: "elsewhere"}, &first), render(core.Node{Name: "nameless"}, &first)
	elsewhere.SetNamespace("kube-node-lease")
	nameless.SetName("nameless")
	if b.put(elsewhere, noon) || b.put(nameless, noon) || len(b) != 1 {
		t.Errorf("the leases are %+v", b)
	}
}
