package clusterapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatalf("reading a time: %v", err)
	}
	return instant
}

func full(m *Machine) []core.Condition {
	var conditions []core.Condition
	for i := range m.Conditions {
		conditions = append(conditions, m.Conditions[i].Full())
	}
	return conditions
}

// TestTimesOfConditions: a fraction of a second never makes a condition older than it is, and no time is no time.
func TestTimesOfConditions(t *testing.T) {
	m := read(t, plainMeta+`status: {conditions: [{type: A, status: "True", lastTransitionTime: "2026-08-03T11:00:00.25Z"}, {type: B, status: "True"}]}`)
	want := []core.Condition{{Type: "A", Status: "True", Since: at(t, "2026-08-03T11:00:01Z")}, {Type: "B", Status: "True"}}
	if diff := cmp.Diff(want, full(m)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestMachineIsReadAsFarAsItMatters(t *testing.T) {
	got := read(t, running)
	want := &Machine{
		Meta:       got.Meta,
		Generation: 3,
		Node:       "worker-1",
		Marks: []Mark{
			{Current, "HealthCheckSucceeded", &ConditionContent{"False", "", "UnhealthyNode", "Health check failed:\n  * x"}, at(t, "2026-08-03T00:00:00Z"), 3, 1},
			{Current, "OwnerRemediated", &ConditionContent{"False", "", "WaitingForRemediation", "Waiting for remediation"}, at(t, "2026-08-03T00:00:01Z"), 0, 2},
			{Deprecated, "OwnerRemediated", &ConditionContent{"False", "Warning", "WaitingForRemediation", ""}, at(t, "2026-08-03T00:00:02Z"), 0, 0},
			{Deprecated, "HealthCheckSucceeded", &ConditionContent{"False", "Warning", "UnhealthyNode", "x"}, at(t, "2026-08-03T00:00:03Z"), 0, 2},
		},
		present: [2]int{2, 4},
		refs:    got.refs,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Machine{}, Mark{}), cmpopts.EquateComparable(refs{}), cmpopts.IgnoreFields(Machine{}, "Meta", "Conditions")); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
	wantConditions := []core.Condition{
		{Type: "Ready", Status: "True", Since: at(t, "2026-08-02T00:00:00Z")},
		{Type: "HealthCheckSucceeded", Status: "False", Since: at(t, "2026-08-03T00:00:00Z")},
		{Type: "OwnerRemediated", Status: "False", Since: at(t, "2026-08-03T00:00:01Z")},
	}
	if diff := cmp.Diff(wantConditions, full(got)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if len(got.Annotations) != 1 || !got.RemediationRequested() || got.ClusterName() != "blue" || got.Skipped() || got.ControlPlane() {
		t.Errorf("annotations %v, remediation requested %t, cluster %q, skipped %t", got.GetAnnotations(), got.RemediationRequested(), got.ClusterName(), got.Skipped())
	}
	if diff := cmp.Diff(&slim.Owner{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "workers", UID: "s-uid"}, got.Owner); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
}

// TestUnreadableFieldsAreReported: one field that makes no sense hides no other, and never fails the list.
func TestUnreadableFieldsAreReported(t *testing.T) {
	cases := map[string]struct {
		status string
		says   []string
		node   string
	}{
		"a status that is a word":         {"status: broken", []string{"status is \"broken\" and not an object"}, ""},
		"conditions that are none":        {"status: {conditions: 7, nodeRef: {name: worker-1}}", []string{"status.conditions is 7"}, "worker-1"},
		"a time that is none":             {`status: {conditions: [{type: Ready, status: "True", lastTransitionTime: soon}], nodeRef: {name: worker-1}}`, []string{"status.conditions"}, "worker-1"},
		"a node that is a number":         {"status: {nodeRef: {name: 7}}", []string{"status.nodeRef"}, ""},
		"a node that none can be called":  {"status: {nodeRef: {name: Not/A/Node}}", []string{`status.nodeRef.name is "Not/A/Node"`}, ""},
		"a failure that is a list":        {"status: {deprecated: {v1beta1: {failureReason: [a]}}, nodeRef: {name: worker-1}}", []string{"status.deprecated"}, "worker-1"},
		"two that can't be read":          {"status: {conditions: x, nodeRef: []}", []string{"status.conditions", "status.nodeRef"}, ""},
		"all can be read, there is none":  {"status: null", nil, ""},
		"a spec alone can't be read":      {"spec: 7", nil, ""},
		"a spec can't be read, no status": {"spec: 7\nstatus: null", nil, ""},
		"all can be read, and is nothing": {"status: {conditions: null, deprecated: {v1beta1: null}, nodeRef: null}", nil, ""},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			m := read(t, plainMeta+tc.status)
			if (m.Unreadable == "") != (tc.says == nil) || m.Node != tc.node || m.Name != "m" {
				t.Errorf("node %q, machine %q, unreadable: %s", m.Node, m.Name, m.Unreadable)
			}
			for _, words := range tc.says {
				if !strings.Contains(m.Unreadable, words) {
					t.Errorf("it does not say %q: %s", words, m.Unreadable)
				}
			}
			patch, err := m.Patch(HealthCheckSucceeded(), noon)
			if err != nil || (patch == nil) != (tc.says != nil) {
				t.Errorf("it is written on: %s, %v", patch, err)
			}
		})
	}
}

