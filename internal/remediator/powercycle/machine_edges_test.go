package powercycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// recordedM has a remediation record machine m.
func recordedM(s *v1alpha1.PowerRemediationStatus) {
	s.Machine = &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
}

// TestMachinesThatCanNotBeReadAreReadAgain after two seconds, and so are their BareMetalHosts. Where Metal3 is not installed, it is not known
// how the host was provisioned that a machine names.
func TestMachinesThatCanNotBeReadAreReadAgain(t *testing.T) {
	down := errors.New("down")
	retried := &fencing.Machine{Failed: true}
	for sentence, tc := range map[string]struct {
		recorded bool
		kind     schema.GroupVersionKind
		err      error
		want     *fencing.Machine
	}{
		"the machine":                        {true, fencednode.OpenShiftMachine, down, retried},
		"its BareMetalHost":                  {true, bareMetalHost, down, retried},
		"the machine, which is not recorded": {false, fencednode.OpenShiftMachine, down, retried},
		"there is no Metal3":                 {true, bareMetalHost, &meta.NoKindMatchError{}, &fencing.Machine{Exists: true, Kept: fencing.KeptHostUnknown}},
	} {
		w := newWorld(t, machine())
		w.refuses(unread(tc.kind, tc.err))
		rec := &reconciliation{r: remediation(in(fencing.DeletingMachine)), node: "node-a", raw: node(annotated(machineAnnotation, "machines/m"))}
		if tc.recorded {
			recordedM(&rec.r.Status)
		}
		before := w.now()
		got := w.readMachine(t.Context(), rec)
		if pause := got.RetryAt.Sub(before).Truncate(time.Second); got.Failed && pause != retryRead {
			t.Errorf("%s: it is read again after %v", sentence, pause)
		}
		if got.RetryAt = (time.Time{}); *got != *tc.want {
			t.Errorf("%s: %+v, want %+v", sentence, got, tc.want)
		}
	}
}

// TestAMachineThatCanNotBeReadRefusesNothing: it may well have a node.
func TestAMachineThatCanNotBeReadRefusesNothing(t *testing.T) {
	w := newWorld(t, machine())
	down := errors.New("down")
	w.refuses(unread(fencednode.OpenShiftMachine, down))
	_, found, err := w.identify(t.Context(), remediation(func(r *v1alpha1.PowerRemediation) {
		r.Namespace, r.Name = "machines", "m"
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "m", UID: "m-uid"}}
	}))
	if found.found() || !errors.Is(err, down) {
		t.Errorf("problem %+v, %v", found, err)
	}
}

// TestAMachineThatIsBeingDeleted is not deleted again.
func TestAMachineThatIsBeingDeleted(t *testing.T) {
	w := newWorld(t, machine(func(m *unstructured.Unstructured) {
		m.SetDeletionTimestamp(&metav1.Time{Time: noon})
		m.SetFinalizers([]string{"x"})
	}))
	rec := &reconciliation{r: remediation(in(fencing.DeletingMachine, recordedM)), node: "node-a", raw: node()}
	if got := w.readMachine(t.Context(), rec); *got != (fencing.Machine{Exists: true, Deleting: true}) {
		t.Errorf("it is %+v", got)
	}
}

