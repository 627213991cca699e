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

// maxListed bounds the nodes that a status names, which must fit an object. Those with remediation
// objects go first.
const maxListed = 1000

// statusOf gives the status that a health check should have, and whether that differs from the one
// that it has. It names no generation, as today's operator names none: each edit of the specification would cost
// a write, also one in which nothing else changes. More are conditions that do not follow from the report.
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

// withOmitted adds to the reason how many nodes the status does not name.
func withOmitted(reason string, left int) string {
	if left == 0 {
		return reason
	}
	return fmt.Sprintf("%s (there is no room here for the names of %d more nodes)", reason, left)
}

// brief is the status with the same numbers and reasons, with short messages and without the names of nodes. It is written
// where the longer one is refused as too large, since nothing is remediated that is not recorded.
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

// listCases returns the nodes that the status names, by name, and how many it has no room for. A node that is healthy
// again and has no request is none of them, though its repair may still be on its way out of the ledger.
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

// fitting is how many of the nodes, from the first on, a status has room for.
func fitting(listed []core.MemberReport) int {
	size := 0
	for i := range listed {
		if size += sizeOf(&listed[i]); i == maxListed || size > sanitize.MaxListed {
			return i
		}
	}
	return len(listed)
}

// sizeOf is about what a node takes in a status, in bytes of JSON.
func sizeOf(c *core.MemberReport) int {
	const ofNode, ofRequest = 150, 200 // the names of fields, times and quotes
	size := ofNode + 2*len(c.Target.Name)
	for i := range c.Requests {
		r := &c.Requests[i]
		size += ofRequest + len(r.APIVersion) + len(r.ID.Kind) + len(r.ID.Namespace) + len(r.ID.Name) + len(r.ID.UID) + min(len(r.Template.Name), maxTemplateName)
	}
	return size
}

// maxTemplateName is as long as the name of an object can be. An annotation that anybody may write has it.
const maxTemplateName = 253

// unhealthyNodes returns the entries of the status, one for each name: the API keys them by it. So a node shares its entry with
// an earlier one of its name whose requests still stand.
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

// remediationOf tells of a request. A remediator that says that it has succeeded is not told to stop when its time is
// over, and the repair has that alone.
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

// inFlight gives by node when its remediation began (docs/reference/proposals.md#node-health-checks).
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

// wholeSeconds are what the API server keeps of a time.
func wholeSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

func timeOrNone(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	at := wholeSeconds(t)
	return &at
}

// phaseOf gives the first phase that fits, and why it does (docs/reference/medik8s.md#phases).
func phaseOf(r *core.PolicyReport) (v1alpha1.Phase, string) {
	if c := disabled(&r.Policy); c.Status == metav1.ConditionTrue {
		return v1alpha1.PhaseDisabled, messages.Message(c.Message)
	}
	if r.Policy.Paused {
		return v1alpha1.PhasePaused, "No remediation begins while spec.pauseRequests has entries; remove them to go on"
	}
	under, last := 0, ""
	for i := range r.Members {
		if c := &r.Members[i]; len(c.Requests) > 0 && (under == 0 || c.Target.Name != last) {
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
