package powercycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// with sets an annotation of a machine.
func with(key, value string) func(*unstructured.Unstructured) {
	return func(m *unstructured.Unstructured) {
		all := m.GetAnnotations()
		all[key] = value
		m.SetAnnotations(all)
	}
}

func claiming(r *v1alpha1.PowerRemediation) {
	r.Annotations = map[string]string{annotation.ClaimedMachine: "machines/m"}
}

// claimWorld has node-a, which names machine m, its BMC and a remediation.
func claimWorld(t *testing.T, m *unstructured.Unstructured, r *v1alpha1.PowerRemediation, nodeChanges ...func(*corev1.Node)) *world {
	t.Helper()
	objects := []client.Object{
		node(append(nodeChanges, annotated(machineAnnotation, "machines/m"))...), r, bmcFor("a", "node-a", "telnet://10.0.0.1"),
	}
	if m != nil {
		objects = append(objects, m)
	}
	return newWorld(t, objects...)
}

// claimOfM returns the claim on machine m.
func (w *world) claimOfM(t *testing.T) string {
	t.Helper()
	return read(t, w, "machines", "m", machine()).GetAnnotations()[annotation.ClaimedBy]
}

const ourClaim = "checks/node-a/r-uid"

// TestARemediationWaitsForTheEndOfAMark: the machine controller of the platform works on the host, and nothing is done
// meanwhile. If the node is Ready at the end of the mark, nothing is left to do.
func TestARemediationWaitsForTheEndOfAMark(t *testing.T) {
	for sentence, tc := range map[string]struct {
		changes []func(*corev1.Node)
		want    string
	}{
		"the node is back":     {[]func(*corev1.Node){ready}, v1alpha1.CannotStartFencedMeanwhileReason},
		"the node is not back": {nil, string(fencing.PowerNotRead)},
	} {
		w := claimWorld(t, machine(with(fencednode.ExternalMark, "")), remediation(), tc.changes...)
		for range 2 {
			if err := w.reconcile(t.Context(), keyA); err != nil {
				t.Fatalf("%s: %v", sentence, err)
			}
		}
		r := w.remediation(t, keyA)
		said := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ProcessingCondition)
		if said == nil || said.Status != metav1.ConditionTrue || said.Reason != fencednode.MachineMarked || !strings.Contains(said.Message, "machine machines/m has the annotation host.metal3.io/external-remediation") {
			t.Errorf("%s: it says %+v", sentence, said)
		}
		if r.Status.Phase != "" || len(r.Finalizers) > 0 || len(w.patches) > 0 || w.sessions.claims.Len() > 0 || w.claimOfM(t) != "" {
			t.Errorf("%s: it is %+v after patches %v with %d claims", sentence, r.Status, w.patches, w.sessions.claims.Len())
		}
		m := read(t, w, "machines", "m", machine())
		m.SetAnnotations(nil)
		if err := w.api.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Fatalf("%s: %v", sentence, err)
		}
		said = meta.FindStatusCondition(w.remediation(t, keyA).Status.Conditions, v1alpha1.ProcessingCondition)
		if said.Reason != tc.want || strings.Contains(said.Message, "another remediation") {
			t.Errorf("%s: after the mark it says %+v, want %s", sentence, said, tc.want)
		}
	}
}

