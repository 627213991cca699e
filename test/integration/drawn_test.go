package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/test/cluster"
)

// draws is how many namespaces are drawn. Each run draws the same.
const draws = 50

// words are the names of fields that Fettle reads, and values that almost mean something.
var words = []string{
	"phase", "lastUpdated", "nodeRef", "name", "kind", "conditions", "type", "status", "timeout", "selector", "matchLabels", "matchExpressions", "key",
	"operator", "values", "unhealthyConditions", "maxUnhealthy", "nodeStartupTimeout", "remediationTemplate", "target", "policy", "owner", "uid",
	"startedAt", "retry", "attempts", "lastAttempt", "finishedAt", "expectedMachines", "currentHealthy", "remediationsAllowed",
	"Failed", "Running", "Ready", "False", "In", "Exists", "40%", "101%", "-1", "10m", "0s", "", "2026-08-03T12:00:00Z", "9999-12-31T23:59:59Z",
	"Machine", "Succeeded", "RemediationAllowed", "\u202e", "a\x00b\n",
}

// anything draws a JSON value, to a depth.
func anything(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.SampledFrom([]any{1e308, 1.5, -1e-9, float64(1 << 63)}),
		rapid.SampledFrom(words).AsAny(), rapid.String().AsAny(),
	}
	if depth > 0 {
		kinds = append(kinds, fields(depth), rapid.SliceOfN(anything(depth-1), 0, 3).AsAny())
	}
	return rapid.OneOf(kinds...)
}

func fields(depth int) *rapid.Generator[any] {
	return rapid.MapOfN(rapid.SampledFrom(words), anything(depth-1), 0, 6).AsAny()
}

// nearly draws an object that is right but for some of its fields.
func nearly(whole map[string]any) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		object := map[string]any{}
		for _, field := range slices.Sorted(maps.Keys(whole)) {
			switch rapid.IntRange(0, 5).Draw(t, field) {
			case 0:
				object[field] = anything(3).Draw(t, "value")
			case 1:
			default:
				object[field] = whole[field]
			}
		}
		return object
	})
}

// drawn makes a flood of nonsense beside objects that make sense: a health check, a Repair and two machines in each of
// many namespaces.
func drawn(sane *machineFixture) {
	deletable := map[string]bool{}
	sane.machine("well", machineOptions{})
	sane.healthCheck("good", nil, readyCheck())
	for i := range draws {
		f := newMachineFixture(sane.t, sane.Cluster, fmt.Sprintf("drawn-%d", i))
		f.drawHealthCheck(i)
		for _, role := range []string{"worker", "pet"} {
			deletable[f.namespace+"/"+role] = f.drawMachine(role, i)
		}
		f.drawRepair(i)
	}
	sane.machine("failed", machineOptions{phase: "Failed"})
	sane.wantMachines("well")
	sane.comesToRest()
	sane.Never(sane.t, "machines that are not known to be unhealthy must stay", quiet, func(ctx context.Context) error {
		return onlyDeletableAreGone(ctx, sane, deletable)
	})
	sane.machine("late", machineOptions{phase: "Failed", labels: map[string]string{"pool": "late"}})
	sane.wantMachines("well")
}

// onlyDeletableAreGone also requires that some of them are gone. Otherwise the test would show nothing.
func onlyDeletableAreGone(ctx context.Context, sane *machineFixture, deletable map[string]bool) error {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("machine.openshift.io/v1beta1")
	list.SetKind("MachineList")
	if err := sane.List(ctx, list); err != nil {
		return err
	}
	there := map[string]bool{}
	for i := range list.Items {
		there[list.Items[i].GetNamespace()+"/"+list.Items[i].GetName()] = list.Items[i].GetDeletionTimestamp() == nil
	}
	gone := 0
	for name, may := range deletable {
		switch {
		case there[name]:
		case !may:
			return fmt.Errorf("%s is gone", name)
		default:
			gone++
		}
	}
	if gone == 0 {
		return fmt.Errorf("of %d machines none was deleted", len(deletable))
	}
	return nil
}

