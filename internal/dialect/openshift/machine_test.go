package openshift

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
)

// target returns the target of aMachine("m"), with changes.
func target(changes ...func(*core.Target)) core.Target {
	t := core.Target{
		ID:          core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"},
		Created:     ago(24 * time.Hour),
		Owner:       core.ID{Kind: "MachineSet", Namespace: "machines", Name: "workers", UID: "workers-uid"},
		StartupFrom: ago(23 * time.Hour),
		Node:        core.Node{State: core.NodeUnseen, Name: "m-node"},
		Revision:    "7",
		Parts:       core.NoParts(),
	}
	for _, change := range changes {
		change(&t)
	}
	return t
}

func owned(changes ...func(*metav1.OwnerReference)) func(*apiMachine) {
	return func(m *apiMachine) {
		for _, change := range changes {
			change(&m.OwnerReferences[0])
		}
	}
}

func ownerless(m *apiMachine) { m.OwnerReferences = nil }

type machineCase struct {
	reason  string
	machine *Machine
	want    core.Target
}

func TestMachineBecomesTarget(t *testing.T) {
	for _, cases := range []map[string]machineCase{phaseCases(), relationCases()} {
		for sentence, tc := range cases {
			t.Run(sentence, func(t *testing.T) {
				if diff := cmp.Diff(tc.want, readMachine(tc.machine).target); diff != "" {
					t.Errorf("%s\ntarget (-want +got):\n%s", tc.reason, diff)
				}
			})
		}
	}
}

func phaseCases() map[string]machineCase {
	awaited := func(t *core.Target) { t.Node = core.Node{State: core.NodeAwaited} }
	failed := func(since time.Time) func(*core.Target) {
		return func(t *core.Target) { t.Failed, t.FailedSince = true, since }
	}
	fromCreation := func(t *core.Target) { t.StartupFrom = ago(24 * time.Hour) }
	return map[string]machineCase{
		"a machine that runs": {
			reason: "its node is not known here, so it is unseen", machine: aMachine("m"), want: target(),
		},
		"a machine without a node": {
			reason: "the startup clock runs from its last update", machine: aMachine("m", withoutNode), want: target(awaited),
		},
		"a machine that was never updated": {
			reason: "the startup clock runs from its creation", machine: aMachine("m", withoutNode, neverUpdated),
			want: target(awaited, fromCreation),
		},
		"a machine that refers to a node of no name": {
			reason: "it names no node yet", machine: aMachine("m", refer("")), want: target(awaited),
		},
		"a failed machine": {
			reason: "phase Failed, since its last update", machine: aMachine("m", inPhase("Failed")), want: target(failed(ago(23 * time.Hour))),
		},
		"a failed machine that was never updated": {
			reason: "since its creation", machine: aMachine("m", inPhase("Failed"), neverUpdated),
			want: target(fromCreation, failed(ago(24*time.Hour))),
		},
		"a phase in lower case": {reason: "is another phase", machine: aMachine("m", inPhase("failed")), want: target()},
		"no phase": {
			reason: "a machine whose controller has not seen it yet", machine: aMachine("m", func(m *apiMachine) { m.Status.Phase = nil }), want: target(),
		},
		"a machine being deleted": {
			reason: "by whomever", machine: aMachine("m", deleting), want: target(func(t *core.Target) { t.Deleting = true }),
		},
	}
}

