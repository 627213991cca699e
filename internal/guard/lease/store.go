package lease

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
)

// store has the records of leases by the name of their node in lower case.
type store map[string]record

// put stores an object that was seen now. It reports whether the object is the lease of a node and
// may change a decision.
func (b store) put(l *unstructured.Unstructured, now time.Time) bool {
	node, ours := strings.CutPrefix(l.GetName(), prefix)
	if l.GetNamespace() != Namespace || !ours {
		return false
	}
	fresh := read(l)
	if old, known := b[node]; known && old.same(&fresh) {
		return false
	}
	// This includes records that aren't in the future, since they may be once Fettle's clock is set
	// back.
	fresh.seen = now
	b[node] = fresh
	return true
}

// withFirstSeen returns a record that was just read, with the time when the same record was first
// seen.
func (b store) withFirstSeen(node string, live *record) *record {
	if known := b[strings.ToLower(node)]; known.same(live) {
		live.seen = known.seen
	}
	return live
}

// drop removes a lease by namespace/name, and reports whether it was the lease of a node.
func (b store) drop(key string) bool {
	node, ours := strings.CutPrefix(key, Namespace+"/"+prefix)
	delete(b, node)
	return ours
}

// addFacts sets the lease of each target whose node lease is valid, and lists all node leases.
func (b store) addFacts(cluster *core.Cluster, now time.Time) {
	if len(b) == 0 {
		return
	}
	for i := range cluster.Targets {
		t := &cluster.Targets[i]
		if r := b[strings.ToLower(t.Node.Name)]; r.validAt(now) {
			t.Lease = core.Lease{Holder: r.holder, Until: r.expiresAt(now)}
		}
	}
	for node, r := range b {
		cluster.Leases = append(cluster.Leases, core.NodeLease{Node: node, Holder: r.holder, Renewed: r.heldFrom(now)})
	}
}

// Reading has the leases that a command of the CLI has read from the API server. It decides as the
// controller does. It is not safe for concurrent use.
type Reading struct{ store store }

// NewReading returns a reading without leases.
func NewReading() *Reading { return &Reading{store{}} }

// Put stores a Lease, and reports whether it may change a decision.
func (r *Reading) Put(l *unstructured.Unstructured) bool { return r.store.put(l, time.Time{}) }

// Drop removes a Lease by namespace/name.
func (r *Reading) Drop(key string) { r.store.drop(key) }

// AddFacts sets the lease of each target whose node lease is valid at an instant.
func (r *Reading) AddFacts(cluster *core.Cluster, now time.Time) { r.store.addFacts(cluster, now) }
