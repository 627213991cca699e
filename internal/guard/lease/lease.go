package lease

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// Namespace has the leases of nodes, by agreement of those who take nodes out of service.
const Namespace = "medik8s-leases"

// prefix stands before the name of a node in the name of its lease.
const prefix = "node-"

var leaseKind = schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"} //nolint:gochecknoglobals // a constant

// nameFor is the name of a node's lease.
func nameFor(node string) string { return prefix + strings.ToLower(node) }

// record is what a Lease says. The zero record is nobody's.
type record struct {
	holder            string
	acquired, renewed time.Time
	duration          time.Duration
	transitions       int64
	// seen is when the record was first seen, by Fettle's clock; zero where that is not known.
	seen time.Time
}

// spec is a Lease's spec as far as it is read.
type spec struct {
	HolderIdentity       string            `json:"holderIdentity"`
	LeaseDurationSeconds int64             `json:"leaseDurationSeconds"`
	AcquireTime          *metav1.MicroTime `json:"acquireTime"`
	RenewTime            *metav1.MicroTime `json:"renewTime"`
	LeaseTransitions     int64             `json:"leaseTransitions"`
}

// maxHolderLength is how much is read of a holder's name: more than any name that Fettle has as one.
const maxHolderLength = 512

// read gives what a Lease says. What can't be read of it is absent.
func read(l *unstructured.Unstructured) record {
	s, _ := lenient.Part[spec](l.Object, "spec")
	r := record{holder: holderOf(l, lenient.Prefix(s.HolderIdentity, maxHolderLength)), duration: time.Duration(s.LeaseDurationSeconds) * time.Second, transitions: s.LeaseTransitions}
	if s.AcquireTime != nil {
		r.acquired = s.AcquireTime.Time
	}
	if s.RenewTime != nil {
		r.renewed = s.RenewTime.Time
	}
	return r
}

// heldFrom is when the holder's time began. A record that was renewed in the future counts from when it was first seen: the
// clock of its holder is ahead, or Fettle's was set back.
func (r *record) heldFrom(now time.Time) time.Time {
	switch {
	case r.seen.IsZero() && r.renewed.After(now):
		return now
	case r.seen.IsZero():
		return r.renewed
	}
	// What has passed since is known by the monotonic clock.
	if seen := now.Add(-max(0, now.Sub(r.seen))); seen.Before(r.renewed) {
		return seen
	}
	return r.renewed
}

// expiresAt is when the holder's time is over.
func (r *record) expiresAt(now time.Time) time.Time { return r.heldFrom(now).Add(r.duration) }

// validAt reports whether the holder has the lease at an instant: it was renewed, and its time is not over.
func (r *record) validAt(now time.Time) bool {
	return r.holder != "" && !r.renewed.IsZero() && now.Before(r.expiresAt(now))
}

// same tells whether two records can't lead to different decisions.
func (r *record) same(other *record) bool {
	return r.holder == other.holder && r.renewed.Equal(other.renewed) && r.duration == other.duration
}

// acquiredRecord is the record by which a holder has the lease for a time from now, where old is nil when there was
// none. It is false while somebody else validly has it. Whoever renews has held it since it was acquired.
func acquiredRecord(old *record, holder string, now time.Time, during time.Duration) (record, bool) {
	r := record{holder: holder, acquired: now, renewed: now, duration: wholeSeconds(during)}
	if old == nil {
		return r, true
	}
	valid := old.validAt(now)
	r.transitions = old.transitions
	switch {
	case old.holder != holder && valid:
		return *old, false
	case old.holder != holder:
		r.transitions++
	case valid && !old.acquired.IsZero():
		r.acquired = old.acquired
	}
	return r, true
}

// wholeSeconds rounds up, to what a Lease can say: at least one second.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// write puts a record into a Lease, and leaves alone what else the Lease has.
func write(l *unstructured.Unstructured, r *record) {
	s, isObject := l.Object["spec"].(map[string]any)
	if !isObject {
		s = map[string]any{}
	}
	s["holderIdentity"] = r.holder
	s["leaseDurationSeconds"] = int64(r.duration / time.Second)
	s["acquireTime"] = r.acquired.UTC().Format(metav1.RFC3339Micro)
	s["renewTime"] = r.renewed.UTC().Format(metav1.RFC3339Micro)
	s["leaseTransitions"] = r.transitions
	l.Object["spec"] = s
}

// render makes the Lease of a node that has none.
func render(node core.Node, r *record) *unstructured.Unstructured {
	l := object(node.Name)
	write(l, r)
	setOwner(l, node)
	return l
}

// object is a node's Lease by its name alone.
func object(node string) *unstructured.Unstructured {
	l := &unstructured.Unstructured{Object: map[string]any{}}
	l.SetGroupVersionKind(leaseKind)
	l.SetNamespace(Namespace)
	l.SetName(nameFor(node))
	return l
}

// setOwner has the Lease go when its node goes. A reference to a namesake that was there before would have it
// go at once. A node whose UID is not known can't be referred to.
func setOwner(l *unstructured.Unstructured, node core.Node) {
	if node.UID == "" {
		return
	}
	owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: types.UID(node.UID)}}
	for _, o := range l.GetOwnerReferences() {
		if o.Kind != "Node" || o.APIVersion != "v1" {
			owners = append(owners, o)
		}
	}
	l.SetOwnerReferences(owners)
}
