package nhc

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/selector"
)

// Reading is a cluster that was read from the API server object by object. The command line has the core decide
// about it and writes nothing. The rules are those of the controller. The Put methods report whether the object can change a
// decision.
type Reading struct{ store store }

// NewReading returns a reading of an empty cluster.
func NewReading() *Reading { return &Reading{store: newStore()} }

// PutCheck stores a health check, an *unstructured.Unstructured.
func (r *Reading) PutCheck(obj any) bool { return r.store.putCheck(obj) }

// DropCheck forgets a health check by name.
func (r *Reading) DropCheck(name string) { r.store.dropCheck(name) }

// PutNode stores a node.
func (r *Reading) PutNode(obj any) bool { return r.store.putNode(obj) }

// DropNode forgets a node by name.
func (r *Reading) DropNode(name string) { r.store.dropNode(name) }

// Observe returns the health checks and the nodes that they select, at an instant at which all objects had been read.
// The result is valid until the next observation.
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

// openingOf returns the storm that the status records. Only a cooldown that the health check sets has a condition with
// the time of the storm. Other storms are reported as if they began now.
func openingOf(conditions []metav1.Condition) core.CooldownState {
	c := meta.FindStatusCondition(conditions, v1alpha1.StormCooldownCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return core.CooldownState{}
	}
	return core.CooldownState{First: c.LastTransitionTime.Time, Last: c.LastTransitionTime.Time}
}

// Unmet returns the requirements of a health check's selector that a node does not meet. It returns false if there is
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

// TemplateProblem returns the condition that the controller has written about templates that it can't use, and false if
// it can use them. The answer depends on the controller's rights, which the reader does not have.
func (r *Reading) TemplateProblem(check core.ID) (metav1.Condition, bool) {
	last, _ := r.store.statusOf(check)
	c := meta.FindStatusCondition(last.status.Conditions, v1alpha1.DisabledCondition)
	if check.Kind != healthCheckKind || c == nil || c.Status != metav1.ConditionTrue {
		return metav1.Condition{}, false
	}
	return *c, c.Reason == v1alpha1.TemplateNotFoundReason || c.Reason == v1alpha1.TemplateInvalidReason
}

// Phase returns the phase of a health check.
func Phase(r core.PolicyReport) string {
	phase, _ := phaseOf(&r)
	return string(phase)
}
