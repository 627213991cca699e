package capi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
)

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatalf("reading a time: %v", err)
	}
	return at
}

// TestMachineBecomesTarget: the situations of docs/reference/cluster-api.md#checks and
// docs/reference/cluster-api.md#counting.
func TestMachineBecomesTarget(t *testing.T) {
	const (
		notInitialized = `status: {conditions: [{type: InfrastructureReady, status: "True", lastTransitionTime: "2026-08-01T00:00:00Z"}]}`
		infraNotReady  = `status: {conditions: [{type: InfrastructureReady, status: "False", lastTransitionTime: "2026-08-03T09:00:00Z"}, {type: ControlPlaneInitialized, status: "True", lastTransitionTime: "2026-08-01T00:10:00Z"}]}`
		lateCluster    = `status: {conditions: [{type: InfrastructureReady, status: "True", lastTransitionTime: "2026-08-03T09:00:00Z"}, {type: ControlPlaneInitialized, status: "True", lastTransitionTime: "2026-08-03T10:00:00Z"}]}`
		controlPlane   = `metadata: {labels: {cluster.x-k8s.io/control-plane: ""}}`
		withoutNode    = `status: {nodeRef: null}`
	)
	infraReady := func(status, at string) string {
		return `status: {conditions: [{type: InfrastructureReady, status: "` + status + `", lastTransitionTime: "` + at + `"}]}`
	}
	at := func(text string) func(*core.Target) {
		return func(target *core.Target) { target.StartupFrom = instant(t, text) }
	}
	seen := node.Facts{Node: core.Node{
		State: core.NodePresent, Name: "m-node", UID: "n-uid", NodeFacts: core.NodeFacts{Excluded: true, Upgrading: true},
	}}
	of := func(changes ...string) []string { return changes }
	cases := map[string]struct {
		reason  string
		cluster string
		machine []string
		want    []func(*core.Target)
	}{
		"a machine that runs": {
			"its node is that of the workload cluster", "{}", of("{}"),
			[]func(*core.Target){func(t *core.Target) { t.Node = seen.Node }},
		},
		"a node that the workload cluster lacks": {
			"Fettle has to read it live before that counts", "{}", of("status: {nodeRef: {name: other}}"),
			[]func(*core.Target){func(t *core.Target) { t.Node = core.Node{State: core.NodeUnseen, Name: "other"} }},
		},
		"a machine without a node": {"it is awaited", "{}", of(withoutNode), nil},
		"the control plane is not initialized": {
			"nodes are as if they were absent, and workers are not judged", notInitialized, of("{}"),
			[]func(*core.Target){func(t *core.Target) { t.Premature = "the control plane of its cluster is not initialized yet" }},
		},
		"the control plane is not initialized, and this is one of it": {
			"the first member can be replaced", notInitialized, of(controlPlane),
			[]func(*core.Target){func(t *core.Target) { t.ControlPlane = true }},
		},
		"the infrastructure is not ready": {
			"no machine is judged, and a machine with a node counts as healthy", infraNotReady, of(withoutNode),
			[]func(*core.Target){func(t *core.Target) { t.Premature = "the infrastructure of its cluster is not ready" }},
		},
		"the infrastructure is not ready, and this is of the control plane": {
			"not even the control plane", infraNotReady, of(controlPlane, withoutNode),
			[]func(*core.Target){func(t *core.Target) {
				t.Premature, t.ControlPlane = "the infrastructure of its cluster is not ready", true
			}},
		},
		"a cluster that came up late": {"its times are the last", lateCluster, of(withoutNode), []func(*core.Target){at("2026-08-03T10:00:00Z")}},
		"a cluster whose infrastructure came late": {
			"its times are the last, in any order",
			`status: {conditions: [{type: InfrastructureReady, status: "True", lastTransitionTime: "2026-08-03T10:30:00Z"}, {type: ControlPlaneInitialized, status: "True", lastTransitionTime: "2026-08-03T10:00:00Z"}]}`,
			of(withoutNode), []func(*core.Target){at("2026-08-03T10:30:00Z")},
		},
		"a machine of the control plane that runs": {
			"its label says so, though its node doesn't", "{}", of(controlPlane), []func(*core.Target){func(t *core.Target) { t.Node, t.ControlPlane = seen.Node, true }},
		},
		"infrastructure that came late": {
			"the machine's time is the last", lateCluster, of(withoutNode, infraReady("True", "2026-08-03T11:00:00Z")),
			[]func(*core.Target){at("2026-08-03T11:00:00Z"), func(t *core.Target) { t.Conditions[0].Since = noon.Add(-time.Hour) }},
		},
		"infrastructure that went": {
			"a time that is no readiness does not count", "{}", of(withoutNode, infraReady("False", "2026-08-03T11:00:00Z")),
			[]func(*core.Target){at("2026-08-02T00:00:00Z"), func(t *core.Target) {
				t.Conditions = []core.Condition{{Type: "InfrastructureReady", Status: "False", Since: noon.Add(-time.Hour)}}
			}},
		},
		"a failure": {
			"the guide: terminal failures are repaired", "{}", of(withoutNode, "status: {deprecated: {v1beta1: {failureReason: CreateError}}}"),
			[]func(*core.Target){func(t *core.Target) { t.Failed = true }},
		},
		"a remediator gave it up": {
			"Metal3 3.2", "{}", of(withoutNode, `status: {deprecated: {v1beta1: {conditions: [{type: OwnerRemediated, status: "False", reason: WaitingForRemediation, lastTransitionTime: "2026-08-03T11:00:00Z"}]}}}`),
			[]func(*core.Target){func(target *core.Target) { target.HandedBack = instant(t, "2026-08-03T11:00:00Z") }},
		},
		"a person's word": {"", "{}", of(withoutNode, `metadata: {annotations: {cluster.x-k8s.io/remediate-machine: ""}}`), []func(*core.Target){func(t *core.Target) { t.RemediationRequested = true }}},
		"it is deleted":   {"", "{}", of(withoutNode, `metadata: {deletionTimestamp: "2026-08-03T11:00:00Z"}`), []func(*core.Target){func(t *core.Target) { t.Deleting = true }}},
		"it has no owner": {"no owner replaces it", "{}", of(withoutNode, "metadata: {ownerReferences: null}"), []func(*core.Target){func(t *core.Target) { t.Owner = core.ID{} }}},
		"it can't be read": {"", "{}", of("status: {nodeRef: {name: 7}}"), []func(*core.Target){func(t *core.Target) {
			t.Problem = `status.nodeRef is {"name":7} and can't be read; it should be a reference such as {name: worker-1}`
		}}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			want := core.Target{
				ID:          core.ID{Kind: "Machine", Namespace: "clusters", Name: "m", UID: "m-uid"},
				Created:     instant(t, "2026-08-02T00:00:00Z"),
				Owner:       core.ID{Kind: "MachineSet", Namespace: "clusters", Name: "workers", UID: "workers-uid"},
				StartupFrom: instant(t, "2026-08-02T00:01:00Z"),
				Conditions:  []core.Condition{{Type: "InfrastructureReady", Status: "True", Since: instant(t, "2026-08-02T00:01:00Z")}},
				Node:        core.Node{State: core.NodeAwaited},
				Revision:    "7",
			}
			for _, change := range tc.want {
				change(&want)
			}
			m := decoded(t, aMachine(t, "m", tc.machine...), &clusterapi.Machine{})
			cluster := decoded(t, theCluster(t, tc.cluster), &clusterapi.Cluster{})
			tr := translator{
				cluster: cluster, conditionTypes: map[string]bool{"InfrastructureReady": true}, parts: &clusterapi.PartsCache{},
				find: func(name string) (node.Facts, bool) { return seen, name == "m-node" },
			}
			got := tr.targetOf(m)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\ntarget (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