// drawMachine makes a machine, and reports whether any reading of it lets Fettle delete it.
func (f *machineFixture) drawMachine(role string, i int) bool {
	f.t.Helper()
	whole := map[string]any{
		"phase": "Failed", "lastUpdated": "2026-08-03T12:00:00Z", "nodeRef": map[string]any{"kind": "Node", "name": "nowhere"},
	}
	m := object("machine.openshift.io/v1beta1", "Machine", f.namespace, role)
	m.SetLabels(map[string]string{"role": role})
	m.SetOwnerReferences([]metav1.OwnerReference{f.owner})
	f.create(m)
	m.Object["status"] = rapid.OneOf(nearly(whole), nearly(whole), anything(3)).Example(2*i + len(role)%2)
	if err := f.Status().Update(cluster.Context(f.t), m); err != nil {
		f.t.Fatalf("giving %s its status: %v", m.GetName(), err)
	}
	return unhealthyFor(m.Object["status"])
}

// unhealthyFor reports whether a status is readable, and whether by any reading its machine is to be deleted. It
// follows the documentation, and not the code.
func unhealthyFor(status any) bool {
	s, isObject := status.(map[string]any)
	if !isObject {
		return false
	}
	phase, isWord := s["phase"].(string)
	if !isWord && s["phase"] != nil {
		return false
	}
	if updated, isWord := s["lastUpdated"].(string); isWord {
		if _, err := time.Parse(time.RFC3339, updated); err != nil {
			return false
		}
	} else if s["lastUpdated"] != nil {
		return false
	}
	ref, isObject := s["nodeRef"].(map[string]any)
	if !isObject && s["nodeRef"] != nil {
		return false
	}
	node, isWord := ref["name"].(string)
	if !isWord && ref["name"] != nil {
		return false
	}
	if node == "" {
		return phase == "Failed" || s["lastUpdated"] != nil // its startup timeout is long over
	}
	return len(validation.IsDNS1123Subdomain(node)) == 0
}

func (f *machineFixture) drawHealthCheck(i int) {
	f.t.Helper()
	whole := map[string]any{
		"selector":            map[string]any{"matchLabels": map[string]any{"role": "pet"}},
		"unhealthyConditions": []any{map[string]any{"type": "Ready", "status": "False", "timeout": "5m"}},
		"maxUnhealthy":        "100%", "nodeStartupTimeout": "10m",
	}
	check := f.check("check")
	check.Object["spec"] = rapid.OneOf(nearly(whole), nearly(whole), anything(3)).Example(i)
	f.create(check)
	f.scribble("check", rapid.OneOf(anything(3), nearly(map[string]any{
		"expectedMachines": int64(1), "currentHealthy": int64(1), "remediationsAllowed": int64(0),
		"conditions": []any{map[string]any{"type": "RemediationAllowed", "status": "True", "lastTransitionTime": "2026-08-03T12:00:00Z"}},
	})).Example(i))
}

func (f *machineFixture) drawRepair(i int) {
	f.t.Helper()
	reference := map[string]any{"kind": "Machine", "namespace": f.namespace, "name": "pet", "uid": "unknown"}
	spec := rapid.OneOf(anything(3), nearly(map[string]any{
		"target": reference, "policy": reference, "owner": reference, "reason": "Failed", "startedAt": "2026-08-03T12:00:00Z", "retry": int64(3),
		"ladder": []any{map[string]any{"remedy": "DeleteMachine"}},
	}))
	status := rapid.OneOf(anything(3), nearly(map[string]any{
		"phase": "Running", "attempts": int64(2), "lastAttempt": "2026-08-03T12:00:00Z", "finishedAt": "2026-08-03T12:00:00Z",
	}))
	f.repair("by-hand", spec.Example(i), status.Example(i))
}
