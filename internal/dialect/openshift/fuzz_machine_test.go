package openshift

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// FuzzMachineObject: a machine decodes whenever its metadata does, and decodes the same twice.
func FuzzMachineObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `7`, `[]`, `{"metadata":{"name":"m"},"status":{"phase":"Running","nodeRef":{"name":"n"}}}`, `{"metadata":7}`,
		`{"metadata":{"name":"m","labels":{"a":7}}}`, `{"metadata":{"name":"m","labels":{"a":null}},"status":7}`, `{"metadata":null,"status":null}`,
		`{"status":{"phase":7},"status":{"phase":"Failed"}}`, "{\"metadata\":{\"name\":\"\xff\"},\"status\":\"\xff\"}",
		`{"metadata":{"ownerReferences":[{"controller":true,"kind":"MachineSet"}],"deletionTimestamp":"2026-08-03T12:00:00Z"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, again := &Machine{}, &Machine{}
		err := m.UnmarshalJSON(body)
		errAgain := again.UnmarshalJSON(body)
		if diff := cmp.Diff(readMachine(m).target, readMachine(again).target); diff != "" || (err == nil) != (errAgain == nil) {
			t.Errorf("decoding twice gives %v and %v, and another target:\n%s", err, errAgain, diff)
		}
		if len(m.Unreadable) > 1024 {
			t.Errorf("the problem has %d bytes: %.300q", len(m.Unreadable), m.Unreadable)
		}
		var object struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if utiljson.Unmarshal(body, &object) != nil {
			return
		}
		if err != nil {
			t.Fatalf("its metadata can be read, and yet: %v", err)
		}
		if m.Name != object.Metadata.Name || m.UID != object.Metadata.UID || (m.DeletionTimestamp == nil) != (object.Metadata.DeletionTimestamp == nil) {
			t.Errorf("it reads %+v of %+v", m.Meta, object.Metadata)
		}
	})
}
