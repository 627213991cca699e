package cli

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// TestAnotherControllerIsReported: status and explain say of a health check what the controller has written of another one.
func TestAnotherControllerIsReported(t *testing.T) {
	s := newScene()
	s.ready(0, "Unknown", time.Hour)
	message := "The status of this health check is written by manager too"
	for status, want := range map[string]bool{"False": true, "True": false} {
		found := foreignWriters{}
		sources := found.watch([]Source{{Put: func(client.Object) bool { return false }}})
		check := checkWith(s.Policies[0].ID, map[string]any{"type": "SoleController", "status": status, "reason": "AnotherController", "message": message})
		if changed := sources[0].Put(check); changed != want {
			t.Errorf("SoleController=%s changes the answer: %t, want %t", status, changed, want)
		}
		around := newExternalFacts()
		w := newAssessment(core.ClusterKey{}, []observed{{ClusterObservation: ClusterObservation{Observation: s.Observation}, dialect: &OpenShift{}, foreignWriters: found}}, nil, &around, noon)
		for what, notes := range map[string][]string{"status": w.notesAtOdds("machines"), "explain machine": w.notesAtOddsOn([]int{0}), "explain machinehealthcheck": w.notesOn(0)} {
			if got := strings.Join(notes, "|"); strings.Contains(got, "MachineHealthCheck machines/example: "+message+".") != want {
				t.Errorf("SoleController=%s: %s notes %q, want the message: %t", status, what, got, want)
			}
		}
		if notes := w.notesAtOdds("elsewhere"); len(notes) > 0 {
			t.Errorf("status of another namespace notes %q", notes)
		}
		if over := sources[0].Put(checkWith(s.Policies[0].ID)); over != want || len(found) > 0 {
			t.Errorf("once the condition is gone, that changes the answer: %t, want %t; %q is left", over, want, found)
		}
	}
}

// TestForeignWriterConditions: only the condition that the controller writes of another one is a message.
func TestForeignWriterConditions(t *testing.T) {
	condition := func(kind, status, reason string) map[string]any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": "so"}
	}
	for want, conditions := range map[string][]map[string]any{
		"so": {condition("SoleController", "False", "AnotherController")},
		"":   {condition("Other", "False", "AnotherController"), condition("SoleController", "Unknown", "AnotherController"), condition("SoleController", "False", "Other")},
	} {
		for _, c := range conditions {
			if got := foreignWriterIn(checkWith(core.ID{}, c)); got != want {
				t.Errorf("%v: %q, want %q", c, got, want)
			}
		}
	}
	sources := foreignWriters{}.watch([]Source{{Put: func(client.Object) bool { return true }}})
	if !sources[0].Put(checkWith(core.ID{})) || (foreignWriters{}).put(nil) {
		t.Error("what changes for the reading changes, and no object changes nothing")
	}
}

func checkWith(id core.ID, conditions ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": id.Namespace, "name": id.Name, "uid": id.UID},
		"status":   map[string]any{"conditions": conditions},
	}}
}
