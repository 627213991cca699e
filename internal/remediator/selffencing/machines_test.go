package selffencing

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/selffence"
)

// machine returns the machine of node-a, in the namespace of the remediation.
func machine(changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	m := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"nodeRef": map[string]any{"name": "node-a"}}}}
	m.SetGroupVersionKind(fencednode.OpenShiftMachine)
	m.SetNamespace(keyA.Namespace)
	m.SetName("m")
	m.SetUID("m-uid")
	for _, change := range changes {
		change(m)
	}
	return m
}

// marked has a machine have an annotation.
func marked(key, value string) func(*unstructured.Unstructured) {
	return func(m *unstructured.Unstructured) { m.SetAnnotations(map[string]string{key: value}) }
}

// ofMachine has a remediation be for the machine of an API, as a health check of machines creates it.
func ofMachine(apiVersion string) func(*v1alpha1.SelfFenceRemediation) {
	return func(r *v1alpha1.SelfFenceRemediation) {
		r.Name = "m"
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Machine", Name: "m", UID: "m-uid"}}
	}
}

const (
	openshift = "machine.openshift.io/v1beta1"
	capi      = "cluster.x-k8s.io/v1beta2"
)

var keyM = types.NamespacedName{Namespace: keyA.Namespace, Name: "m"}

// naming has a node have an annotation.
func naming(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[key] = value
	}
}

var namesM = naming(fencednode.MachineAnnotation, keyM.String())

// reconcilesKey has the remediator reconcile a remediation, which it returns.
func (w *world) reconcilesKey(t *testing.T, key types.NamespacedName) *v1alpha1.SelfFenceRemediation {
	t.Helper()
	if err := w.reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	return read(t, w, key.Namespace, key.Name, &v1alpha1.SelfFenceRemediation{})
}

// claim returns the claim on the machine of node-a.
func (w *world) claim(t *testing.T) string {
	t.Helper()
	return read(t, w, keyM.Namespace, keyM.Name, machine()).GetAnnotations()[annotation.ClaimedBy]
}

// TestTheNodeOfAMachine: a remediation that a health check of machines has made is for the node of the machine, which has to name it.
func TestTheNodeOfAMachine(t *testing.T) {
	noted := func(key string) func(*v1alpha1.SelfFenceRemediation) {
		return func(r *v1alpha1.SelfFenceRemediation) { r.Annotations = map[string]string{key: "reset"} }
	}
	of := func(apiVersion, name string) func(*v1alpha1.SelfFenceRemediation) { // as a health checker of nodes creates it
		return func(r *v1alpha1.SelfFenceRemediation) {
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Machine", Name: name, UID: "m-uid"}}
		}
	}
	noNode := func(m *unstructured.Unstructured) { unstructured.RemoveNestedField(m.Object, "status") }
	byOther := func(m *unstructured.Unstructured) { m.SetUID("other") }
	for sentence, tc := range map[string]struct {
		r       *v1alpha1.SelfFenceRemediation
		node    *corev1.Node
		machine *unstructured.Unstructured
		reason  string // of the failure, or none
	}{
		"the node names it":                          {remediation(ofMachine(openshift)), node(namesM), machine(), ""},
		"the node names none":                        {remediation(ofMachine(openshift)), node(), machine(), v1alpha1.CannotStartMachineNotFoundReason},
		"the node names another":                     {remediation(ofMachine(openshift)), node(naming(fencednode.MachineAnnotation, "checks/other")), machine(), v1alpha1.CannotStartMachineNotFoundReason},
		"it has no node":                             {remediation(ofMachine(openshift)), node(namesM), machine(noNode), v1alpha1.CannotStartNodeNotFoundReason},
		"another machine has its name":               {remediation(ofMachine(openshift)), node(namesM), machine(byOther), v1alpha1.CannotStartMachineNotFoundReason},
		"it is gone":                                 {remediation(ofMachine(openshift)), node(namesM), nil, v1alpha1.CannotStartMachineNotFoundReason},
		"its owner was removed":                      {remediation(noted("machine.openshift.io/cloned-from-name")), node(), nil, v1alpha1.CannotStartMachineNotFoundReason},
		"its owner of Cluster API was removed":       {remediation(noted("cluster.x-k8s.io/cloned-from-name")), node(), nil, v1alpha1.CannotStartMachineNotFoundReason},
		"of Cluster API":                             {remediation(ofMachine(capi)), node(namesM), machine(), v1alpha1.CannotStartWorkloadClusterReason},
		"of a node that names the machine":           {remediation(of(openshift, "m")), node(namesM), machine(), ""},
		"of a node that names none":                  {remediation(of(openshift, "m")), node(), machine(), v1alpha1.CannotStartMachineNotFoundReason},
		"of a node that names that of Cluster API":   {remediation(of(capi, "m")), node(naming("cluster.x-k8s.io/machine", "m"), naming("cluster.x-k8s.io/cluster-namespace", "checks")), nil, ""},
		"of a node that names none of Cluster API's": {remediation(of(capi, "m")), node(naming("cluster.x-k8s.io/machine", "m")), nil, v1alpha1.CannotStartMachineNotFoundReason},
	} {
		t.Run(sentence, func(t *testing.T) {
			objects := []client.Object{tc.r, tc.node, leaseOf(t, "node-a")}
			if tc.machine != nil {
				objects = append(objects, tc.machine)
			}
			w := newWorld(t, objects...)
			r := w.reconcilesKey(t, client.ObjectKeyFromObject(tc.r))
			if said := succeeded(r); said.Status == metav1.ConditionFalse && said.Reason != tc.reason || said.Status != metav1.ConditionFalse && tc.reason != "" {
				t.Errorf("it is %+v", r.Status)
			}
			condemned := w.lease(t).State == selffence.Condemned
			if condemned != (tc.reason == "") || condemned != isTainted(w.node(t), annotation.FencingTaint) {
				t.Errorf("the Lease is %+v, and the node %+v", w.lease(t), w.node(t))
			}
		})
	}
}

