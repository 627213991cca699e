package nhc

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/selector"
)

// Reading is a cluster as somebody has just read it from the API server, object by object, who means
// to ask the core about it and to write nothing. Its rules are those of the controller. What is put
// into it tells whether it can change a decision.
type Reading struct{ store store }

// NewReading makes a reading of an empty cluster.
func NewReading() *Reading { return &Reading{store: newStore()} }

// PutCheck takes in a health check, an *unstructured.Unstructured.
func (r *Reading) PutCheck(obj any) bool { return r.store.putCheck(obj) }

// DropCheck forgets a health check by name.
func (r *Reading) DropCheck(name string) { r.store.dropCheck(name) }

// PutNode takes in a node.
func (r *Reading) PutNode(obj any) bool { return r.store.putNode(obj) }

// DropNode forgets a node by name.
func (r *Reading) DropNode(name string) { r.store.dropNode(name) }

// Observe gives the health checks, and the nodes that they select, as of an instant at which the reading was
// complete. What it gives is good until the next observation.
func (r *Reading) Observe(at time.Time) core.Observation {
	o := core.Observation{Kind: nodeKind, Observed: core.Yes}
	o.Policies, o.Targets = r.store.snapshot()
	for i := range o.Targets {
		o.Targets[i].NodeReadAt = at
	}
	for i := range o.Policies {
		p := &o.Policies[i]
		if last, known := r.store.statusOf(p.ID); known {
			p.Cooldown = openingOf(last.status.Conditions)
		}
	}
	return o
}

// openingOf gives what the status tells of a short circuit that has opened: only a cooldown that was asked for has a
// condition whose time is that of the opening. Of others it is not known, and they are told as if they began now.
func openingOf(conditions []metav1.Condition) core.CooldownState {
	c := meta.FindStatusCondition(conditions, v1alpha1.StormCooldownCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return core.CooldownState{}
	}
	return core.CooldownState{First: c.LastTransitionTime.Time, Last: c.LastTransitionTime.Time}
}

// Unmet gives the requirements of a health check's selector that a node does not meet, and false when there is
// no such pair.
func (r *Reading) Unmet(check, of core.ID) ([]string, bool) {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	c, n := r.store.checks[check.Name], r.store.nodes[of.Name]
	if check.Kind != healthCheckKind || of.Kind != nodeKind || c == nil || n == nil {
		return nil, false
	}
	return selector.Unmet(c.selector, n.view.Labels())
}

// TemplateProblem returns what the controller has written of a health check whose templates it can't use, and false when it can
// use them. That hangs on its own rights, which the reader does not share.
func (r *Reading) TemplateProblem(check core.ID) (metav1.Condition, bool) {
	last, known := r.store.statusOf(check)
	c := meta.FindStatusCondition(last.status.Conditions, v1alpha1.DisabledCondition)
	if !known || check.Kind != healthCheckKind || c == nil || c.Status != metav1.ConditionTrue {
		return metav1.Condition{}, false
	}
	return *c, c.Reason == v1alpha1.TemplateNotFoundReason || c.Reason == v1alpha1.TemplateInvalidReason
}

// Phase says in a word how a health check stands.
func Phase(r core.PolicyReport) string {
	phase, _ := phaseOf(&r)
	return string(phase)
}
