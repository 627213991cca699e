package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestNonsense: where a cluster's own definitions accept anything, Fettle leaves nonsensical objects alone, reports
// them, and judges all others. It runs against older and newer objects of that kind, and is at rest afterwards.
func TestNonsense(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.Apply(t, lenient("machine.openshift.io", "v1beta1", "MachineHealthCheck"))
	c.Apply(t, lenient("machine.openshift.io", "v1beta1", "Machine"))
	c.Apply(t, lenient("fettle.io", "v1alpha1", "Repair"))
	c.InstallFettle(t)
	machines := newMachineFixture(t, c, "machines")
	early := machines.unreadableMachines("early")
	machines.machine("good-early", machineOptions{phase: "Failed"})
	repairs := newMachineFixture(t, c, "repairs")
	repairs.unreadableRepairs("early")
	c.StartFettle(t)
	t.Run("machines", func(t *testing.T) { machines.in(t).aroundUnreadableMachines(early) })
	checks := newMachineFixture(t, c, "checks")
	t.Run("health checks", func(t *testing.T) { checks.in(t).aroundBrokenHealthChecks() })
	sane := newMachineFixture(t, c, "sane")
	t.Run("drawn", func(t *testing.T) { drawn(sane.in(t)) })
	nodes := newMachineFixture(t, c, "nodes")
	t.Run("nodes", func(t *testing.T) { nodes.in(t).aroundOddNodes() })
	t.Run("repairs", func(t *testing.T) { repairs.in(t).aroundUnreadableRepairs() })
}

// lenient is a definition without a schema, as old clusters and other vendors have them.
func lenient(group, version, kind string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[1]s, singular: %[4]s}
  scope: Namespaced
  versions:
  - name: %[5]s
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, plural, group, kind, strings.ToLower(kind), version)
}

// unreadable are statuses of a failed machine that would be repaired at once if Fettle could read them, and the report
// about each.
func unreadable() map[string]struct {
	status any
	says   string
} {
	return map[string]struct {
		status any
		says   string
	}{
		"phase-number":      {map[string]any{"phase": 5, "nodeRef": map[string]any{"name": "gone"}}, "status.phase is 5"},
		"phase-object":      {map[string]any{"phase": map[string]any{"name": "Failed"}, "nodeRef": map[string]any{"name": "gone"}}, "status.phase"},
		"updated-word":      {map[string]any{"phase": "Failed", "lastUpdated": "yesterday"}, `status.lastUpdated is "yesterday"`},
		"updated-number":    {map[string]any{"phase": "Failed", "lastUpdated": 1e18}, "status.lastUpdated"},
		"updated-far":       {map[string]any{"phase": "Failed", "lastUpdated": "99999-01-01T00:00:00Z"}, "status.lastUpdated"},
		"updated-small":     {map[string]any{"phase": "Failed", "lastUpdated": "2026-08-03t12:00:00z"}, "status.lastUpdated"},
		"updated-no-zone":   {map[string]any{"phase": "Failed", "lastUpdated": "2026-08-03 12:00:00"}, "status.lastUpdated"},
		"node-word":         {map[string]any{"phase": "Failed", "nodeRef": "worker-1"}, `status.nodeRef is "worker-1"`},
		"node-list":         {map[string]any{"phase": "Failed", "nodeRef": []any{"worker-1"}}, "status.nodeRef"},
		"node-name-number":  {map[string]any{"phase": "Failed", "nodeRef": map[string]any{"name": 7}}, "status.nodeRef"},
		"node-name-path":    {map[string]any{"phase": "Failed", "nodeRef": map[string]any{"name": "../../secrets"}}, "status.nodeRef.name"},
		"node-name-long":    {map[string]any{"phase": "Failed", "nodeRef": map[string]any{"name": strings.Repeat("a", 10_000)}}, "status.nodeRef.name"},
		"node-name-control": {map[string]any{"phase": "Failed", "nodeRef": map[string]any{"name": "a\x00\n\u202e"}}, "status.nodeRef.name"},
		"everything":        {map[string]any{"phase": 1 << 62, "lastUpdated": false, "nodeRef": true}, "status.nodeRef is true"},
		"status-word":       {"Failed", "status is"},
		"status-list":       {[]any{map[string]any{"phase": "Failed"}}, "status is"},
		"status-number":     {1e308, "status is"},
	}
}

// unreadableMachines makes one machine of each kind, and returns their names.
func (f *machineFixture) unreadableMachines(prefix string) []string {
	f.t.Helper()
	var names []string
	for name, tc := range unreadable() {
		m := object("machine.openshift.io/v1beta1", "Machine", f.namespace, prefix+"-"+name)
		m.SetLabels(map[string]string{"role": "worker"})
		m.SetOwnerReferences([]metav1.OwnerReference{f.owner})
		f.create(m)
		m.Object["status"] = tc.status
		if err := f.Status().Update(cluster.Context(f.t), m); err != nil {
			f.t.Fatalf("giving %s its status: %v", m.GetName(), err)
		}
		names = append(names, m.GetName())
	}
	return names
}