// TestI14OnlyTheNodeOfTheMachine: a machine may have the name of any node, and its health check may belong to a tenant.
func TestI14OnlyTheNodeOfTheMachine(t *testing.T) {
	r := remediation(ofMachine(openshift))
	r.Name, r.OwnerReferences[0].Name = "node-a", "node-a"
	m := machine()
	m.SetName("node-a")
	w := newWorld(t, node(namesM), leaseOf(t, "node-a"), r, m)
	if r := w.reconciles(t); succeeded(r).Reason != v1alpha1.CannotStartMachineNotFoundReason || w.lease(t).State != selffence.Promised {
		t.Errorf("it is %+v, and the Lease %+v", r.Status, w.lease(t))
	}
}

const ourClaim = "checks/node-a/r-uid"

// TestClaimOfAMachine: the machine of the node is claimed before anything is done to the node, and until the end.
func TestClaimOfAMachine(t *testing.T) {
	w := newWorld(t, node(namesM), leaseOf(t, "node-a"), remediation(), machine())
	claimedFirst := false
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*corev1.Node); is && verb == "patch" {
			var m unstructured.Unstructured
			m.SetGroupVersionKind(fencednode.OpenShiftMachine)
			if err := w.api.Get(t.Context(), keyM, &m); err != nil {
				t.Error(err)
			}
			claimedFirst = m.GetAnnotations()[annotation.ClaimedBy] == ourClaim
		}
		return nil
	})
	r := w.reconciles(t)
	w.refuses(nil)
	if !claimedFirst || w.claim(t) != ourClaim || r.Annotations[annotation.ClaimedMachine] != keyM.String() || r.Status.Phase != "Condemning" {
		t.Fatalf("it is %+v, and the claim %q", r, w.claim(t))
	}
	w.forward(expiry)
	w.reconciles(t)
	if w.claim(t) != ourClaim {
		t.Fatal("the claim was given back before the end")
	}
	w.reports(t, ready, rebooted)
	w.reconciles(t)
	if r := w.reconciles(t); r.Status.Phase != "Succeeded" || w.claim(t) != "" {
		t.Errorf("it is %+v, and the claim %q", r.Status, w.claim(t))
	}
}

// TestClaimEnds: a remediation that has failed, can't start or is deleted gives its claim back.
func TestClaimEnds(t *testing.T) {
	claims := func(r *v1alpha1.SelfFenceRemediation) {
		r.Annotations = map[string]string{annotation.ClaimedMachine: keyM.String()}
		r.Finalizers = []string{annotation.SelfFenceFinalizer}
	}
	for sentence, tc := range map[string]struct {
		r     *v1alpha1.SelfFenceRemediation
		by    string
		keeps bool
	}{
		"it has failed":              {remediation(in(fencing.Failed), claims), ourClaim, false},
		"it was aborted":             {remediation(in(fencing.Aborted), claims), ourClaim, false},
		"it goes on":                 {remediation(in(fencing.Condemning), claims), ourClaim, true},
		"another has it":             {remediation(in(fencing.Failed), claims), "checks/another/other-uid", true},
		"it can't start":             {remediation(claims, func(r *v1alpha1.SelfFenceRemediation) { r.Annotations[v1alpha1.NodeNameAnnotation] = "no" }), ourClaim, false},
		"its status is not Fettle's": {remediation(in("Dancing"), claims), ourClaim, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, node(namesM), leaseOf(t, "node-a"), tc.r, machine(marked(annotation.ClaimedBy, tc.by)))
			w.reconciles(t)
			if got := w.claim(t); got != "" && got != tc.by || (got == tc.by) != tc.keeps {
				t.Errorf("the claim is %q", got)
			}
		})
	}
	t.Run("it is deleted", func(t *testing.T) {
		w := newWorld(t, node(namesM), leaseOf(t, "node-a"), remediation(claims), machine(marked(annotation.ClaimedBy, ourClaim)))
		if err := w.api.Delete(t.Context(), w.remediation(t)); err != nil {
			t.Fatal(err)
		}
		if err := w.reconcile(t.Context(), keyA); err != nil || w.claim(t) != "" {
			t.Errorf("%v, and the claim is %q", err, w.claim(t))
		}
	})
}