func TestFailure(t *testing.T) {
	for status, want := range map[string]string{
		"{failureReason: CreateError, failureMessage: no quota}": "CreateError: no quota",
		"{failureReason: CreateError}":                           "CreateError",
		"{failureMessage: no quota}":                             "no quota",
		"{}":                                                     "",
	} {
		if m := read(t, plainMeta+"status: {deprecated: {v1beta1: "+status+"}}"); m.Failure != want {
			t.Errorf("%s is read as %q, want %q", status, m.Failure, want)
		}
	}
}

// TestReplacer: only a machine set, or whatever keeps the control plane, replaces a machine on request.
func TestReplacer(t *testing.T) {
	owner := func(version, kind, control string) string {
		return "ownerReferences: [{apiVersion: " + version + ", kind: " + kind + ", name: o, uid: o-uid, controller: " + control + "}]"
	}
	cases := map[string]struct {
		meta string
		want bool
	}{
		"no owner":                               {"labels: {}", false},
		"a machine set":                          {owner("cluster.x-k8s.io/v1beta1", "MachineSet", "true"), true},
		"a machine set that does not control it": {owner("cluster.x-k8s.io/v1beta2", "MachineSet", "false"), false},
		"a set of another API":                   {owner("machine.openshift.io/v1beta1", "MachineSet", "true"), false},
		"a pool":                                 {owner("cluster.x-k8s.io/v1beta2", "MachinePool", "true"), false},
		"a control plane":                        {owner("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", "true"), true},
		"a control plane of another vendor": {
			"labels: {cluster.x-k8s.io/control-plane: \"\"}\n  " + owner("controlplane.vendor.example/v1", "VendorControlPlane", "true"), true,
		},
	}
	for sentence, tc := range cases {
		if m := read(t, plainMeta+"  "+tc.meta); (m.ReplacingOwner() != nil) != tc.want {
			t.Errorf("%s: replaced by %v", sentence, m.ReplacingOwner())
		}
	}
}

func TestMachinesAreNeverEncoded(t *testing.T) {
	if body, err := json.Marshal(read(t, running)); err == nil {
		t.Errorf("encoded as %s", body)
	}
}

func TestCopiesAreApart(t *testing.T) {
	m := read(t, running)
	c, _ := m.DeepCopyObject().(*Machine)
	c.SetName("other")
	c.Owner.Name = "other"
	l := &MachineList{Items: []Machine{*m}}
	k, _ := l.DeepCopyObject().(*MachineList)
	k.Items[0].SetName("other")
	if m.Name != "m" || m.Owner.Name != "workers" || l.Items[0].Name != "m" {
		t.Errorf("the original has changed: %s, %s, %s", m.Name, m.Owner.Name, l.Items[0].Name)
	}
}

func TestCluster(t *testing.T) {
	const meta = `{"metadata":{"namespace":"clusters","name":"blue","uid":"blue-uid"}`
	ready := Milestone{Reached: true, Since: at(t, "2026-08-02T00:00:00Z").Local()}
	condition := func(kind, status string) string {
		return `{"type":"` + kind + `","status":"` + status + `","lastTransitionTime":"2026-08-02T00:00:00Z"}`
	}
	cases := map[string]struct {
		body string
		want Cluster
	}{
		"new":    {`}`, Cluster{Paused: core.No}},
		"paused": {`,"spec":{"paused":true}}`, Cluster{Paused: core.Yes}},
		"up": {
			`,"spec":{"paused":false},"status":{"conditions":[` + condition("InfrastructureReady", "True") + `,` + condition("ControlPlaneInitialized", "True") + `]}}`,
			Cluster{Paused: core.No, InfrastructureReady: ready, ControlPlaneInitialized: ready},
		},
		"not yet": {
			`,"status":{"conditions":[` + condition("ControlPlaneInitialized", "False") + `]}}`,
			Cluster{Paused: core.No, ControlPlaneInitialized: Milestone{Since: ready.Since}},
		},
		"a pause that is none":  {`,"spec":{"paused":"yes"}}`, Cluster{Unreadable: `spec is {"paused":"yes"} and can't be read`}},
		"a status that is none": {`,"status":7}`, Cluster{Paused: core.No, Unreadable: "status is 7 and can't be read"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got := &Cluster{}
			if err := json.Unmarshal([]byte(meta+tc.body), got); err != nil {
				t.Fatalf("decoding: %v", err)
			}
			tc.want.Meta, tc.want.Upgrade = got.Meta, got.Upgrade
			if diff := cmp.Diff(&tc.want, got, cmpopts.IgnoreFields(Cluster{}, "Meta"), cmpopts.EquateComparable(Milestone{})); diff != "" {
				t.Errorf("cluster (-want +got):\n%s", diff)
			}
			if got.Name != "blue" || got.UID != "blue-uid" {
				t.Errorf("it is %s with UID %s", got.Name, got.UID)
			}
			if !got.Same(&tc.want) {
				t.Error("it is not the same as itself")
			}
		})
	}
}

