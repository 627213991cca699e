package nhc

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/specparse"
)

// fields are the fields of a health check with meaningful values.
var fields = []string{
	"spec", "status", "metadata", "name", "annotations", "selector", "matchLabels", "matchExpressions", "key", "operator", "values",
	"unhealthyConditions", "type", "duration", "minHealthy", "maxUnhealthy", "remediationTemplate", "escalatingRemediations", "order", "timeout",
	"apiVersion", "kind", "namespace", "pauseRequests", "healthyDelay", "stormCooldownDuration", "backoff", "limit", "conditions", "unhealthyNodes", "remediations",
	"fettle.io/dry-run", "fettle.io/max-in-flight", "fettle.io/backoff-base", "fettle.io/unhealthy-conditions", "RebootTemplate", "MachineDeletionRemediationTemplate", "Metal3RemediationTemplate",
	"exponential", "true", "unlimited", "In", "Exists", "Ready", "RemediationAllowed", "StormActive", "40%", "101%", "-1", "60s", "-10m", "",
}

// anyField draws any JSON value of bounded depth.
func anyField(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.SampledFrom(fields).AsAny(), rapid.String().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	return rapid.OneOf(append(leaves, objects(depth).AsAny(), rapid.SliceOfN(anyField(depth-1), 0, 3).AsAny())...)
}

func objects(depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.OneOf(rapid.SampledFrom(fields), rapid.String()), anyField(depth-1), 0, 5)
}

// nearlyRight draws health checks with a wrong field or two.
func nearlyRight() *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		template := func(kind string) map[string]any {
			return map[string]any{"apiVersion": "example.org/v1", "kind": kind, "namespace": "remediators", "name": "a"}
		}
		step := func(order int64, kind string) map[string]any {
			return map[string]any{"order": order, "timeout": "60s", "remediationTemplate": template(kind)}
		}
		steps := []map[string]any{step(1, "RebootTemplate"), step(2, "FenceTemplate")}
		spec := map[string]any{
			"selector":               map[string]any{"matchLabels": map[string]any{"zone": "a"}},
			"unhealthyConditions":    []any{map[string]any{"type": "Ready", "status": "False", "duration": "5m"}},
			"maxUnhealthy":           "40%",
			"escalatingRemediations": []any{steps[0], steps[1]},
		}
		status := map[string]any{"conditions": []any{map[string]any{"type": "RemediationAllowed", "status": "True"}}}
		for _, part := range append(steps, spec, status) {
			if rapid.Bool().Draw(t, "broken") {
				part[rapid.SampledFrom(fields).Draw(t, "field")] = anyField(3).Draw(t, "value")
			}
		}
		meta := map[string]any{"name": "check", "uid": "uid", "resourceVersion": "1", "annotations": map[string]any{
			rapid.SampledFrom(fields).Draw(t, "annotation"): rapid.SampledFrom(fields).Draw(t, "said"),
		}}
		return map[string]any{"apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck", "metadata": meta, "spec": spec, "status": status}
	})
}

// TestNothingThatIsAppliedBreaksTheReader: a health check that a lenient definition accepts is followed, or has a
// problem of one line and selects nothing by accident.
func TestNothingThatIsAppliedBreaksTheReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := readHealthCheck(&unstructured.Unstructured{Object: rapid.OneOf(objects(5), nearlyRight()).Draw(t, "object")})
		if h.selector == nil {
			t.Fatal("there is no selector")
		}
		if wrong := senseless(&h.policy); wrong != "" {
			t.Errorf("%s: %+v", wrong, h.policy)
		}
	})
}

