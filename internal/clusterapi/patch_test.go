package clusterapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

// wantApplied applies a patch as the API server does.
func wantApplied(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, body string, patch []byte) string {
	t.Helper()
	steps, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatalf("decoding the patch %s: %v", patch, err)
	}
	after, err := steps.Apply([]byte(body))
	if err != nil {
		t.Fatalf("applying %s to %s: %v", patch, body, err)
	}
	return string(after)
}

func patchOf(t *testing.T, m *Machine, changes []Change) string {
	t.Helper()
	patch, err := m.Patch(changes, noon)
	if err != nil {
		t.Fatalf("rendering: %v", err)
	}
	return string(patch)
}

const only = `[{"op":"test","path":"/metadata/uid","value":"m-uid"},{"op":"replace","path":"/metadata/resourceVersion","value":"7"},`

// well is a machine that says of its present spec that its health check has succeeded.
const well = plainMeta + `status:
  conditions: [{type: HealthCheckSucceeded, status: "True", observedGeneration: 3, reason: HealthCheckSucceeded, message: "", lastTransitionTime: "2026-08-03T00:00:00Z"}]
  deprecated: {v1beta1: {conditions: [{type: HealthCheckSucceeded, status: "True", lastTransitionTime: "2026-08-03T00:00:00Z"}]}}
`

func TestPatch(t *testing.T) {
	finding := []core.Verdict{{Reason: core.NodeStartupTimeout, Limit: 10 * time.Minute}}
	again := []core.Verdict{{Reason: core.ConditionMet, Criterion: core.ConditionCriterion{Type: "Ready", Status: "Unknown", For: time.Minute}}}
	failed := func(m *Machine, findings []core.Verdict) []Change { return HealthCheckFailed(m, m.Node, findings) }
	cases := map[string]struct {
		reason  string
		machine string
		changes func(*Machine) []Change
		want    string
	}{
		"a machine that was never seen": {
			"the path to each list is made", plainMeta, func(*Machine) []Change { return HealthCheckSucceeded() },
			only + `{"op":"add","path":"/status","value":{}},{"op":"add","path":"/status/conditions","value":[]},` +
				`{"op":"add","path":"/status/conditions/-","value":{"type":"HealthCheckSucceeded","status":"True","observedGeneration":3,"lastTransitionTime":"2026-08-03T12:00:00Z","reason":"HealthCheckSucceeded","message":""}},` +
				`{"op":"add","path":"/status/deprecated","value":{}},{"op":"add","path":"/status/deprecated/v1beta1","value":{}},{"op":"add","path":"/status/deprecated/v1beta1/conditions","value":[]},` +
				`{"op":"add","path":"/status/deprecated/v1beta1/conditions/-","value":{"type":"HealthCheckSucceeded","status":"True","lastTransitionTime":"2026-08-03T12:00:00Z"}}]`,
		},
		"a machine that fails in another way": {
			"the current condition stays False since when it was, and any change of the deprecated one is a transition",
			running, func(m *Machine) []Change { return failed(m, again) },
			only + `{"op":"replace","path":"/status/conditions/1","value":{"type":"HealthCheckSucceeded","status":"False","observedGeneration":3,"lastTransitionTime":"2026-08-03T00:00:00Z","reason":"UnhealthyNode","message":"Health check failed:\n  * Condition Ready on Node has been Unknown for at least 1m0s"}},` +
				`{"op":"replace","path":"/status/deprecated/v1beta1/conditions/2","value":{"type":"HealthCheckSucceeded","status":"False","severity":"Warning","lastTransitionTime":"2026-08-03T12:00:00Z","reason":"UnhealthyNode","message":"Condition Ready on Node has been Unknown for at least 1m0s"}}]`,
		},
		"a machine that has recovered": {
			"both turn, and the owner is spared: what is taken away comes last",
			running, func(m *Machine) []Change { return append(WithdrawOwnerRequest(m), HealthCheckSucceeded()...) },
			only + `{"op":"replace","path":"/status/conditions/1","value":{"type":"HealthCheckSucceeded","status":"True","observedGeneration":3,"lastTransitionTime":"2026-08-03T12:00:00Z","reason":"HealthCheckSucceeded","message":""}},` +
				`{"op":"replace","path":"/status/deprecated/v1beta1/conditions/2","value":{"type":"HealthCheckSucceeded","status":"True","lastTransitionTime":"2026-08-03T12:00:00Z"}},` +
				`{"op":"remove","path":"/status/conditions/2"},{"op":"remove","path":"/status/deprecated/v1beta1/conditions/0"}]`,
		},
		"a machine whose spec has changed": {
			"the current condition says that it is about that, since when it was",
			strings.Replace(well, "generation: 3", "generation: 4", 1), func(*Machine) []Change { return HealthCheckSucceeded() },
			only + `{"op":"replace","path":"/status/conditions/0","value":{"type":"HealthCheckSucceeded","status":"True","observedGeneration":4,"lastTransitionTime":"2026-08-03T00:00:00Z","reason":"HealthCheckSucceeded","message":""}}]`,
		},
		"a machine about which nothing is new": {"nothing is written", well, func(*Machine) []Change { return HealthCheckSucceeded() }, ""},
		"an owner that has a request already": {
			"what it has answered is never overwritten", running, AskOwner, "",
		},
		"an owner that has a request, and in one list alone": {
			"each list is judged apart",
			strings.Replace(running, `{type: OwnerRemediated, status: "False", severity: Warning`, `{type: OwnerRemediated, status: "True", severity: ""`, 1),
			AskOwner,
			only + `{"op":"replace","path":"/status/deprecated/v1beta1/conditions/0","value":{"type":"OwnerRemediated","status":"False","severity":"Warning","lastTransitionTime":"2026-08-03T12:00:00Z","reason":"WaitingForRemediation"}}]`,
		},
		"a first failure in a list that is empty": {
			"the list is there, and takes it", plainMeta + "status: {conditions: [], deprecated: {v1beta1: {conditions: []}}}",
			func(m *Machine) []Change { return failed(m, finding)[:1] },
			only + `{"op":"add","path":"/status/conditions/-","value":{"type":"HealthCheckSucceeded","status":"False","observedGeneration":3,"lastTransitionTime":"2026-08-03T12:00:00Z","reason":"NodeStartupTimeout","message":"Health check failed:\n  * No Node has joined within 10m0s"}}]`,
		},
		"nothing to take away": {"there is none", plainMeta, WithdrawOwnerRequest, ""},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			m := read(t, tc.machine)
			changes := tc.changes(m)
			got := patchOf(t, m, changes)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\npatch (-want +got):\n%s", tc.reason, diff)
			}
			if m.Differs(changes) != (got != "") {
				t.Errorf("it differs: %t, and the patch is %q", m.Differs(changes), got)
			}
		})
	}
}

