package lease

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/writers"
)

// legacyPrefix is the prefix of all holders of earlier versions.
const legacyPrefix = "NodeHealthCheck-"

// holderOf returns the holder of a Lease. Earlier versions of Fettle used the name that medik8s'
// operator has for the same health check. Such a lease is Fettle's only if Fettle was the last to
// write its holder and to renew it. Otherwise it is another controller's, and expires.
func holderOf(l *unstructured.Unstructured, written string) string {
	if strings.HasPrefix(written, legacyPrefix) && lastWrittenByFettle(l) {
		return core.CurrentHolder(written)
	}
	return written
}

// lastWrittenByFettle reports whether Fettle alone owns the holder and the renewal time of a Lease,
// by its managed fields.
func lastWrittenByFettle(l *unstructured.Unstructured) bool {
	holder, renewed := false, false
	for _, entry := range l.GetManagedFields() {
		if entry.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned) != nil {
			return false
		}
		_, ownsHolder := owned.Spec["f:holderIdentity"]
		_, ownsRenewed := owned.Spec["f:renewTime"]
		if (ownsHolder || ownsRenewed) && entry.Manager != writers.FieldOwner {
			return false
		}
		holder, renewed = holder || ownsHolder, renewed || ownsRenewed
	}
	return holder && renewed
}

// Trim writes the present name of the holder into a Lease for a cache, which keeps no managed
// fields. It leaves other objects alone.
func Trim(u *unstructured.Unstructured) {
	if u.GroupVersionKind() != leaseKind {
		return
	}
	spec, _ := u.Object["spec"].(map[string]any)
	if written, is := spec["holderIdentity"].(string); is {
		spec["holderIdentity"] = holderOf(u, written)
	}
}
