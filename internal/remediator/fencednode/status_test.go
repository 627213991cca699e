package fencednode

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// TestInstantsOfAStatus are in whole microseconds and in UTC, also odd ones, and the zero instant is missing.
func TestInstantsOfAStatus(t *testing.T) {
	odd := noon.Add(3 * time.Microsecond)
	if got := MicroTime(odd.Add(999).In(time.FixedZone("east", 3600))); !got.Time.Equal(odd) || got.Location() != time.UTC || MicroTime(time.Time{}) != nil {
		t.Errorf("%v is written", got)
	}
	if !Instant(nil).IsZero() || !Instant(MicroTime(odd)).Equal(odd) {
		t.Error("another instant is read than was written")
	}
	var s v1alpha1.FencingStatus
	WriteRecord(&s, "node-a", fencing.Record{Since: odd.Add(999)})
	if !s.PhaseSince.Time.Equal(odd) {
		t.Errorf("the phase began at %v", s.PhaseSince)
	}
}

// TestIsRestored: the node must be known, another object than was deleted, and as it was.
func TestIsRestored(t *testing.T) {
	saved := &v1alpha1.SavedNode{UID: "old"}
	for name, tc := range map[string]struct {
		saved *v1alpha1.SavedNode
		node  *fencing.Node
		want  bool
	}{
		"it is":                  {saved, &fencing.Node{Exists: true, UID: "new"}, true},
		"nothing was saved":      {nil, &fencing.Node{Exists: true, UID: "new"}, false},
		"the node was not read":  {saved, nil, false},
		"there is no node":       {saved, &fencing.Node{UID: "new"}, false},
		"it is still changed":    {saved, &fencing.Node{Exists: true, UID: "new", Changed: true}, false},
		"it was not deleted yet": {saved, &fencing.Node{Exists: true, UID: "old"}, false},
	} {
		if got := IsRestored(tc.saved, tc.node); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestMessagesAreBounded: a condition has as much of a message as fits.
func TestMessagesAreBounded(t *testing.T) {
	const most = 4096 // bytes
	var s v1alpha1.FencingStatus
	long := NewCondition("Processing", metav1.ConditionTrue, "Waits", strings.Repeat("x", 2*most))
	if !SetConditions(&s, noon, long) || len(s.Conditions[0].Message) != most {
		t.Errorf("the conditions are %d long", len(s.Conditions[0].Message))
	}
	if SetConditions(&s, noon, long) {
		t.Error("the same condition is a change")
	}
}

// TestNotReleased: a proof alone releases nothing, and a user has to know.
func TestNotReleased(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.FencingStatus)
		want   bool
	}{
		"it was not":             {func(*v1alpha1.FencingStatus) {}, true},
		"there is no proof":      {func(s *v1alpha1.FencingStatus) { s.Proof = nil }, false},
		"it was":                 {func(s *v1alpha1.FencingStatus) { s.WorkloadReleased = true }, false},
		"nothing is known":       {func(s *v1alpha1.FencingStatus) { s.Node = nil }, false},
		"there was no node":      {func(s *v1alpha1.FencingStatus) { s.Node.UID = "" }, false},
		"others had released it": {func(s *v1alpha1.FencingStatus) { s.Node.OutOfService = true }, false},
	} {
		s := v1alpha1.FencingStatus{Node: &v1alpha1.FencedNode{Name: "node-a", UID: "node-uid"}, Proof: &v1alpha1.FencingProof{Kind: "PowerOff"}}
		tc.change(&s)
		if got := strings.Contains(NotReleased(&s), "node.kubernetes.io/out-of-service"); got != tc.want {
			t.Errorf("%s: it says %q", name, NotReleased(&s))
		}
	}
}