// TestClaimBeforeTheFirstEffect: the finalizer and the name of the machine come first, then the claim, then the taint.
func TestClaimBeforeTheFirstEffect(t *testing.T) {
	for sentence, tc := range map[string]struct {
		m    *unstructured.Unstructured
		want []string
	}{
		"a machine": {machine(), []string{`claimed-machine":"machines/m"`, `claimed-by":"` + ourClaim, "fettle.io/fencing"}},
		"of the control plane": {machine(func(m *unstructured.Unstructured) {
			m.SetLabels(map[string]string{"machine.openshift.io/cluster-api-machine-role": "master"})
		}), []string{"claimed-machine", "claimed-by", "fettle.io/fencing"}},
		"claimed before":    {machine(with(annotation.ClaimedBy, "checks/gone/gone-uid")), []string{"claimed-machine", `claimed-by":"` + ourClaim, "fettle.io/fencing"}},
		"claimed by itself": {machine(with(annotation.ClaimedBy, ourClaim)), []string{"claimed-machine", "fettle.io/fencing"}},
		"no machine":        {nil, []string{"finalizers", "fettle.io/fencing"}},
	} {
		w := claimWorld(t, tc.m, remediation())
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Errorf("%s: %v", sentence, err)
		}
		if len(w.patches) != len(tc.want) {
			t.Errorf("%s: patches %v, want %v", sentence, w.patches, tc.want)
			continue
		}
		for i, patch := range w.patches {
			if !strings.Contains(patch, tc.want[i]) {
				t.Errorf("%s: patch %d is %s, want %s", sentence, i, patch, tc.want[i])
			}
		}
		if tc.m != nil && w.claimOfM(t) != ourClaim {
			t.Errorf("%s: the claim is %q", sentence, w.claimOfM(t))
		}
		if tc.m == nil && strings.Contains(w.patches[0], "annotations") {
			t.Errorf("%s: the first patch is %s", sentence, w.patches[0])
		}
	}
}

// TestClaimRequiresTheRevision: between the read without a mark and the claim, the machine is marked. Nothing is done.
func TestClaimRequiresTheRevision(t *testing.T) {
	w := claimWorld(t, machine(), remediation())
	marks := false
	w.refuses(func(verb string, o runtime.Object) error {
		if m, is := o.(*metav1.PartialObjectMetadata); is && verb == "patch" && m.Kind == "Machine" && !marks {
			marks = true
			current := read(t, w, "machines", "m", machine())
			with(fencednode.ExternalMark, "")(current)
			return w.api.Update(t.Context(), current)
		}
		return nil
	})
	if err := w.reconcile(t.Context(), keyA); !apierrors.IsConflict(err) || !marks {
		t.Fatalf("the claim is refused with %v", err)
	}
	if r := w.remediation(t, keyA); r.Status.Phase != "" || w.claimOfM(t) != "" || len(w.node(t).Spec.Taints) > 0 {
		t.Errorf("it is %+v, and the claim is %q", r.Status, w.claimOfM(t))
	}
	if err := w.reconcile(t.Context(), keyA); err != nil || processing(w.remediation(t, keyA)) != fencednode.MachineMarked {
		t.Errorf("then it says %s (%v)", processing(w.remediation(t, keyA)), err)
	}
}

// TestMachineThatCanNotBeReadOrClaimed: nothing is done, and it is tried again.
func TestMachineThatCanNotBeReadOrClaimed(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "machine.openshift.io", Resource: "machines"}, "m", errors.New("no"))
	for verb, reason := range map[string]string{"get": "NotRead", "patch": ""} {
		w := claimWorld(t, machine(), remediation())
		reads := 0
		w.refuses(func(did string, o runtime.Object) error {
			if u, is := o.(interface{ GetName() string }); !is || o.GetObjectKind().GroupVersionKind().Kind != "Machine" || did != verb || u.GetName() == "x" {
				return nil
			}
			reads++
			if verb == "get" && reads == 1 { // the machine of the node is identified
				return nil
			}
			return forbidden
		})
		err := w.reconcile(t.Context(), keyA)
		if r := w.remediation(t, keyA); !apierrors.IsForbidden(err) || processing(r) != reason || r.Status.Phase != "" || len(w.node(t).Spec.Taints) > 0 {
			t.Errorf("%s: %v, %s, %+v", verb, err, processing(r), r.Status)
		}
	}
}

