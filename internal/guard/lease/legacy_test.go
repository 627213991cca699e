package lease

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
)

// TestHolderOfAnEarlierVersion: a lease under a name that medik8s' operator also uses is Fettle's
// only if the API server says that Fettle wrote it.
func TestHolderOfAnEarlierVersion(t *testing.T) {
	const former, now = "NodeHealthCheck-workers", "fettle.io/NodeHealthCheck-workers"
	all, renewal := `{"f:spec":{"f:holderIdentity":{},"f:renewTime":{},"f:leaseDurationSeconds":{}}}`, `{"f:spec":{"f:renewTime":{}}}`
	without := `{"f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{}}}`
	duration := `{"f:spec":{"f:leaseDurationSeconds":{}}}`
	cases := map[string]struct {
		reason, holder string
		// managers has field managers and the fields that they own, in turn.
		managers []string
		want     string
	}{
		"of an earlier version":               {"", former, []string{"fettle", all}, now},
		"of this version":                     {"", now, []string{"fettle", all}, now},
		"of another operator":                 {"", former, []string{"manager", all}, former},
		"renewed by another operator":         {"it was ours once", former, []string{"fettle", without, "manager", renewal}, former},
		"taken over from another":             {"which had it for as long", former, []string{"manager", duration, "fettle", `{"f:spec":{"f:holderIdentity":{},"f:renewTime":{}}}`}, now},
		"renewed, and held since unknown":     {"", former, []string{"fettle", renewal}, former},
		"held by another's word":              {"", former, []string{"fettle", all, "manager", without}, former},
		"whose duration another set":          {"", former, []string{"fettle", all, "manager", duration}, now},
		"written in two ways":                 {"", former, []string{"fettle", without, "fettle", renewal}, now},
		"with an entry without fields":        {"", former, []string{"manager", "", "fettle", all}, now},
		"never renewed":                       {"", former, []string{"fettle", without}, former},
		"applied by two":                      {"", former, []string{"fettle", all, "other", all}, former},
		"of which it is not known who wrote":  {"", former, nil, former},
		"of which something can't be read":    {"", former, []string{"fettle", all, "other", `{"f:spec":7}`}, former},
		"given back":                          {"", "", []string{"fettle", all}, ""},
		"of maintenance, in Fettle's hand":    {"", "node-maintenance", []string{"fettle", all}, "node-maintenance"},
		"of maintenance":                      {"", "node-maintenance", []string{"kubectl", all}, "node-maintenance"},
		"of this version, renewed by another": {"the name is no other's", now, []string{"kubectl-edit", all}, now},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			r := record{holder: tc.holder, acquired: noon, renewed: noon, duration: 60e9}
			l := render(core.Node{Name: "n", UID: "n"}, &r)
			var entries []metav1.ManagedFieldsEntry
			for i := 0; i < len(tc.managers); i += 2 {
				entry := metav1.ManagedFieldsEntry{Manager: tc.managers[i], Operation: "Update", FieldsType: "FieldsV1"}
				if owned := tc.managers[i+1]; owned != "" {
					entry.FieldsV1 = metav1.NewFieldsV1(owned)
				}
				entries = append(entries, entry)
			}
			l.SetManagedFields(entries)
			if got := read(l); got.holder != tc.want {
				t.Errorf("it is held by %q, want %q. %s", got.holder, tc.want, tc.reason)
			}
			Trim(l)
			l.SetManagedFields(nil)
			if got := read(l); got.holder != tc.want {
				t.Errorf("in a cache it is held by %q, want %q. %s", got.holder, tc.want, tc.reason)
			}
		})
	}
}

// TestTrimLeavesOthers: another kind, and a Lease without a readable spec.
func TestTrimLeavesOthers(t *testing.T) {
	r := record{holder: "NodeHealthCheck-workers", renewed: noon, duration: time.Hour}
	other := render(core.Node{Name: "n"}, &r)
	other.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "fettle", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:holderIdentity":{},"f:renewTime":{}}}`)}})
	broken := other.DeepCopy()
	other.SetKind("Election")
	broken.Object["spec"] = "held"
	for _, u := range []*unstructured.Unstructured{other, broken} {
		want := u.DeepCopy()
		Trim(u)
		if diff := cmp.Diff(want, u); diff != "" {
			t.Errorf("trimmed (-want +got):\n%s", diff)
		}
	}
}
