package fencepolicy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// Status returns the status of a policy at an instant. A condition keeps the time of its last transition from the status before.
func (v *Verdict) Status(p *v1alpha1.FencePolicy, now time.Time) v1alpha1.FencePolicyStatus {
	s := v1alpha1.FencePolicyStatus{ObservedGeneration: p.Generation, Nodes: new(number(v.Nodes))}
	if v.Unread == nil {
		s.Promising = new(number(v.Promising))
		for _, m := range v.Without {
			s.WithoutPromise = append(s.WithoutPromise, v1alpha1.NodeWithoutPromise{Name: m.Node, Reason: string(m.Reason), Message: m.Text()})
		}
	}
	for _, c := range []metav1.Condition{v.inEffect(), v.promising(requiresBoth(p))} {
		c.ObservedGeneration, c.LastTransitionTime = p.Generation, metav1.NewTime(now)
		c.Message = sanitize.Line(sanitize.MaxMessage, c.Message)
		if before := meta.FindStatusCondition(p.Status.Conditions, c.Type); before != nil && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
		s.Conditions = append(s.Conditions, c)
	}
	return s
}

func number(n int) int32 { return int32(min(n, 1<<31-1)) } //nolint:gosec // it is bounded

// inEffect says whether agents follow the policy.
func (v *Verdict) inEffect() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.InEffectCondition, Status: metav1.ConditionFalse}
	switch {
	case v.Failed != nil:
		c.Reason, c.Message = v1alpha1.SelectorInvalidReason, "spec.nodeSelector can't be read: "+sanitize.Failure(sanitize.MaxPart, v.Failed)
	case v.Blocked != "":
		c.Reason = v1alpha1.BlockedReason
		c.Message = "the selector of FencePolicy " + v.Blocked + ", which is older, can't be read, so it is not known which nodes this policy applies to; correct it or delete it"
	case v.Nodes > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.AppliesReason, "the policy applies to "+nodes(v.Nodes)
		if v.Others > 0 {
			c.Message += fmt.Sprintf("; policies that are older apply to %d more nodes that it selects: %s", v.Others, strings.Join(v.Leaders, ", "))
		}
	case v.Others > 0:
		c.Reason, c.Message = v1alpha1.OverriddenReason, "policies that are older apply to each node that this policy selects: "+strings.Join(v.Leaders, ", ")
	default:
		c.Reason, c.Message = v1alpha1.SelectsNoneReason, "no node has the labels of spec.nodeSelector"
	}
	return c
}

// promising says whether each node of the policy promises to fence itself, and what follows for a policy that requires both power and promise.
func (v *Verdict) promising(both bool) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.PromisingCondition, Status: metav1.ConditionFalse}
	switch {
	case v.Unread != nil:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.LeasesNotReadReason
		c.Message = "the Leases in namespace " + promiselease.Namespace + " can't be read (" + sanitize.Failure(sanitize.MaxPart, v.Unread) + "); install config/selffence"
	case v.Nodes == 0:
		c.Reason, c.Message = v1alpha1.NoNodesReason, "the policy applies to no node"
	case v.Promising < v.Nodes:
		c.Reason, c.Message = v1alpha1.NodesWithoutPromiseReason, fmt.Sprintf("%d of %s promise nothing: %s", v.Nodes-v.Promising, nodes(v.Nodes), v.reasons())
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.AllPromiseReason, "each node promises to fence itself: "+nodes(v.Nodes)
	}
	if untimed := v.Promising - v.Timed; untimed > 0 {
		c.Message += fmt.Sprintf("; %d of the promises are not timed, so that only a new boot proves that such a node has stopped", untimed)
	}
	if v.Unread == nil && both && v.Timed < v.Nodes {
		c.Message += "; since the policy requires both power and promise, no remediation fences a node without a promise that is timed"
	}
	return c
}

// reasons lists the reasons for which nodes promise nothing, the most frequent first.
func (v *Verdict) reasons() string {
	all := slices.Collect(maps.Keys(v.Missing))
	slices.SortFunc(all, func(a, b Reason) int { return cmp.Or(v.Missing[b]-v.Missing[a], cmp.Compare(a, b)) })
	texts := make([]string, 0, len(all))
	for _, r := range all {
		texts = append(texts, fmt.Sprintf("%s %d", r, v.Missing[r]))
	}
	return strings.Join(texts, ", ")
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
