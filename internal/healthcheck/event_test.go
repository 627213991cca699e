package healthcheck

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// TestEventOfSeveralTargetsRegardsTheHealthCheck: an event that names its targets in a list regards the health check, however short
// the list is.
func TestEventOfSeveralTargetsRegardsTheHealthCheck(t *testing.T) {
	policy, target := core.ID{Kind: "Check", Name: "c"}, core.ID{Kind: "Machine", Name: "m"}
	texts := EventTexts{Kind: "Check", Noun: "machine"}
	for name, c := range map[string]struct {
		event core.Event
		texts EventTexts
		want  core.ID
	}{
		"a target":              {core.Event{Kind: core.EventSuspected, Policy: policy, Target: target}, texts, target},
		"a list of one":         {core.Event{Kind: core.EventSuspected, Policy: policy, Targets: []core.ID{target}}, texts, policy},
		"an API without a kind": {core.Event{Kind: core.EventSuspected, Policy: policy, Target: target}, EventTexts{Noun: "machine"}, policy},
	} {
		if got := c.texts.Event(c.event).Regarding; got != c.want {
			t.Errorf("%s: it regards %s, want %s", name, got, c.want)
		}
	}
}
