package powercycle

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// throughMetal3 has a BMC name a BareMetalHost.
func throughMetal3(name string) func(*v1alpha1.BMC) {
	return func(b *v1alpha1.BMC) {
		b.Spec.Address, b.Spec.CredentialsName = "", ""
		b.Spec.BareMetalHost = &v1alpha1.BareMetalHostReference{Namespace: "metal3", Name: name}
	}
}

// consumedBy has a BareMetalHost belong to a HostClaim.
func consumedBy(name string, u *unstructured.Unstructured) *unstructured.Unstructured {
	claim := map[string]any{"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": "fleet", "name": name}
	if err := unstructured.SetNestedMap(u.Object, claim, "spec", "consumerRef"); err != nil {
		panic(err)
	}
	return u
}

// metal3Host returns a BareMetalHost that is on or off, with annotations in pairs.
func metal3Host(name, uid string, on bool, annotations ...string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"online": true},
		"status": map[string]any{"poweredOn": on, "operationalStatus": "OK", "provisioning": map[string]any{"state": "provisioned"}},
	}}
	u.SetGroupVersionKind(bareMetalHost)
	u.SetNamespace("metal3")
	u.SetName(name)
	u.SetUID(types.UID(uid))
	values := map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		values[annotations[i]] = annotations[i+1]
	}
	u.SetAnnotations(values)
	return u
}

func (w *world) bareMetalHost(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(bareMetalHost)
	return read(t, w, "metal3", name, u)
}

// reports has Metal3 report a power.
func (w *world) reports(t *testing.T, name string, on bool) {
	t.Helper()
	u := w.bareMetalHost(t, name)
	if err := unstructured.SetNestedField(u.Object, on, "status", "poweredOn"); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
}

func (w *world) reconciles(t *testing.T) *v1alpha1.PowerRemediation {
	t.Helper()
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	return w.remediation(t, keyA)
}

func (w *world) holds(t *testing.T, name string) bool {
	t.Helper()
	return w.bareMetalHost(t, name).GetAnnotations()[annotation.RebootBareMetalHost] != ""
}

// sayingOf returns the reason and the message of the condition Processing.
func sayingOf(r *v1alpha1.PowerRemediation) string {
	for _, c := range r.Status.Conditions {
		if c.Type == v1alpha1.ProcessingCondition {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

func wantSays(t *testing.T, r *v1alpha1.PowerRemediation, phase fencing.Phase, words ...string) {
	t.Helper()
	for _, part := range words {
		if r.Status.Phase != string(phase) || !strings.Contains(sayingOf(r), part) {
			t.Errorf("in phase %q it says %q, want phase %q and %q", r.Status.Phase, sayingOf(r), phase, part)
		}
	}
}

// TestFencedThroughMetal3: a host is proven off by a change that was seen, and powered on by removing the annotation.
func TestFencedThroughMetal3(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node(), remediation(), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), metal3Host("host-a", "host-uid", true))
	r := w.reconciles(t)
	wantSays(t, r, fencing.PoweringOff, "PowerNotOff: ", "annotation reboot.metal3.io/fettle of BareMetalHost metal3/host-a requests that Metal3 powers it off, and Metal3 still reports it as on")
	if want := (v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 1, HostUID: "host-uid", HostNamespace: "metal3", HostName: "host-a"}); r.Status.BMC == nil || *r.Status.BMC != want {
		t.Errorf("it is recorded as %+v, want %+v", r.Status.BMC, want)
	}
	if !w.holds(t, "host-a") {
		t.Error("Metal3 has no request to power it off")
	}
	w.reports(t, "host-a", false)
	w.forward(3 * time.Second)
	wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerOffOnce: ")
	w.forward(6 * time.Second)
	r = w.reconciles(t)
	wantSays(t, r, fencing.PoweringOn, "PowerNotOn: ", "Metal3 reports BareMetalHost metal3/host-a as off, and powers it on")
	if p := r.Status.Proof; p == nil || p.Kind != string(fencing.PowerOff) || w.holds(t, "host-a") {
		t.Errorf("the proof is %+v, and the annotation is there: %t", p, w.holds(t, "host-a"))
	}
	w.reports(t, "host-a", true)
	w.forward(3 * time.Second)
	wantSays(t, w.reconciles(t), fencing.Booting, "NodeNotBack: ")
	for _, patch := range w.patches {
		if strings.Contains(patch, "metal3.io") && !strings.Contains(patch, `"uid":"host-uid"`) {
			t.Errorf("a change has no UID: %s", patch)
		}
	}
}

