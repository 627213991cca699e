package slim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestRecordedNodes: answers of API servers of several versions of Kubernetes for the same nodes decode as with the stock
// types, and to the same facts. TestRecording writes it down.
func TestRecordedNodes(t *testing.T) {
	versions, err := filepath.Glob("testdata/recorded/v*")
	if err != nil || len(versions) < 2 {
		t.Fatalf("there are recordings of %d versions (%v), want at least 2", len(versions), err)
	}
	files := map[string]string{"protobuf": "nodes.pb", "JSON": "nodes.json"}
	var first []view
	for _, version := range versions {
		for name, f := range formats(t) {
			t.Run(filepath.Base(version)+" in "+name, func(t *testing.T) {
				body, err := os.ReadFile(filepath.Join(version, files[name]))
				if err != nil {
					t.Fatalf("reading a recording: %v", err)
				}
				want, got := decode[*corev1.NodeList](t, f.stock, body), decode[*NodeList](t, f.slim, body)
				facts := make([]view, 0, len(got.Items))
				for i := range want.Items {
					if diff := cmp.Diff(stockView(&want.Items[i]), slimView(&got.Items[i])); diff != "" {
						t.Errorf("node %d (-stock +slim):\n%s", i, diff)
					}
					facts = append(facts, lasting(slimView(&got.Items[i])))
				}
				if len(facts) != 2 {
					t.Errorf("the recording has %d nodes, want 2", len(facts))
				}
				if first == nil {
					first = facts
				}
				if diff := cmp.Diff(first, facts); diff != "" {
					t.Errorf("facts (-the first recording +this one):\n%s", diff)
				}
			})
		}
	}
}

// lasting returns a view without what is another in each cluster.
func lasting(v view) view {
	v.UID, v.Version, v.Created = "", "", noon
	if v.Deleted != nil {
		v.Deleted = &noon
	}
	return v
}
