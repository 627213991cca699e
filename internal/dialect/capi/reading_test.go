package capi

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/slim"
)

// readingOfBlue has the cluster blue with machines a and b, the node of a, and a health check.
func readingOfBlue(t *testing.T) *Reading {
	t.Helper()
	r := NewReading()
	for what, put := range map[string]bool{
		"a cluster":      r.PutCluster(decoded(t, theCluster(t), &clusterapi.Cluster{})),
		"a machine":      r.PutMachine(decoded(t, aMachine(t, "a"), &clusterapi.Machine{})),
		"another":        r.PutMachine(decoded(t, aMachine(t, "b"), &clusterapi.Machine{})),
		"a health check": r.PutCheck(aCheck(t, "check")),
	} {
		if !put {
			t.Errorf("%s changes nothing", what)
		}
	}
	return r
}

func nodeOfA(t *testing.T) *slim.Node {
	t.Helper()
	n := &slim.Node{}
	n.Name, n.UID = "a-node", "a-node-uid"
	n.Conditions = []core.Condition{{Type: "Ready", Status: "True", Since: ago(time.Hour)}}
	return n
}

// TestReadingTellsWhatItDoesNotKnow: the observation is unknown before the nodes were read, and while the cluster is
// blocked.
func TestReadingTellsWhatItDoesNotKnow(t *testing.T) {
	r := readingOfBlue(t)
	if o := r.Observe(blue, noon); o.Observed != core.Unknown || len(o.Targets) != 2 || len(o.Policies) != 1 || !r.HasNodes(blue) {
		t.Errorf("without nodes it is observed %s, with %d targets and %d policies", o.Observed, len(o.Targets), len(o.Policies))
	} else if want := (core.Node{State: core.NodeUnseen, Name: "a-node"}); !cmp.Equal(o.Targets[0].Node, want) {
		t.Errorf("without nodes the node of a is %+v", o.Targets[0].Node)
	}
	if !r.Nodes(blue).Put(nodeOfA(t)) {
		t.Error("a new node changes nothing")
	}
	o := r.Observe(blue, noon)
	want := []core.NodeState{core.NodePresent, core.NodeGone}
	if got := []core.NodeState{o.Targets[0].Node.State, o.Targets[1].Node.State}; o.Observed != core.Yes || !cmp.Equal(got, want) || !o.Targets[1].NodeReadAt.Equal(noon) {
		t.Errorf("with nodes it is observed %s, and nodes are %v", o.Observed, got)
	}
	r.PutCluster(decoded(t, theCluster(t, "spec: {paused: true}"), &clusterapi.Cluster{}))
	if halted, is := r.Blocked(blue); !is || halted.Reason != "Paused" || r.HasNodes(blue) || r.Observe(blue, noon).Observed != core.Unknown {
		t.Errorf("paused it is %+v, %t", halted, is)
	}
	r.DropCluster("clusters/blue")
	if halted, is := r.Blocked(blue); !is || halted.Reason != clusterNotFoundReason {
		t.Errorf("without its Cluster it is %+v, %t", halted, is)
	}
}

// TestReadingSeesWhatTheControllerSees: the same policies, targets and requests, but for fields that only one of them
// can know.
func TestReadingSeesWhatTheControllerSees(t *testing.T) {
	r := readingOfBlue(t)
	if !r.Nodes(blue).Put(nodeOfA(t)) {
		t.Fatal("a new node changes nothing")
	}
	store := r.client.storeOf(blue)
	var want core.Observation
	r.Nodes(blue).Lookup(func(find func(string) (node.Facts, bool)) { store.snapshot(&want, find) })
	targets := append([]core.Target{}, want.Targets...)
	got := r.Observe(blue, noon)
	for i := range targets {
		targets[i].NodeReadAt = noon
		if targets[i].Node.State == core.NodeUnseen {
			targets[i].Node.State = core.NodeGone
		}
	}
	if diff := cmp.Diff(targets, got.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Policies, got.Policies); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
}

// TestReadingForgets dropped objects.
func TestReadingForgets(t *testing.T) {
	r := readingOfBlue(t)
	r.DropMachine("clusters/a")
	r.DropMachine("clusters/never")
	r.DropCheck("clusters/check")
	if o := r.Observe(blue, noon); len(o.Targets) != 1 || o.Targets[0].ID.Name != "b" || len(o.Policies) != 0 {
		t.Errorf("there are %d targets and %d policies", len(o.Targets), len(o.Policies))
	}
	r.DropMachine("clusters/b")
	r.DropCluster("clusters/blue")
	if clusters := r.Clusters(); len(clusters) != 0 {
		t.Errorf("there are %v", clusters)
	}
}