// TestMetal3IsNotBelieved: an off that may be older than the command is no evidence, and another command follows once the host is on.
func TestMetal3IsNotBelieved(t *testing.T) {
	t.Parallel()
	used := func(s *v1alpha1.PowerRemediationStatus) {
		s.BMC = &v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 1, HostUID: "host-uid", HostNamespace: "metal3", HostName: "host-a"}
	}
	for name, phase := range map[string]fencing.Phase{"before the proof": fencing.PoweringOff, "after the proof": fencing.Releasing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proven := func(s *v1alpha1.PowerRemediationStatus) {
				s.PoweredOff = true
				if phase == fencing.Releasing {
					s.Proof = &v1alpha1.FencingProof{Kind: string(fencing.PowerOff), At: metav1.NewMicroTime(noon)}
				}
			}
			w := newWorld(t, node(tainted(ownTaint)), remediation(in(phase, used, proven)), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")),
				metal3Host("host-a", "host-uid", false, annotation.RebootBareMetalHost, `{"mode":"hard"}`))
			wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotRead: ", "BMC bmc-a: BareMetalHost metal3/host-a: ", "proves nothing; it is powered off once Metal3 has powered it on")
			if w.holds(t, "host-a") {
				t.Error("Metal3 has no request to power it on")
			}
			w.reports(t, "host-a", true)
			w.forward(5 * time.Second)
			wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotOff: ")
			if !w.holds(t, "host-a") {
				t.Error("Metal3 has no request to power it off")
			}
			if len(w.node(t).Spec.Taints) != 1 {
				t.Errorf("the node has the taints %v", w.node(t).Spec.Taints)
			}
		})
	}
}

// TestMetal3EvidenceIsLost: the annotation goes while the power-off is awaited. It is set again, and the evidence begins anew.
func TestMetal3EvidenceIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node(), remediation(), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), metal3Host("host-a", "host-uid", true))
	w.reconciles(t)
	u := w.bareMetalHost(t, "host-a")
	u.SetAnnotations(nil)
	if err := w.api.Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	w.reports(t, "host-a", false)
	w.forward(3 * time.Second)
	for range 8 {
		wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotRead: ", "off already")
		w.forward(5 * time.Second)
	}
	w.reports(t, "host-a", true)
	w.forward(5 * time.Second)
	wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotOff: ")
	if !w.holds(t, "host-a") {
		t.Error("Metal3 has no request to power it off again")
	}
}

// TestAnotherBareMetalHost: once a remediation has begun, another BareMetalHost of the name is left alone, unless the BMC is changed (I11).
func TestAnotherBareMetalHost(t *testing.T) {
	t.Parallel()
	recorded := v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 1, HostUID: "host-uid", HostNamespace: "metal3", HostName: "host-a"}
	for name, c := range map[string]struct {
		recorded v1alpha1.FencingBMC
		host     string
		says     string
		touched  bool
	}{
		"the same":                          {recorded, "host-uid", "PowerNotOff: ", true},
		"another one":                       {recorded, "other-uid", "its UID is other-uid, and was host-uid when the remediation began", false},
		"another one, and the BMC is newer": {v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 0, HostUID: "host-uid", HostNamespace: "metal3", HostName: "host-a"}, "other-uid", "PowerNotOff: ", true},
		"recorded by an address":            {v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 0}, "other-uid", "PowerNotOff: ", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			used := func(s *v1alpha1.PowerRemediationStatus) { s.BMC = &c.recorded }
			w := newWorld(t, node(tainted(ownTaint)), remediation(in(fencing.PoweringOff, used)), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), metal3Host("host-a", c.host, true))
			wantSays(t, w.reconciles(t), fencing.PoweringOff, c.says)
			if w.holds(t, "host-a") != c.touched {
				t.Errorf("it has the annotation: %t", !c.touched)
			}
		})
	}
}

