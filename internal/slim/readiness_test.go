package slim

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
)

func TestSameReadiness(t *testing.T) {
	noon := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	n := func(uid types.UID, conditions ...core.Condition) *Node {
		return &Node{Meta: Meta{UID: uid}, Conditions: conditions}
	}
	isReady := core.Condition{Type: "Ready", Status: "True", Since: noon}
	isNot := core.Condition{Type: "Ready", Status: "False", Since: noon.Add(time.Second)}
	pressed := core.Condition{Type: "DiskPressure", Status: "True", Since: noon}
	for sentence, tc := range map[string]struct {
		before, after *Node
		want          bool
	}{
		"nothing that counts has changed": {n("a", pressed, isReady), n("a", isReady), true},
		"another node":                    {n("a", isReady), n("b", isReady), false},
		"it is not Ready any more":        {n("a", pressed, isReady), n("a", pressed, isNot), false},
		"it says nothing any more":        {n("a", isReady), n("a"), false},
		"it has said nothing yet":         {n("a", pressed), n("a"), true},
	} {
		if got := tc.after.SameReadiness(tc.before); got != tc.want {
			t.Errorf("%s: the readiness is the same: %t", sentence, got)
		}
	}
}