// TestCoolingDownAsWritten: a status records when a storm began.
func TestCoolingDownAsWritten(t *testing.T) {
	r := readingOfBlue(t)
	status := func(since time.Duration) string {
		return `status: {conditions: [{type: RemediationAllowed, status: "False", reason: StormCooldown, message: "", lastTransitionTime: "` + ago(since).Format(time.RFC3339) + `"}]}`
	}
	r.PutCheck(aCheck(t, "check", status(2*time.Second), `metadata: {resourceVersion: "6"}`))
	if o := r.Observe(blue, noon); !o.Policies[0].Cooldown.First.Equal(ago(2*time.Second)) || !o.Policies[0].Cooldown.Last.Equal(ago(2*time.Second)) {
		t.Errorf("within the cooldown: %+v", o.Policies[0].Cooldown)
	}
	r.PutCheck(aCheck(t, "check", status(time.Minute), `metadata: {resourceVersion: "7"}`))
	if o := r.Observe(blue, noon); !o.Policies[0].Cooldown.Last.Equal(noon) {
		t.Errorf("long after: a machine must have recovered, %+v", o.Policies[0].Cooldown)
	}
}

// TestUnmetRequirements: Unmet answers only for machines of the health check's own cluster.
func TestUnmetRequirements(t *testing.T) {
	r := readingOfBlue(t)
	r.PutMachine(decoded(t, aMachine(t, "infra", "metadata: {labels: {role: infra}}"), &clusterapi.Machine{}))
	r.PutMachine(decoded(t, aMachine(t, "far", "metadata: {labels: {role: infra, cluster.x-k8s.io/cluster-name: green}}"), &clusterapi.Machine{}))
	check := core.ID{Kind: healthCheckKind, Namespace: "clusters", Name: "check", UID: "check-uid"}
	id := func(name string) core.ID {
		return core.ID{Kind: machineKind, Namespace: "clusters", Name: name, UID: name + "-uid"}
	}
	if unmet, possible := r.Unmet(check, id("infra")); !possible || !cmp.Equal(unmet, []string{"role=worker"}) {
		t.Errorf("%v, %t", unmet, possible)
	}
	if unmet, possible := r.Unmet(check, id("a")); !possible || len(unmet) != 0 {
		t.Errorf("of a member: %v, %t", unmet, possible)
	}
	if unmet, possible := r.Unmet(check, id("far")); possible {
		t.Errorf("of another cluster's: %v", unmet)
	}
	for sentence, tc := range map[string][2]core.ID{
		"an unknown health check": {{Kind: healthCheckKind, Namespace: "clusters", Name: "unknown", UID: "check-uid"}, id("infra")},
		"a former health check":   {{Kind: healthCheckKind, Namespace: "clusters", Name: "check", UID: "former"}, id("infra")},
		"an unknown machine":      {check, id("unknown")},
		"a former machine":        {check, {Kind: machineKind, Namespace: "clusters", Name: "infra", UID: "former"}},
		"another namespace":       {check, {Kind: machineKind, Namespace: "others", Name: "infra", UID: "infra-uid"}},
	} {
		if unmet, possible := r.Unmet(tc[0], tc[1]); possible || unmet != nil {
			t.Errorf("%s: %v, %t", sentence, unmet, possible)
		}
	}
}

// TestExcludedMachines: the annotation by which a user has excluded a machine.
func TestExcludedMachines(t *testing.T) {
	r := NewReading()
	for name, annotations := range map[string]string{"in": "{}", "skipped": `{cluster.x-k8s.io/skip-remediation: ""}`, "paused": `{cluster.x-k8s.io/paused: ""}`} {
		r.PutMachine(decoded(t, aMachine(t, name, "metadata: {annotations: "+annotations+"}"), &clusterapi.Machine{}))
	}
	for id, want := range map[core.ID]string{
		{Namespace: "clusters", Name: "in", UID: "in-uid"}:           "",
		{Namespace: "clusters", Name: "skipped", UID: "skipped-uid"}: "annotation cluster.x-k8s.io/skip-remediation",
		{Namespace: "clusters", Name: "paused", UID: "paused-uid"}:   "annotation cluster.x-k8s.io/paused",
		{Namespace: "clusters", Name: "paused", UID: "another"}:      "",
		{Namespace: "clusters", Name: "unknown", UID: "u"}:           "",
	} {
		if got, is := r.Skipped(id); got != want || is != (want != "") {
			t.Errorf("%s is skipped: %t, by %q, want %q", id.Name, is, got, want)
		}
	}
}

