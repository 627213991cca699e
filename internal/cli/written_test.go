package cli

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/dialect/nhc"
)

// TestControllerLacksRights: a person may read a template that Fettle may not. Then nothing is repaired, and status and explain
// say so.
func TestControllerLacksRights(t *testing.T) {
	for reason, want := range map[string]bool{v1alpha1.TemplateInvalidReason: true, v1alpha1.TemplateNotFoundReason: true, "InvalidSpec": false} {
		r := nhc.NewReading()
		r.PutCheck(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "NodeHealthCheck", "metadata": map[string]any{"name": "workers", "uid": "uid-workers"},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": v1alpha1.DisabledCondition, "status": "True", "reason": reason, "message": "Fettle may not list RebootTemplate",
			}}},
		}})
		s := newNodeScene(t)
		s.ready(0, "Unknown", 8*time.Minute)
		w := s.assessment()
		w.statusReaders = []StatusReader{nhcReading{r}}
		if notes := w.notesAtOddsOn([]int{0, 0}); (len(notes) == 1) != want {
			t.Errorf("%s: explain of a node notes %q, want a note: %t", reason, notes, want)
		}
		if note := w.noteAtOdds(0); strings.Contains(note, "Fettle may not list RebootTemplate") != want {
			t.Errorf("%s: explain of the health check notes %q, want a note: %t", reason, note, want)
		}
		if notes := w.notesAtOdds(""); (len(notes) == 1) != want {
			t.Errorf("%s: status notes %q, want a note: %t", reason, notes, want)
		}
	}
}

// TestControllerAtOdds: a person sees the nodes of a cluster which Fettle can't see, for want of a right or since a bound is
// exceeded. Then nothing is repaired, and status says so.
func TestControllerAtOdds(t *testing.T) {
	notes := func(s *clusterScene) []string {
		var notes []string
		for _, w := range s.view().decided() {
			notes = append(notes, w.notesAtOdds("")...)
		}
		return notes
	}
	if got := notes(newClusterScene(t)); len(got) > 0 {
		t.Errorf("where the controller agrees status notes %q, want nothing", got)
	}
	s := newClusterScene(t)
	s.edit("MachineHealthCheck/east", `status: "True", reason: RemediationAllowed`, `status: Unknown, reason: ConnectionDown, message: Fettle may not read Secret fleets/east-kubeconfig`)
	got := notes(s)
	if len(got) != 1 || !strings.Contains(got[0], "MachineHealthCheck fleets/east") || !strings.Contains(got[0], "Fettle may not read Secret fleets/east-kubeconfig") {
		t.Errorf("status notes %q, want what the controller has written of east", got)
	}
}