// TestLongMessagesAreCut to what both lists take.
func TestLongMessagesAreCut(t *testing.T) {
	m := read(t, running)
	words := ConditionContent{Status: "False", Reason: "Long", Message: strings.Repeat("ä", maxMessage)}
	after := read(t, wantApplied(t, asJSON(t, running), []byte(patchOf(t, m, []Change{{Current, "HealthCheckSucceeded", &words}}))))
	if got := after.Mark(Current, "HealthCheckSucceeded").Message; len(got) > maxMessage || !strings.HasPrefix(words.Message, strings.TrimSuffix(got, "…")) {
		t.Errorf("the message has %d bytes", len(got))
	}
	if after.Differs([]Change{{Current, "HealthCheckSucceeded", &words}}) {
		t.Error("it would be written again")
	}
}

func asJSON(t *testing.T, yaml string) string {
	t.Helper()
	body, err := utilyaml.ToJSON([]byte(yaml))
	if err != nil {
		t.Fatalf("reading YAML: %v", err)
	}
	return string(body)
}

// drawnConditions draws a list of conditions, nil for none.
func drawnConditions(t *rapid.T, deprecated bool) []map[string]any {
	types := []string{"Ready", "HealthCheckSucceeded", "OwnerRemediated", "ExternallyRemediated", "InfrastructureReady", "Deleting"}
	var list []map[string]any
	for _, kind := range rapid.Permutation(types).Draw(t, "types")[:rapid.IntRange(0, len(types)).Draw(t, "how many")] {
		c := map[string]any{
			"type": kind, "status": rapid.SampledFrom([]string{"True", "False", "Unknown"}).Draw(t, "status"),
			"lastTransitionTime": "2026-08-02T00:00:00Z", "reason": rapid.SampledFrom([]string{"A", "MachineDeleting", "WaitingForRemediation"}).Draw(t, "reason"),
		}
		if deprecated {
			c["severity"] = "Warning"
		} else {
			c["message"] = rapid.SampledFrom([]string{"", "m"}).Draw(t, "message")
			c["observedGeneration"] = rapid.IntRange(0, 2).Draw(t, "observed")
		}
		list = append(list, c)
	}
	return list
}

