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
