package machinedeletion

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/contract"
)

// TestI11WhichMachineIsMeant: each reason why a machine is not that of the remediation, and the machines that are.
func TestI11WhichMachineIsMeant(t *testing.T) {
	node := func(uid types.UID) *nodeFacts { return &nodeFacts{found: uid != "", uid: uid} }
	with := func(change func(*machineFacts)) *machineFacts { return machineA(change) }
	ofMachine := remediation(called("worker-a"), ownedBy("machine.openshift.io/v1beta1", "Machine", "worker-a", "a-uid"))
	for sentence, tc := range map[string]struct {
		machine *machineFacts
		node    *nodeFacts
		of      *v1alpha1.MachineDeletionRemediation
		owner   types.UID
		says    string
	}{
		"it is meant":                             {machineA(), node("n-uid"), remediation(), "", ""},
		"it owns the remediation":                 {machineA(), node("n-uid"), remediation(), "a-uid", ""},
		"it owns the remediation, and is younger": {with(func(m *machineFacts) { m.created = noon }), node("n-uid"), remediation(), "a-uid", ""},
		"there is none":                           {&machineFacts{key: workerA}, node("n-uid"), remediation(), "", "there is no machine machines/worker-a"},
		"another owns the remediation":            {machineA(), node("n-uid"), remediation(), "other-uid", "machine machines/worker-a is not the machine that owns this remediation"},
		"it is younger":                           {with(func(m *machineFacts) { m.created = noon }), node("n-uid"), remediation(), "", "machine machines/worker-a is not older than this remediation, so it was not meant"},
		"it is as old":                            {with(func(m *machineFacts) { m.created = noon.Add(-time.Minute) }), node("n-uid"), remediation(), "", "machine machines/worker-a is not older than this remediation, so it was not meant"},
		"it refers to this very node":             {with(func(m *machineFacts) { m.nodeUID = "n-uid" }), node("n-uid"), remediation(), "", ""},
		"it refers to an earlier node":            {with(func(m *machineFacts) { m.nodeUID = "earlier" }), node("n-uid"), remediation(), "", "machine machines/worker-a refers to an earlier node of the name node-a (status.nodeRef.uid)"},
		"its node is gone":                        {with(func(m *machineFacts) { m.nodeUID = "earlier" }), node(""), remediation(), "", ""},
		"the remediation is about a machine":      {with(func(m *machineFacts) { m.nodeUID, m.node = "earlier", "node-z" }), node("n-uid"), ofMachine, "a-uid", ""},
		"it refers to another node":               {with(func(m *machineFacts) { m.node = "node-z" }), node("n-uid"), remediation(), "", "machine machines/worker-a belongs to node node-z (status.nodeRef), and not to node node-a"},
		"it refers to no node":                    {with(func(m *machineFacts) { m.node = "" }), node("n-uid"), remediation(), "", "machine machines/worker-a does not refer to a node (status.nodeRef), so it is not known to be that of node node-a"},
	} {
		got := machineMismatch(&facts{remediation: tc.of, machine: tc.machine, node: tc.node, now: noon}, workerA, tc.owner)
		if got != tc.says {
			t.Errorf("%s: %q, want %q", sentence, got, tc.says)
		}
	}
}

// TestRemediationsOfMachines are told from those of nodes.
func TestRemediationsOfMachines(t *testing.T) {
	machine := ownedBy("machine.openshift.io/v1beta1", "Machine", "worker-a", "a-uid")
	for sentence, tc := range map[string]struct {
		of           *v1alpha1.MachineDeletionRemediation
		owner, about bool
	}{
		"a machine's":            {remediation(called("worker-a"), machine), true, true},
		"in another version":     {remediation(called("worker-a"), ownedBy("machine.openshift.io/v1", "Machine", "worker-a", "a-uid")), true, true},
		"of a node":              {remediation(called("worker-a")), false, false},
		"owned by two":           {remediation(called("worker-a"), ownedBy("v1", "Node", "node-a", "n-uid"), machine), true, false},
		"called otherwise":       {remediation(machine), true, false},
		"that names a node":      {remediation(called("worker-a"), machine, annotated(v1alpha1.NodeNameAnnotation, "node-a")), true, false},
		"owned by another kind":  {remediation(called("worker-a"), ownedBy("machine.openshift.io/v1beta1", "MachineSet", "worker-a", "a-uid")), false, false},
		"owned by another API's": {remediation(called("worker-a"), ownedBy("cluster.x-k8s.io/v1beta2", "Machine", "worker-a", "a-uid")), false, false},
		"owned by no version":    {remediation(called("worker-a"), ownedBy("machine.openshift.io/v1/v1", "Machine", "worker-a", "a-uid")), false, false},
		"without a name":         {remediation(called(""), ownedBy("v1", "Node", "", "n-uid")), false, false},
	} {
		owner, owned := contract.OwnerMachine(tc.of, machineResource.GroupKind())
		key, uid := owner.Key, owner.UID
		if owned != tc.owner || contract.IsForMachine(tc.of, machineResource.GroupKind()) != tc.about || (owned && (key != workerA || uid != "a-uid")) {
			t.Errorf("%s: owned by %s (%s): %t, and about it: %t", sentence, key, uid, owned, contract.IsForMachine(tc.of, machineResource.GroupKind()))
		}
	}
}

