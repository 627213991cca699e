package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestFactsOfALaterInstant: facts that were read count as read then. A quorum that was not read stays so, and the facts
// of now don't change.
func TestFactsOfALaterInstant(t *testing.T) {
	s := newScene()
	s.Targets[1].QuorumReadAt = noon
	s.Targets[2].NodeGoneSince = noon.Add(-time.Hour)
	w := s.assessment()
	type fact struct{ NodeReadAt, QuorumReadAt, NodeGoneSince time.Time }
	facts := func(w *assessment) []fact {
		var all []fact
		for i := range w.cluster.Targets[:3] {
			t := &w.cluster.Targets[i]
			all = append(all, fact{t.NodeReadAt, t.QuorumReadAt, t.NodeGoneSince})
		}
		return all
	}
	before, cooldown := facts(w), core.CooldownState{First: noon.Add(-time.Minute), Last: noon.Add(-time.Minute), Unhealthy: 1}
	w.decision.Tallies[0].Cooldown = cooldown
	at := noon.Add(time.Hour)
	then := w.asOf(at)
	want := []fact{{at, time.Time{}, noon}, {at, at, noon}, {at, time.Time{}, noon.Add(-time.Hour)}}
	if diff := cmp.Diff(want, facts(then)); diff != "" {
		t.Errorf("facts of then (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, facts(w)); diff != "" {
		t.Errorf("facts of now (-want +got):\n%s", diff)
	}
	if then.policies[0].Cooldown != cooldown || w.policies[0].Cooldown != (core.CooldownState{}) {
		t.Errorf("the pause after a storm goes on from %+v, and now has %+v", then.policies[0].Cooldown, w.policies[0].Cooldown)
	}
}
