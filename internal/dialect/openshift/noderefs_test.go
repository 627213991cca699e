package openshift

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
)

// TestI14NodeOfTwoMachinesJudgesNeither: a kubelet that reports the addresses of another machine
// makes that machine refer to its node. The health of the node must not cause a repair of either
// machine.
func TestI14NodeOfTwoMachinesJudgesNeither(t *testing.T) {
	leaving := func(m *apiMachine) {
		at := metav1.NewTime(noon)
		m.DeletionTimestamp, m.Finalizers = &at, []string{"machine.openshift.io/machine"}
	}
	steps := []struct {
		sentence string
		change   func(*store)
		want     map[string]bool
	}{
		{"each has a node of its own", func(f *store) { f.putMachine(aMachine("a")); f.putMachine(aMachine("b")) }, map[string]bool{"a": false, "b": false}},
		{"one refers to the node of the other", func(f *store) { f.putMachine(aMachine("b", refer("a-node"))) }, map[string]bool{"a": true, "b": true}},
		{"the same again", func(f *store) { f.putMachine(aMachine("b", refer("a-node"))) }, map[string]bool{"a": true, "b": true}},
		{"one is being deleted, as a host makes way for its next machine", func(f *store) { f.putMachine(aMachine("b", refer("a-node"), leaving)) }, map[string]bool{"a": false, "b": false}},
		{"a third machine refers to it, in another namespace", func(f *store) { f.putMachine(aMachine("c", refer("a-node"), inNamespace("other"))) }, map[string]bool{"a": false, "b": false, "c": false}},
		{"a second machine that stays refers to it", func(s *store) { s.putMachine(aMachine("d", refer("a-node"))) }, map[string]bool{"a": true, "b": false, "c": false, "d": true}},
		{"that is gone", func(s *store) { s.dropMachine("machines/d") }, map[string]bool{"a": false, "b": false, "c": false}},
		{"the first is gone", func(f *store) { f.dropMachine("machines/a"); f.dropMachine("machines/a") }, map[string]bool{"b": false, "c": false}},
	}
	f := newStore()
	for _, s := range steps {
		s.change(&f)
		got := map[string]bool{}
		_, targets := f.snapshot(none)
		for i := range targets {
			got[targets[i].ID.Name] = targets[i].Problem != ""
		}
		if diff := cmp.Diff(s.want, got); diff != "" {
			t.Errorf("after this: %s, what is not judged is (-want +got):\n%s", s.sentence, diff)
		}
	}
}

// TestI14NodeNamesTheNamespaceOfItsMachine: a user who may write machines in a namespace can have
// them refer to any node. If the node names another namespace for its machine, such a machine gets
// no facts of the node, and holds back no repair there. After the node is gone, its last annotation
// is gone too.
func TestI14NodeNamesTheNamespaceOfItsMachine(t *testing.T) {
	says := func(namespace string) func(string) (node.Facts, bool) {
		return these(map[string]node.Facts{"a-node": {
			Node:             core.Node{State: core.NodePresent, Name: "a-node", NodeFacts: core.NodeFacts{ControlPlane: true, Excluded: true}},
			MachineNamespace: namespace,
		}})
	}
	cases := map[string]struct {
		find       func(string) (node.Facts, bool)
		mine, them bool
	}{
		"the node names the namespace": {says("machines"), false, true},
		"it names the other":           {says("other"), true, false},
		"it names none":                {says(""), true, true},
		"it is gone":                   {none, false, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newStore()
			f.putMachine(aMachine("a"))
			f.putMachine(aMachine("c", refer("a-node"), inNamespace("other")))
			_, targets := f.snapshot(tc.find)
			for i, want := range []bool{tc.mine, tc.them} {
				if got := &targets[i]; (got.Problem != "") != want {
					t.Errorf("%s says %q, want something: %t", got.ID, got.Problem, want)
				}
			}
			if them := &targets[1]; sentence == "the node names the namespace" && (them.Node.Name != "" || them.ControlPlane || them.Node.Excluded) {
				t.Errorf("the machine of the other namespace has the node: %+v", them)
			}
		})
	}
}