// TestClaimIsTakenBack at the end, and only the own one.
func TestClaimIsTakenBack(t *testing.T) {
	off := func(s *v1alpha1.PowerRemediationStatus) { s.PoweredOff = true }
	for sentence, tc := range map[string]struct {
		m       *unstructured.Unstructured
		changes []func(*v1alpha1.PowerRemediation)
		want    string
	}{
		"it is deleted before it began":     {machine(with(annotation.ClaimedBy, ourClaim)), []func(*v1alpha1.PowerRemediation){claiming, leaving, unbegun}, ""},
		"another has claimed it":            {machine(with(annotation.ClaimedBy, "checks/b/b-uid")), []func(*v1alpha1.PowerRemediation){claiming, leaving, unbegun}, "checks/b/b-uid"},
		"an earlier one of its name":        {machine(with(annotation.ClaimedBy, "checks/node-a/old-uid")), []func(*v1alpha1.PowerRemediation){claiming, leaving, unbegun}, "checks/node-a/old-uid"},
		"nothing has claimed it":            {machine(), []func(*v1alpha1.PowerRemediation){claiming, leaving, unbegun}, ""},
		"it has succeeded":                  {machine(with(annotation.ClaimedBy, ourClaim)), []func(*v1alpha1.PowerRemediation){claiming, in(fencing.Succeeded)}, ""},
		"it has succeeded, and left it off": {machine(with(annotation.ClaimedBy, ourClaim)), []func(*v1alpha1.PowerRemediation){claiming, in(fencing.Succeeded, off)}, ourClaim},
		"it has failed":                     {machine(with(annotation.ClaimedBy, ourClaim)), []func(*v1alpha1.PowerRemediation){claiming, in(fencing.Failed)}, ourClaim},
		"it was stopped":                    {machine(with(annotation.ClaimedBy, ourClaim)), []func(*v1alpha1.PowerRemediation){claiming, in(fencing.Aborted)}, ""},
		"it was stopped, and left it off":   {machine(with(annotation.ClaimedBy, ourClaim)), []func(*v1alpha1.PowerRemediation){claiming, in(fencing.Aborted, off)}, ourClaim},
		"it has not named the machine":      {machine(with(annotation.ClaimedBy, ourClaim)), []func(*v1alpha1.PowerRemediation){in(fencing.Succeeded)}, ourClaim},
	} {
		w := claimWorld(t, tc.m, remediation(tc.changes...))
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Errorf("%s: %v", sentence, err)
		}
		if got := w.claimOfM(t); got != tc.want {
			t.Errorf("%s: the claim is %q, want %q", sentence, got, tc.want)
		}
	}
}

func unbegun(r *v1alpha1.PowerRemediation) { r.Finalizers = []string{annotation.PowerFinalizer} }

// TestFinalizerOutlivesTheClaim: a claim that can't be taken back is tried again. A machine that is gone has none.
func TestFinalizerOutlivesTheClaim(t *testing.T) {
	w := claimWorld(t, machine(with(annotation.ClaimedBy, ourClaim)), remediation(claiming, leaving, unbegun))
	w.refuses(func(verb string, o runtime.Object) error {
		if m, is := o.(*metav1.PartialObjectMetadata); is && verb == "patch" && m.Kind == "Machine" {
			return errors.New("the API server is down")
		}
		return nil
	})
	if err := w.reconcile(t.Context(), keyA); err == nil || !slices.Contains(w.remediation(t, keyA).Finalizers, annotation.PowerFinalizer) {
		t.Errorf("the finalizers are %v (%v)", w.remediation(t, keyA).Finalizers, err)
	}
	w.refuses(nil)
	if err := w.reconcile(t.Context(), keyA); err != nil || w.claimOfM(t) != "" {
		t.Errorf("the claim is %q (%v)", w.claimOfM(t), err)
	}
	for _, r := range []*v1alpha1.PowerRemediation{remediation(claiming, leaving, unbegun), remediation(leaving, unbegun)} {
		w := claimWorld(t, nil, r)
		err := w.reconcile(t.Context(), keyA)
		if gone := w.api.Get(t.Context(), keyA, &v1alpha1.PowerRemediation{}); err != nil || !apierrors.IsNotFound(gone) {
			t.Errorf("it is not deleted: %v, %v", err, gone)
		}
	}
}

