package openshift

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

var readAt = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func aReading(t *testing.T) *Reading {
	t.Helper()
	r := NewReading(Mark)
	check := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"role": "worker", "zone": "a"}}},
	}}
	check.SetNamespace("ns")
	check.SetName("check")
	check.SetUID("check-uid")
	r.PutCheck(check)
	for name, labels := range map[string]map[string]string{
		"in": {"role": "worker", "zone": "a"}, "out": {"role": "worker"},
	} {
		r.PutMachine(aMachine(name, inNamespace("ns"), refer("node-"+name), func(m *apiMachine) { m.Labels = labels }))
	}
	r.PutNode(&slim.Node{Meta: slim.Meta{Name: "node-in", UID: "n"}})
	return r
}

// TestReadingIsLive: a reading needs no second read, and a node that is missing in it is gone.
func TestReadingIsLive(t *testing.T) {
	o := aReading(t).Observe(readAt)
	if o.Observed != core.Yes || o.Kind != machineKind || len(o.Policies) != 1 || !slices.Equal(o.Policies[0].Members, []int{0}) {
		t.Fatalf("observed %+v", o)
	}
	states := []core.NodeState{o.Targets[0].Node.State, o.Targets[1].Node.State}
	if !slices.Equal(states, []core.NodeState{core.NodePresent, core.NodeGone}) {
		t.Errorf("the nodes are %v", states)
	}
	for _, target := range o.Targets {
		if !target.NodeReadAt.Equal(readAt) {
			t.Errorf("the node of %s was read at %s", target.ID.Name, target.NodeReadAt)
		}
	}
}

func TestReadingForgets(t *testing.T) {
	r := aReading(t)
	r.DropNode("node-in")
	r.DropMachine("ns/out")
	o := r.Observe(readAt)
	if len(o.Targets) != 1 || o.Targets[0].Node.State != core.NodeGone {
		t.Errorf("after dropping a node and a machine: %+v", o.Targets)
	}
	r.DropCheck("ns/check")
	if o := r.Observe(readAt); len(o.Policies) > 0 {
		t.Errorf("after dropping the health check: %+v", o.Policies)
	}
}

func TestUnmetRequirements(t *testing.T) {
	r := aReading(t)
	check := core.ID{Namespace: "ns", Name: "check"}
	cases := map[string]struct {
		machine  core.ID
		want     []string
		possible bool
	}{
		"selected":             {core.ID{Namespace: "ns", Name: "in"}, []string{}, true},
		"a label is missing":   {core.ID{Namespace: "ns", Name: "out"}, []string{"zone=a"}, true},
		"no such machine":      {core.ID{Namespace: "ns", Name: "none"}, nil, false},
		"in another namespace": {core.ID{Namespace: "other", Name: "in"}, nil, false},
	}
	r.PutMachine(aMachine("in", inNamespace("other")))
	if got, possible := r.Unmet(core.ID{Namespace: "ns", Name: "none"}, core.ID{Namespace: "ns", Name: "in"}); possible {
		t.Errorf("no such health check: %v", got)
	}
	for sentence, tc := range cases {
		if got, possible := r.Unmet(check, tc.machine); !slices.Equal(got, tc.want) || possible != tc.possible {
			t.Errorf("%s: %v %t, want %v %t", sentence, got, possible, tc.want, tc.possible)
		}
	}
}

// TestOpeningFromStatus: a cooldown counts from the time in the status, and does not begin anew
// with each command.
func TestOpeningFromStatus(t *testing.T) {
	status := func(reason string, since time.Duration) []v1beta1.Condition {
		return []v1beta1.Condition{{
			Type: v1beta1.RemediationAllowedCondition, Status: "False", Reason: reason, LastTransitionTime: metav1.NewTime(readAt.Add(-since)),
		}}
	}
	cases := map[string]struct {
		conditions []v1beta1.Condition
		want       core.CooldownState
	}{
		"no condition":              {nil, core.CooldownState{}},
		"stopped for other reasons": {status(v1beta1.TooManyUnhealthyReason, time.Second), core.CooldownState{}},
		"condition of others": {[]v1beta1.Condition{{
			Type: "Other", Status: "False", Reason: v1beta1.StormCooldownReason, LastTransitionTime: metav1.NewTime(readAt.Add(-time.Second)),
		}}, core.CooldownState{}},
		"allowed again": {[]v1beta1.Condition{{
			Type: v1beta1.RemediationAllowedCondition, Status: "True", Reason: v1beta1.StormCooldownReason, LastTransitionTime: metav1.NewTime(readAt.Add(-time.Second)),
		}}, core.CooldownState{}},
		"opened just now":         {status(v1beta1.StormCooldownReason, 10*time.Second), core.CooldownState{First: readAt.Add(-10 * time.Second), Last: readAt.Add(-10 * time.Second)}},
		"prolonged by recoveries": {status(v1beta1.StormCooldownReason, time.Minute), core.CooldownState{First: readAt.Add(-time.Minute), Last: readAt}},
	}
	for sentence, tc := range cases {
		if got := openingOf(tc.conditions, 30*time.Second, readAt); got != tc.want {
			t.Errorf("%s: %+v, want %+v", sentence, got, tc.want)
		}
	}
}

// TestReadingReportsChanges: a reader of a watch looks again after an object that can change a decision.
func TestReadingReportsChanges(t *testing.T) {
	r := NewReading(Mark)
	u := check(t, "check", "1", `{selector: {matchLabels: {role: worker}}}`, nil)
	u.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "RemediationAllowed", "status": "False", "reason": "StormCooldown", "lastTransitionTime": "2026-08-01T11:59:59Z",
	}}}
	n := &slim.Node{Meta: slim.Meta{Name: "m-node", UID: "n"}}
	set := aMachineSet("workers-uid", 1, map[string]any{"spec": map[string]any{}})
	for name, put := range map[string]func() bool{
		"a health check": func() bool { return r.PutCheck(u) },
		"a machine":      func() bool { return r.PutMachine(aMachine("m")) },
		"a machine set":  func() bool { return r.PutMachineSet(set) },
		"a node":         func() bool { return r.PutNode(n) },
	} {
		if first, again := put(), put(); !first || again {
			t.Errorf("%s changes a decision: %t, and once more: %t", name, first, again)
		}
	}
	o := r.Observe(readAt)
	if o.Targets[0].OwnerTemplate == "" || o.Policies[0].Cooldown == (core.CooldownState{}) {
		t.Errorf("the template is %q, and the cooldown %v", o.Targets[0].OwnerTemplate, o.Policies[0].Cooldown)
	}
	r.DropMachineSet("machines/workers")
	if o := r.Observe(readAt); o.Targets[0].OwnerTemplate != "" {
		t.Errorf("without the machine set the template is %q", o.Targets[0].OwnerTemplate)
	}
}

// TestReviewIsForItsOwnKind: other kinds get no remarks. internal/cli tests the remarks.
func TestReviewIsForItsOwnKind(t *testing.T) {
	machines := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine"}}
	if remarks, mine := Review(machines, Mark); mine || len(remarks) > 0 {
		t.Errorf("a machine is reviewed: %v", remarks)
	}
	for apiVersion, want := range map[string]bool{"machine.openshift.io/v1beta1": true, "machine.openshift.io/v1": true, "cluster.x-k8s.io/v1beta2": false, "": false} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": healthCheckKind}}
		remarks, mine := Review(u, Mark)
		if mine != want || (mine && len(remarks) == 0) {
			t.Errorf("%q: reviewed %t with %d remarks", apiVersion, mine, len(remarks))
		}
	}
}