// TestBareMetalHostOfAResumedRemediation: a BareMetalHost that can't be found again is a reason to wait.
func TestBareMetalHostOfAResumedRemediation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node(tainted(ownTaint)), remediation(in(fencing.PoweringOff)), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")))
	wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotRead: ", "BMC bmc-a: BareMetalHost metal3/host-a: it does not exist")
}

// TestNoBareMetalHost: a remediation begins only with a BareMetalHost, and waits until it can be read.
func TestNoBareMetalHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node(), remediation(), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")))
	w.refuses(func(verb string, o runtime.Object) error {
		if u, is := o.(*unstructured.Unstructured); is && u.GroupVersionKind() == bareMetalHost && verb == "get" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "baremetalhosts"}, "host-a", nil)
		}
		return nil
	})
	r := w.reconciles(t)
	wantSays(t, r, "", "BareMetalHostNotRead: ", "(Forbidden)")
	if len(r.Finalizers) > 0 || w.sessions.claim("node-a", keyB) != holderOf(keyB) {
		t.Errorf("it has begun: %v", r.Finalizers)
	}
	w.sessions.claims.Release(holderOf(keyB))
	w.refuses(nil)
	r = w.reconciles(t)
	wantSays(t, r, "", v1alpha1.CannotStartNoBareMetalHostReason, "BareMetalHost metal3/host-a: it does not exist")
	if len(r.Finalizers) > 0 {
		t.Errorf("it has begun: %v", r.Finalizers)
	}
}

// TestUnsuitableBareMetalHost: a remediation whose host Metal3 doesn't power by annotations is refused at its start. It waits if it has begun
// before, and where the host is unusable only for now.
func TestUnsuitableBareMetalHost(t *testing.T) {
	t.Parallel()
	kept := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		if err := unstructured.SetNestedField(u.Object, true, "spec", "disablePowerOff"); err != nil {
			t.Fatal(err)
		}
		return u
	}
	w := newWorld(t, node(), remediation(), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), kept(metal3Host("host-a", "host-uid", true)))
	r := w.reconciles(t)
	wantSays(t, r, "", v1alpha1.CannotStartUnsuitableBareMetalHostReason, "nothing was done: BMC bmc-a: BareMetalHost metal3/host-a: spec.disablePowerOff", "give the BMC an address")
	if len(r.Finalizers) > 0 || len(w.node(t).Spec.Taints) > 0 {
		t.Errorf("it has begun: %v, %v", r.Finalizers, w.node(t).Spec.Taints)
	}
	w = newWorld(t, node(tainted(ownTaint)), remediation(in(fencing.PoweringOff)), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), kept(metal3Host("host-a", "host-uid", true)))
	wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotRead: ", "spec.disablePowerOff")
	w = newWorld(t, node(), remediation(), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), metal3Host("host-a", "host-uid", true, "baremetalhost.metal3.io/paused", ""))
	wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotRead: ", "baremetalhost.metal3.io/paused")
}