// TestMachineNamedByANode is none unless the annotation has a namespace and a name.
func TestMachineNamedByANode(t *testing.T) {
	w := newWorld(t, machine())
	for value, want := range map[string]bool{"machines/m": true, "machines": false, "/m": false, "machines/": false, "": false, "other/m": false} {
		requested := false
		w.refuses(func(string, runtime.Object) error { requested = true; return nil })
		m, err := w.machineNamedBy(t.Context(), &reconciliation{}, node(annotated(machineAnnotation, value)))
		if err != nil || (m != nil) != want || requested != (want || value == "other/m") {
			t.Errorf("%q: there is %v (%v), and the API server got a request: %t", value, m, err, requested)
		}
	}
	if m, err := w.machineNamedBy(t.Context(), &reconciliation{}, nil); m != nil || err != nil {
		t.Errorf("without a node there is %v (%v)", m, err)
	}
	tenants := &reconciliation{cluster: fencedCluster{NamespacedName: types.NamespacedName{Namespace: "fleet", Name: "east"}}}
	if m, err := w.machineNamedBy(t.Context(), tenants, node(annotated(machineAnnotation, "machines/m"))); m != nil || err != nil {
		t.Errorf("a node of a workload cluster names %v (%v)", m, err)
	}
}

// TestARefusedRemediationGivesItsClaimBack: a reconcile before has claimed the machine, and what was found since refuses the remediation. Else
// no other remediator would get the machine while the remediation exists.
func TestARefusedRemediationGivesItsClaimBack(t *testing.T) {
	always := func(*v1alpha1.PowerRemediation) {}
	saying := func(reason string, status metav1.ConditionStatus) func(*v1alpha1.PowerRemediation) {
		return func(r *v1alpha1.PowerRemediation) {
			fencednode.SetConditions(&r.Status.FencingStatus, noon, fencednode.NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionTrue, reason, "as it was"), fencednode.NewCondition(v1alpha1.SucceededCondition, status, reason, "as it was"))
		}
	}
	ofMachine := func(kind, name string) func(*v1alpha1.PowerRemediation) {
		return func(r *v1alpha1.PowerRemediation) {
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: kind, Kind: "Machine", Name: name, UID: "x"}}
		}
	}
	named := func(name string) func(*v1alpha1.PowerRemediation) {
		return func(r *v1alpha1.PowerRemediation) { r.Annotations[v1alpha1.NodeNameAnnotation] = name }
	}
	metal3 := func(b *v1alpha1.BMC) {
		b.Spec.Address, b.Spec.BareMetalHost = "", &v1alpha1.BareMetalHostReference{Namespace: "metal3", Name: "gone"}
	}
	newer := func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon) }
	for sentence, tc := range map[string]struct {
		r    func(*v1alpha1.PowerRemediation)
		node []func(*corev1.Node)
		bmcs []func(*v1alpha1.BMC)
		want string
	}{
		"the health checker has requested a stop": {func(r *v1alpha1.PowerRemediation) { r.Annotations[v1alpha1.TimedOutAnnotation] = "now" }, nil, []func(*v1alpha1.BMC){reachedSystem("")}, v1alpha1.RemediationStoppedReason},
		"no node can have the name":               {named("Node A"), nil, nil, v1alpha1.CannotStartNodeNotFoundReason},
		"no BMC is left":                          {always, nil, nil, v1alpha1.CannotStartNoBMCReason},
		"two BMCs name the node":                  {always, nil, []func(*v1alpha1.BMC){reachedSystem(""), reachedSystem("")}, v1alpha1.CannotStartAmbiguousBMCReason},
		"the BMC is of another host":              {always, []func(*corev1.Node){onSystem(nodeUUID)}, []func(*v1alpha1.BMC){reachedSystem(otherUUID)}, v1alpha1.CannotStartOtherSystemReason},
		"the node was created since":              {always, []func(*corev1.Node){newer}, []func(*v1alpha1.BMC){reachedSystem("")}, v1alpha1.CannotStartNodeIsNewerReason},
		"the node names another machine":          {ofMachine("machine.openshift.io/v1beta1", "other"), nil, []func(*v1alpha1.BMC){reachedSystem("")}, v1alpha1.CannotStartMachineNotFoundReason},
		"its machine is gone":                     {ofMachine("machine.openshift.io/v1beta1", keyA.Name), nil, nil, v1alpha1.CannotStartMachineNotFoundReason},
		"the machine that it was made for":        {func(r *v1alpha1.PowerRemediation) { r.Annotations["machine.openshift.io/cloned-from-name"] = "t" }, nil, nil, v1alpha1.CannotStartMachineNotFoundReason},
		"the node is back after another's work":   {saying(fencednode.AnotherRemediation, metav1.ConditionUnknown), []func(*corev1.Node){ready}, []func(*v1alpha1.BMC){reachedSystem("")}, v1alpha1.CannotStartFencedMeanwhileReason},
		"the BareMetalHost is gone":               {always, nil, []func(*v1alpha1.BMC){metal3}, v1alpha1.CannotStartNoBareMetalHostReason},
		"the status is not as Fettle writes it":   {func(r *v1alpha1.PowerRemediation) { r.Status.Phase = "Dancing" }, nil, nil, statusInvalid},
		"it was refused before":                   {saying(v1alpha1.CannotStartNoBMCReason, metav1.ConditionFalse), nil, nil, v1alpha1.CannotStartNoBMCReason},
		"its status was found invalid before": {func(r *v1alpha1.PowerRemediation) {
			r.Status.Phase = "Dancing"
			saying(statusInvalid, metav1.ConditionFalse)(r)
		}, nil, nil, statusInvalid},
		"another node has registered in between": {in(fencing.Preparing, func(s *v1alpha1.PowerRemediationStatus) { s.Node.UID = "earlier" }), nil, []func(*v1alpha1.BMC){reachedSystem("")}, string(fencing.NodeReplaced)},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := remediation(claiming, unbegun, tc.r)
			objects := []client.Object{node(append(tc.node, annotated(machineAnnotation, "machines/m"))...), r, machine(with(annotation.ClaimedBy, ourClaim))}
			for i, change := range tc.bmcs {
				objects = append(objects, bmcFor(string(rune('a'+i)), "node-a", "telnet://10.0.0.1", change))
			}
			w := newWorld(t, objects...)
			for range 2 {
				if err := w.reconcile(t.Context(), keyA); err != nil {
					t.Fatal(err)
				}
			}
			said := meta.FindStatusCondition(w.remediation(t, keyA).Status.Conditions, v1alpha1.SucceededCondition)
			if said == nil || said.Status != metav1.ConditionFalse || said.Reason != tc.want {
				t.Errorf("it says %+v, want %s", said, tc.want)
			}
			if got := w.claimOfM(t); got != "" {
				t.Errorf("the claim is %q", got)
			}
		})
	}
}

