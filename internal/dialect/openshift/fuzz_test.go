package openshift

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// words are field names, and values that mean something, of a health check.
var words = []string{
	"apiVersion", "kind", "metadata", "spec", "status", "name", "namespace", "uid", "resourceVersion",
	"creationTimestamp", "deletionTimestamp", "annotations", "labels", "ownerReferences",
	"selector", "matchLabels", "matchExpressions", "key", "operator", "values",
	"unhealthyConditions", "type", "timeout", "maxUnhealthy", "nodeStartupTimeout", "remediationTemplate",
	"expectedMachines", "currentHealthy", "remediationsAllowed", "conditions", "lastTransitionTime", "reason",
	"cluster.x-k8s.io/paused", "fettle.io/dry-run", "fettle.io/max-in-flight", "fettle.io/backoff-base",
	"fettle.io/backoff-limit", "fettle.io/storm-cooldown", "machine.openshift.io/remediation-strategy",
	"true", "unlimited", "In", "Exists", "Ready", "RemediationAllowed", "TooManyUnhealthy", "40%", "101%", "-1", "10m", "-10m", "",
	"2026-08-03T12:00:00Z", "external-baremetal",
}

// tree draws what JSON can hold, to a depth.
func tree(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.Int64().AsAny(),
		rapid.Float64Range(-1e9, 1e9).AsAny(),
		rapid.SampledFrom(words).AsAny(),
		rapid.String().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	return rapid.OneOf(append(leaves, branch(depth).AsAny(), rapid.SliceOfN(tree(depth-1), 0, 3).AsAny())...)
}

func branch(depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.OneOf(rapid.SampledFrom(words), rapid.String()), tree(depth-1), 0, 5)
}

// nearly draws objects that are health checks but for one or two fields.
func nearly() *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		spec := map[string]any{
			"selector":            map[string]any{"matchLabels": map[string]any{"role": "worker"}},
			"unhealthyConditions": []any{map[string]any{"type": "Ready", "status": "False", "timeout": "5m"}},
			"maxUnhealthy":        "40%",
			"nodeStartupTimeout":  "10m",
		}
		meta := map[string]any{"name": "check", "namespace": "machines", "uid": "uid", "resourceVersion": "1"}
		status := map[string]any{"conditions": []any{map[string]any{"type": "RemediationAllowed", "status": "True"}}}
		for _, part := range []map[string]any{spec, meta, status} {
			if rapid.Bool().Draw(t, "broken") {
				part[rapid.SampledFrom(words).Draw(t, "field")] = tree(3).Draw(t, "value")
			}
		}
		return map[string]any{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", "metadata": meta, "spec": spec, "status": status}
	})
}

// TestNothingThatIsAppliedBreaksTheReader: whatever a lenient schema lets through is either followed
// or told, in one line, and selects nothing by accident.
func TestNothingThatIsAppliedBreaksTheReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := &unstructured.Unstructured{Object: rapid.OneOf(branch(5), nearly()).Draw(t, "object")}
		h := readHealthCheck(u)
		if strings.Contains(h.policy.Problem, "\n") {
			t.Errorf("the problem is not one line:\n%s", h.policy.Problem)
		}
		if h.selector == nil {
			t.Fatal("there is no selector")
		}
		if h.policy.Problem == "" && (h.policy.Criteria.NodeStartup < 0 || h.policy.Backoff.Base > h.policy.Backoff.Limit || h.policy.MaxInFlight.Number < 0) {
			t.Errorf("followed although it makes no sense: %+v", h.policy)
		}
		f := newFleet()
		f.putMachine(aMachine("m"))
		f.putCheck(u)
		f.snapshot(none)
	})
}
