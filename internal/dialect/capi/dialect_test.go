package capi

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/slim"
)

// TestWhoIsATarget: docs/reference/cluster-api.md#targets.
func TestWhoIsATarget(t *testing.T) {
	s := begin(t).show(theCluster(t),
		aMachine(t, "worker"),
		aMachine(t, "leaving", `metadata: {deletionTimestamp: "2026-08-03T11:00:00Z"}`),
		aMachine(t, "skipped", `metadata: {annotations: {cluster.x-k8s.io/skip-remediation: "false"}}`),
		aMachine(t, "paused", `metadata: {annotations: {cluster.x-k8s.io/paused: ""}}`),
		aMachine(t, "master", "metadata: {labels: {role: master}}"),
		aMachine(t, "stranger", "metadata: {labels: {cluster.x-k8s.io/cluster-name: green}}"),
		aMachine(t, "homeless", "metadata: {labels: {cluster.x-k8s.io/cluster-name: null}}"),
		aMachine(t, "elsewhere", "metadata: {namespace: others}"),
		aCheck(t, "check"), aCheck(t, "masters", "spec: {selector: {matchLabels: {role: master}}}"),
	)
	o := s.observe()
	if diff := cmp.Diff(map[string][]string{"check": {"leaving", "worker"}, "masters": {"master"}}, membersOf(o)); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if got := namesOfTargets(o); !slices.Equal(got, []string{"leaving", "master", "paused", "skipped", "worker"}) {
		t.Errorf("targets are %v", got)
	}
	s.show(aMachine(t, "skipped"), aMachine(t, "worker", "metadata: {annotations: {cluster.x-k8s.io/paused: \"\"}}"), aMachine(t, "master", "metadata: {labels: {role: worker}}"))
	if diff := cmp.Diff(map[string][]string{"check": {"leaving", "master", "skipped"}, "masters": {}}, membersOf(s.observe())); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	s.show(aCheck(t, "masters", `metadata: {resourceVersion: "6"}`, "spec: {selector: {matchLabels: {role: worker}}}"))
	if diff := cmp.Diff(map[string][]string{"check": {"leaving", "master", "skipped"}, "masters": {"leaving", "master", "skipped"}}, membersOf(s.observe())); diff != "" {
		t.Errorf("with another selector, members (-want +got):\n%s", diff)
	}
	s.show(aCheck(t, "masters", `metadata: {resourceVersion: "7"}`, "spec: {selector: {matchLabels: {role: master}}}"))
	s.in.Of("Machine").Hide("clusters/leaving")
	if diff := cmp.Diff(map[string][]string{"check": {"master", "skipped"}, "masters": {}}, membersOf(s.observe())); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}

// TestI4NodesTellWhoIsOfTheControlPlane: no label of Cluster API marks a machine whose node has a member of etcd alone.
// It stays a member when its node is gone, and a machine that reuses its name is none.
func TestI4NodesTellWhoIsOfTheControlPlane(t *testing.T) {
	s := begin(t).show(theCluster(t), aMachine(t, "worker"), aCheck(t, "check"))
	member := func(want bool, sentence string) {
		t.Helper()
		if got := s.observe().Targets[0].ControlPlane; got != want {
			t.Errorf("%s: of the control plane: %t", sentence, got)
		}
	}
	s.nodes.has("True", ago(time.Hour), "worker-node")
	member(false, "a node without a role")
	s.show(aMachine(t, "worker", "spec: {providerID: given}"))
	member(false, "a worker that has changed")
	labels := map[string]string{"node-role.kubernetes.io/etcd": "true"}
	n := &slim.Node{Meta: slim.Meta{Name: "worker-node", Labels: slim.LabelsOf(labels)}}
	s.nodes.facts["worker-node"] = node.NewView(n).Facts()
	member(true, "a node with a member of etcd")
	delete(s.nodes.facts, "worker-node")
	member(true, "its node is gone")
	s.show(aMachine(t, "worker", "spec: {providerID: changed}"))
	member(true, "the machine has changed")
	s.show(aMachine(t, "worker", "metadata: {uid: another}"))
	member(false, "a namesake")
}

