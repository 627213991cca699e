package lease

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/writers"
)

// legacyPrefix began the names of all holders of earlier versions.
const legacyPrefix = "NodeHealthCheck-"

// holderOf returns who holds a Lease. Earlier versions of Fettle held leases under the name that medik8s' own operator has for
// the same health check. Such a lease is Fettle's only where the API server says that Fettle was the last to write its holder
// and to renew it. Otherwise it is another controller's, and ends by itself.
func holderOf(l *unstructured.Unstructured, written string) string {
	if strings.HasPrefix(written, legacyPrefix) && lastWrittenByFettle(l) {
		return core.CurrentHolder(written)
	}
	return written
}

// lastWrittenByFettle reports whether Fettle owns the holder and the time of renewal of a Lease, and no other field manager does.
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

// Trim puts the present holder into a Lease that is only read, since a cache keeps no managed fields. It leaves other objects
// alone.
func Trim(u *unstructured.Unstructured) {
	spec, isObject := u.Object["spec"].(map[string]any)
	if u.GroupVersionKind() != leaseKind || !isObject {
		return
	}
	if written, is := spec["holderIdentity"].(string); is {
		spec["holderIdentity"] = holderOf(u, written)
	}
}