// TestStatusOfABMCThroughMetal3: the status shows the power that Metal3 reports, and nothing about credentials.
func TestStatusOfABMCThroughMetal3(t *testing.T) {
	t.Parallel()
	held := metav1.NewTime(noon)
	for name, c := range map[string]struct {
		host   *unstructured.Unstructured
		power  v1alpha1.HostPower
		status metav1.ConditionStatus
		reason string
	}{
		"on":     {metal3Host("host-a", "u", true), v1alpha1.HostOn, metav1.ConditionTrue, "Reachable"},
		"off":    {metal3Host("host-a", "u", false), v1alpha1.HostOff, metav1.ConditionTrue, "Reachable"},
		"paused": {metal3Host("host-a", "u", true, "baremetalhost.metal3.io/paused", ""), v1alpha1.HostPowerUnknown, metav1.ConditionFalse, "BareMetalHostPaused"},
		"gone":   {metal3Host("host-b", "u", true), v1alpha1.HostPowerUnknown, metav1.ConditionFalse, "BareMetalHostNotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := func(b *v1alpha1.BMC) {
				b.Status = v1alpha1.BMCStatus{RefusedLogins: 2, AuthenticationHeldSince: &held, AuthenticationHeldUntil: &held, CredentialsVersion: "7"}
			}
			w := newWorld(t, bmcFor("bmc-a", "node-a", "", throughMetal3("host-a"), left), c.host)
			if err := w.probe(t.Context(), types.NamespacedName{Namespace: bmcNamespace, Name: "bmc-a"}); err != nil {
				t.Fatal(err)
			}
			s := w.bmc(t, "bmc-a").Status
			if len(s.Conditions) != 1 || s.Power != c.power || s.Conditions[0].Status != c.status || s.Conditions[0].Reason != c.reason {
				t.Errorf("the status is %+v", s)
			}
			if s.RefusedLogins != 0 || s.AuthenticationHeldSince != nil || s.AuthenticationHeldUntil != nil || s.CredentialsVersion != "" {
				t.Errorf("it still tells of credentials: %+v", s)
			}
			if u := w.bareMetalHost(t, c.host.GetName()); u.GetAnnotations()[annotation.RebootBareMetalHost] != "" {
				t.Error("the probe has changed it")
			}
		})
	}
}

// TestBMCsOfOneBareMetalHost: two BMCs that name one BareMetalHost are not used.
func TestBMCsOfOneBareMetalHost(t *testing.T) {
	t.Parallel()
	i := newInventory()
	for _, b := range []*v1alpha1.BMC{
		bmcFor("a", "node-a", "", throughMetal3("host-a")), bmcFor("b", "node-b", "", throughMetal3("host-b")), bmcFor("c", "node-c", "", throughMetal3("host-a")),
	} {
		i.put(b)
	}
	for node, want := range map[string]string{"node-a": "the BMCs a and c name the same BareMetalHost", "node-b": "", "node-c": "the BMCs a and c name the same BareMetalHost"} {
		bmc, found := i.find(node)
		if !strings.Contains(found.message, want) || found.found() != (want != "") || (bmc == nil) != found.found() {
			t.Errorf("%s: BMC %v, problem %q", node, bmc, found.message)
		}
	}
	i.drop(client.ObjectKeyFromObject(bmcFor("c", "node-c", "")))
	if bmc, found := i.find("node-a"); found.found() || bmc.Name != "a" {
		t.Errorf("problem %q", found.message)
	}
}

// TestMessagesAboutMetal3: who is to power a host on by hand is told how.
func TestMessagesAboutMetal3(t *testing.T) {
	t.Parallel()
	const says = "by removing annotation reboot.metal3.io/fettle from its BareMetalHost"
	for uid, want := range map[string]bool{"": false, "host-uid": true} {
		for _, phase := range []fencing.Phase{fencing.Succeeded, fencing.Aborted} {
			s := &v1alpha1.PowerRemediationStatus{FencingStatus: v1alpha1.FencingStatus{Phase: string(phase), Node: &v1alpha1.FencedNode{Name: "node-a"}}, PoweredOff: true, BMC: &v1alpha1.FencingBMC{HostUID: uid}}
			if text := phaseMessage(s); strings.Contains(text, says) != want {
				t.Errorf("%s with UID %q says %q", phase, uid, text)
			}
		}
	}
	if text := phaseMessage(&v1alpha1.PowerRemediationStatus{FencingStatus: v1alpha1.FencingStatus{Phase: "Aborted", Node: &v1alpha1.FencedNode{Name: "node-a"}}, PoweredOff: true}); strings.Contains(text, says) {
		t.Errorf("without a BMC it says %q", text)
	}
}