// TestI14LabelAloneMakesNoControlPlane: a user who may write machines in a namespace can label them
// as members of the control plane. If other namespaces have the known members, that holds back no
// repair of theirs.
func TestI14LabelAloneMakesNoControlPlane(t *testing.T) {
	master := labelled(roleLabel, masterRole)
	find := these(map[string]node.Facts{"a-node": {Node: core.Node{State: core.NodePresent, Name: "a-node", NodeFacts: leading}}})
	f := newStore()
	f.putMachine(aMachine("a", master))
	f.putMachine(aMachine("b", master, withoutNode))
	f.putMachine(aMachine("c", master, withoutNode, inNamespace("other")))
	f.putMachine(aMachine("worker", withoutNode, inNamespace("workers")))
	wants := func(sentence string, find func(string) (node.Facts, bool), want ...bool) {
		t.Helper()
		_, targets := f.snapshot(find)
		for i := range targets {
			if targets[i].ControlPlane != want[i] {
				t.Errorf("%s: %s is of the control plane: %t", sentence, targets[i].ID, targets[i].ControlPlane)
			}
			if labelled := targets[i].ID.Name != "worker"; targets[i].MaybeControlPlane() != labelled {
				t.Errorf("%s: %s is held to the gates of the control plane: %t, want %t as its label says", sentence, targets[i].ID, !labelled, labelled)
			}
		}
	}
	wants("no node is known to be one of it", none, true, true, true, false)
	wants("a node is", find, true, true, false, false)
	wants("that node is gone", none, true, true, false, false)
}

// TestI14NodeOfAnotherNamespaceHidesNoProblem: a machine that can't be read keeps its own problem, and a machine that is being
// deleted gets none, since it leaves.
func TestI14NodeOfAnotherNamespaceHidesNoProblem(t *testing.T) {
	unreadable := aMachine("a", refer("theirs"))
	unreadable.Unreadable = "status.phase is 7"
	s := newStore()
	s.putMachine(unreadable)
	s.putMachine(aMachine("b", refer("theirs"), deleting))
	find := these(map[string]node.Facts{"theirs": {Node: core.Node{State: core.NodePresent, Name: "theirs", UID: "uid"}, MachineNamespace: "other"}})
	_, targets := s.snapshot(find)
	if targets[0].Problem != "status.phase is 7" || targets[1].Problem != "" {
		t.Errorf("the problems are %q and %q", targets[0].Problem, targets[1].Problem)
	}
	if id := s.machineOf(core.ID{Kind: "Node", Name: "theirs", UID: "uid"}, find); id != (core.ID{}) {
		t.Errorf("the node has the machine %s", id)
	}
	s.putCheck(check(t, "check", "1", workers, nil))
	if s.actsOn(map[string]string{"theirs": "uid", "": ""}, find) {
		t.Error("a health check acts on the node by a machine of another namespace")
	}
}

// TestMachinesThatAreNotJudgedActOnNothing: neither machines that share a node nor a machine without a node make a health check
// act on a node.
func TestMachinesThatAreNotJudgedActOnNothing(t *testing.T) {
	s := newStore()
	s.putMachine(aMachine("a", refer("shared")))
	s.putMachine(aMachine("b", refer("shared")))
	s.putMachine(aMachine("c", withoutNode))
	s.putCheck(check(t, "check", "1", workers, nil))
	find := these(map[string]node.Facts{"shared": {Node: core.Node{State: core.NodePresent, Name: "shared", UID: "uid"}}})
	if s.actsOn(map[string]string{"shared": "uid"}, find) || s.actsOn(map[string]string{"another": ""}, find) {
		t.Error("it acts on a node of no machine that is judged")
	}
}