// TestPatchDoesWhatIsMeant: for whatever lists and changes, the patch leaves all other conditions as they are and in
// their order. The conditions that change are as a naive twin computes them from whole lists. Then there is
// nothing more to write.
func TestPatchDoesWhatIsMeant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := map[string]any{"metadata": map[string]any{"name": "m", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": rapid.IntRange(0, 2).Draw(t, "generation")}}
		lists := map[List][]map[string]any{}
		if rapid.Bool().Draw(t, "has a status") {
			status := map[string]any{}
			object["status"] = status
			if lists[Current] = drawnConditions(t, false); lists[Current] != nil {
				status["conditions"] = lists[Current]
			}
			if lists[Deprecated] = drawnConditions(t, true); lists[Deprecated] != nil {
				status["deprecated"] = map[string]any{"v1beta1": map[string]any{"conditions": lists[Deprecated]}}
			} else if rapid.Bool().Draw(t, "has half of it") {
				status["deprecated"] = map[string]any{}
			}
		}
		body, err := json.Marshal(object)
		m := &Machine{}
		if err != nil || m.UnmarshalJSON(body) != nil {
			t.Fatalf("decoding: %v", err)
		}
		var changes []Change
		for _, kind := range markTypes {
			for _, in := range []List{Current, Deprecated} {
				switch rapid.IntRange(0, 2).Draw(t, "change") {
				case 0:
					changes = append(changes, Change{In: in, Type: kind})
				case 1:
					changes = append(changes, Change{in, kind, &ConditionContent{Status: rapid.SampledFrom([]string{"True", "False"}).Draw(t, "to"), Reason: "A"}})
				}
			}
		}
		patch, err := m.Patch(changes, noon)
		if err != nil {
			t.Fatalf("rendering: %v", err)
		}
		after := body
		if patch != nil {
			after = []byte(wantApplied(t, string(body), patch))
		}
		now := &Machine{}
		if err := now.UnmarshalJSON(after); err != nil || now.Differs(changes) {
			t.Fatalf("it would be written again: %s, %v", after, err)
		}
		var got struct {
			Status struct {
				Conditions []map[string]any
				Deprecated struct {
					V1Beta1 struct{ Conditions []map[string]any }
				}
			}
		}
		if err := json.Unmarshal(after, &got); err != nil {
			t.Fatalf("decoding: %v", err)
		}
		for in, list := range map[List][]map[string]any{Current: got.Status.Conditions, Deprecated: got.Status.Deprecated.V1Beta1.Conditions} {
			if diff := cmp.Diff(said(naively(in, lists[in], changes)), said(list)); diff != "" {
				t.Errorf("%s conditions after %s (-want +got):\n%s", in, patch, diff)
			}
		}
	})
}

// naively makes the changes of one list on the whole of it.
func naively(in List, list []map[string]any, changes []Change) []map[string]any {
	list = slices.Clone(list)
	for _, c := range changes {
		if c.In != in {
			continue
		}
		at := slices.IndexFunc(list, func(have map[string]any) bool { return have["type"] == c.Type })
		switch {
		case c.Content == nil && at >= 0:
			list = slices.Delete(list, at, at+1)
		case c.Content == nil:
		case at < 0:
			list = append(list, map[string]any{"type": c.Type, "status": c.Content.Status, "reason": c.Content.Reason})
		default:
			list[at] = map[string]any{"type": c.Type, "status": c.Content.Status, "reason": c.Content.Reason}
		}
	}
	return list
}

// said is what a list says, as far as the naive twin knows it.
func said(list []map[string]any) []string {
	texts := []string{}
	for _, c := range list {
		texts = append(texts, fmt.Sprint(c["type"], "=", c["status"], " since ", c["reason"]))
	}
	return texts
}