// TestHostsOfAMachineDecideWhetherItIsKept: that of its annotation, that of the BMC of its node, and that which the BMC named before. A machine of
// Cluster API is kept for the same reasons.
func TestHostsOfAMachineDecideWhetherItIsKept(t *testing.T) {
	const ours, external, forged = "metal3/ours", "metal3/external", "metal3/forged"
	for sentence, tc := range map[string]struct {
		annotation, bmc, recorded string
		want                      fencing.Reason
		reads                     int
	}{
		"none names a host":                     {"", "", "", "", 0},
		"all name a host of Metal3":             {ours, ours, ours, "", 1},
		"they name two":                         {ours, "metal3/other", "", "", 2},
		"the machine names one of others":       {external, ours, ours, fencing.KeptExternallyProvisioned, 1},
		"the BMC names one of others":           {"", external, "", fencing.KeptExternallyProvisioned, 1},
		"the BMC named one of others":           {ours, "", external, fencing.KeptExternallyProvisioned, 2},
		"the machine names a host that is gone": {"metal3/gone", ours, ours, fencing.KeptHostUnknown, 1},
		"the BMC names a host that is gone":     {ours, "metal3/gone", ours, fencing.KeptHostUnknown, 2},
		"the BMC named a host that is gone":     {"", "", "metal3/gone", fencing.KeptHostUnknown, 1},
		"the host is not as Metal3 writes":      {forged, "", "", fencing.KeptHostUnknown, 1},
		"the machine names a name":              {"host", ours, ours, fencing.KeptHostUnknown, 0},
		"the machine names no namespace":        {"/host", "", "", fencing.KeptHostUnknown, 0},
		"the machine names a namespace":         {"machines/", "", "", fencing.KeptHostUnknown, 0},
	} {
		wrong := metal3Host("forged", "forged-uid", true)
		wrong.Object["spec"] = map[string]any{"externallyProvisioned": "no"}
		others := metal3Host("external", "external-uid", true)
		others.Object["spec"] = map[string]any{"externallyProvisioned": true}
		w := newWorld(t, metal3Host("ours", "ours-uid", true), metal3Host("other", "other-uid", true), others, wrong)
		requests := w.requests()
		rec := &reconciliation{r: remediation(in(fencing.DeletingMachine))}
		if tc.bmc != "" {
			rec.bmc = bmcFor("a", "node-a", "", throughMetal3(strings.TrimPrefix(tc.bmc, "metal3/")))
		}
		if tc.recorded != "" {
			rec.r.Status.BMC = &v1alpha1.FencingBMC{HostNamespace: "metal3", HostName: strings.TrimPrefix(tc.recorded, "metal3/")}
		}
		m := machine(with(hostAnnotation, tc.annotation))
		if got, err := w.keptByHost(t.Context(), rec, m); got != tc.want || err != nil || *requests != tc.reads {
			t.Errorf("%s: kept for %q, want %q; %v after %d requests", sentence, got, tc.want, err, *requests)
		}
	}
	w := newWorld(t)
	rec := &reconciliation{r: remediation(in(fencing.DeletingMachine)), bmc: bmcFor("a", "node-a", "redfish://h")}
	if got, err := w.keptByHost(t.Context(), rec, machine(func(m *unstructured.Unstructured) { m.SetAnnotations(nil) })); got != "" || err != nil {
		t.Errorf("without Metal3, kept for %q, %v", got, err)
	}
}

// TestWhichMachineIsRecorded: the machine that names the node as the node names it, unless it is of the control plane.
func TestWhichMachineIsRecorded(t *testing.T) {
	named := func(value string) *corev1.Node { return node(annotated(machineAnnotation, value)) }
	for sentence, tc := range map[string]struct {
		node  *corev1.Node
		m     *unstructured.Unstructured
		want  bool
		reads int
	}{
		"both name each other":     {named("machines/m"), machine(), true, 1},
		"there is no node":         {nil, machine(), false, 0},
		"the node names none":      {node(), machine(), false, 0},
		"the node names no space":  {named("/m"), machine(), false, 0},
		"the node names no name":   {named("machines/"), machine(), false, 0},
		"the machine is gone":      {named("machines/m"), nil, false, 1},
		"the machine has another":  {named("machines/m"), machine(func(m *unstructured.Unstructured) { delete(m.Object, "status") }), false, 1},
		"it is of a control plane": {node(annotated(machineAnnotation, "machines/m"), labelled("node-role.kubernetes.io/master", "")), machine(), false, 1},
	} {
		w := newWorld(t)
		if tc.m != nil {
			w = newWorld(t, tc.m)
		}
		requests := w.requests()
		got, err := w.machineOf(t.Context(), tc.node)
		if err != nil || (got != nil) != tc.want || tc.want && *got != (v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}) || *requests != tc.reads {
			t.Errorf("%s: %+v, %v after %d requests", sentence, got, err, *requests)
		}
	}
	w := newWorld(t, machine())
	w.refuses(unread(fencednode.OpenShiftMachine, errors.New("down")))
	if got, err := w.machineOf(t.Context(), named("machines/m")); got != nil || err == nil {
		t.Errorf("where it can't be read: %+v, %v", got, err)
	}
}

