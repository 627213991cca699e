package cli

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// asOf decides on the same facts at a later instant, as if nothing changed until then. States that only the
// controller's memory dates begin now.
func (w *assessment) asOf(at time.Time) *assessment {
	then := &assessment{
		at: at, key: w.key, blocked: w.blocked, statusReaders: w.statusReaders, policies: slices.Clone(w.policies), cluster: w.cluster, repairDetails: w.repairDetails,
		dialectOf: w.dialectOf, kindOf: w.kindOf, unread: w.unread,
	}
	for i := range then.policies {
		then.policies[i].Cooldown = w.decision.Tallies[i].Cooldown
	}
	then.cluster.Targets = slices.Clone(w.cluster.Targets)
	for i := range then.cluster.Targets {
		t := &then.cluster.Targets[i]
		t.NodeReadAt = at
		if !t.QuorumReadAt.IsZero() {
			t.QuorumReadAt = at
		}
		if t.NodeGoneSince.IsZero() {
			t.NodeGoneSince = w.at
		}
	}
	(&core.Expectations{}).OverlayTests(then.policies, &then.cluster, w.at)
	then.decide()
	return then
}
