package openshift

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/specparse"
)

// words are field names of a health check, and values that have a meaning in it.
var words = []string{
	"apiVersion", "kind", "metadata", "spec", "status", "name", "namespace", "uid", "resourceVersion",
	"creationTimestamp", "deletionTimestamp", "annotations", "labels", "ownerReferences",
	"selector", "matchLabels", "matchExpressions", "key", "operator", "values",
	"unhealthyConditions", "type", "timeout", "maxUnhealthy", "nodeStartupTimeout", "remediationTemplate",
	"expectedMachines", "currentHealthy", "remediationsAllowed", "conditions", "lastTransitionTime", "reason",
	"cluster.x-k8s.io/paused", "fettle.io/dry-run", "fettle.io/max-in-flight", "fettle.io/backoff-base",
	"fettle.io/backoff-limit", "fettle.io/storm-cooldown", "fettle.io/wait-for-upgrades", "fettle.io/unhealthy-conditions", "fettle.io/node-gone-delay", "machine.openshift.io/remediation-strategy",
	"true", "unlimited", "In", "Exists", "Ready", "RemediationAllowed", "TooManyUnhealthy", "40%", "101%", "-1", "10m", "-10m", "",
	"2026-08-03T12:00:00Z", "external-baremetal",
}

// tree draws JSON values up to a depth.
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

// nearly draws objects that are health checks except for one or two fields.
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

// TestNothingThatIsAppliedBreaksTheReader: any health check that a lax schema admits is either
// followed, or has a problem in one line and selects nothing by accident.
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
		f := newStore()
		f.putMachine(aMachine("m"))
		f.putCheck(u)
		f.snapshot(none)
	})
}

// FuzzReadHealthCheck: any health check is either followed, within sane bounds, or has a problem
// and is not followed.
func FuzzReadHealthCheck(f *testing.F) {
	for _, cases := range []map[string]nonsense{unfollowable(), wronglyTyped()} {
		for _, tc := range cases {
			if spec, err := yaml.ToJSON([]byte(tc.spec)); err == nil && len(spec) < 1000 {
				f.Add(spec, []byte(`{}`), tc.annotations[annotation.MaxInFlight])
			}
		}
	}
	for _, seed := range [][3]string{
		{`{}`, `{}`, "25%"}, {`null`, `null`, "unlimited"}, {`[]`, `"x"`, "1h"}, {`{"maxUnhealthy":-3}`, `{"conditions":7}`, "true"},
		{`{"selector":{"matchLabels":{"role":"worker"}},"maxUnhealthy":"40%","nodeStartupTimeout":"2562047h"}`, `{"conditions":[{"type":"RemediationAllowed","status":"False"}]}`, "2562047h"},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]), seed[2])
	}
	f.Fuzz(func(t *testing.T, spec, status []byte, word string) {
		if !json.Valid(spec) || !json.Valid(status) {
			return
		}
		for _, annotation := range []string{
			"", annotation.MaxInFlight, annotation.DryRun, annotation.StormCooldown, annotation.BackoffBase,
			annotation.BackoffLimit, v1beta1.RemediationStrategyAnnotation, v1beta1.PausedAnnotation, annotation.WaitForUpgrades,
			annotation.UnhealthyConditions, annotation.NodeGoneDelay,
		} {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			for field, text := range map[string][]byte{"spec": spec, "status": status} {
				var value any
				if err := json.Unmarshal(text, &value); err != nil {
					return
				}
				u.Object[field] = value
			}
			u.SetName("check")
			u.SetNamespace("machines")
			if annotation != "" {
				u.SetAnnotations(map[string]string{annotation: word})
			}
			h := readHealthCheck(u)
			wantReportedOrSane(t, h)
			wantNothingRepairedWithAProblem(t, h)
		}
	})
}

func wantReportedOrSane(t *testing.T, h *healthCheck) {
	t.Helper()
	p := h.policy
	if len(p.Problem) > specparse.MaxProblems+len("…") || strings.Contains(p.Problem, "\n") || !utf8.ValidString(p.Problem) {
		t.Errorf("the problem can't be shown: %q", p.Problem)
	}
	if p.Problem != "" {
		return
	}
	sane := p.Criteria.NodeStartup >= 0 && p.StormCooldown >= 0 && p.Backoff.Base > 0 && p.Backoff.Base <= p.Backoff.Limit && p.MaxInFlight.Number >= 0 &&
		(!p.MaxInFlight.Percent || p.MaxInFlight.Number <= 100) && (!p.ShortCircuit.MaxUnhealthy.Percent || p.ShortCircuit.MaxUnhealthy.Number <= 100)
	for _, c := range p.Criteria.Conditions {
		sane = sane && c.Type != "" && c.Status != "" && c.For >= 0
	}
	if !sane {
		t.Errorf("followed although it makes no sense: %+v", p)
	}
}

func wantNothingRepairedWithAProblem(t *testing.T, h *healthCheck) {
	t.Helper()
	p := h.policy
	p.Members = []int{0}
	failed := target(func(t *core.Target) { t.Failed, t.Node = true, core.Node{State: core.NodeAwaited} })
	now := noon.Add(time.Hour)
	d := core.Decide([]core.Policy{p}, core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Targets: []core.Target{failed}}, now)
	if p.Problem != "" && len(d.Starts) > 0 {
		t.Errorf("%q, and yet something is repaired", p.Problem)
	}
	if !d.NextAt.IsZero() && !d.NextAt.After(now) {
		t.Errorf("it wakes at %s, which is no later than now", d.NextAt)
	}
}
