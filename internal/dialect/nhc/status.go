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
)

// mostListed bounds the nodes that a status names, which must fit an object. Those with remediation
// objects go first.
const mostListed = 1000

// statusOf gives the status that a health check should have, and whether that differs from the one
// that it has. It names no generation, as today's operator names none: each edit of the specification would cost
// a write, also one in which nothing else changes.
func statusOf(old v1alpha1.NodeHealthCheckStatus, r core.PolicyReport, now time.Time) (v1alpha1.NodeHealthCheckStatus, bool) {
	now = now.UTC().Truncate(time.Second)
	listed := listedOf(r.Cases)
	fresh := v1alpha1.NodeHealthCheckStatus{
		ObservedNodes:        &r.Tally.Total,
		HealthyNodes:         &r.Tally.Healthy,
		UnhealthyNodes:       unhealthyNodes(listed),
		InFlightRemediations: inFlight(listed),
		Conditions:           withConditions(old.Conditions, conditionsOf(old.Conditions, &r), now),
		LastUpdateTime:       old.LastUpdateTime,
	}
	fresh.Phase, fresh.Reason = phaseOf(&r)
	if equality.Semantic.DeepEqual(old, fresh) {
		return fresh, false
	}
	fresh.LastUpdateTime = &metav1.Time{Time: now}
	return fresh, true
}

// listedOf gives the nodes that the status names, by name. One that is healthy again, and of which nothing
// is asked any more, is none of them though its repair may still be on its way out of the ledger.
func listedOf(cases []core.Case) []core.Case {
	var listed []core.Case
	for i := range cases {
		if c := &cases[i]; c.Health != core.Healthy || len(c.Requests) > 0 {
			listed = append(listed, *c)
		}
	}
	if len(listed) > mostListed {
		slices.SortStableFunc(listed, func(a, b core.Case) int { return cmp.Compare(min(1, len(b.Requests)), min(1, len(a.Requests))) })
		listed = listed[:mostListed]
	}
	slices.SortFunc(listed, func(a, b core.Case) int { return strings.Compare(a.Target.Name, b.Target.Name) })
	return listed
}

func unhealthyNodes(cases []core.Case) []v1alpha1.UnhealthyNode {
	var nodes []v1alpha1.UnhealthyNode
	for i := range cases {
		c := &cases[i]
		n := v1alpha1.UnhealthyNode{Name: c.Target.Name, ConditionsHealthyTimestamp: timeOrNone(c.HealthySince)}
		if c.Delayed {
			n.HealthyDelayed = &c.Delayed
		}
		for j := range c.Requests {
			n.Remediations = append(n.Remediations, remediationOf(&c.Requests[j], c.Repair))
		}
		nodes = append(nodes, n)
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
		TemplateName: r.Template.Name,
	}
}

// inFlight gives by node when its remediation began (seed 003).
func inFlight(cases []core.Case) map[string]metav1.Time {
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

// phaseOf gives the first phase that fits, and why it does (reference medik8s 1.4).
func phaseOf(r *core.PolicyReport) (v1alpha1.Phase, string) {
	if c := disabled(&r.Policy); c.Status == metav1.ConditionTrue {
		return v1alpha1.PhaseDisabled, c.Message
	}
	if r.Policy.Paused {
		return v1alpha1.PhasePaused, "No remediation begins while spec.pauseRequests has entries; remove them to go on"
	}
	under := 0
	for i := range r.Cases {
		if len(r.Cases[i].Requests) > 0 {
			under++
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
