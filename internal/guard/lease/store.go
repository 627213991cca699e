package lease

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
)

// store has the leases that were seen, by the name of their node in small letters.
type store map[string]record

// put takes in an object that is seen now, and reports whether it is the lease of a node and can change a decision.
func (b store) put(l *unstructured.Unstructured, now time.Time) bool {
	node, ours := strings.CutPrefix(l.GetName(), prefix)
	if l.GetNamespace() != Namespace || !ours {
		return false
	}
	fresh := read(l)
	old, known := b[node]
	// Also a record that does not lie in the future: it does once Fettle's clock is set back.
	fresh.seen = now
	b[node] = fresh
	if known && old.same(&fresh) {
		b[node] = old
	}
	return !known || !old.same(&fresh)
}

// withFirstSeen returns what has just been read live of the lease of a node, and since when that was seen.
func (b store) withFirstSeen(node string, live *record) *record {
	if known, is := b[strings.ToLower(node)]; is && known.same(live) {
		live.seen = known.seen
	}
	return live
}

// drop forgets a lease by namespace/name, and tells whether that was the lease of a node.
func (b store) drop(key string) bool {
	node, ours := strings.CutPrefix(key, Namespace+"/"+prefix)
	delete(b, node)
	return ours
}

// addFacts says of each target who validly holds the lease of its node, as far as that was seen, and of what nodes
// there are leases.
func (b store) addFacts(cluster *core.Cluster, now time.Time) {
	if len(b) == 0 {
		return
	}
	for i := range cluster.Targets {
		t := &cluster.Targets[i]
		if r, known := b[strings.ToLower(t.Node.Name)]; known && r.validAt(now) {
			t.Lease = core.Lease{Holder: r.holder, Until: r.expiresAt(now)}
		}
	}
	for node, r := range b {
		cluster.Leases = append(cluster.Leases, core.NodeLease{Node: node, Holder: r.holder, Renewed: r.heldFrom(now)})
	}
}

// Reading is what somebody has just read of leases from the API server, who means to write nothing. Its rules are
// those of the controller. It is not safe for concurrent use.
type Reading struct{ store store }

// NewReading makes a reading of nothing.
func NewReading() *Reading { return &Reading{store{}} }

// Put takes in a Lease, and tells whether that can change a decision.
func (r *Reading) Put(l *unstructured.Unstructured) bool { return r.store.put(l, time.Time{}) }

// Drop forgets a Lease by namespace/name.
func (r *Reading) Drop(key string) { r.store.drop(key) }

// AddFacts says of each target who validly holds the lease of its node at an instant.
func (r *Reading) AddFacts(cluster *core.Cluster, now time.Time) { r.store.addFacts(cluster, now) }