// FuzzMachine: whatever a definition lets in is read without an error or told, and rendering a patch never panics.
func FuzzMachine(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `7`, `{"conditions":[{"type":"HealthCheckSucceeded"}]}`, `{"conditions":{}}`,
		`{"deprecated":{"v1beta1":{"conditions":[{"type":"OwnerRemediated","status":"True"},{"type":"OwnerRemediated"}],"failureReason":""}}}`,
		`{"conditions":[{"type":"OwnerRemediated","status":"False","reason":"x","lastTransitionTime":"0001-01-01T00:00:00Z"}],"deprecated":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, status []byte) {
		if !json.Valid(status) {
			return
		}
		m := &Machine{}
		body := `{"metadata":{"name":"m","namespace":"n","uid":"u","resourceVersion":"1"},"status":` + string(status) + `}`
		if err := m.UnmarshalJSON([]byte(body)); err != nil {
			t.Fatalf("decoding fails: %v", err)
		}
		if strings.Contains(m.Unreadable, "\n") {
			t.Errorf("what can't be read takes more than a line: %q", m.Unreadable)
		}
		changes := append(HealthCheckSucceeded(), WithdrawOwnerRequest(m)...)
		patch, err := m.Patch(changes, noon)
		if err != nil || (patch != nil) != m.Differs(changes) {
			t.Errorf("the patch is %s, %v", patch, err)
		}
		if patch != nil {
			wantApplied(t, body, patch)
		}
	})
}

// TestI15MachineIsBounded: of a machine with more than is read a bounded part is kept, and it is not judged.
func TestI15MachineIsBounded(t *testing.T) {
	list := func(many int) string {
		return `conditions: [` + strings.Repeat(`{type: A, status: "True"},`, many) + `]`
	}
	long := strings.Repeat("x", 200_000)
	for sentence, c := range map[string]struct{ status, labels, says string }{
		"as many conditions as are read": {list(maxConditions), `a: b`, ""},
		"one more":                       {list(maxConditions + 1), `a: b`, "status.conditions has more than the 128 conditions"},
		"many more":                      {list(10_000), `a: b`, "status.conditions has more than the 128 conditions"},
		"a type without an end":          {`conditions: [{type: ` + long + `, status: "True"}]`, `a: b`, "status.conditions[0] has a type or status longer than"},
		"a label without an end":         {``, `a: ` + long, "a label whose key or value is longer than"},
		"a failure without an end":       {`deprecated: {v1beta1: {failureMessage: ` + long + `}}`, `a: b`, ""},
		"words without an end":           {`conditions: [{type: OwnerRemediated, status: "False", reason: ` + long + `, message: ` + long + `}]`, `a: b`, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := read(t, plainMeta+"  labels: {"+c.labels+"}\nstatus: {"+c.status+"}\n")
			if (c.says == "") != (m.Unreadable == "") || !strings.Contains(m.Unreadable, c.says) {
				t.Errorf("told is %q, want %q", m.Unreadable, c.says)
			}
			if len(m.Conditions) > maxConditions || len(m.Failure) > maxFailure || len(m.Labels.Get("a")) > maxWord {
				t.Errorf("kept are %d conditions, a failure of %d bytes, and a label of %d", len(m.Conditions), len(m.Failure), len(m.Labels.Get("a")))
			}
			if mark := m.Mark(Current, "OwnerRemediated"); mark != nil && max(len(mark.Reason), len(mark.Message)) > maxMessage {
				t.Errorf("kept are words of %d and %d bytes", len(mark.Reason), len(mark.Message))
			}
		})
	}
}