func (f *machineFixture) aroundUnreadableMachines(early []string) {
	f.healthCheck("good", unlimited(), readyCheck())
	f.wantMachines(early...)
	late := f.unreadableMachines("late")
	f.machine("good-late", machineOptions{phase: "Failed"})
	f.wantRepairs("good-early Succeeded", "good-late Succeeded")
	f.wantMachines(append(early, late...)...)
	said := map[string]string{}
	for name, tc := range unreadable() {
		said["early-"+name] = tc.says
	}
	f.wantEventsSaying("MachineUnreadable", said)
	f.Eventually(f.t, "many ignored Repairs are reported together", func(context.Context) error {
		if reasons := f.EventReasons(f.t, f.namespace, "good"); !slices.Contains(reasons, "MachineUnreadable") {
			return fmt.Errorf("the events about the health check are %v", reasons)
		}
		return nil
	})
	f.comesToRest()
	f.wantMachines(append(early, late...)...)
}

// in returns the same fixture for a part of a test.
func (f *machineFixture) in(t *testing.T) *machineFixture {
	t.Helper()
	part := *f
	part.t = t
	return &part
}

// unreadableRepairs creates Repairs as a user might write them by hand, without a definition that refuses nonsense: of
// no machine, or of a healthy one. It returns the report about each.
func (f *machineFixture) unreadableRepairs(prefix string) map[string]string {
	f.t.Helper()
	target := map[string]any{"kind": "Machine", "namespace": f.namespace, "name": "m", "uid": "none"}
	nonsense := map[string]struct {
		spec, status any
		says         string
	}{
		"spec-word":        {"repair it", nil, "spec is"},
		"spec-list":        {[]any{1}, map[string]any{"phase": "Running"}, "spec is"},
		"spec-empty":       {map[string]any{}, nil, "spec.target does not say"},
		"target-number":    {map[string]any{"target": 7, "startedAt": "2026-08-03T12:00:00Z"}, nil, "spec.target is 7"},
		"target-of-lists":  {map[string]any{"target": map[string]any{"kind": []any{}, "uid": "none"}}, nil, "spec.target.kind is"},
		"started-word":     {map[string]any{"target": target, "startedAt": "yesterday"}, nil, "spec.startedAt"},
		"retry-huge":       {map[string]any{"target": target, "retry": 1e18}, nil, "spec.retry"},
		"status-word":      {map[string]any{"target": target}, "done", "status is"},
		"phase-number":     {map[string]any{"target": target}, map[string]any{"phase": 7}, "status.phase is 7"},
		"attempts-word":    {map[string]any{"target": target}, map[string]any{"attempts": "many", "lastAttempt": "soon"}, "status.attempts"},
		"finished-unknown": {map[string]any{"target": target}, map[string]any{"phase": "Succeeded", "finishedAt": -1}, "status.finishedAt is -1"},
	}
	said := map[string]string{}
	for name, tc := range nonsense {
		f.repair(prefix+"-"+name, tc.spec, tc.status)
		said[prefix+"-"+name] = tc.says
	}
	return said
}

// repairMadeByHand creates a Repair of a machine, with times as users write them, and an end that no Repair has. It has
// the name that Fettle would give it, and returns that.
func (f *machineFixture) repairMadeByHand(machine string) string {
	f.t.Helper()
	m := object("machine.openshift.io/v1beta1", "Machine", f.namespace, machine)
	if err := f.Get(cluster.Context(f.t), client.ObjectKeyFromObject(m), m); err != nil {
		f.t.Fatalf("reading the machine: %v", err)
	}
	name := core.RepairName(core.ID{Kind: "Machine", Namespace: f.namespace, Name: machine, UID: string(m.GetUID())}, 1)
	f.repair(name, map[string]any{
		"target": map[string]any{"kind": "Machine", "namespace": f.namespace, "name": machine, "uid": string(m.GetUID())},
		"policy": map[string]any{"kind": "MachineHealthCheck", "namespace": f.namespace, "name": "gone", "uid": "none"},
		"ladder": 1 << 62, "startedAt": "2026-08-03T12:00:00Z",
	}, map[string]any{"phase": []any{}, "attempts": 1, "lastAttempt": "9999-12-31T23:59:59Z"})
	return name
}

