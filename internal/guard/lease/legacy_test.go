package lease

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
				entries = append(entries, metav1.ManagedFieldsEntry{Manager: tc.managers[i], Operation: "Update", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(tc.managers[i+1])})
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
