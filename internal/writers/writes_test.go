package writers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func entry(manager, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Subresource: subresource, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		Time: &metav1.Time{Time: noon}, FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func writtenBy(entries ...metav1.ManagedFieldsEntry) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetManagedFields(entries)
	return u
}

func managersOf(u *unstructured.Unstructured) []string {
	var names []string
	for _, w := range Of(u, Fields{Names: []string{"healthy", "reason"}, Conditions: []string{"Allowed"}}) {
		names = append(names, w.Manager)
	}
	return names
}

// TestWritersOfStatuses: Of returns the writers of the fields that Fettle writes, before and after Trim.
func TestWritersOfStatuses(t *testing.T) {
	timeless := entry("timeless", "status", `{"f:status":{"f:healthy":{}}}`)
	timeless.Time = nil
	empty := entry("empty", "status", "")
	empty.FieldsV1 = nil
	u := writtenBy(
		entry("kubectl", "", `{"f:spec":{"f:selector":{}}}`),
		entry("fettle", "status", `{"f:status":{"f:healthy":{}}}`),
		entry("number", "status", `{"f:status":{".":{},"f:healthy":{}}}`),
		entry("condition", "status", `{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"Allowed\"}":{".":{},"f:status":{}}}}}`),
		entry("all-conditions", "status", `{"f:status":{"f:conditions":{}}}`),
		entry("theirs", "status", `{"f:status":{"f:conditions":{"k:{\"type\":\"Theirs\"}":{}},"f:other":{}}}`),
		entry("broken", "status", `{"f:status":7}`),
		entry("scale", "scale", `{"f:status":{"f:healthy":{}}}`),
		entry("broken-conditions", "status", `{"f:status":{"f:conditions":{"v:{\"type\":\"Allowed\"}":{},"k:{\"type\":\"Theirs\"}":{}}}}`),
		entry("no-conditions", "status", `{"f:status":{"f:other":{}}}`),
		entry("their-conditions", "status", `{"f:status":{"f:conditions":7}}`),
		timeless,
		empty,
	)
	want := []string{"number", "condition", "all-conditions", "their-conditions"}
	if got := managersOf(u); !slices.Equal(got, want) {
		t.Errorf("others that write are %q, want %q", got, want)
	}
	Trim(u)
	if got := managersOf(u); !slices.Equal(got, want) {
		t.Errorf("once trimmed, others that write are %q, want %q", got, want)
	}
	if got := managersOf(writtenBy()); len(got) > 0 {
		t.Errorf("nothing was written, and others that write are %q", got)
	}
}