// TestPowerOnEndsTheEvidence: after a power-on that has failed, what was read before it proves nothing, since Metal3 may power the host on.
// The next power cycle commands the power off first.
func TestPowerOnEndsTheEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node(), remediation(), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), metal3Host("host-a", "host-uid", true, "reboot.metal3.io/other", ""))
	w.reconciles(t)
	w.reports(t, "host-a", false)
	for range 4 {
		w.forward(4 * time.Second)
		w.reconciles(t)
	}
	wantSays(t, w.remediation(t, keyA), fencing.PoweringOn, "PowerNotRead: ", "annotation reboot.metal3.io/other of others keeps it off")
	w.forward(defaultPowerOn)
	r := w.reconciles(t)
	wantSays(t, r, fencing.PoweringOff, "PowerNotRead: ", "that may be older than the command, so it proves nothing")
	if r.Status.Attempt != 2 || r.Status.Proof != nil || w.holds(t, "host-a") {
		t.Errorf("attempt %d has the proof %+v", r.Status.Attempt, r.Status.Proof)
	}
}

// TestHostOfADeletedMachine: nothing of Fettle keeps a host off that the provider of its machine may use again, however the remediation ends.
func TestHostOfADeletedMachine(t *testing.T) {
	t.Parallel()
	const hard = `{"mode":"hard"}`
	deletes := func(s *v1alpha1.PowerRemediationStatus) {
		s.PoweredOff, s.MachineDeletion = true, true
		s.Machine = &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
		s.BMC = &v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 1, HostUID: "host-uid", HostNamespace: "metal3", HostName: "host-a"}
	}
	stops := func(r *v1alpha1.PowerRemediation) {
		r.Annotations = map[string]string{"remediation.medik8s.io/nhc-timed-out": "now"}
	}
	unprovisioned := func(uid string) *unstructured.Unstructured {
		u := metal3Host("host-a", uid, false, annotation.RebootBareMetalHost, hard)
		if err := unstructured.SetNestedField(u.Object, "deprovisioning", "status", "provisioning", "state"); err != nil {
			t.Fatal(err)
		}
		return u
	}
	going := func() *unstructured.Unstructured { // the API server of each case writes into its own
		return machine(func(m *unstructured.Unstructured) {
			m.SetFinalizers([]string{"x"})
			m.SetDeletionTimestamp(&metav1.Time{Time: noon})
		})
	}
	for name, c := range map[string]struct {
		changes []func(*v1alpha1.PowerRemediation)
		objects []client.Object
		phase   fencing.Phase
		holds   bool
	}{
		"the machine is gone":          {nil, []client.Object{unprovisioned("host-uid")}, fencing.Succeeded, false},
		"the machine is going":         {nil, []client.Object{unprovisioned("host-uid"), going()}, fencing.DeletingMachine, true},
		"stopped while it is going":    {[]func(*v1alpha1.PowerRemediation){stops}, []client.Object{unprovisioned("host-uid"), going()}, fencing.Aborted, false},
		"its host was replaced":        {nil, []client.Object{unprovisioned("other")}, fencing.Succeeded, true},
		"stopped, and it was replaced": {[]func(*v1alpha1.PowerRemediation){stops}, []client.Object{unprovisioned("other")}, fencing.Aborted, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := remediation(append(c.changes, in(fencing.DeletingMachine, deletes))...)
			w := newWorld(t, append([]client.Object{r, bmcFor("bmc-a", "node-a", "", throughMetal3("host-a"))}, c.objects...)...)
			got := w.reconciles(t)
			if got.Status.Phase != string(c.phase) || w.holds(t, "host-a") != c.holds || got.Status.PoweredOff && !c.holds {
				t.Errorf("in phase %s (%s) it keeps the host off: %t, want %s, %t", got.Status.Phase, sayingOf(got), w.holds(t, "host-a"), c.phase, c.holds)
			}
		})
	}
}

