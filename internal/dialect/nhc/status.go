package nhc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/messages"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// maxListed bounds the nodes that a status names, so that the object is not too large. Nodes with remediation objects
// go first.
const maxListed = 1000

// statusOf returns the status that a health check should have, and whether it differs from old. more are conditions
// that do not follow from the report. Like medik8s' operator, it sets no observed generation: each edit of the spec
// would cost a write.
func statusOf(old v1alpha1.NodeHealthCheckStatus, r core.PolicyReport, now time.Time, more ...metav1.Condition) (v1alpha1.NodeHealthCheckStatus, bool) {
	now = now.UTC().Truncate(time.Second)
	listed, left := listCases(r.Members)
	fresh := v1alpha1.NodeHealthCheckStatus{
		ObservedNodes:        &r.Tally.Total,
		HealthyNodes:         &r.Tally.Healthy,
		UnhealthyNodes:       unhealthyNodes(listed),
		InFlightRemediations: inFlight(listed),
		Conditions:           withConditions(old.Conditions, append(conditionsOf(old.Conditions, &r), more...), now),
		LastUpdateTime:       old.LastUpdateTime,
	}
	fresh.Phase, fresh.Reason = phaseOf(&r)
	fresh.Reason = withOmitted(fresh.Reason, left)
	if equality.Semantic.DeepEqual(old, fresh) {
		return fresh, false
	}
	fresh.LastUpdateTime = &metav1.Time{Time: now}
	return fresh, true
}

// withOmitted adds the number of nodes that the status does not name to the reason.
func withOmitted(reason string, left int) string {
	if left == 0 {
		return reason
	}
	return fmt.Sprintf("%s (there is no room here for the names of %d more nodes)", reason, left)
}

// brief returns the status with the same numbers and reasons, short messages, and no names of nodes. Fettle writes it
// if the API server refuses the full status as too large, since it remediates nothing that it can't record.
func brief(s v1alpha1.NodeHealthCheckStatus) v1alpha1.NodeHealthCheckStatus {
	s.Reason = withOmitted(messages.Brief(s.Reason), len(s.UnhealthyNodes))
	s.UnhealthyNodes, s.InFlightRemediations = nil, nil
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		if c := &s.Conditions[i]; isOurs(c.Type) {
			c.Message = messages.Brief(c.Message)
		}
	}
	return s
}

// listCases returns the cases that the status names, sorted by node, and how many don't fit. A node that is healthy
// again and has no request is not listed, though its repair may still be ending.
func listCases(cases []core.MemberReport) (listed []core.MemberReport, left int) {
	for i := range cases {
		if c := &cases[i]; c.Health != core.Healthy || len(c.Requests) > 0 {
			listed = append(listed, *c)
		}
	}
	if most := fitting(listed); most < len(listed) {
		slices.SortStableFunc(listed, func(a, b core.MemberReport) int { return cmp.Compare(min(1, len(b.Requests)), min(1, len(a.Requests))) })
		most = fitting(listed)
		listed, left = listed[:most], len(listed)-most
	}
	slices.SortFunc(listed, func(a, b core.MemberReport) int { return strings.Compare(a.Target.Name, b.Target.Name) })
	return listed, left
}

// fitting returns how many of the first nodes fit into a status.
func fitting(listed []core.MemberReport) int {
	size := 0
	for i := range listed {
		if size += sizeOf(&listed[i]); i == maxListed || size > sanitize.MaxListed {
			return i
		}
	}
	return len(listed)
}

// sizeOf estimates the size of a node in a status, in bytes of JSON.
func sizeOf(c *core.MemberReport) int {
	const ofNode, ofRequest = 150, 200 // the names of fields, times and quotes
	size := ofNode + 2*len(c.Target.Name)
	for i := range c.Requests {
		r := &c.Requests[i]
		size += ofRequest + len(r.APIVersion) + len(r.ID.Kind) + len(r.ID.Namespace) + len(r.ID.Name) + len(r.ID.UID) + min(len(r.Template.Name), maxTemplateName)
	}
	return size
}

// maxTemplateName is the greatest length of an object's name. The name comes from an annotation that any client may
// write.
const maxTemplateName = 253

// unhealthyNodes returns the entries of the status, one for each name, since the API keys them by name. A node shares
// its entry with an earlier node of its name whose requests remain.
func unhealthyNodes(cases []core.MemberReport) []v1alpha1.UnhealthyNode {
	var nodes []v1alpha1.UnhealthyNode
	for i := range cases {
		c := &cases[i]
		if last := len(nodes) - 1; last < 0 || nodes[last].Name != c.Target.Name {
			nodes = append(nodes, v1alpha1.UnhealthyNode{Name: c.Target.Name})
		}
		n := &nodes[len(nodes)-1]
		if c.Health != core.Gone {
			n.ConditionsHealthyTimestamp = timeOrNone(c.HealthySince)
		}
		if c.Delayed {
			n.HealthyDelayed = &c.Delayed
		}
		for j := range c.Requests {
			n.Remediations = append(n.Remediations, remediationOf(&c.Requests[j], c.Repair))
		}
	}
	return nodes
}

// remediationOf returns the entry of a request. If a remediator reports success, Fettle does not tell it to stop when
// its time is over. Then only the repair has the time at which the step was given up.
func remediationOf(r *core.Request, repair *core.Repair) v1alpha1.Remediation {
	over := r.Stopped
	if over.IsZero() && repair != nil {
		over = repair.GaveUp(r)
	}
	return v1alpha1.Remediation{
		Resource: corev1.ObjectReference{
			APIVersion: r.APIVersion, Kind: r.ID.Kind, Namespace: r.ID.Namespace, Name: r.ID.Name, UID: types.UID(r.ID.UID),
		},
		Started:      wholeSeconds(r.Created),
		TimedOut:     timeOrNone(over),
		TemplateName: sanitize.Line(maxTemplateName, r.Template.Name),
	}
}

// inFlight returns the times at which remediation began, by node (docs/reference/proposals.md#node-health-checks).
func inFlight(cases []core.MemberReport) map[string]metav1.Time {
	began := map[string]metav1.Time{}
	for i := range cases {
		for j := range cases[i].Requests {
			at, name := wholeSeconds(cases[i].Requests[j].Created), cases[i].Target.Name
			if first, known := began[name]; !known || at.Before(&first) {
				began[name] = at
			}
		}
	}
	return began
}

// wholeSeconds truncates a time to seconds, as the API server does.
func wholeSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

func timeOrNone(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	at := wholeSeconds(t)
	return &at
}

// phaseOf returns the first phase that fits, and the reason (docs/reference/medik8s.md#phases).
func phaseOf(r *core.PolicyReport) (v1alpha1.Phase, string) {
	if c := disabled(&r.Policy); c.Status == metav1.ConditionTrue {
		return v1alpha1.PhaseDisabled, messages.Message(c.Message)
	}
	if r.Policy.Paused {
		return v1alpha1.PhasePaused, "No remediation begins while spec.pauseRequests has entries; remove them to go on"
	}
	under, last := 0, ""
	for i := range r.Members {
		if c := &r.Members[i]; len(c.Requests) > 0 && c.Target.Name != last {
			under, last = under+1, c.Target.Name
		}
	}
	switch under {
	case 0:
		return v1alpha1.PhaseEnabled, "No node is under remediation"
	case 1:
		return v1alpha1.PhaseRemediating, "1 node is under remediation"
	}
	return v1alpha1.PhaseRemediating, fmt.Sprintf("%d nodes are under remediation", under)
}
