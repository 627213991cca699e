package owner

import (
	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
)

// marks are what an order writes on a machine. They are false when the machine has left since it was judged, or nothing
// is found to be wrong with it.
func marks(m *clusterapi.Machine, o *core.Order) ([]clusterapi.Change, bool) {
	failed := clusterapi.Failed(m, m.Node, o.Findings)
	if failed == nil || m.Skipped() || m.DeletionTimestamp != nil || m.Unreadable != "" {
		return nil, false
	}
	return append(failed, clusterapi.AskOwner(m)...), true
}

// unmarks takes back what a request stands for, and is nil when that does not stand any more: the machine is gone,
// another has its name, its owner does what was asked, or somebody has taken it out of health checking since. Of a machine
// that is healthy it says that too, so that there is one call for both.
func unmarks(m *clusterapi.Machine, r *core.Request) []clusterapi.Change {
	if m == nil || m.Skipped() || m.DeletionTimestamp != nil {
		return nil
	}
	if mark := m.Asked(); mark == nil || mark.ID(m) != r.ID.UID {
		return nil
	}
	changes := clusterapi.SpareOwner(m)
	if changes != nil && r.Settled {
		changes = append(clusterapi.Passed(), changes...)
	}
	return changes
}
