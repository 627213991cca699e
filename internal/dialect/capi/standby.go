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

// obstacle is why a fleet is left alone. A pause is meant; the others are told as what they are, and somebody should
// look at them.
type obstacle struct {
	paused          bool
	reason, message string
	// silent is set while it is about to be known whether there is one.
	silent bool
	// yields is set when the fleet is observed all the same, so that what was begun is ended or taken back.
	yields bool
}

// standsBy tells why the fleet is left alone, nil when it is not. Without a health check nothing needs the nodes.
func (f *Fleet) standsBy(r *room) *obstacle {
	cluster, checked := r.standing()
	switch {
	case cluster == nil && checked:
		return &obstacle{reason: clusterNotFoundReason, message: fmt.Sprintf(
			"Nothing is judged or repaired, since there is no Cluster %s in namespace %s; correct spec.clusterName, or delete this health check", f.cluster.Name, f.cluster.Namespace)}
	case cluster == nil:
		return nil
	case cluster.Paused == core.Yes:
		return &obstacle{paused: true}
	case cluster.Unreadable != "":
		return &obstacle{reason: clusterUnreadableReason, message: fmt.Sprintf(
			"Nothing is judged or repaired until Cluster %s can be read: %s", f.cluster.Name, cluster.Unreadable)}
	case !checked || !cluster.ControlPlaneInitialized.Reached:
		return nil
	}
	if answers, why := f.nodes.Answers(); answers != core.Yes {
		return &obstacle{reason: connectionDownReason, message: fmt.Sprintf(
			"Nothing is judged or repaired, since the nodes of cluster %s can't be seen: %s", f.cluster.Name, why)}
	}
	return f.yields(r)
}

// StandBy says in the statuses of the health checks why nothing is done, and leaves their numbers as they are.
func (f *Fleet) StandBy(ctx context.Context) error {
	if !f.client.InStep() {
		return nil // it will be
	}
	r := f.client.roomOf(f.cluster)
	why := f.standsBy(r)
	if why == nil || why.silent || why.yields {
		return nil // it is about to be looked at
	}
	var errs []error
	for _, check := range r.checksNow() {
		if err := f.excuse(ctx, r, why, &check); err != nil {
			errs = append(errs, fmt.Errorf("recording the status of %s: %w", check.policy.ID, err))
		}
	}
	return errors.Join(errs...)
}

// excuse has a health check belong to its cluster where that can be read, which takes none of its nodes, and says why
// nothing else is done, whether or not the former is refused.
func (f *Fleet) excuse(ctx context.Context, r *room, why *obstacle, check *healthCheck) error {
	var refused error
	if why.reason == connectionDownReason && !check.policy.Paused {
		refused = f.adopt(ctx, r, check)
	}
	fresh, news := why.statusOf(check, f.client.Now())
	if equality.Semantic.DeepEqual(check.status, fresh) {
		return refused
	}
	if err := f.writeStatus(ctx, check, fresh); err != nil {
		return errors.Join(refused, err)
	}
	if news {
		f.client.tell(why.event(check.policy.ID))
	}
	return refused
}

// statusOf gives the status of a health check that stands by, and whether that is news to somebody.
func (o *obstacle) statusOf(check *healthCheck, now time.Time) (fresh clusterv1.MachineHealthCheckStatus, news bool) {
	fresh = check.status
	s := statement{check: check, now: now}
	if o.paused && !check.takesOver {
		fresh.Conditions = s.conditions([]told{paused(true, "its Cluster has spec.paused")}, clusterv1.PausedCondition)
		return fresh, false
	}
	if o.paused {
		return fresh, false
	}
	unknown := o.told()
	news = o.isNews(check)
	own := []told{unknown}
	if !check.takesOver {
		own = append(own, paused(check.policy.Paused, annotated))
	}
	fresh.Conditions = s.conditions(own, clusterv1.MachineHealthCheckRemediationAllowedCondition)
	fresh.Deprecated = s.deprecated([]told{unknown}, clusterv1.RemediationAllowedV1Beta1Condition)
	return fresh, news
}

func (o *obstacle) told() told {
	return told{
		Type: clusterv1.MachineHealthCheckRemediationAllowedCondition, Status: metav1.ConditionUnknown, Reason: o.reason, Message: o.message,
	}
}

// isNews reports whether the health check does not say this already.
func (o *obstacle) isNews(check *healthCheck) bool {
	return !slices.ContainsFunc(check.status.Conditions, func(c metav1.Condition) bool {
		return c.Type == clusterv1.MachineHealthCheckRemediationAllowedCondition && c.Reason == o.reason
	})
}

func (o *obstacle) event(check core.ID) event {
	return event{Regarding: check, Warning: true, Reason: o.reason, Action: healthcheck.CheckAction, Note: o.message}
}