func (f *machineFixture) aroundUnreadableRepairs() {
	f.machine("a", machineOptions{phase: "Failed"})
	byHand := f.repairMadeByHand("a")
	f.healthCheck("good", unlimited(), readyCheck())
	f.wantMachines()
	f.wantPhase(byHand, "Withdrawn")
	said := f.unreadableRepairs("late")
	f.machine("b", machineOptions{phase: "Failed", labels: map[string]string{"pool": "another"}})
	f.wantMachines()
	f.wantEventsSaying("RepairUnreadable", map[string]string{byHand: "what can be read of it counts"})
	f.wantIgnored(said)
	f.comesToRest()
}

// wantIgnored waits until Fettle has reported as many ignored Repairs as it reports at once, and what is wrong with
// each. A Repair gets its status after its spec, so Fettle may have reported a late one when it had the spec alone.
func (f *machineFixture) wantIgnored(said map[string]string) {
	f.t.Helper()
	const atOnce = 10
	f.Eventually(f.t, "events RepairIgnored", func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := f.List(ctx, &list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		found := 0
		for i := range list.Items {
			e := &list.Items[i]
			if e.Reason != "RepairIgnored" {
				continue
			}
			found++
			words := said[strings.Replace(e.Regarding.Name, "early-", "late-", 1)]
			alone := strings.HasPrefix(e.Regarding.Name, "late-") && strings.HasPrefix(words, "status") && strings.Contains(e.Note, "its name is not the name")
			if !strings.Contains(e.Note, words) && !alone || !strings.Contains(e.Note, "is ignored") {
				return fmt.Errorf("of %s it is said %q, without %q", e.Regarding.Name, e.Note, words)
			}
		}
		if found < atOnce {
			return fmt.Errorf("there are %d", found)
		}
		return nil
	})
}

func unlimited() map[string]string {
	return map[string]string{annotation.MaxInFlight: "unlimited"}
}

// wantPhase waits until a Repair has a phase.
func (f *machineFixture) wantPhase(repair, phase string) {
	f.t.Helper()
	f.Eventually(f.t, "phase of "+repair, func(ctx context.Context) error {
		r := object("fettle.io/v1alpha1", "Repair", f.namespace, repair)
		if err := f.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if have, _, _ := unstructured.NestedString(r.Object, "status", "phase"); have != phase {
			return fmt.Errorf("it is %q, want %q", have, phase)
		}
		return nil
	})
}

// followed reports whether Fettle follows a health check that its own definition refuses: because today's controller
// follows it, or because it selects or matches nothing.
func followed(spec string) bool {
	for _, fragment := range []string{
		`timeout: ""`, `Timeout: ""`, `"+5m"`, `type: "999`, `status: "999`, `unhealthyConditions: []`, `{type: a, status: b},{type`,
	} {
		if strings.Contains(spec, fragment) {
			return true
		}
	}
	return spec == `maxUnhealthy: -1`
}

// aroundBrokenHealthChecks: each invalid health check says so, once, and blocks the targets that it selects. Others in
// the namespace go on.
func (f *machineFixture) aroundBrokenHealthChecks() {
	f.machine("pet", machineOptions{phase: "Failed", labels: map[string]string{"role": "pet"}})
	said := map[string]string{}
	for i, tc := range refusedSpecs() {
		if followed(tc.spec) {
			continue
		}
		name, spec := fmt.Sprintf("spec-%d", i), tc.spec
		if !strings.HasPrefix(spec, "selector") {
			spec = "selector: {matchLabels: {role: pet}}\n" + spec
		}
		f.healthCheck(name, nil, spec)
		if said[name] = tc.field(); len(spec) > 512<<10 {
			said[name] = "more than the 524288 bytes that Fettle reads of it"
		}
	}
	i := 0
	for annotation, values := range badAnnotations() {
		for _, value := range values {
			name := fmt.Sprintf("annotation-%d", i)
			f.healthCheck(name, map[string]string{annotation: value}, "selector: {matchLabels: {role: pet}}")
			said[name] = annotation
			i++
		}
	}
	f.healthCheck("good", nil, readyCheck())
	f.machine("worker", machineOptions{phase: "Failed"})
	f.wantMachines("pet")
	f.wantEventsSaying(v1beta1.InvalidSpecReason, said)
	f.wantInvalid(said)
	f.scribble("good", "fine", []any{1}, map[string]any{"conditions": 7, "expectedMachines": "many"})
	f.comesToRest()
	f.wantStatus("good", 0, 0, 0, "")
	f.wantMachines("pet")
}

// field returns the field that a message must name, as far as its path is the same for all readers.
func (r refused) field() string {
	if strings.HasPrefix(r.spec, "selector") {
		return "spec.selector"
	}
	field, _, _ := strings.Cut(r.spec, ":")
	return "spec." + field
}