// TestTheNodeOfABMCIsReadWithASlot in Fettle's own cluster, and the slot is given back. Without one nothing is read, nor where it is not
// compared.
func TestTheNodeOfABMCIsReadWithASlot(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for sentence, tc := range map[string]struct {
		ctx    context.Context
		bmc    *v1alpha1.BMC
		slots  int
		reads  int
		fails  bool
		exists bool
	}{
		"a slot is free":     {t.Context(), bmcFor("a", "node-a", "redfish://h"), 1, 1, false, true},
		"no slot is free":    {over, bmcFor("a", "node-a", "redfish://h"), 0, 0, true, false},
		"it is not compared": {t.Context(), bmcFor("a", "node-a", "redfish://h", unchecked), 1, 0, false, false},
	} {
		w := newWorld(t, node())
		w.apiSlots = newAPISlots(tc.slots, tc.slots)
		requests := w.requests()
		n, err := w.readNodeOf(tc.ctx, tc.bmc)
		if (err != nil) != tc.fails || (n != nil) != tc.exists || *requests != tc.reads || w.apiSlots.free != tc.slots {
			t.Errorf("%s: node %v, %v after %d requests, and %d slots are free", sentence, n, err, *requests, w.apiSlots.free)
		}
	}
}

// TestTheNodeOfABMCLeavesItsRoom to others, also where its cluster has none for it.
func TestTheNodeOfABMCLeavesItsRoom(t *testing.T) {
	east := newWorld(t, node())
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: east})
	if n, err := w.readNodeOf(t.Context(), bmcIn("a", "fleet/east", "node-a")); n == nil || err != nil || len(w.elsewhere) != 0 {
		t.Errorf("the node is %v (%v), and %d probes are under way", n, err, len(w.elsewhere))
	}
	for left := 1; left != 0; { // the room is left beside the probe
		w.clusterLimits.mu.Lock()
		left = w.clusterLimits.reconciles
		w.clusterLimits.mu.Unlock()
	}
	w.clusterLimits.reconciles = maxReconcilesElsewhere
	if n, err := w.readNodeOf(t.Context(), bmcIn("a", "fleet/east", "node-a")); n != nil || !errors.Is(err, errNoRoom) || len(w.elsewhere) != 0 {
		t.Errorf("without room the node is %v (%v), and %d probes are under way", n, err, len(w.elsewhere))
	}
}

// TestEvidence has the proof, its time, the BMC and the boot IDs, as far as they are known.
func TestEvidence(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.PowerRemediationStatus){
		"; there is no proof that it has stopped":                         func(s *v1alpha1.PowerRemediationStatus) { s.Proof = nil },
		"; proof PowerOff at 2026-08-03T12:00:00Z, boot ID before boot-1": func(*v1alpha1.PowerRemediationStatus) {},
		"; proof PowerOff at 2026-08-03T12:00:00Z":                        func(s *v1alpha1.PowerRemediationStatus) { s.Node.BootID = "" },
		"; proof PowerOff at 2026-08-03T12:00:00Z through BMC bmc-a, boot ID before boot-1": func(s *v1alpha1.PowerRemediationStatus) {
			s.BMC = &v1alpha1.FencingBMC{Name: "bmc-a"}
		},
		"; proof PowerOff at 2026-08-03T12:00:00Z, boot ID before boot-1, boot ID now boot-2": func(s *v1alpha1.PowerRemediationStatus) { s.Proof.BootID = "boot-2" },
	} {
		s := remediation(in(fencing.Releasing)).Status
		s.Proof = &v1alpha1.FencingProof{Kind: "PowerOff", At: metav1.NewMicroTime(noon.In(time.FixedZone("", 3600)))}
		change(&s)
		if got := evidence(&s); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
}

// TestEndsSayWhereTheHostIsLeft: a user powers it on where no remediation does.
func TestEndsSayWhereTheHostIsLeft(t *testing.T) {
	const byHand, off, deleted = "power it on by hand", "is off, and stays off until this remediation is deleted", "its machine was deleted"
	for _, tc := range []struct {
		phase fencing.Phase
		why   fencing.Reason
		off   bool
		want  string
	}{
		{fencing.Aborted, fencing.Stopped, true, byHand}, {fencing.Aborted, fencing.Stopped, false, ""},
		{fencing.Succeeded, "", true, off}, {fencing.Succeeded, "", false, ""}, {fencing.Succeeded, fencing.MachineGone, false, deleted},
	} {
		s := remediation(in(tc.phase)).Status
		s.Reason, s.PoweredOff = string(tc.why), tc.off
		text := phaseMessage(&s)
		for _, part := range []string{byHand, off, deleted} {
			if strings.Contains(text, part) != (part == tc.want) {
				t.Errorf("%s with %q, powered off %t, says %q", tc.phase, tc.why, tc.off, text)
			}
		}
	}
}