// TestClaimOfARefusedRemediationIsTakenBackLater where the first attempt fails. The refusal is shown all the same.
func TestClaimOfARefusedRemediationIsTakenBackLater(t *testing.T) {
	w := newWorld(t, node(), remediation(claiming, unbegun), machine(with(annotation.ClaimedBy, ourClaim)))
	w.refuses(func(verb string, o runtime.Object) error {
		if verb == "patch" && o.GetObjectKind().GroupVersionKind().Kind == "Machine" {
			return errors.New("the API server is down")
		}
		return nil
	})
	if err := w.reconcile(t.Context(), keyA); err == nil || processing(w.remediation(t, keyA)) != v1alpha1.CannotStartNoBMCReason {
		t.Errorf("it says %s (%v)", processing(w.remediation(t, keyA)), err)
	}
	w.refuses(nil)
	if err := w.reconcile(t.Context(), keyA); err != nil || w.claimOfM(t) != "" {
		t.Errorf("the claim is %q (%v)", w.claimOfM(t), err)
	}
}

// TestARemediationThatWaitsGivesItsClaimBack: it holds neither the node nor the machine meanwhile.
func TestARemediationThatWaitsGivesItsClaimBack(t *testing.T) {
	unread := func(b *v1alpha1.BMC) {
		b.Spec.Address, b.Spec.BareMetalHost = "", &v1alpha1.BareMetalHostReference{Namespace: "metal3", Name: "host"}
	}
	for sentence, tc := range map[string]struct {
		other []client.Object
		mark  func(*unstructured.Unstructured)
		bmc   func(*v1alpha1.BMC)
		want  string
	}{
		"another fences the node":      {[]client.Object{remediation(called(keyB), in(fencing.PoweringOff))}, func(*unstructured.Unstructured) {}, func(*v1alpha1.BMC) {}, fencednode.AnotherRemediation},
		"the machine is marked":        {nil, with(fencednode.ExternalMark, ""), func(*v1alpha1.BMC) {}, fencednode.MachineMarked},
		"the host of Metal3 is hidden": {nil, func(*unstructured.Unstructured) {}, unread, "BareMetalHostNotRead"},
	} {
		w := newWorld(t, append(tc.other, node(annotated(machineAnnotation, "machines/m")), remediation(claiming, unbegun), machine(with(annotation.ClaimedBy, ourClaim), tc.mark), bmcFor("a", "node-a", "telnet://10.0.0.1", tc.bmc))...)
		w.refuses(func(verb string, o runtime.Object) error {
			if verb == "get" && o.GetObjectKind().GroupVersionKind().Kind == "BareMetalHost" {
				return errors.New("the API server is down")
			}
			return nil
		})
		err := w.reconcile(t.Context(), keyA)
		if got := processing(w.remediation(t, keyA)); err != nil || got != tc.want || w.claimOfM(t) != "" || w.sessions.claims.Holds("node-a", holderOf(keyA)) {
			t.Errorf("%s: it waits for %s, the claim is %q, and %d nodes are claimed (%v)", sentence, got, w.claimOfM(t), w.sessions.claims.Len(), err)
		}
	}
}