// TestI01NodesOfALostConnectionAreNotGone: a connection may be lost, and its nodes dropped, while a cluster is
// observed. A connection that comes up meanwhile may have shown some nodes too late.
func TestI01NodesOfALostConnectionAreNotGone(t *testing.T) {
	s := begin(t).show(theCluster(t), aMachine(t, "worker"), aCheck(t, "check"))
	if o := s.observe(); o.Observed != core.Yes || len(o.Targets) != 1 {
		t.Fatalf("before, it is observed: %s, with %d targets", o.Observed, len(o.Targets))
	}
	s.nodes.lost = func() { s.nodes.answers, s.nodes.facts = core.Unknown, nil }
	if o := s.observe(); o.Observed != core.Unknown || len(o.Targets) > 0 {
		t.Errorf("it is observed: %s, with targets %+v", o.Observed, o.Targets)
	}
	s.nodes.lost = func() { s.nodes.answers = core.Yes }
	if o := s.observe(); o.Observed != core.Unknown || len(o.Targets) > 0 {
		t.Errorf("it comes up, and is observed: %s, with targets %+v", o.Observed, o.Targets)
	}
}

// TestWhatWakes: only a change that can alter a decision wakes a cluster, and no other cluster.
func TestWhatWakes(t *testing.T) {
	s := settle(t)
	show := func(u *unstructured.Unstructured) func() { return func() { s.see(u) } }
	newer := "metadata: {resourceVersion: \"9\"}"
	for _, step := range []struct {
		sentence string
		do       func()
		want     map[types.NamespacedName]int
	}{
		{"a machine whose other conditions change", show(aMachine(t, "a", newer, `status: {conditions: [{type: InfrastructureReady, status: "True", lastTransitionTime: "2026-08-02T00:01:00Z"}, {type: NodeHealthy, status: "False"}]}`)), nil},
		{"a machine as it was before", show(aMachine(t, "a", "metadata: {annotations: {cluster.x-k8s.io/remediate-machine: \"\"}}")), nil},
		{"a machine whose node is another", show(aMachine(t, "a", newer, "status: {nodeRef: {name: other}}")), map[types.NamespacedName]int{blue: 1}},
		{"a machine that is made of something else", show(aMachine(t, "a", `metadata: {resourceVersion: "10"}`, "status: {nodeRef: {name: other}}", "spec: {infrastructureRef: {apiGroup: y.example, kind: YMachine, name: a}}")), map[types.NamespacedName]int{blue: 1}},
		{"a machine that a user marks", show(aMachine(t, "b", newer, `metadata: {annotations: {cluster.x-k8s.io/remediate-machine: ""}}`)), map[types.NamespacedName]int{blue: 1}},
		{"a machine whose repair a person requests", show(aMachine(t, "b", `metadata: {resourceVersion: "11", annotations: {cluster.x-k8s.io/remediate-machine: "", fettle.io/repair-requested-at: "2026-08-03T11:00:00Z"}}`)), map[types.NamespacedName]int{blue: 1}},
		{"a machine that another client writes", show(aMachine(t, "c", newer, `status: {conditions: [{type: OwnerRemediated, status: "False", reason: WaitingForRemediation, lastTransitionTime: "2026-08-03T11:00:00Z"}]}`)), map[types.NamespacedName]int{blue: 1}},
		{"a machine of another cluster", show(aMachine(t, "z", "metadata: {labels: {cluster.x-k8s.io/cluster-name: green}}")), map[types.NamespacedName]int{green: 1}},
		{"a machine that goes over to it", show(aMachine(t, "b", newer, "metadata: {labels: {cluster.x-k8s.io/cluster-name: green}}")), map[types.NamespacedName]int{blue: 1, green: 1}},
		{"a machine that goes", func() { s.in.Of("Machine").Hide("clusters/c") }, map[types.NamespacedName]int{blue: 1}},
		{"a health check whose status changes", show(aCheck(t, "check", "metadata: {resourceVersion: \"8\"}", "status: {expectedMachines: 7}")), nil},
		{"a health check with another limit", show(aCheck(t, "check", "metadata: {resourceVersion: \"9\"}", "spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 1}}}")), map[types.NamespacedName]int{blue: 1}},
		{"a cluster that says something else", show(theCluster(t, "metadata: {resourceVersion: \"9\"}", "status: {phase: Provisioned}")), nil},
		{"a cluster that rolls out", show(theCluster(t, rolling("True"))), map[types.NamespacedName]int{blue: 1}},
		{"a cluster that is paused", show(theCluster(t, "spec: {paused: true}")), map[types.NamespacedName]int{blue: 1}},
		{"a cluster that goes", func() { s.in.Of("Cluster").Hide("clusters/blue") }, map[types.NamespacedName]int{blue: 1}},
	} {
		clear(s.woken)
		step.do()
		if len(step.want) == 0 && len(s.woken) == 0 {
			continue
		}
		if diff := cmp.Diff(step.want, s.woken); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.sentence, diff)
		}
	}
}

