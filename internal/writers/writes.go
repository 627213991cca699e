package writers

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FieldOwner is the field manager of all versions and replicas of Fettle.
const FieldOwner = "fettle"

const statusSubresource = "status"

// Fields are the fields of a status that Fettle writes.
type Fields struct {
	// Names are the JSON names of fields other than conditions.
	Names []string
	// Conditions are the types of conditions.
	Conditions []string
}

// Write is the last write of a field manager, by the clock of the API server, in whole seconds.
type Write struct {
	Manager string
	At      time.Time
	// Latest is set if no other write to the status has a later time.
	Latest bool
}

// Of returns the last writes to any of the fields by field managers other than Fettle's. Any client may write other
// fields, and conditions of other types.
func Of(u *unstructured.Unstructured, fields Fields) []Write {
	var writes []Write
	var latest time.Time
	for _, entry := range u.GetManagedFields() {
		if entry.Subresource != statusSubresource || entry.Time == nil {
			continue
		}
		if entry.Time.After(latest) {
			latest = entry.Time.Time
		}
		if entry.Manager != FieldOwner && fields.owned(entry.FieldsV1) {
			writes = append(writes, Write{Manager: entry.Manager, At: entry.Time.Time})
		}
	}
	for i := range writes {
		writes[i].Latest = !writes[i].At.Before(latest)
	}
	return writes
}

// statusFields are fields in the form of managed fields. The name of a condition is its key in the list.
type statusFields struct {
	Status map[string]json.RawMessage `json:"f:status"`
}

const conditionsField = "f:conditions"

// owned reports whether a field manager owns any of the fields. In some definitions the conditions are one value,
// and a field manager that writes a condition owns all of them.
func (f Fields) owned(by *metav1.FieldsV1) bool {
	var owned statusFields
	_ = json.Unmarshal(by.GetRawBytes(), &owned) // a status that is no object has no fields
	for _, name := range f.Names {
		if _, has := owned.Status["f:"+name]; has {
			return true
		}
	}
	conditions, has := owned.Status[conditionsField]
	if !has {
		return false
	}
	keys := keysOf(conditions)
	return len(keys) == 0 || slices.ContainsFunc(keys, func(key string) bool {
		return slices.ContainsFunc(f.Conditions, func(kind string) bool { return strings.Contains(key, `"type":"`+kind+`"`) })
	})
}

// keysOf returns the keys of the items of a list of the type map.
func keysOf(list json.RawMessage) []string {
	var items map[string]json.RawMessage
	_ = json.Unmarshal(list, &items) // what is no list of this type has no items
	var keys []string
	for key := range items {
		if strings.HasPrefix(key, "k:") {
			keys = append(keys, key)
		}
	}
	return keys
}

// The bounds on managed fields in a cache.
const (
	maxManagers = 16
	maxKeys     = 64
)

// Trim keeps only the managed fields that Of reads: which field manager owns which fields of the status.
func Trim(u *unstructured.Unstructured) {
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range u.GetManagedFields() {
		if entry.Subresource != statusSubresource || entry.FieldsV1 == nil || len(kept) == maxManagers {
			continue
		}
		entry.FieldsV1 = outline(entry.FieldsV1)
		kept = append(kept, entry)
	}
	u.SetManagedFields(kept)
}

// outline returns the names of fields and of conditions.
func outline(of *metav1.FieldsV1) *metav1.FieldsV1 {
	var owned statusFields
	if json.Unmarshal(of.GetRawBytes(), &owned) != nil {
		return nil
	}
	names := map[string]any{}
	for name, inner := range owned.Status {
		if len(names) == maxKeys {
			break
		}
		names[name] = struct{}{}
		if name == conditionsField {
			names[name] = outlineOfConditions(inner)
		}
	}
	raw, err := json.Marshal(map[string]any{"f:status": names})
	if err != nil {
		return nil
	}
	return metav1.NewFieldsV1(string(raw))
}

func outlineOfConditions(list json.RawMessage) map[string]struct{} {
	keys := map[string]struct{}{}
	for _, key := range keysOf(list) {
		if len(keys) < maxKeys {
			keys[key] = struct{}{}
		}
	}
	return keys
}