// TestWhatWasWritten: a reader is told the status of a health check and the condition of a machine as last written.
func TestWhatWasWritten(t *testing.T) {
	id := core.ID{Kind: healthCheckKind, Namespace: "clusters", Name: "check", UID: "check-uid"}
	for status, want := range map[string]core.Tri{"True": core.Yes, "False": core.No, "Unknown": core.Unknown} {
		r := NewReading()
		r.PutCheck(aCheck(t, "check", `status: {expectedMachines: 3, currentHealthy: 2, conditions: [`+mark("Paused", "False", "NotPaused")+`, {type: RemediationAllowed, status: "`+status+`", reason: R, message: why}, `+mark("SoleController", "False", "S")+`]}`))
		w := r.Written(id)
		if w.Allowed != want || w.Reason != "R" || w.Message != "why" || w.Total == nil || *w.Total != 3 || *w.Healthy != 2 {
			t.Errorf("%s: %+v", status, w)
		}
		if w := r.Written(core.ID{Kind: healthCheckKind, Namespace: "clusters", Name: "check", UID: "another"}); w != (Written{}) {
			t.Errorf("of a namesake: %+v", w)
		}
	}
	r := readingOfBlue(t)
	if w := r.Written(id); w != (Written{}) {
		t.Errorf("nothing was written: %+v", w)
	}
	r.PutMachine(decoded(t, aMachine(t, "a", `metadata: {resourceVersion: "9"}`, "status: {conditions: ["+mark("HealthCheckSucceeded", "False", "UnhealthyNode")+"]}"), &clusterapi.Machine{}))
	machine := core.ID{Kind: machineKind, Namespace: "clusters", Name: "a", UID: "a-uid"}
	if m := r.Says(machine); m == nil || m.Reason != "UnhealthyNode" {
		t.Errorf("the machine says %+v", m)
	}
	for _, id := range []core.ID{{Namespace: "clusters", Name: "a", UID: "another"}, {Namespace: "clusters", Name: "unknown"}, {Namespace: "clusters", Name: "b", UID: "b-uid"}} {
		if m := r.Says(id); m != nil {
			t.Errorf("%s says %+v", id.Name, m)
		}
	}
}

// TestReadingIgnoresOtherObjects: only the types of the lists are read.
func TestReadingIgnoresOtherObjects(t *testing.T) {
	r := readingOfBlue(t)
	if r.PutCheck("a word") || r.PutMachine("a word") || r.PutCluster("a word") {
		t.Error("a word changes something")
	}
	if r.PutMachine(decoded(t, aMachine(t, "a"), &clusterapi.Machine{})) {
		t.Error("the same machine again changes something")
	}
}

// TestClustersOfAReading: each has a Cluster, a health check or a machine. They are sorted.
func TestClustersOfAReading(t *testing.T) {
	r := NewReading()
	var want []types.NamespacedName
	for i := range 12 {
		name := fmt.Sprintf("c-%02d", i)
		want = append(want, types.NamespacedName{Namespace: "clusters", Name: name})
		switch i % 3 {
		case 0:
			r.PutCluster(decoded(t, theCluster(t, "metadata: {name: "+name+"}"), &clusterapi.Cluster{}))
		case 1:
			r.PutMachine(decoded(t, aMachine(t, "m"+name, "metadata: {labels: {cluster.x-k8s.io/cluster-name: "+name+"}}"), &clusterapi.Machine{}))
		case 2:
			r.PutCheck(aCheck(t, "h"+name, "spec: {clusterName: "+name+"}"))
		}
	}
	if got := r.Clusters(); !cmp.Equal(got, want) {
		t.Errorf("the clusters are %v", got)
	}
}

// TestClustersThatNeedNoNodes: without a control plane, or a Cluster, nodes decide nothing.
func TestClustersThatNeedNoNodes(t *testing.T) {
	r := NewReading()
	if r.HasNodes(blue) {
		t.Error("an unknown cluster needs nodes")
	}
	r.PutCluster(decoded(t, theCluster(t, `status: {conditions: [{type: InfrastructureReady, status: "True", lastTransitionTime: "2026-08-01T00:00:00Z"}]}`), &clusterapi.Cluster{}))
	r.PutMachine(decoded(t, aMachine(t, "a", "metadata: {labels: {cluster.x-k8s.io/control-plane: \"\"}}"), &clusterapi.Machine{}))
	o := r.Observe(blue, noon)
	if r.HasNodes(blue) || o.Observed != core.Yes || len(o.Targets) != 1 || o.Targets[0].Node.State != core.NodeAwaited {
		t.Errorf("it needs nodes: %t, and is observed: %s, with %+v", r.HasNodes(blue), o.Observed, o.Targets)
	}
}