// senseless returns the setting of a policy that makes no sense.
func senseless(p *core.Policy) string {
	disorderly := slices.ContainsFunc(p.Steps, func(s core.Step) bool {
		return s.Remedy != RequestRemediation || s.Nature != core.CreateRequest || len(p.Steps) > 1 && s.Limit < time.Minute ||
			s.Problem == "" && (s.Template.APIVersion == "" || s.Template.Name == "" || !strings.HasSuffix(s.Template.Kind, "Template")) || !tellable(s.Problem)
	})
	amount := func(a core.Amount) bool { return a.Number >= 0 && (!a.Percent || a.Number <= 100) }
	switch {
	case !tellable(p.Problem) || len(p.Problem) > specparse.MaxProblems+len("…"):
		return "its problem can't be told"
	case disorderly:
		return "a step makes no sense"
	case p.Problem != "":
		return ""
	case len(p.Steps) == 0:
		return "followed without a ladder"
	case p.StormCooldown < 0 || p.Backoff.Base > p.Backoff.Limit || p.Backoff.Base < 0:
		return "followed although a pause makes no sense"
	case !amount(p.MaxInFlight) || !amount(p.ShortCircuit.MaxUnhealthy) || p.ShortCircuit.MinHealthy != nil && !amount(*p.ShortCircuit.MinHealthy):
		return "followed although a limit makes no sense"
	case slices.ContainsFunc(p.Criteria.Conditions, func(c core.ConditionCriterion) bool { return c.Type == "" || c.Status == "" || c.For < 0 }):
		return "followed although a criterion makes no sense"
	}
	return ""
}

func tellable(text string) bool { return !strings.Contains(text, "\n") && utf8.ValidString(text) }

// FuzzReadNodeHealthCheck: a health check that the definition accepts is either followed, with settings within bounds,
// or has a problem and starts no remediation.
func FuzzReadNodeHealthCheck(f *testing.F) {
	all := mistakes()
	maps.Copy(all, mistypedFields())
	for _, tc := range all {
		if spec, err := yaml.ToJSON([]byte(tc.spec)); err == nil && len(spec) < 1000 {
			f.Add(spec, []byte(`{}`), tc.annotations[annotation.MaxInFlight])
		}
	}
	for _, cases := range []map[string]rendition{fieldCases(), annotatedCases(), stepCases()} {
		for _, tc := range cases {
			if spec, err := yaml.ToJSON([]byte(tc.spec)); err == nil {
				f.Add(spec, []byte(`{"conditions":[{"type":"StormActive","status":"True"}]}`), "25%")
			}
		}
	}
	f.Fuzz(func(t *testing.T, spec, status []byte, word string) {
		for _, annotation := range []string{"", annotation.MaxInFlight, annotation.DryRun, annotation.BackoffBase} {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			for part, text := range map[string][]byte{"spec": spec, "status": status} {
				var value any
				if err := json.Unmarshal(text, &value); err != nil {
					return
				}
				u.Object[part] = value
			}
			u.SetName("check")
			if annotation != "" {
				u.SetAnnotations(map[string]string{annotation: word})
			}
			h := readHealthCheck(u)
			if wrong := senseless(&h.policy); wrong != "" {
				t.Errorf("%s: %+v", wrong, h.policy)
			}
			wantNothingBegunWithAProblem(t, h.policy)
		}
	})
}

func wantNothingBegunWithAProblem(t *testing.T, p core.Policy) {
	t.Helper()
	now := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	node := core.Node{State: core.NodePresent, Name: "n", UID: "u", Conditions: []core.Condition{
		{Type: "Ready", Status: "False", Since: now.Add(-24 * time.Hour)}, {Type: "Ready2", Status: "True", Since: now.Add(-24 * time.Hour)},
	}}
	p.Members = []int{0}
	target := core.Target{ID: core.ID{Kind: "Node", Name: "n", UID: "u"}, Created: now.Add(-48 * time.Hour), Node: node, NodeReadAt: now}
	d := core.Decide([]core.Policy{p}, core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Targets: []core.Target{target}}, now)
	if p.Problem != "" && len(d.Starts) > 0 {
		t.Errorf("%q, and yet something is begun", p.Problem)
	}
	if !d.NextAt.IsZero() && !d.NextAt.After(now) {
		t.Errorf("it wakes at %s, which is no later than now", d.NextAt)
	}
}