// notLeft returns a remediation whose machine is gone, and whose annotation can't be removed from the host.
func notLeft(t *testing.T) *world {
	t.Helper()
	deletes := func(s *v1alpha1.PowerRemediationStatus) {
		s.PoweredOff, s.MachineDeletion = true, true
		s.Machine = &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
		s.BMC = &v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 1, HostUID: "host-uid", HostNamespace: "metal3", HostName: "host-a"}
	}
	w := newWorld(t, remediation(in(fencing.DeletingMachine, deletes)), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), metal3Host("host-a", "host-uid", false, annotation.RebootBareMetalHost, `{"mode":"hard"}`))
	w.refuses(func(verb string, o runtime.Object) error {
		if u, is := o.(*unstructured.Unstructured); is && u.GroupVersionKind() == bareMetalHost && verb == "patch" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "baremetalhosts"}, "host-a", nil)
		}
		return nil
	})
	return w
}

// TestHostThatCantBeLeft: while the annotation can't be removed, the remediation waits, and says why.
func TestHostThatCantBeLeft(t *testing.T) {
	t.Parallel()
	w := notLeft(t)
	wantSays(t, w.reconciles(t), fencing.DeletingMachine, "PowerNotRead: ", "kubectl apply -k config/metal3")
	w.forward(50 * time.Minute)
	wantSays(t, w.reconciles(t), fencing.DeletingMachine, "PowerNotRead: ")
	w.refuses(nil)
	w.forward(mostMetal3Retry)
	if r := w.reconciles(t); r.Status.Phase != string(fencing.Succeeded) || r.Status.PoweredOff {
		t.Errorf("it ends as %+v", r.Status)
	}
}

// TestHostThatIsNotLeft: after the limit the remediation has failed, and says that the host is kept off. It is left when that is deleted.
func TestHostThatIsNotLeft(t *testing.T) {
	t.Parallel()
	w := notLeft(t)
	w.reconciles(t)
	w.forward(time.Hour)
	r := w.reconciles(t)
	if said := conditionsOf(&r.Status)[1]; r.Status.Phase != string(fencing.Failed) || said.Reason != string(fencing.HostNotLeft) || !w.holds(t, "host-a") {
		t.Fatalf("it is %s: %+v", r.Status.Phase, said)
	}
	w.refuses(nil)
	if err := w.api.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	w.forward(mostMetal3Retry)
	if err := w.reconcile(t.Context(), keyA); err != nil || w.holds(t, "host-a") {
		t.Errorf("once it is deleted, it keeps the host off: %t, %v", w.holds(t, "host-a"), err)
	}
}

// TestConsumerOfABareMetalHost: the first record has the consumer of the host. Once another one has it, it is neither powered off nor kept off,
// and its power proves nothing, also to another process.
func TestConsumerOfABareMetalHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node(), remediation(), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), consumedBy("claim-1", metal3Host("host-a", "host-uid", true)))
	r := w.reconciles(t)
	wantSays(t, r, fencing.PoweringOff, "PowerNotOff: ")
	const recorded = "HostClaim.metal3.io fleet/claim-1"
	if r.Status.BMC.HostConsumer != recorded {
		t.Errorf("the recorded consumer is %q, want %q", r.Status.BMC.HostConsumer, recorded)
	}
	w.reports(t, "host-a", false)
	w.forward(3 * time.Second)
	wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerOffOnce: ")
	if err := w.api.Update(t.Context(), consumedBy("claim-2", w.bareMetalHost(t, "host-a"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.forward(6 * time.Second)
		wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotRead: ", `its spec.consumerRef is "HostClaim.metal3.io fleet/claim-2", and was "`+recorded+`"`)
		if w.holds(t, "host-a") {
			t.Error("the host of another consumer is kept off")
		}
		w.hosts, w.sessions = newHosts(w.now, w.bmcs.get), newSessions(fencednode.NewClaims()) // another process goes on
		w.hosts.metal = w.bareMetalHostOf
	}
	w.reports(t, "host-a", true)
	w.forward(6 * time.Second)
	wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotRead: ")
	if w.holds(t, "host-a") {
		t.Error("the host of another consumer is powered off")
	}
	if err := w.api.Update(t.Context(), consumedBy("claim-1", w.bareMetalHost(t, "host-a"))); err != nil {
		t.Fatal(err)
	}
	w.forward(6 * time.Second)
	wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotOff: ")
	if !w.holds(t, "host-a") {
		t.Error("the host that is back is not powered off")
	}
}
