package owner

import (
	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
)

// requestChanges are what an order writes on a machine. They are false when the machine has left since it was judged, or nothing
// is found to be wrong with it.
func requestChanges(m *clusterapi.Machine, o *core.RemedyCall) ([]clusterapi.Change, bool) {
	failed := clusterapi.HealthCheckFailed(m, m.Node, o.Findings)
	if failed == nil || m.Skipped() || m.DeletionTimestamp != nil || m.Unreadable != "" {
		return nil, false
	}
	return append(failed, clusterapi.AskOwner(m)...), true
}

// withdrawalChanges takes back what a request stands for, and is nil when that does not stand any more: the machine is gone,
// another has its name, its owner does what was asked, or somebody has taken it out of health checking since. Of a machine
// that is healthy it says that too, so that there is one call for both.
func withdrawalChanges(m *clusterapi.Machine, r *core.Request) []clusterapi.Change {
	if m == nil || m.Skipped() || m.DeletionTimestamp != nil {
		return nil
	}
	if mark := m.OwnerRequest(); mark == nil || mark.ID(m) != r.ID.UID {
		return nil
	}
	changes := clusterapi.WithdrawOwnerRequest(m)
	if changes != nil && r.TargetHealthy {
		changes = append(clusterapi.HealthCheckSucceeded(), changes...)
	}
	return changes
}