func relationCases() map[string]machineCase {
	unowned := func(t *core.Target) { t.Owner = core.ID{} }
	remediated := func(t *core.Target) { t.ExternallyRemediated = true }
	controlPlane := func(t *core.Target) { t.ControlPlane = true }
	no := false
	return map[string]machineCase{
		"no owner": {reason: "nothing replaces it", machine: aMachine("m", ownerless), want: target(unowned)},
		"an owner that does not control it": {
			reason:  "controller=false replaces nothing",
			machine: aMachine("m", owned(func(o *metav1.OwnerReference) { o.Controller = &no })), want: target(unowned),
		},
		"an owner that says nothing of control": {
			reason:  "the same",
			machine: aMachine("m", owned(func(o *metav1.OwnerReference) { o.Controller = nil })), want: target(unowned),
		},
		"a controller of another kind": {
			reason:  "any kind will do, as in today's controller",
			machine: aMachine("m", owned(func(o *metav1.OwnerReference) { o.Kind, o.Name, o.UID = "ControlPlaneMachineSet", "cluster", "c-uid" })),
			want: target(func(t *core.Target) {
				t.Owner = core.ID{Kind: "ControlPlaneMachineSet", Namespace: "machines", Name: "cluster", UID: "c-uid"}
			}),
		},
		"a request for outside repair": {
			reason: "presence is all that counts", machine: aMachine("m", annotated("host.metal3.io/external-remediation", "")), want: target(remediated),
		},
		"another annotation": {reason: "is not read", machine: aMachine("m", annotated("host.metal3.io/other", "x")), want: target()},
		"a master": {
			reason: "by its role label", machine: aMachine("m", labelled("machine.openshift.io/cluster-api-machine-role", "master")), want: target(controlPlane),
		},
		"a worker": {
			reason: "by its role label", machine: aMachine("m", labelled("machine.openshift.io/cluster-api-machine-role", "worker")), want: target(),
		},
	}
}

// TestMachineIsDecodedFromTheAPI reads a machine as the API server delivers it, with many fields
// that no decision reads.
func TestMachineIsDecodedFromTheAPI(t *testing.T) {
	body, err := utilyaml.ToJSON([]byte(`
apiVersion: machine.openshift.io/v1beta1
kind: Machine
metadata:
  name: m
  namespace: machines
  uid: m-uid
  resourceVersion: "7"
  creationTimestamp: "2026-08-02T12:00:00Z"
  labels: {role: worker}
  finalizers: [machine.machine.openshift.io]
  ownerReferences:
  - {apiVersion: machine.openshift.io/v1beta1, kind: MachineSet, name: workers, uid: workers-uid, controller: true, blockOwnerDeletion: true}
spec:
  providerID: aws:///us-east-1a/i-0
  providerSpec: {value: {kind: AWSMachineProviderConfig, ami: {id: ami-0}}}
status:
  phase: Failed
  errorMessage: can't find created instance
  lastUpdated: "2026-08-02T13:00:00Z"
  nodeRef: {kind: Node, name: m-node, uid: 0a}
  addresses: [{type: InternalIP, address: 10.0.0.1}]
`))
	if err != nil {
		t.Fatalf("reading the machine: %v", err)
	}
	m := &Machine{}
	if err := json.Unmarshal(body, m); err != nil {
		t.Fatalf("decoding the machine: %v", err)
	}
	want := target(func(t *core.Target) { t.Failed, t.FailedSince = true, ago(23*time.Hour) })
	if diff := cmp.Diff(want, readMachine(m).target); diff != "" {
		t.Errorf("target (-want +got):\n%s", diff)
	}
}

// someMachine draws machines with all fields that decisions read, and others.
func someMachine() *rapid.Generator[*apiMachine] {
	return rapid.Custom(func(t *rapid.T) *apiMachine {
		m := &apiMachine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "machines", Name: rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "name"), UID: "uid",
			ResourceVersion:   rapid.StringMatching(`[1-9][0-9]{0,3}`).Draw(t, "revision"),
			CreationTimestamp: metav1.NewTime(someInstant().Draw(t, "created")),
			Labels:            someStrings(roleLabel, "role", "zone").Draw(t, "labels"),
			Annotations:       someStrings(externalAnnotation, annotation.ClaimedBy, "a", "b").Draw(t, "annotations"),
			Finalizers:        rapid.SliceOfN(rapid.Just("f"), 0, 2).Draw(t, "finalizers"),
			OwnerReferences:   rapid.SliceOfN(someOwner(), 0, 2).Draw(t, "owners"),
			ManagedFields:     rapid.SliceOfN(rapid.Just(metav1.ManagedFieldsEntry{Manager: "x"}), 0, 2).Draw(t, "managed"),
		}}
		m.DeletionTimestamp = rapid.Ptr(rapid.Just(metav1.NewTime(noon)), true).Draw(t, "deleted")
		m.Status.Phase = rapid.Ptr(rapid.SampledFrom([]string{"Running", "Failed", "Provisioned", ""}), true).Draw(t, "phase")
		if rapid.Bool().Draw(t, "specified") {
			m.Spec = map[string]any{"providerID": "cloud:///m", "status": map[string]any{"phase": "Failed"}, "metadata": map[string]any{"name": "other"}}
		}
		if rapid.Bool().Draw(t, "updated") {
			at := metav1.NewTime(someInstant().Draw(t, "update"))
			m.Status.LastUpdated = &at
		}
		if rapid.Bool().Draw(t, "joined") {
			refer(rapid.SampledFrom([]string{"", "node-a", "node-b"}).Draw(t, "node"))(m)
		}
		return m
	})
}