// badAnnotations are values that no schema can refuse.
func badAnnotations() map[string][]string {
	odd := []string{"", " ", "many", "-1", "1.5", "１", "∞", "1\n2", "\u202e1", strings.Repeat("9", 100_000)}
	durations := append(slices.Clone(odd), "10", "5 m", "1d", "-5m", "99999999999h")
	return map[string][]string{
		annotation.MaxInFlight:   append(slices.Clone(odd), "101%", "-1%", "40 %", "Unlimited"),
		annotation.DryRun:        append(slices.Clone(odd), "True", "yes", "1"),
		annotation.BackoffBase:   append(slices.Clone(durations), "0s"),
		annotation.BackoffLimit:  append(slices.Clone(durations), "0s"),
		annotation.StormCooldown: durations,

		annotation.WaitForUpgrades: append(slices.Clone(odd), "True", "yes", "1"),
	}
}

// wantInvalid waits until each health check has a condition that names the invalid field.
func (f *machineFixture) wantInvalid(said map[string]string) {
	f.t.Helper()
	f.Eventually(f.t, "conditions InvalidSpec", func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("machine.openshift.io/v1beta1")
		list.SetKind("MachineHealthCheckList")
		if err := f.List(ctx, list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			conditions, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "conditions")
			words, broken := said[list.Items[i].GetName()]
			if have := fmt.Sprint(conditions); broken && (!strings.Contains(have, "InvalidSpec") || !strings.Contains(have, words) || len(have) > 4096) {
				return fmt.Errorf("%s: want %q, have %.300s", list.Items[i].GetName(), words, have)
			}
		}
		return nil
	})
}

// scribble writes nonsense into the status of a health check.
func (f *machineFixture) scribble(name string, statuses ...any) {
	f.t.Helper()
	for _, status := range statuses {
		f.Eventually(f.t, "scribbling", func(ctx context.Context) error {
			check := f.check(name)
			if err := f.Get(ctx, client.ObjectKeyFromObject(check), check); err != nil {
				return err
			}
			check.Object["status"] = status
			return f.Status().Update(ctx, check)
		})
	}
}

// aroundOddNodes: Fettle believes the conditions of a node only as far as they make sense. A condition with a
// transition in the future counts from when Fettle first saw it.
func (f *machineFixture) aroundOddNodes() {
	at := func(status, since string) map[string]any {
		return map[string]any{"type": "Ready", "status": status, "lastTransitionTime": since}
	}
	const longAgo = "2020-01-01T00:00:00Z"
	nodes := map[string]struct {
		conditions []any
		stays      bool
	}{
		"year-9999":    {[]any{at("False", "9999-12-31T23:59:59Z")}, false},
		"year-1":       {[]any{at("False", "0001-01-01T00:00:00Z")}, true},
		"no-time":      {[]any{map[string]any{"type": "Ready", "status": "False"}}, true},
		"in-an-hour":   {[]any{at("False", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))}, false},
		"odd-status":   {[]any{at("false", longAgo), map[string]any{"type": "ready", "status": "False", "lastTransitionTime": longAgo}}, true},
		"long-type":    {[]any{map[string]any{"type": strings.Repeat("x", 100_000), "status": "\u202e\x00", "lastTransitionTime": longAgo}}, true},
		"year-0":       {[]any{at("False", "0000-01-01T00:00:00Z")}, false},
		"year-1000":    {[]any{at("Unknown", "1000-01-01T00:00:00Z")}, false},
		"other-clocks": {[]any{at("False", "2020-01-01T00:00:00+14:00")}, false},
	}
	var stay []string
	for name, tc := range nodes {
		f.machine(name, machineOptions{noNode: true})
		f.create(object("v1", "Node", "", f.nodeName(name)))
		f.patchStatus(object("v1", "Node", "", f.nodeName(name)), map[string]any{"conditions": tc.conditions})
		if tc.stays {
			stay = append(stay, name)
		}
	}
	f.contradicts("contradicts")
	stay = append(stay, "contradicts")
	f.healthCheck("good", unlimited(), readyCheck())
	f.wantMachines(stay...)
	f.comesToRest()
	f.wantMachines(stay...)
}

// contradicts makes a machine whose node reports two versions of one condition, which the API server accepts.
func (f *machineFixture) contradicts(name string) {
	f.t.Helper()
	f.machine(name, machineOptions{})
	n := &corev1.Node{}
	f.Eventually(f.t, "two conditions of one type", func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKey{Name: f.nodeName(name)}, n); err != nil {
			return err
		}
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
		})
		return f.Status().Update(ctx, n)
	})
	if len(n.Status.Conditions) != 2 {
		f.t.Fatalf("the API server kept %+v", n.Status.Conditions)
	}
}
