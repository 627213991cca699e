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

// Why nothing is known of a fleet.
const (
	clusterNotFoundReason   = "ClusterNotFound"
	clusterUnreadableReason = "ClusterUnreadable"
	connectionDownReason    = "ConnectionDown"
)

// blockage is why a fleet is left alone. A pause is meant; the others are told as what they are, and somebody should
// look at them.
type blockage struct {
	paused          bool
	reason, message string
	// pending is set while it is about to be known whether there is one.
	pending bool
	// startsOnly is set when the fleet is observed all the same, so that what was begun is ended or taken back.
	startsOnly bool
}

// blockedBy tells why the fleet is left alone, nil when it is not. Without a health check nothing needs the nodes.
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

// ReportBlocked says in the statuses of the health checks why nothing is done, and leaves their numbers as they are.
func (d *Dialect) ReportBlocked(ctx context.Context) error {
	if !d.client.HasSynced() {
		return nil // it will be
	}
	s := d.client.storeOf(d.cluster)
	blocked := d.blockedBy(s)
	if blocked == nil || blocked.pending || blocked.startsOnly {
		return nil // it is about to be looked at
	}
	var errs []error
	for _, check := range s.checksNow() {
		if err := d.reportBlocked(ctx, s, blocked, &check); err != nil {
			errs = append(errs, fmt.Errorf("recording the status of %s: %w", check.policy.ID, err))
		}
	}
	return errors.Join(errs...)
}

// reportBlocked has a health check belong to its cluster where that can be read, which takes none of its nodes, and says why
// nothing else is done, whether or not the former is refused.
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

// statusOf gives the status of a health check that stands by, and whether that is news to somebody.
func (o *blockage) statusOf(check *healthCheck, now time.Time) (fresh clusterv1.MachineHealthCheckStatus, news bool) {
	fresh = check.status
	s := conditionBuilder{check: check, now: now}
	if o.paused && !check.takesOver {
		fresh.Conditions = s.conditions([]conditionValue{paused(true, "its Cluster has spec.paused")}, clusterv1.PausedCondition)
		return fresh, false
	}
	if o.paused {
		return fresh, false
	}
	unknown := o.condition()
	news = o.isNews(check)
	own := []conditionValue{unknown}
	if !check.takesOver {
		own = append(own, paused(check.policy.Paused, pausedByAnnotation))
	}
	fresh.Conditions = s.conditions(own, clusterv1.MachineHealthCheckRemediationAllowedCondition)
	fresh.Deprecated = s.deprecated([]conditionValue{unknown}, clusterv1.RemediationAllowedV1Beta1Condition)
	return fresh, news
}

func (o *blockage) condition() conditionValue {
	return conditionValue{
		Type: clusterv1.MachineHealthCheckRemediationAllowedCondition, Status: metav1.ConditionUnknown, Reason: o.reason, Message: o.message,
	}
}

// isNews reports whether the health check does not say this already.
func (o *blockage) isNews(check *healthCheck) bool {
	return !slices.ContainsFunc(check.status.Conditions, func(c metav1.Condition) bool {
		return c.Type == clusterv1.MachineHealthCheckRemediationAllowedCondition && c.Reason == o.reason
	})
}

func (o *blockage) event(check core.ID) event {
	return event{Regarding: check, Warning: true, Reason: o.reason, Action: healthcheck.CheckAction, Note: o.message}
}