// checkClaimOfStaleCache has the API server refuse a remediation that has changed since it was cached. Its claim must stand.
func (w *world) checkClaimOfStaleCache(t *testing.T) {
	t.Helper()
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*v1alpha1.PowerRemediation); is && verb != "get" {
			return apierrors.NewConflict(schema.GroupResource{Resource: "powerremediations"}, keyA.Name, errors.New("it has changed"))
		}
		return nil
	})
	if err := w.reconcile(t.Context(), keyA); err == nil || w.claimOfM(t) != ourClaim {
		t.Errorf("the claim is %q (%v)", w.claimOfM(t), err)
	}
}

// TestAWaitThatIsNotRecordedGivesNoClaimBack: the cache of a process that has just started may show a remediation as it was before it began.
// Its status has changed since, so the API server refuses the wait, and the claim stands.
func TestAWaitThatIsNotRecordedGivesNoClaimBack(t *testing.T) {
	w := newWorld(t, node(annotated(machineAnnotation, "machines/m")), remediation(claiming, unbegun), machine(with(annotation.ClaimedBy, ourClaim), with(fencednode.ExternalMark, "")), bmcFor("a", "node-a", "telnet://10.0.0.1"))
	w.checkClaimOfStaleCache(t)
}

// TestAWaitThatWasRecordedBeforeGivesNoClaimBack: the cache may show a remediation that waits for what it waits for now, as it was before it
// began. There is nothing to write, and still the API server has to confirm that it has not begun.
func TestAWaitThatWasRecordedBeforeGivesNoClaimBack(t *testing.T) {
	w := newWorld(t, node(annotated(machineAnnotation, "machines/m")), remediation(claiming, unbegun), machine(with(fencednode.ExternalMark, "")), bmcFor("a", "node-a", "telnet://10.0.0.1"))
	if err := w.reconcile(t.Context(), keyA); err != nil || processing(w.remediation(t, keyA)) != fencednode.MachineMarked {
		t.Fatalf("it is %+v (%v)", w.remediation(t, keyA).Status, err)
	}
	m := machine()
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatal(err)
	}
	with(annotation.ClaimedBy, ourClaim)(m)
	if err := w.api.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.checkClaimOfStaleCache(t)
}

