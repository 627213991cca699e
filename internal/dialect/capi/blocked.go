package capi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
)

// The reasons for which a cluster is not judged.
const (
	clusterNotFoundReason   = "ClusterNotFound"
	clusterUnreadableReason = "ClusterUnreadable"
	connectionDownReason    = "ConnectionDown"
)

// blockage is the reason why the health checks of a cluster do nothing. Users pause clusters on purpose; every other
// reason is a fault that a user must mend.
type blockage struct {
	paused          bool
	reason, message string
	// pending is set for as long as Fettle waits to learn whether there is a blockage.
	pending bool
	// startsOnly is set when the cluster is observed and no repair starts. Repairs and requests that exist still end.
	startsOnly bool
}

// blockedBy returns why the cluster is not judged, or nil if it is. A cluster without health checks needs no nodes.
func (d *Dialect) blockedBy(s *store) *blockage {
	cluster, checked := s.clusterAndChecks()
	switch {
	case cluster == nil && checked:
		return &blockage{reason: clusterNotFoundReason, message: fmt.Sprintf(
			"Nothing is judged or repaired, since there is no Cluster %s in namespace %s; correct spec.clusterName, or delete this health check", d.cluster.Name, d.cluster.Namespace)}
	case cluster == nil:
		return nil
	case cluster.Paused == core.Yes:
		return &blockage{paused: true}
	case cluster.Unreadable != "":
		return &blockage{reason: clusterUnreadableReason, message: fmt.Sprintf(
			"Nothing is judged or repaired until Cluster %s can be read: %s", d.cluster.Name, cluster.Unreadable)}
	case !checked || !cluster.ControlPlaneInitialized.Reached:
		return nil
	}
	if answers, why := d.nodes.Answers(); answers != core.Yes {
		return &blockage{reason: connectionDownReason, message: fmt.Sprintf(
			"Nothing is judged or repaired, since the nodes of cluster %s can't be seen: %s", d.cluster.Name, why)}
	}
	return d.judgedElsewhere(s)
}

// ReportBlocked writes into the statuses of the health checks why nothing is done. It leaves their numbers as they are.
func (d *Dialect) ReportBlocked(ctx context.Context) error {
	if !d.client.HasSynced() {
		return nil // the first pass after the sync reports it
	}
	s := d.client.storeOf(d.cluster)
	blocked := d.blockedBy(s)
	if blocked == nil || blocked.pending || blocked.startsOnly {
		return nil // the next pass observes the cluster
	}
	var errs []error
	for _, check := range s.checksNow() {
		if err := d.reportBlocked(ctx, s, blocked, &check); err != nil {
			errs = append(errs, fmt.Errorf("recording the status of %s: %w", check.policy.ID, err))
		}
	}
	return errors.Join(errs...)
}

// reportBlocked adopts a health check where that needs no nodes, and writes the reason into its status. It writes the
// status even if the API server refuses the adoption.
func (d *Dialect) reportBlocked(ctx context.Context, s *store, blocked *blockage, check *healthCheck) error {
	var refused error
	if blocked.reason == connectionDownReason && !check.policy.Paused {
		refused = d.adopt(ctx, s, check)
	}
	fresh, news := blocked.statusOf(check, d.client.Now())
	if equality.Semantic.DeepEqual(check.status, fresh) {
		return refused
	}
	if err := d.writeStatus(ctx, check, fresh); err != nil {
		return errors.Join(refused, err)
	}
	if news {
		d.client.emit(blocked.event(check.policy.ID))
	}
	return refused
}

// statusOf returns the status of a blocked health check. news is set if the reason is new, so that an event is due.
func (o *blockage) statusOf(check *healthCheck, now time.Time) (fresh clusterv1.MachineHealthCheckStatus, news bool) {
	fresh = check.status
	s := conditionBuilder{check: check, now: now}
	if o.paused {
		if !check.takesOver {
			fresh.Conditions = s.conditions([]conditionValue{paused(true, "its Cluster has spec.paused")})
		}
		return fresh, false
	}
	unknown := o.condition()
	news = o.isNews(check)
	own := []conditionValue{unknown}
	if !check.takesOver {
		own = append(own, paused(check.policy.Paused, pausedByAnnotation))
	}
	fresh.Conditions = s.conditions(own)
	fresh.Deprecated = s.deprecated([]conditionValue{unknown})
	return fresh, news
}

func (o *blockage) condition() conditionValue {
	return conditionValue{
		Type: clusterv1.MachineHealthCheckRemediationAllowedCondition, Status: metav1.ConditionUnknown, Reason: o.reason, Message: o.message,
	}
}

// isNews reports whether the status of the health check lacks this reason.
func (o *blockage) isNews(check *healthCheck) bool {
	return !slices.ContainsFunc(check.status.Conditions, func(c metav1.Condition) bool {
		return c.Type == clusterv1.MachineHealthCheckRemediationAllowedCondition && c.Reason == o.reason
	})
}

func (o *blockage) event(check core.ID) event {
	return event{Regarding: check, Warning: true, Reason: o.reason, Action: healthcheck.CheckAction, Note: o.message}
}
