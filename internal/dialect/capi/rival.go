package capi

import (
	"encoding/json"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/clusterapi"
)

// writer is somebody who has written what is Fettle's to write in the status of a health check, and when last, by the
// clock of the API server.
type writer struct {
	manager string
	at      time.Time
}

const statusSubresource = "status"

// writersOf gives all others who have. Conditions of types that are not Fettle's are anybody's.
func writersOf(u *unstructured.Unstructured) []writer {
	var writers []writer
	for _, entry := range u.GetManagedFields() {
		if entry.Subresource == statusSubresource && entry.Manager != clusterapi.FieldOwner && entry.Time != nil && writesOurs(entry.FieldsV1) {
			writers = append(writers, writer{entry.Manager, entry.Time.Time})
		}
	}
	return writers
}

// ownWrite is when Fettle has written the status last, zero for never.
func ownWrite(u *unstructured.Unstructured) time.Time {
	for _, entry := range u.GetManagedFields() {
		if entry.Subresource == statusSubresource && entry.Manager == clusterapi.FieldOwner && entry.Time != nil {
			return entry.Time.Time
		}
	}
	return time.Time{}
}

// writesOurs tells whether fields that belong to somebody are some of those that Fettle writes.
func writesOurs(fields *metav1.FieldsV1) bool {
	if fields == nil {
		return false
	}
	var owned struct {
		Status map[string]json.RawMessage `json:"f:status"`
	}
	if json.Unmarshal(fields.GetRawBytes(), &owned) != nil {
		return false
	}
	for _, ours := range [...]string{"f:expectedMachines", "f:currentHealthy", "f:remediationsAllowed", "f:targets"} {
		if _, has := owned.Status[ours]; has {
			return true
		}
	}
	return strings.Contains(string(owned.Status["f:conditions"]), `\"type\":\"`+clusterv1.MachineHealthCheckRemediationAllowedCondition+`\"`)
}

// rivalry is that somebody else writes what Fettle does. The zero rivalry is none.
type rivalry struct {
	// began is when Fettle wrote for the first time in this process, by the clock of the API server. What others have
	// written before, they had every right to.
	began time.Time
	// manager is who it is, at is when they wrote last, by the clock of the API server, and seen is when that was
	// noticed.
	manager  string
	at, seen time.Time
}

// quiet is for how long nobody else must have written before Fettle says that it is alone again.
const quiet = 10 * time.Minute

// after gives the rivalry as it is with these writers, and whether it has just begun.
func (r rivalry) after(others []writer, now time.Time) (next rivalry, news bool) {
	next = r
	for _, w := range others {
		if !r.began.IsZero() && w.at.After(r.began) && w.at.After(next.at) {
			next.manager, next.at, next.seen = w.manager, w.at, now
		}
	}
	if next.manager != "" && !now.Before(next.seen.Add(quiet)) {
		next.manager = ""
	}
	return next, next.manager != "" && r.manager != next.manager
}

func (r rivalry) told() told {
	return told{
		kind: soleControllerCondition, status: metav1.ConditionFalse, reason: anotherControllerReason,
		message: "The status of this health check is written by " + r.manager + " too, so two controllers may act on the same machines; leave it to one of them: " +
			"annotation " + clusterv1.PausedAnnotation + " stops Cluster API's own, and with " + TakesOverAnnotation + ": \"true\" Fettle goes on",
	}
}

// rivalsAmong gives those who have written since an earlier look.
func rivalsAmong(now, before []writer) []writer {
	var fresh []writer
	for _, w := range now {
		known := false
		for _, b := range before {
			known = known || b.manager == w.manager && !w.at.After(b.at)
		}
		if !known {
			fresh = append(fresh, w)
		}
	}
	return fresh
}