// TestBlockedStartsAsWritten: a reader can't tell whether other health checks judge the nodes, and takes the controller's
// word.
func TestBlockedStartsAsWritten(t *testing.T) {
	for condition, want := range map[string]string{
		`{type: RemediationAllowed, status: Unknown, reason: NodesJudgedElsewhere, message: "Nothing new is repaired, since others do it"}`:      "others do it",
		`{type: RemediationAllowed, status: Unknown, reason: NodesJudgedElsewhereUnknown, message: "Nothing new is repaired, since others may"}`: "others may",
		`{type: RemediationAllowed, status: "True", reason: NodesJudgedElsewhere, message: "Nothing new is repaired, since others do it"}`:       "",
		`{type: RemediationAllowed, status: Unknown, reason: ConnectionDown, message: "Nothing is judged"}`:                                      "",
		`{type: Other, status: Unknown, reason: NodesJudgedElsewhere, message: "Nothing new is repaired, since others do it"}`:                   "",
	} {
		r := readingOfBlue(t)
		r.PutCheck(aCheck(t, "check", `metadata: {resourceVersion: "9"}`, "status: {conditions: ["+condition+"]}"))
		if p := r.Observe(blue, noon).Policies[0]; p.PauseReason != want || p.Paused != (want != "") {
			t.Errorf("%s: paused: %t, since %q", condition, p.Paused, p.PauseReason)
		}
	}
}

// TestNoCooldownAsWritten: only the condition of a cooldown records a storm.
func TestNoCooldownAsWritten(t *testing.T) {
	const at = `message: "", lastTransitionTime: "2026-08-03T11:59:58Z"}`
	for _, condition := range []string{
		`{type: Other, status: "False", reason: StormCooldown, ` + at, `{type: RemediationAllowed, status: "True", reason: StormCooldown, ` + at,
		`{type: RemediationAllowed, status: "False", reason: TooManyUnhealthy, ` + at,
	} {
		r := readingOfBlue(t)
		r.PutCheck(aCheck(t, "check", `metadata: {resourceVersion: "9"}`, "status: {conditions: ["+condition+"]}"))
		if got := r.Observe(blue, noon).Policies[0].Cooldown; !got.First.IsZero() {
			t.Errorf("%s: the storm is %+v", condition, got)
		}
	}
}

// TestCurrentVersion: a manifest is converted as the API server would convert it.
func TestCurrentVersion(t *testing.T) {
	old := object(t, `
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata: {namespace: clusters, name: check, uid: check-uid, creationTimestamp: "2026-08-01T00:00:00Z"}
spec:
  clusterName: blue
  selector: {matchLabels: {role: worker}}
  maxUnhealthy: 40%
  nodeStartupTimeout: 20m
  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]
  unhealthyMachineConditions: [{type: Ailing, status: "True", timeout: 1m}]
status: {conditions: [{type: RemediationAllowed, status: "False", severity: Warning}]}
`)
	current := object(t, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {namespace: clusters, name: check, uid: check-uid, creationTimestamp: "2026-08-01T00:00:00Z"}
spec:
  clusterName: blue
  selector: {matchLabels: {role: worker}}
  checks:
    nodeStartupTimeoutSeconds: 1200
    unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 300}]
    unhealthyMachineConditions: [{type: Ailing, status: "True", timeoutSeconds: 60}]
  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}}
`)
	if diff := cmp.Diff(readHealthCheck(current).policy, readHealthCheck(Current(old)).policy); diff != "" {
		t.Errorf("the policies differ (-current +older):\n%s", diff)
	}
	if Current(current) != current {
		t.Error("one of the current version is not left as it is")
	}
	if got := Current(old); !IsHealthCheck(got) || IsHealthCheck(old) || got.Object["status"] != nil || old.Object["status"] == nil {
		t.Errorf("the older version is %v, and the converted one is a health check of this dialect: %t", old.GroupVersionKind(), IsHealthCheck(got))
	}
	for field, want := range map[string]string{"spec.remediationTemplate": "spec.remediation.templateRef", "spec.selector": "spec.selector"} {
		if got := FieldOf(current, field); got != want || FieldOf(old, field) != field {
			t.Errorf("%s goes by the name %s", field, got)
		}
	}
	if FieldOf(old, "spec.maxUnhealthy") != "spec.maxUnhealthy" || FieldOf(current, "spec.maxUnhealthy") != "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo" {
		t.Error("a field goes by the wrong name")
	}
}
