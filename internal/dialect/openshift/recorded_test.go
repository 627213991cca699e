package openshift

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRecordedMachines: recorded answers of API servers of several versions, for the same machines,
// decode to the same facts. TestRecording records them.
func TestRecordedMachines(t *testing.T) {
	versions, err := filepath.Glob("testdata/recorded/v*")
	if err != nil || len(versions) < 2 {
		t.Fatalf("there are recordings of %d versions (%v), want at least 2", len(versions), err)
	}
	type facts struct{ Namespace, Name, Owner, Phase, Node, Unreadable, Updated string }
	want := []facts{
		{"recorded", "broken", "workers", "Failed", "broken", "", "2026-11-23T12:00:00Z"},
		{"recorded", "worker", "workers", "Running", "worker", "", "2026-11-23T12:00:00Z"},
	}
	for _, version := range versions {
		t.Run(filepath.Base(version), func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join(version, "machines.json"))
			if err != nil {
				t.Fatalf("reading a recording: %v", err)
			}
			var list MachineList
			if err := json.Unmarshal(body, &list); err != nil {
				t.Fatalf("decoding a recording: %v", err)
			}
			got := []facts{}
			for i := range list.Items {
				m := &list.Items[i]
				if m.UID == "" || m.ResourceVersion == "" || m.CreationTimestamp.IsZero() {
					t.Errorf("machine %s has no UID, version or time of creation", m.Name)
				}
				got = append(got, facts{m.Namespace, m.Name, readMachine(m).target.Owner.Name, m.Phase, m.Node, m.Unreadable, m.LastUpdated.UTC().Format(time.RFC3339)})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
		})
	}
}
