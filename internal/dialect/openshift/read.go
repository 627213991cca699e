package openshift

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/selector"
)

// Reading is a cluster that the caller reads from the API server, object by object, to have the
// core decide about it. It writes nothing. Its rules are those of the controller. The Put methods report whether
// an object can change a decision.
//
// The caller must read machines before nodes. Then a node that a machine names, and that was not
// read, is gone.
type Reading struct {
	store store
	nodes *node.Store
}

// NewReading returns a reading of an empty cluster, with the controller's setting for the strategy
// external-baremetal.
func NewReading(external ExternalBaremetal) *Reading {
	s := newStore()
	s.external = external
	return &Reading{store: s, nodes: node.NewStore()}
}

// PutCheck stores a health check, an *unstructured.Unstructured.
func (r *Reading) PutCheck(obj any) bool { return r.store.putCheck(obj) }

// DropCheck deletes a health check by its namespace/name.
func (r *Reading) DropCheck(key string) { r.store.dropCheck(key) }

// PutMachine stores a machine.
func (r *Reading) PutMachine(obj any) bool { return r.store.putMachine(obj) }

// DropMachine deletes a machine by its namespace/name.
func (r *Reading) DropMachine(key string) { r.store.dropMachine(key) }

// PutMachineSet stores a machine set, an *unstructured.Unstructured.
func (r *Reading) PutMachineSet(obj any) bool { return r.store.putSet(obj) }

// DropMachineSet deletes a machine set by its namespace/name.
func (r *Reading) DropMachineSet(key string) { r.store.dropSet(key) }

// PutNode stores a node.
func (r *Reading) PutNode(obj any) bool {
	return r.nodes.Put(obj)
}

// DropNode deletes a node by its name.
func (r *Reading) DropNode(name string) { r.nodes.Remove(name) }

// Observe returns the cluster as of the instant at which the reading was complete.
func (r *Reading) Observe(at time.Time) core.Observation {
	o := core.Observation{Kind: machineKind, Observed: core.Yes}
	r.nodes.Lookup(func(find func(string) (node.Facts, bool)) {
		o.Policies, o.Targets = r.store.snapshot(find)
	})
	for i := range o.Targets {
		t := &o.Targets[i]
		t.NodeReadAt = at
		if t.Node.State == core.NodeUnseen {
			t.Node.State = core.NodeGone
		}
	}
	for i := range o.Policies {
		p := &o.Policies[i]
		if status, _, known := r.store.statusOf(p.ID); known {
			p.Cooldown = openingOf(status.Conditions, p.StormCooldown, at)
		}
	}
	return o
}

// openingOf returns the opening of the short circuit that a status records, or the zero Opening.
func openingOf(conditions []v1beta1.Condition, cooldown time.Duration, at time.Time) core.CooldownState {
	for i := range conditions {
		c := &conditions[i]
		if c.Type != v1beta1.RemediationAllowedCondition || c.Status != string(corev1.ConditionFalse) || c.Reason != v1beta1.StormCooldownReason {
			continue
		}
		return core.CooldownFromStatus(c.LastTransitionTime.Time, cooldown, at)
	}
	return core.CooldownState{}
}

// Unmet returns the requirements of a health check's selector that a machine of its namespace does
// not meet. It returns false if there is no such pair.
func (r *Reading) Unmet(check, machine core.ID) ([]string, bool) {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	c, m := r.store.checks[check.Namespace+"/"+check.Name], r.store.machines[machine.Namespace+"/"+machine.Name]
	if c == nil || m == nil || check.Namespace != machine.Namespace {
		return nil, false
	}
	return selector.Unmet(c.selector, m.labels)
}
