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

// Namespace has the leases of nodes, by agreement of the operators that take nodes out of service.
const Namespace = "medik8s-leases"

// prefix precedes the name of the node in the name of its lease.
const prefix = "node-"

var leaseKind = schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"} //nolint:gochecknoglobals // a constant

// nameFor returns the name of a node's lease.
func nameFor(node string) string { return prefix + strings.ToLower(node) }

// record has the fields of a Lease. The zero record has no holder.
type record struct {
	holder            string
	acquired, renewed time.Time
	duration          time.Duration
	transitions       int64
	// seen is when Fettle first saw the record, by its own clock. It is zero if unknown.
	seen time.Time
}

// spec has the fields of a Lease's spec that are read.
type spec struct {
	HolderIdentity       string            `json:"holderIdentity"`
	LeaseDurationSeconds int64             `json:"leaseDurationSeconds"`
	AcquireTime          *metav1.MicroTime `json:"acquireTime"`
	RenewTime            *metav1.MicroTime `json:"renewTime"`
	LeaseTransitions     int64             `json:"leaseTransitions"`
}

// maxHolderLength bounds the name of a holder. All names that Fettle uses are shorter.
const maxHolderLength = 512

// read returns the fields of a Lease. Fields that can't be read are zero.
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

// heldFrom returns when the holder's time began. A renewal in the future means that the holder's
// clock is ahead, or that Fettle's was set back. It counts from when the record was first seen.
func (r *record) heldFrom(now time.Time) time.Time {
	switch {
	case r.seen.IsZero() && r.renewed.After(now):
		return now
	case r.seen.IsZero():
		return r.renewed
	}
	// The monotonic clock measures the time since.
	if seen := now.Add(-max(0, now.Sub(r.seen))); seen.Before(r.renewed) {
		return seen
	}
	return r.renewed
}

// expiresAt returns when the holder's time is over.
func (r *record) expiresAt(now time.Time) time.Time { return r.heldFrom(now).Add(r.duration) }

// validAt reports whether the lease is valid: it has a holder and has not expired. A lease that was
// never renewed expired long ago.
func (r *record) validAt(now time.Time) bool {
	return r.holder != "" && now.Before(r.expiresAt(now))
}

// same reports whether two records lead to the same decisions.
func (r *record) same(other *record) bool {
	return r.holder == other.holder && r.renewed.Equal(other.renewed) && r.duration == other.duration
}

// acquiredRecord returns the record of a holder that acquires the lease now. It returns false if
// another holder's lease is valid. The old record is nil if there is no lease. A holder that renews
// keeps the time when it acquired the lease.
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

// wholeSeconds rounds a duration up to the resolution of a Lease: at least one second.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// write writes a record into a Lease, and keeps the other fields.
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

// render returns the Lease of a node that has none.
func render(node core.Node, r *record) *unstructured.Unstructured {
	l := object(node.Name)
	write(l, r)
	setOwner(l, node)
	return l
}

// object returns a Lease with only its name.
func object(node string) *unstructured.Unstructured {
	l := &unstructured.Unstructured{Object: map[string]any{}}
	l.SetGroupVersionKind(leaseKind)
	l.SetNamespace(Namespace)
	l.SetName(nameFor(node))
	return l
}

// setOwner makes the node the owner of its Lease, so that the garbage collector deletes both. It
// removes a reference to an earlier node of that name, which would delete the Lease at once. It
// does nothing if the UID of the node is unknown.
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