// TestConditionsOfCriteriaWake: conditions that no health check reads wake nothing.
func TestConditionsOfCriteriaWake(t *testing.T) {
	s := settle(t, `spec: {checks: {unhealthyMachineConditions: [{type: NodeHealthy, status: "False", timeoutSeconds: 60}]}}`)
	clear(s.woken)
	s.see(aMachine(t, "a", `metadata: {resourceVersion: "9"}`, `status: {conditions: [{type: InfrastructureReady, status: "True", lastTransitionTime: "2026-08-02T00:01:00Z"}, {type: NodeHealthy, status: "False", lastTransitionTime: "2026-08-03T11:00:00Z"}]}`))
	if s.woken[blue] != 1 {
		t.Errorf("woken %d times", s.woken[blue])
	}
	if _, d := s.pass(); len(d.Starts) != 1 || d.Starts[0].Verdict.Reason != core.TargetConditionMet {
		t.Errorf("it starts %+v", d.Starts)
	}
}

func TestClustersThatHaveHealthChecks(t *testing.T) {
	s := begin(t, func(c *Config) { c.WatchFilter = "ours" })
	mine := `metadata: {labels: {cluster.x-k8s.io/watch-filter: ours}}`
	want := func(sentence string, changed int, clusters ...types.NamespacedName) {
		t.Helper()
		if got := s.client.Clusters(); !slices.Equal(got, clusters) || s.sets != changed {
			t.Errorf("%s: clusters %v, changed %d times; want %v, %d", sentence, got, s.sets, clusters, changed)
		}
		s.sets = 0
	}
	s.see(theCluster(t))
	s.see(aMachine(t, "a"))
	want("there is none", 0)
	s.see(aCheck(t, "others"))
	want("a health check with another watch filter", 0)
	s.see(aCheck(t, "check", mine))
	s.see(aCheck(t, "second", mine))
	want("two of one cluster", 1, blue)
	s.see(aCheck(t, "green", mine, "spec: {clusterName: green}"))
	want("one of another", 1, blue, green)
	s.see(aCheck(t, "green", mine, "spec: {clusterName: blue}"))
	want("that goes over", 1, blue)
	s.see(aCheck(t, "check"))
	s.in.Of("MachineHealthCheck").Hide("clusters/second")
	want("one is left", 0, blue)
	s.see(aCheck(t, "green", mine, `metadata: {deletionTimestamp: "2026-08-03T11:00:00Z"}`))
	want("the last is being deleted", 1)
	s.in.Of("Machine").Hide("clusters/a")
	s.in.Of("Cluster").Hide("clusters/blue")
	if n := len(s.client.stores); n > 0 {
		t.Errorf("%d clusters are remembered of which nothing is known", n)
	}
}

// TestMissedDeletion: a watch that was interrupted reports a deletion with the last state that it knew.
func TestMissedDeletion(t *testing.T) {
	s := settle(t)
	s.in.Of("Machine").HideUnseen("clusters/b")
	if got := namesOfTargets(s.observe()); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("targets are %v", got)
	}
}

func TestWatchingIsTriedAgain(t *testing.T) {
	s := begin(t)
	c := NewClient(s.client.Config)
	s.in.Refuse["Machine"] = errDown
	if err := c.Watch(t.Context()); !errors.Is(err, errDown) || c.HasSynced() {
		t.Errorf("a watch that fails gives %v", err)
	}
	s.in.Refuse["Machine"] = nil
	if err := c.Watch(t.Context()); err != nil || !c.HasSynced() {
		t.Errorf("then it gives %v", err)
	}
}