func someInstant() *rapid.Generator[time.Time] {
	return rapid.Map(rapid.IntRange(-100, 100), func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) })
}

func someStrings(keys ...string) *rapid.Generator[map[string]string] {
	return rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"", "master", "x"}), 0, len(keys))
}

func someOwner() *rapid.Generator[metav1.OwnerReference] {
	return rapid.Custom(func(t *rapid.T) metav1.OwnerReference {
		return metav1.OwnerReference{
			Kind: "MachineSet", Name: rapid.SampledFrom([]string{"workers", "infra"}).Draw(t, "owner"), UID: "owner-uid",
			Controller: rapid.Ptr(rapid.Bool(), true).Draw(t, "controls"),
		}
	})
}

// readAPIMachine is the naive twin of readMachine: it reads a whole machine.
func readAPIMachine(s *apiMachine) core.Target {
	t := core.Target{
		ID: core.ID{Kind: "Machine", Namespace: s.Namespace, Name: s.Name, UID: string(s.UID)}, Revision: s.ResourceVersion, Parts: core.NoParts(),
		Created: s.CreationTimestamp.Time, StartupFrom: s.CreationTimestamp.Time, Deleting: s.DeletionTimestamp != nil,
		ControlPlane: s.Labels["machine.openshift.io/cluster-api-machine-role"] == "master", Node: core.Node{State: core.NodeAwaited},
	}
	if s.Status.LastUpdated != nil {
		t.StartupFrom = s.Status.LastUpdated.Time
	}
	if s.Status.Phase != nil && *s.Status.Phase == "Failed" {
		t.Failed, t.FailedSince = true, t.StartupFrom
	}
	if owner := metav1.GetControllerOf(s); owner != nil {
		t.Owner = core.ID{Kind: owner.Kind, Namespace: s.Namespace, Name: owner.Name, UID: string(owner.UID)}
	}
	if s.Status.NodeRef != nil && s.Status.NodeRef.Name != "" {
		t.Node = core.Node{State: core.NodeUnseen, Name: s.Status.NodeRef.Name}
	}
	_, t.ExternallyRemediated = s.Annotations["host.metal3.io/external-remediation"]
	if by, claimed := s.Annotations["fettle.io/claimed-by"]; claimed {
		t.Claimed, t.Claimant = true, fmt.Sprintf("remediation %q has claimed it by annotation fettle.io/claimed-by", by)
	}
	return t
}

// TestDecodingLosesNothingThatIsRead: a slim machine and a whole one become the same target.
func TestDecodingLosesNothingThatIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := someMachine().Draw(t, "machine")
		got := readMachine(s.decoded())
		if diff := cmp.Diff(readAPIMachine(s), got.target); diff != "" {
			t.Errorf("target (-of the whole machine +of the slim one):\n%s", diff)
		}
		if diff := cmp.Diff(labels.Set(s.Labels), labels.Set(got.labels.Map()), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("labels (-of the whole machine +of the slim one):\n%s", diff)
		}
	})
}

func TestWhatIsNoMachineIsNotDecoded(t *testing.T) {
	for _, body := range []string{``, `7`, `[]`, `{"metadata": 7}`, `{"metadata": {"labels": {"a": 1}}}`} {
		if err := json.Unmarshal([]byte(body), &Machine{}); err == nil {
			t.Errorf("%s was decoded as a machine", body)
		}
	}
}

// TestMachinesAreNotEncoded: a decoded machine lacks most fields, and must not be written.
func TestMachinesAreNotEncoded(t *testing.T) {
	for _, obj := range []any{aMachine("m"), *aMachine("m"), MachineList{Items: []Machine{*aMachine("m")}}} {
		if body, err := json.Marshal(obj); err == nil {
			t.Errorf("a %T was encoded as %s", obj, body)
		}
	}
}