// TestClaimOfAnotherMachineIsTakenBack: the node has another machine by now.
func TestClaimOfAnotherMachineIsTakenBack(t *testing.T) {
	for sentence, names := range map[string]string{"another": "machines/n", "none": ""} {
		other := machine()
		other.SetName("n")
		w := newWorld(t, node(annotated(machineAnnotation, names)), remediation(claiming, unbegun), machine(with(annotation.ClaimedBy, ourClaim)), other, bmcFor("a", "node-a", "telnet://10.0.0.1"))
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Errorf("%s: %v", sentence, err)
		}
		if got := w.claimOfM(t); got != "" {
			t.Errorf("%s: the claim is %q", sentence, got)
		}
		if got := read(t, w, "machines", "n", machine()).GetAnnotations()[annotation.ClaimedBy]; (got == ourClaim) != (names != "") {
			t.Errorf("%s: the claim of that is %q", sentence, got)
		}
	}
}

// TestTheClaimOfAnotherUnderWayStands: two nodes name one machine. The remediation of the second waits, since the end of its own claim would
// let others power the host while the first works on it.
func TestTheClaimOfAnotherUnderWayStands(t *testing.T) {
	const theirs = "checks/another/another-uid"
	ofNodeB := func(p fencing.Phase) *v1alpha1.PowerRemediation {
		return remediation(called(keyB), in(p, func(s *v1alpha1.PowerRemediationStatus) { s.Node.Name = "node-b" }))
	}
	for sentence, tc := range map[string]struct {
		other *v1alpha1.PowerRemediation
		by    string
		waits bool
	}{
		"under way":                  {ofNodeB(fencing.Booting), theirs, true},
		"it has ended":               {ofNodeB(fencing.Failed), theirs, false},
		"it has not begun":           {remediation(called(keyB)), theirs, false},
		"it is gone":                 {ofNodeB(fencing.Booting), "checks/gone/another-uid", false},
		"one of its name took place": {ofNodeB(fencing.Booting), "checks/another/earlier-uid", false},
		"no name":                    {ofNodeB(fencing.Booting), "checks/another", false},
		"another kind is under way":  {ofNodeB(fencing.Booting), "checks/of-promise/its-uid", true},
		"another kind has ended":     {ofNodeB(fencing.Booting), "checks/of-promise/ended-uid", false},
	} {
		w := newWorld(t, node(annotated(machineAnnotation, "machines/m")), remediation(), tc.other, machine(with(annotation.ClaimedBy, tc.by)), bmcFor("a", "node-a", "telnet://10.0.0.1"))
		w.OtherWorks = func(_ context.Context, key types.NamespacedName, uid types.UID) (fencednode.Holder, string, bool) {
			return fencednode.Holder{Kind: "SelfFenceRemediation", NamespacedName: key}, "node-b", key.Name == "of-promise" && uid == "its-uid"
		}
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Errorf("%s: %v", sentence, err)
		}
		r := w.remediation(t, keyA)
		if got := w.claimOfM(t); (processing(r) == fencednode.AnotherRemediation) != tc.waits || (got == tc.by) != tc.waits || (r.Status.Phase == "") != tc.waits {
			t.Errorf("%s: it says %s in phase %q, and the claim is %q", sentence, processing(r), r.Status.Phase, got)
		}
	}
}
