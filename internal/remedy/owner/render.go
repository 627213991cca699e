package owner

import (
	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
)

// requestChanges returns the conditions to write for a call. It reports false when the machine was taken out of health
// checking since it was judged, or has no failed check.
func requestChanges(m *clusterapi.Machine, o *core.RemedyCall) ([]clusterapi.Change, bool) {
	failed := clusterapi.HealthCheckFailed(m, m.Node, o.Findings)
	if failed == nil || m.Skipped() || m.DeletionTimestamp != nil || m.Unreadable != "" {
		return nil, false
	}
	return append(failed, clusterapi.AskOwner(m)...), true
}

// withdrawalChanges returns the conditions that withdraw a request. It returns nil when the request does not stand any
// more. That is so when the machine is gone, replaced by a namesake, or taken out of health checking, or when its owner
// has begun. For a healthy machine the changes say so too, so that one write does both.
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