// TestAClaimThatCanNotBeGivenBack is given back later.
func TestAClaimThatCanNotBeGivenBack(t *testing.T) {
	claims := func(r *v1alpha1.SelfFenceRemediation) {
		r.Annotations = map[string]string{annotation.ClaimedMachine: keyM.String()}
	}
	w := newWorld(t, node(namesM), leaseOf(t, "node-a"), remediation(in(fencing.Failed), claims), machine(marked(annotation.ClaimedBy, ourClaim)))
	w.keyed = func(verb string, o client.Object) bool { return verb == "patch" && o.GetName() == "m" }
	if err := w.reconcile(t.Context(), keyA); err == nil {
		t.Error("it is as if it was given back")
	}
	w.keyed = nil
	if err := w.reconcile(t.Context(), keyA); err != nil || w.claim(t) != "" {
		t.Errorf("%v, and the claim is %q", err, w.claim(t))
	}
}

// TestOneActsOnAMachine: a remediation waits while the machine of its node is marked for another controller, or claimed by a remediation that
// works on another node. Then it begins, unless the node is Ready.
func TestOneActsOnAMachine(t *testing.T) {
	other := remediation(in(fencing.Booting, func(s *v1alpha1.SelfFenceRemediationStatus) { s.Node.Name = "node-b" }))
	other.Name, other.UID = keyB.Name, "other-uid"
	for sentence, tc := range map[string]struct {
		mark    func(*unstructured.Unstructured)
		reason  string
		saying  string
		changes []func(*corev1.Node)
		then    string
	}{
		"it is marked":                      {marked(fencednode.ExternalMark, ""), fencednode.MachineMarked, "checks/m has the annotation", nil, "PromiseStands"},
		"the node is back after the mark":   {marked(fencednode.ExternalMark, ""), fencednode.MachineMarked, "checks/m", []func(*corev1.Node){ready}, v1alpha1.CannotStartFencedMeanwhileReason},
		"it is claimed":                     {marked(annotation.ClaimedBy, "checks/another/other-uid"), fencednode.AnotherRemediation, "node-b", nil, "PromiseStands"},
		"a PowerRemediation has claimed it": {marked(annotation.ClaimedBy, "checks/power/power-uid"), fencednode.AnotherRemediation, "PowerRemediation checks/power", nil, "PromiseStands"},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, node(append(tc.changes, namesM)...), leaseOf(t, "node-a"), remediation(), other.DeepCopy(), machine(tc.mark))
			w.OtherWorks = func(_ context.Context, key types.NamespacedName, uid types.UID) (fencednode.Holder, string, bool) {
				return fencednode.Holder{Kind: "PowerRemediation", NamespacedName: key}, "node-c", key.Name == "power" && uid == "power-uid"
			}
			for range 2 {
				r := w.reconciles(t)
				if processing(r) != tc.reason || !strings.Contains(messageOf(r), tc.saying) || r.Status.Phase != "" || len(r.Finalizers) != 0 || w.Claims.Len() != 0 {
					t.Fatalf("it is %+v, and %d nodes are held", r, w.Claims.Len())
				}
			}
			if len(w.node(t).Spec.Taints) != 0 || w.lease(t).State != selffence.Promised {
				t.Fatalf("the node is %+v, and the Lease %+v", w.node(t), w.lease(t))
			}
			update(t, w, read(t, w, keyM.Namespace, keyM.Name, machine()), func(m *unstructured.Unstructured) { m.SetAnnotations(nil) })
			if r := w.reconciles(t); processing(r) != tc.then {
				t.Errorf("then it is %+v", r.Status)
			}
		})
	}
}

// TestAMachineThatCannotBeRead: nothing is done, and the status says why.
func TestAMachineThatCannotBeRead(t *testing.T) {
	for _, r := range []*v1alpha1.SelfFenceRemediation{remediation(), remediation(ofMachine(openshift))} {
		w := newWorld(t, node(namesM), leaseOf(t, "node-a"), r, machine())
		w.refuses(func(verb string, o runtime.Object) error {
			if _, is := o.(*unstructured.Unstructured); is && verb == "get" {
				return errors.New("no answer")
			}
			return nil
		})
		err := w.reconcile(t.Context(), client.ObjectKeyFromObject(r))
		w.refuses(nil)
		got := read(t, w, r.Namespace, r.Name, &v1alpha1.SelfFenceRemediation{})
		if err == nil || processing(got) != notRead || len(w.node(t).Spec.Taints) != 0 || got.Status.Phase != "" {
			t.Errorf("%v, %+v", err, got.Status)
		}
	}
}