// TestLatestWrites: a write is among the latest unless a later one to the status exists, also one of Fettle's or to
// other fields.
func TestLatestWrites(t *testing.T) {
	at := func(after time.Duration, e metav1.ManagedFieldsEntry) metav1.ManagedFieldsEntry {
		e.Time = &metav1.Time{Time: noon.Add(after)}
		return e
	}
	ours := `{"f:status":{"f:healthy":{}}}`
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    []Write
	}{
		"both in one second":     {[]metav1.ManagedFieldsEntry{at(0, entry("manager", "status", ours)), at(0, entry("fettle", "status", ours))}, []Write{{"manager", noon, true}}},
		"Fettle's is later":      {[]metav1.ManagedFieldsEntry{at(0, entry("manager", "status", ours)), at(time.Second, entry("fettle", "status", ours))}, []Write{{"manager", noon, false}}},
		"other fields are later": {[]metav1.ManagedFieldsEntry{at(time.Second, entry("other", "status", `{"f:status":{"f:other":{}}}`)), at(0, entry("manager", "status", ours))}, []Write{{"manager", noon, false}}},
		"the spec is later":      {[]metav1.ManagedFieldsEntry{at(time.Second, entry("user", "", ours)), at(0, entry("manager", "status", ours))}, []Write{{"manager", noon, true}}},
		"two, one later":         {[]metav1.ManagedFieldsEntry{at(0, entry("a", "status", ours)), at(time.Second, entry("b", "status", ours))}, []Write{{"a", noon, false}, {"b", noon.Add(time.Second), true}}},
	} {
		if diff := cmp.Diff(tc.want, Of(writtenBy(tc.entries...), Fields{Names: []string{"healthy"}})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestI15ManagedFieldsAreBounded: a cache keeps neither all managers nor what their fields hold.
func TestI15ManagedFieldsAreBounded(t *testing.T) {
	var nodes, conditions []string
	for i := range 5000 {
		nodes = append(nodes, fmt.Sprintf(`"k:{\"name\":\"n%d\"}":{}`, i))
		conditions = append(conditions, fmt.Sprintf(`"k:{\"type\":\"C%d\"}":{}`, i))
	}
	large := `{"f:status":{"f:unhealthyNodes":{` + strings.Join(nodes, ",") + `},"f:conditions":{` + strings.Join(conditions, ",") + `}}}`
	var entries []metav1.ManagedFieldsEntry
	for i := range 2 * maxManagers {
		entries = append(entries, entry(fmt.Sprint("m", i), "status", large))
	}
	u := writtenBy(entries...)
	Trim(u)
	size := 0
	for _, kept := range u.GetManagedFields() {
		size += len(kept.FieldsV1.GetRawBytes())
	}
	if n := len(u.GetManagedFields()); n != maxManagers || size > 64<<10 {
		t.Errorf("%d managers are kept with %d bytes", n, size)
	}
}

// TestTrim: the names of the fields of statuses are kept, and those of conditions.
func TestTrim(t *testing.T) {
	for fields, want := range map[string]string{
		`{"f:status":{"f:healthy":{"f:deep":{}},"f:reason":{}},"f:spec":{}}`:                          `{"f:status":{"f:healthy":{},"f:reason":{}}}`,
		`{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"A\"}":{".":{},"f:status":{}},"v:7":{}}}}`: `{"f:status":{"f:conditions":{"k:{\"type\":\"A\"}":{}}}}`,
		`{"f:status":{"f:conditions":{}}}`:                                                            `{"f:status":{"f:conditions":{}}}`,
		`{"f:spec":{}}`:                                                                               `{"f:status":{}}`,
		`{"f:status":7}`:                                                                              ``,
	} {
		empty := entry("empty", "status", "")
		empty.FieldsV1 = nil
		u := writtenBy(entry("kubectl", "", fields), entry("scale", "scale", fields), empty, entry("m", "status", fields))
		Trim(u)
		kept := u.GetManagedFields()
		if len(kept) != 1 || kept[0].Manager != "m" || string(kept[0].FieldsV1.GetRawBytes()) != want {
			t.Errorf("of %s is kept %+v, want %s", fields, kept, want)
		}
	}
}

// TestI15NamesOfFieldsAreBounded: a writer owns as many fields, and as many conditions, as it likes.
func TestI15NamesOfFieldsAreBounded(t *testing.T) {
	for over := range 2 {
		var names, conditions []string
		for i := range maxKeys + over {
			names = append(names, fmt.Sprintf(`"f:n%d":{}`, i))
			conditions = append(conditions, fmt.Sprintf(`"k:{\"type\":\"C%d\"}":{}`, i))
		}
		u := writtenBy(entry("names", "status", `{"f:status":{`+strings.Join(names, ",")+`}}`),
			entry("conditions", "status", `{"f:status":{"f:conditions":{`+strings.Join(conditions, ",")+`}}}`))
		Trim(u)
		kept := u.GetManagedFields()
		if n := strings.Count(string(kept[0].FieldsV1.GetRawBytes()), "f:n"); n != maxKeys {
			t.Errorf("of %d fields %d are kept, want %d", len(names), n, maxKeys)
		}
		if n := strings.Count(string(kept[1].FieldsV1.GetRawBytes()), "k:"); n != maxKeys {
			t.Errorf("of %d conditions %d are kept, want %d", len(conditions), n, maxKeys)
		}
	}
}

func TestMessageNamesTheManager(t *testing.T) {
	const after = " too, so two controllers may act on the same nodes, each within its own limits; leave it to one of them: stop it"
	fits := strings.Repeat("x", maxManagerName)
	for manager, shown := range map[string]string{"manager": "manager", fits: fits, fits + "x": fits[:maxManagerName-len("…")] + "…"} {
		if got := Message(manager, "nodes", "stop it"); got != "The status of this health check is written by "+shown+after {
			t.Errorf("of %s the message is %s", manager, got)
		}
	}
}

func TestMessageIsBounded(t *testing.T) {
	if got := Message(strings.Repeat("x\n", 4000), "nodes", "stop it"); len(got) > 600 || strings.Contains(got, "\n") {
		t.Errorf("the message has %d bytes", len(got))
	}
}