// TestNodesAreReadInTheirOwnCluster: several clusters may have nodes of the same name.
func TestNodesAreReadInTheirOwnCluster(t *testing.T) {
	s := settle(t)
	other := &nodes{answers: core.Yes}
	target := core.Target{Node: core.Node{Name: "a-node"}}
	if n, err := s.client.Dialect(green, other).ReadNode(t.Context(), target); err != nil || n.State != core.NodeGone {
		t.Errorf("in the other cluster it is %+v, %v", n, err)
	}
	if n, err := s.dialect.ReadNode(t.Context(), target); err != nil || n.State != core.NodePresent {
		t.Errorf("in its own it is %+v, %v", n, err)
	}
	s.nodes.answers = core.No
	if _, err := s.dialect.ReadNode(t.Context(), target); !errors.Is(err, errDown) {
		t.Errorf("the cluster does not answer, and it gives %v", err)
	}
}

// TestRequestsAreReadFromMarksOfMachines: owners may have answered. A request that an owner follows can't be
// withdrawn.
func TestRequestsAreReadFromMarksOfMachines(t *testing.T) {
	forReason := func(reason string) string {
		return `status: {conditions: [{type: OwnerRemediated, status: "False", reason: ` + reason + `, message: "wait", lastTransitionTime: "2026-08-03T11:00:00Z"}]}`
	}
	s := begin(t).show(theCluster(t),
		aMachine(t, "has-request", forReason("WaitingForRemediation")),
		aMachine(t, "is-answered", forReason("RemediationDeferred")),
		aMachine(t, "is-heard", forReason("MachineDeleting")),
		aMachine(t, "is-skipped", forReason("WaitingForRemediation"), `metadata: {annotations: {cluster.x-k8s.io/skip-remediation: ""}}`),
		aMachine(t, "without-request"),
	)
	of := func(name string) core.ID {
		return core.ID{Kind: "Machine", Namespace: "clusters", Name: name, UID: name + "-uid"}
	}
	marked := func(name string) core.ID {
		id := of(name)
		id.UID += "@2026-08-03T11:00:00Z"
		return id
	}
	created := noon.Add(-time.Hour)
	want := []core.Request{
		{ID: marked("has-request"), APIVersion: "cluster.x-k8s.io/v1beta2", Remedy: MarkOwner, Target: of("has-request"), Created: created, Own: true, Answers: true},
		{ID: marked("is-answered"), APIVersion: "cluster.x-k8s.io/v1beta2", Remedy: MarkOwner, Target: of("is-answered"), Created: created, Own: true, Answers: true, Answer: "MachineSet workers says RemediationDeferred: wait"},
		{ID: marked("is-heard"), APIVersion: "cluster.x-k8s.io/v1beta2", Remedy: MarkOwner, Target: of("is-heard"), Created: created, Own: true, Answers: true, Answer: "MachineSet workers says MachineDeleting: wait", Leaving: true},
	}
	if diff := cmp.Diff(want, s.observe().Requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestMachinesOfRepairsAreFound: Machine returns them as last seen or written.
func TestMachinesOfRepairsAreFound(t *testing.T) {
	s := settle(t)
	id := core.ID{Kind: "Machine", Namespace: "clusters", Name: "a", UID: "a-uid"}
	m := s.client.Machine(id)
	if m == nil || m.ResourceVersion != "7" || m.ClusterName() != "blue" {
		t.Fatalf("it is %+v", m)
	}
	newer := *m
	newer.ResourceVersion = "8"
	s.client.Wrote(&newer)
	s.see(aMachine(t, "a")) // the watch is late
	if m := s.client.Machine(id); m.ResourceVersion != "8" {
		t.Errorf("it is of revision %s", m.ResourceVersion)
	}
	namesake := id
	namesake.UID = "another"
	s.in.Of("Machine").Hide("clusters/b")
	gone := id
	gone.Name = "b"
	if m := s.client.Machine(namesake); m != nil && string(m.UID) == namesake.UID || s.client.Machine(gone) != nil {
		t.Error("a namesake or what is gone is found")
	}
	back := newer
	back.Name = "b"
	s.client.Wrote(&back) // a write brings no deleted machine back
	if s.client.Machine(gone) != nil {
		t.Error("what is gone has come back")
	}
}