// TestEachStepOfTheBeginningIsNeeded: the claim on an earlier machine is given back, the finalizer names the machine, and only then is the
// machine claimed and the node changed. After a step that fails, none follows.
func TestEachStepOfTheBeginningIsNeeded(t *testing.T) {
	earlier := func(r *v1alpha1.SelfFenceRemediation) {
		r.Annotations = map[string]string{annotation.ClaimedMachine: "checks/earlier"}
		r.Finalizers = []string{annotation.SelfFenceFinalizer}
	}
	for sentence, fails := range map[string]func(verb string, o client.Object) bool{
		"the earlier machine can't be read": func(verb string, o client.Object) bool { return verb == "get" && o.GetName() == "earlier" },
		"the finalizer can't be set": func(verb string, o client.Object) bool {
			_, is := o.(*v1alpha1.SelfFenceRemediation)
			return verb == "patch" && is
		},
		"the machine can't be claimed": func(verb string, o client.Object) bool { return verb == "patch" && o.GetName() == "m" },
		"nothing fails":                func(string, client.Object) bool { return false },
	} {
		gone := machine(marked(annotation.ClaimedBy, ourClaim))
		gone.SetName("earlier")
		w := newWorld(t, node(namesM), leaseOf(t, "node-a"), remediation(earlier), machine(), gone)
		w.keyed = fails
		err := w.reconcile(t.Context(), keyA)
		w.keyed = nil
		r, begun := w.remediation(t), sentence == "nothing fails"
		if (err == nil) != begun || (r.Status.Phase != "") != begun || isTainted(w.node(t), annotation.FencingTaint) != begun || (w.claim(t) == ourClaim) != begun {
			t.Errorf("%s: %v, the claim is %q, and it is %+v", sentence, err, w.claim(t), r)
		}
	}
}

// TestTheNodeIsBackMeanwhile: a node that another remediation has brought back is not reset.
func TestTheNodeIsBackMeanwhile(t *testing.T) {
	w := newWorld(t, node(), leaseOf(t, "node-a"), remediation())
	power := fencednode.Holder{Kind: "PowerRemediation", NamespacedName: keyB}
	w.Claims.Claim("node-a", power)
	w.reconciles(t)
	w.Claims.Release(power)
	w.reports(t, ready)
	if r := w.reconciles(t); succeeded(r).Reason != v1alpha1.CannotStartFencedMeanwhileReason || w.lease(t).State != selffence.Promised {
		t.Errorf("it is %+v, and the Lease %+v", r.Status, w.lease(t))
	}
}

// TestWorks: a remediation works on a node from its beginning to its end.
func TestWorks(t *testing.T) {
	for _, tc := range []struct {
		r    *v1alpha1.SelfFenceRemediation
		uid  types.UID
		want bool
	}{
		{remediation(in(fencing.Booting)), uidA, true}, {remediation(in(fencing.Booting)), "other", false},
		{remediation(in(fencing.Failed)), uidA, false}, {remediation(), uidA, false}, {nil, uidA, false},
	} {
		w := newWorld(t)
		if tc.r != nil {
			w = newWorld(t, tc.r)
		}
		holder, node, works := w.Works(t.Context(), keyA, tc.uid)
		if works != tc.want || works && (node != "node-a" || holder != holderOf(keyA)) {
			t.Errorf("%+v: %v works on %q: %t", tc, holder, node, works)
		}
	}
}

// TestUnreadRemediationWorks: a remediation that can't be read may fence any node, unless its kind is not served.
func TestUnreadRemediationWorks(t *testing.T) {
	for sentence, tc := range map[string]struct {
		fault error
		want  bool
	}{
		"it can't be read":      {errors.New("no"), true},
		"there is no such kind": {&meta.NoKindMatchError{}, false},
	} {
		w := newWorld(t, remediation(in(fencing.Failed)))
		w.refuses(func(verb string, _ runtime.Object) error {
			if verb == "list" || verb == "get" {
				return tc.fault
			}
			return nil
		})
		holder, fences := w.Fences(t.Context(), "node-a")
		if fences != tc.want || fences && holder != (fencednode.Holder{Kind: Kind}) {
			t.Errorf("%s: %v fences the node: %t", sentence, holder, fences)
		}
		holder, node, works := w.Works(t.Context(), keyA, uidA)
		if works != tc.want || works && (holder != holderOf(keyA) || node != "") {
			t.Errorf("%s: %v works on %q: %t", sentence, holder, node, works)
		}
	}
}
