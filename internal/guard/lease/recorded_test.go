package lease

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRecordedLeases: the answers of API servers of several Kubernetes versions for one lease
// decode to the same record. TestRecording records them.
func TestRecordedLeases(t *testing.T) {
	versions, err := filepath.Glob("testdata/recorded/v*")
	if err != nil || len(versions) < 2 {
		t.Fatalf("there are recordings of %d versions (%v), want at least 2", len(versions), err)
	}
	then := time.Date(2026, time.November, 23, 12, 0, 0, 0, time.UTC)
	want := &record{holder: "somebody", acquired: then, renewed: then, duration: 10 * time.Minute, transitions: 1}
	for _, version := range versions {
		t.Run(filepath.Base(version), func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join(version, "leases.json"))
			if err != nil {
				t.Fatalf("reading a recording: %v", err)
			}
			list := &unstructured.UnstructuredList{}
			if err := list.UnmarshalJSON(body); err != nil || len(list.Items) != 1 {
				t.Fatalf("the recording has %d leases (%v), want 1", len(list.Items), err)
			}
			if !(store{}).put(&list.Items[0], then) {
				t.Error("the lease is not one of a node")
			}
			if got := read(&list.Items[0]); !want.same(&got) {
				t.Errorf("the lease is read as %+v, want %+v", got, *want)
			}
		})
	}
}