// TestCopiesAreEqualAndApart: a copy equals its machine, and changing it does not change the
// machine.
func TestCopiesAreEqualAndApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := someMachine().Draw(t, "machine").decoded()
		was := m.DeepCopyObject()
		list := &MachineList{Items: []Machine{*m}}
		list.ResourceVersion = "9"
		if diff := cmp.Diff(list, list.DeepCopyObject()); diff != "" {
			t.Fatalf("a copy of a list differs (-original +copy):\n%s", diff)
		}
		meddle(&list.DeepCopyObject().(*MachineList).Items[0])
		meddle(m.DeepCopyObject().(*Machine))
		if diff := cmp.Diff(was, runtime.Object(&list.Items[0])); diff != "" {
			t.Errorf("changing the copy changed the original (-was +is):\n%s", diff)
		}
	})
}

// TestCopyOfADeletedMachine: the time of a copy is not that of the machine.
func TestCopyOfADeletedMachine(t *testing.T) {
	m := aMachine("m", deleting)
	at, owner := *m.DeletionTimestamp, *m.Owner
	meddle(m.DeepCopyObject().(*Machine))
	if !m.DeletionTimestamp.Equal(&at) || *m.Owner != owner {
		t.Errorf("a change of the copy changed the time to %s, and the owner to %v", m.DeletionTimestamp, m.Owner)
	}
}

// TestScheme: a typed client of the scheme can list and watch machines.
func TestScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Machine", "MachineList", "WatchEvent", "ListOptions"} {
		if !s.Recognizes(v1beta1.GroupVersion.WithKind(kind)) {
			t.Errorf("the scheme lacks %s", kind)
		}
	}
}

// meddle changes everything that a machine points to.
func meddle(m *Machine) {
	m.SetLabels(map[string]string{"role": "changed"})
	for key := range m.GetAnnotations() {
		m.SetAnnotations(map[string]string{key: "changed"})
	}
	if m.DeletionTimestamp != nil {
		*m.DeletionTimestamp = metav1.NewTime(noon.Add(time.Hour))
	}
	if m.Owner != nil {
		m.Owner.Name = "changed"
	}
}

// BenchmarkDecode compares decoding a slim machine with decoding a whole one.
func BenchmarkDecode(b *testing.B) {
	s := newAPIMachine("m", annotated("note", strings.Repeat("x", 300)))
	s.Spec = map[string]any{"providerSpec": map[string]any{"value": map[string]any{"image": strings.Repeat("x", 800)}}}
	s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":"` + strings.Repeat("x", 1500) + `"}`)}}
	body, err := json.Marshal(s)
	if err != nil {
		b.Fatalf("encoding: %v", err)
	}
	for name, into := range map[string]func() any{"whole": func() any { return &apiMachine{} }, "slim": func() any { return &Machine{} }} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				_ = utiljson.Unmarshal(body, into())
			}
		})
	}
}

func TestSchemeKnowsMachines(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatalf("adding to the scheme: %v", err)
	}
	for _, kind := range []string{"Machine", "MachineList"} {
		if !scheme.Recognizes(v1beta1.GroupVersion.WithKind(kind)) {
			t.Errorf("the scheme does not know %s", kind)
		}
	}
}

// TestI15MachineIsBounded: a machine with fields beyond the bounds is cut and not judged.
func TestI15MachineIsBounded(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	m := &Machine{}
	body := `{"metadata": {"name": "m", "labels": {"a": "` + long + `"}}, "status": {"phase": "Failed` + long + `", "nodeRef": {"name": "` + long + `"}}}`
	if err := m.UnmarshalJSON([]byte(body)); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	if m.Phase == "Failed" || len(m.Phase) > maxPhaseLength || m.Node != "" || len(m.Labels) > 0 || len(m.Unreadable) > 1000 {
		t.Errorf("kept are a phase of %d bytes, the node %.40q, %d labels, and a sentence of %d bytes", len(m.Phase), m.Node, len(m.Labels), len(m.Unreadable))
	}
	for _, want := range []string{"a label whose key or value is longer than", "no node can be called"} {
		if got := readMachine(m).target.Problem; !strings.Contains(got, want) {
			t.Errorf("the problem %q does not say %q", got, want)
		}
	}
}