func TestMachinesOfNodes(t *testing.T) {
	for text, want := range map[string]types.NamespacedName{
		"machines/worker-a": workerA, "": {}, "worker-a": {}, "/worker-a": {}, "machines/": {}, "machines/worker-a/b": {}, "/": {},
	} {
		if got, ok := machineKey(text); got != want || ok != (want.Name != "") {
			t.Errorf("%q is %v, %t", text, got, ok)
		}
	}
}

// TestReplicasOfOwners that are no number of machines are unknown.
func TestReplicasOfOwners(t *testing.T) {
	for sentence, tc := range map[string]struct {
		spec map[string]any
		want int // -1 for unknown
	}{
		"some": {map[string]any{"replicas": int64(3)}, 3}, "none": {map[string]any{"replicas": int64(0)}, 0}, "not said": {map[string]any{}, -1},
		"less than none": {map[string]any{"replicas": int64(-1)}, -1}, "a text": {map[string]any{"replicas": "3"}, -1},
		"the most": {map[string]any{"replicas": int64(1<<30 - 1)}, 1<<30 - 1}, "too many": {map[string]any{"replicas": int64(1 << 30)}, -1},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": tc.spec}}
		u.SetUID("set-uid")
		got := ownerOf(u, "set-uid")
		if !got.found || (got.replicas == nil) != (tc.want < 0) || (got.replicas != nil && *got.replicas != tc.want) {
			t.Errorf("%s: %+v", sentence, got)
		}
	}
}

// TestRecordedMachineExists: a machine that was not found is none, whatever was recorded.
func TestRecordedMachineExists(t *testing.T) {
	for _, found := range []bool{false, true} {
		if m := (&machineFacts{found: found}); m.is(&v1alpha1.ObjectReference{}) != found {
			t.Errorf("a machine that was found (%t) counts otherwise", found)
		}
	}
}

// mostMessage is what a message of any status has at most.
const mostMessage = 4096

// TestStatusesAreBounded, and have whole seconds, as the API server stores them.
func TestStatusesAreBounded(t *testing.T) {
	f := &facts{remediation: remediation(), now: noon.Add(1500 * time.Millisecond)}
	c := statusWith(f, condition{kind: "Processing", status: metav1.ConditionTrue, reason: "R", message: strings.Repeat("x", 100_000)}).Conditions[0]
	if len(c.Message) != mostMessage || !c.LastTransitionTime.Time.Equal(noon.Add(time.Second)) {
		t.Errorf("a message of %d bytes, since %s", len(c.Message), c.LastTransitionTime)
	}
	f.machine, f.pool = machineA(), &pool{joined: 1 << 40}
	if n := started(f).status.Machines; n != 1<<30+1 {
		t.Errorf("%d machines are recorded", n)
	}
}

// TestEndedRemediationNeedsNoFinalizer to wait for a machine that another program has recorded.
func TestEndedRemediationNeedsNoFinalizer(t *testing.T) {
	r := remediation(begun, ended(metav1.ConditionFalse))
	r.Finalizers = nil
	if got := decide(&facts{remediation: r, fresh: true, now: noon}); got.step != readCachedMachine {
		t.Errorf("the next step is %d", got.step)
	}
}

// TestWhichKindsAreNeeded: without either the remediator can do nothing.
func TestWhichKindsAreNeeded(t *testing.T) {
	if want := []string{"machinedeletionremediations.fettle.io", "machines.machine.openshift.io"}; !slices.Equal(Kinds, want) {
		t.Errorf("it needs %v", Kinds)
	}
}

// TestNodeThatNamesNoMachine ends the remediation.
func TestNodeThatNamesNoMachine(t *testing.T) {
	got := decide(&facts{remediation: remediation(finalized), fresh: true, node: &nodeFacts{found: true, machine: "nonsense"}, now: noon})
	if got.step != record || !strings.Contains(got.event.note, "node node-a does not name its machine by the annotation machine.openshift.io/machine") {
		t.Errorf("the next step is %d, with the note %q", got.step, got.event.note)
	}
}

// TestFirstOfSeveralIsNamed, whatever the order of the list.
func TestFirstOfSeveralIsNamed(t *testing.T) {
	for _, names := range [][]string{{"b", "c"}, {"c", "b"}} {
		var p pool
		for _, name := range names {
			p.add(Machine{Name: name, Node: "node-a"}, "set-uid", "node-a")
		}
		if p.sameNode != "b" {
			t.Errorf("of %v it names %s", names, p.sameNode)
		}
	}
}
