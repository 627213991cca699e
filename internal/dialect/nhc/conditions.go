package nhc

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/messages"
	"github.com/fettle-io/fettle/internal/sanitize"
	"github.com/fettle-io/fettle/internal/writers"
)

// The reasons of RemediationAllowed that Disabled doesn't have.
const (
	allowedReason          = "Allowed"
	pausedReason           = "Paused"
	tooManyUnhealthyReason = "TooManyUnhealthy"
	stormCooldownReason    = "StormCooldown"
)

// conditionsOf returns Fettle's conditions without their times.
func conditionsOf(old []metav1.Condition, r *core.PolicyReport) []metav1.Condition {
	return append(stormConditions(old, r), disabled(&r.Policy), remediationAllowed(r))
}

// disabled returns a condition that is True while the health check can't be followed or a template can't be used
// (docs/reference/medik8s.md#conditions).
func disabled(p *core.Policy) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.DisabledCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.EnabledReason}
	if p.Problem != "" {
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.InvalidSpecReason
		if p.Unjudged {
			c.Reason = core.UnjudgedReason
		}
		c.Message = "Nothing is remediated, since this health check can't be followed: " + p.Problem
		return c
	}
	var problems []string
	for i := range p.Steps {
		s := &p.Steps[i]
		switch {
		case s.Problem == "":
			continue
		case len(problems) > 0:
		case s.Missing:
			c.Reason = v1alpha1.TemplateNotFoundReason
		default:
			c.Reason = v1alpha1.TemplateInvalidReason
		}
		problems = append(problems, s.Problem)
	}
	if len(problems) > 0 {
		c.Status = metav1.ConditionTrue
		c.Message = sanitize.Line(maxMessage, "No remediation begins, since a template can't be used: "+strings.Join(problems, "; "))
	}
	return c
}

// stormConditions returns the conditions about a storm and its cooldown. A health check has them from its first storm
// on, if it sets a cooldown (docs/reference/medik8s.md#storm-cooldown). A health check that can't be followed keeps the
// conditions that it has, since it has no limit to compare with.
func stormConditions(old []metav1.Condition, r *core.PolicyReport) []metav1.Condition {
	was := meta.FindStatusCondition(old, v1alpha1.StormActiveCondition)
	if r.Policy.Problem != "" {
		return slices.DeleteFunc(slices.Clone(old), func(c metav1.Condition) bool {
			return c.Type != v1alpha1.StormActiveCondition && c.Type != v1alpha1.StormCooldownCondition
		})
	}
	cooling := r.Tally.CoolingDown
	// No cooldown runs during a pause, so a storm lasts at least as long as the pause.
	lasts := !r.Tally.Permitted || (r.Policy.Paused && was != nil && was.Status == metav1.ConditionTrue)
	active := cooling || (lasts && r.Tally.Unhealthy() > 0)
	if !r.Policy.FixedCooldown || (was == nil && !active) {
		return nil
	}
	storm := metav1.Condition{
		Type: v1alpha1.StormActiveCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.HealthyNodeThresholdReason,
		Message: "Remediation is not held back by a storm",
	}
	cooldown := metav1.Condition{
		Type: v1alpha1.StormCooldownCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.HealthyNodeThresholdReason,
		Message: "No cooldown is under way",
	}
	if active {
		storm.Status = metav1.ConditionTrue
		storm.Message = "Too many nodes were unhealthy at the same time, so no remediation begins until enough are healthy and spec.stormCooldownDuration is over"
	}
	if cooling {
		cooldown.Status = metav1.ConditionTrue
		cooldown.Message = "Enough nodes are healthy again; remediation resumes when spec.stormCooldownDuration is over"
	}
	return []metav1.Condition{storm, cooldown}
}

// remediationAllowed returns a condition with the reason why no remediation starts. If remediation may start, its
// message names the nodes that are not healthy.
func remediationAllowed(r *core.PolicyReport) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.RemediationAllowedCondition, Status: metav1.ConditionFalse}
	d := disabled(&r.Policy)
	switch {
	case d.Status == metav1.ConditionTrue:
		c.Reason, c.Message = d.Reason, d.Message
	case r.Policy.Paused:
		c.Reason = pausedReason
		c.Message = "No remediation begins while spec.pauseRequests has entries; remove them to go on"
	case !r.Tally.Permitted:
		c.Reason = tooManyUnhealthyReason
		c.Message = fmt.Sprintf("No remediation begins, since more nodes are not healthy than maxUnhealthy or minHealthy allows, "+
			"which points to a fault that they share; it resumes when enough are healthy again (observed: %d, unhealthy: %d, at most: %d)",
			r.Tally.Total, r.Tally.Unhealthy(), r.Tally.MaxUnhealthy) + messages.GoneTargets(r)
	case r.Tally.CoolingDown:
		c.Reason = stormCooldownReason
		c.Message = "Remediation was stopped until just now; it resumes when nodes have had time to recover (spec.stormCooldownDuration)"
	case r.Clock != 0:
		c.Reason, c.Message = r.Clock.String(), messages.Clock(r)
	default:
		given := messages.GivenUp(r, resource, annotation.ResumedAt)
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, allowedReason, given+messages.UnhealthyTargets(r, noun)
		if given != "" {
			c.Reason = messages.GivenUpReason
		}
	}
	return c
}

// maxMessage bounds the message about templates, which may be many.
const maxMessage = 2048

// withConditions replaces Fettle's conditions, keeps all others, and sorts all by type. The transition time changes
// only with the status.
func withConditions(old, ours []metav1.Condition, now time.Time) []metav1.Condition {
	fresh := slices.DeleteFunc(slices.Clone(old), func(c metav1.Condition) bool { return isOurs(c.Type) })
	for _, c := range ours {
		c.Message, c.LastTransitionTime = messages.Message(c.Message), metav1.NewTime(now)
		if was := meta.FindStatusCondition(old, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		fresh = append(fresh, c)
	}
	slices.SortStableFunc(fresh, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return fresh
}

func isOurs(condition string) bool {
	switch condition {
	case v1alpha1.DisabledCondition, v1alpha1.StormActiveCondition, v1alpha1.StormCooldownCondition, v1alpha1.RemediationAllowedCondition,
		writers.Condition:
		return true
	}
	return false
}
