package capi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	}
	if changed, err := r.Nodes(blue).Put(nodeOfA(t)); !changed || err != nil {
		t.Errorf("a node changes %t, %v", changed, err)
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
	if _, err := r.Nodes(blue).Put(nodeOfA(t)); err != nil {
		t.Fatal(err)
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
	if FieldOf(old, "spec.maxUnhealthy") != "spec.maxUnhealthy" || FieldOf(current, "spec.maxUnhealthy") != "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo" {
		t.Error("a field goes by the wrong name")
	}
}
