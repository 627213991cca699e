package powercycle

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/fencing"
)

// hostA and hostB are recorded BareMetalHosts.
var (
	hostA = v1alpha1.FormerHost{Namespace: "metal3", Name: "host-a", UID: "a-uid"}
	hostB = v1alpha1.FormerHost{Namespace: "metal3", Name: "host-b", UID: "b-uid"}
)

// usedHostA records that the power of host-a may be off.
func usedHostA(s *v1alpha1.PowerRemediationStatus) {
	s.PoweredOff = true
	s.BMC = &v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 1, HostUID: hostA.UID, HostNamespace: hostA.Namespace, HostName: hostA.Name}
}

func heldOff(name, uid string) *unstructured.Unstructured {
	return metal3Host(name, uid, true, annotation.RebootBareMetalHost, `{"mode":"hard"}`)
}

// names has the BMC of node-a name another BareMetalHost.
func (w *world) names(t *testing.T, name string) {
	t.Helper()
	changed := w.bmc(t, "bmc-a")
	changed.Spec.BareMetalHost, changed.Generation = &v1alpha1.BareMetalHostReference{Namespace: "metal3", Name: name}, changed.Generation+1
	w.bmcs.put(changed)
}

// losesBMC has the BMC of node-a deleted.
func (w *world) losesBMC() { w.bmcs.drop(bmcKey("bmc-a")) }

// refusesBareMetalHosts has the API server refuse changes of BareMetalHosts.
func (w *world) refusesBareMetalHosts() {
	w.refuses(func(verb string, o runtime.Object) error {
		if u, is := o.(*unstructured.Unstructured); is && u.GroupVersionKind() == bareMetalHost && verb == "patch" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "baremetalhosts"}, "host-a", nil)
		}
		return nil
	})
}

// TestBMCNamesAnotherBareMetalHost: the host that it named before is no longer kept off, and the other one is recorded before it is commanded.
func TestBMCNamesAnotherBareMetalHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node(), remediation(), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), metal3Host("host-a", "a-uid", true), metal3Host("host-b", "b-uid", true))
	wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotOff: ")
	w.names(t, "host-b")
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*v1alpha1.PowerRemediation); is && verb == "patch status" {
			return apierrors.NewInternalError(context.Canceled)
		}
		return nil
	})
	if err := w.reconcile(t.Context(), keyA); err == nil || w.holds(t, "host-b") {
		t.Errorf("host-b is commanded before that is recorded (%v)", err)
	}
	w.refuses(nil)
	taken(w.remediations)
	wantSays(t, w.reconciles(t), fencing.PoweringOff, "PowerNotOff: ", "metal3/host-b")
	if reconciled := taken(w.remediations); !reconciled[keyA] || !w.holds(t, "host-a") {
		t.Errorf("reconciled again are %v", reconciled)
	}
	w.reconciles(t)
	r := w.remediation(t, keyA)
	if w.holds(t, "host-a") || !w.holds(t, "host-b") || r.Status.BMC.HostName != "host-b" || len(r.Status.FormerHosts) > 0 {
		t.Errorf("host-a is kept off: %t, host-b: %t, recorded are %+v and %+v", w.holds(t, "host-a"), w.holds(t, "host-b"), r.Status.BMC, r.Status.FormerHosts)
	}
}

// TestBMCIsGone: the changes of its BareMetalHost are taken back without it.
func TestBMCIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in        fencing.Phase
		stop, off bool
		ends      fencing.Phase
	}{
		"powering off, and not stopped": {fencing.PoweringOff, false, false, ""},
		"powering off":                  {fencing.PoweringOff, true, false, fencing.Aborted},
		"failed, and not stopped":       {fencing.Failed, false, false, ""},
		"powering on":                   {fencing.PoweringOn, false, false, fencing.Booting},
		"it is to stay off":             {fencing.PoweringOff, true, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requested := func(r *v1alpha1.PowerRemediation) {
				if c.off {
					r.Spec.Strategy = v1alpha1.OffStrategy
				}
				if c.stop {
					stopped(r)
				}
			}
			w := newWorld(t, node(tainted(ownTaint)), remediation(in(c.in, usedHostA), requested), bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), heldOff("host-a", "a-uid"))
			w.losesBMC()
			w.reports(t, "host-a", false)
			w.reconciles(t)
			if w.holds(t, "host-a") != (c.ends == "") {
				t.Errorf("it is kept off: %t", w.holds(t, "host-a"))
			}
			if c.ends == "" {
				return
			}
			w.forward(5 * time.Second)
			wantSays(t, w.reconciles(t), fencing.Phase(w.remediation(t, keyA).Status.Phase), "PowerNotOn: ")
			w.reports(t, "host-a", true)
			w.forward(5 * time.Second)
			if r := w.reconciles(t); r.Status.Phase != string(c.ends) || r.Status.PoweredOff {
				t.Errorf("it is in phase %s, powered off: %t", r.Status.Phase, r.Status.PoweredOff)
			}
		})
	}
}

// TestMachineOfAHostWithoutABMCIsGone: the next machine on the host must not stay off, though no BMC names it.
func TestMachineOfAHostWithoutABMCIsGone(t *testing.T) {
	t.Parallel()
	deleted := func(s *v1alpha1.PowerRemediationStatus) {
		usedHostA(s)
		s.MachineDeletion = true
		s.Machine = &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
	}
	w := newWorld(t, remediation(in(fencing.DeletingMachine, deleted)), heldOff("host-a", "a-uid"))
	if r := w.reconciles(t); r.Status.Phase != string(fencing.Succeeded) || r.Status.PoweredOff || w.holds(t, "host-a") {
		t.Errorf("it is in phase %s, and the host is kept off: %t", r.Status.Phase, w.holds(t, "host-a"))
	}
}

// TestAnotherBareMetalHostWithoutABMC: another BareMetalHost of the recorded name is left alone (I11).
func TestAnotherBareMetalHostWithoutABMC(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node(tainted(ownTaint)), remediation(in(fencing.PoweringOff, usedHostA), stopped), heldOff("host-a", "other-uid"))
	wantSays(t, w.reconciles(t), fencing.Aborting, "PowerNotRead: ", "its UID is other-uid, and was a-uid when the remediation began")
	if !w.holds(t, "host-a") {
		t.Error("it is changed")
	}
}

// TestFormerHostThatCanNotBeChanged: the end waits for it as long as for the power, and then says what is left.
func TestFormerHostThatCanNotBeChanged(t *testing.T) {
	t.Parallel()
	former := func(s *v1alpha1.PowerRemediationStatus) { s.FormerHosts = []v1alpha1.FormerHost{hostA, hostB} }
	w := newWorld(t, remediation(in(fencing.Failed, former), leaving), heldOff("host-a", "a-uid"), metal3Host("host-b", "b-uid", true))
	w.refusesBareMetalHosts()
	r := w.reconciles(t)
	if !slices.Equal(r.Status.FormerHosts, []v1alpha1.FormerHost{hostA}) {
		t.Errorf("left are %v", r.Status.FormerHosts)
	}
	w.forward(defaultPowerOn - time.Second)
	w.reconciles(t)
	w.forward(2 * time.Second)
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Get(t.Context(), keyA, &v1alpha1.PowerRemediation{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is there: %v", err)
	}
	events := eventsOf(w)
	if !slices.ContainsFunc(events, func(e string) bool {
		return strings.HasPrefix(e, "Warning HostLeftOff ") && strings.Contains(e, "BareMetalHost metal3/host-a") && strings.Contains(e, "remove it by hand")
	}) {
		t.Errorf("the events are %q", events)
	}
}

// TestFormerHostIsTriedAgain after a pause, and the end comes once it was changed.
func TestFormerHostIsTriedAgain(t *testing.T) {
	t.Parallel()
	former := func(s *v1alpha1.PowerRemediationStatus) { s.FormerHosts = []v1alpha1.FormerHost{hostA} }
	w := newWorld(t, remediation(in(fencing.Failed, former), leaving), heldOff("host-a", "a-uid"))
	w.refusesBareMetalHosts()
	w.reconciles(t)
	w.refuses(nil)
	w.forward(requeueAfter - time.Second)
	w.reconciles(t)
	if !w.holds(t, "host-a") {
		t.Error("it is tried again without a pause")
	}
	w.forward(time.Second)
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Get(t.Context(), keyA, &v1alpha1.PowerRemediation{}); !apierrors.IsNotFound(err) || w.holds(t, "host-a") {
		t.Errorf("it is there: %v, and the host is kept off: %t", err, w.holds(t, "host-a"))
	}
}

// eventsOf takes the events so far.
func eventsOf(w *world) []string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

// TestWhichHostsAreFormer: a host that an earlier BMC named, unless it has been on again, is named again, or is to stay off.
func TestWhichHostsAreFormer(t *testing.T) {
	t.Parallel()
	throughB := throughMetal3("host-b")
	atAddress := func(*v1alpha1.BMC) {}
	for name, c := range map[string]struct {
		status func(*v1alpha1.PowerRemediationStatus)
		off    bool
		bmc    func(*v1alpha1.BMC)
		want   []v1alpha1.FormerHost
	}{
		"another host":     {usedHostA, false, throughB, []v1alpha1.FormerHost{hostA}},
		"an address":       {usedHostA, false, atAddress, []v1alpha1.FormerHost{hostA}},
		"the same host":    {usedHostA, false, throughMetal3("host-a"), nil},
		"on again":         {func(s *v1alpha1.PowerRemediationStatus) { usedHostA(s); s.PoweredOff = false }, false, throughB, nil},
		"the first record": {func(s *v1alpha1.PowerRemediationStatus) { s.PoweredOff = true }, false, throughB, nil},
		"an address before": {func(s *v1alpha1.PowerRemediationStatus) {
			usedHostA(s)
			s.BMC.HostUID, s.BMC.HostNamespace, s.BMC.HostName = "", "", ""
		}, false, throughB, nil},
		"named again":                    {func(s *v1alpha1.PowerRemediationStatus) { usedHostA(s); s.FormerHosts = []v1alpha1.FormerHost{hostB} }, false, throughB, []v1alpha1.FormerHost{hostA}},
		"known already":                  {func(s *v1alpha1.PowerRemediationStatus) { usedHostA(s); s.FormerHosts = []v1alpha1.FormerHost{hostA} }, false, throughB, []v1alpha1.FormerHost{hostA}},
		"off, while that is not reached": {usedHostA, true, throughB, []v1alpha1.FormerHost{hostA}},
		"off, as it is to be":            {func(s *v1alpha1.PowerRemediationStatus) { usedHostA(s); s.Phase = "Succeeded" }, true, throughB, nil},
		"on in the end":                  {func(s *v1alpha1.PowerRemediationStatus) { usedHostA(s); s.Phase = "Succeeded" }, false, throughB, []v1alpha1.FormerHost{hostA}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bmc := bmcFor("bmc-a", "node-a", "redfish://10.0.0.1", c.bmc)
			rec := &reconciliation{r: remediation(in(fencing.PoweringOff, c.status)), bmc: bmc, config: fencing.Config{Off: c.off}}
			if named := bmc.Spec.BareMetalHost; named != nil {
				rec.metal.UID = map[string]baremetalhost.Identity{"host-a": {UID: "a-uid"}, "host-b": {UID: "b-uid"}}[named.Name].UID
			}
			status := rec.r.Status.DeepCopy()
			rec.recordBMC(status)
			if !slices.Equal(status.FormerHosts, c.want) {
				t.Errorf("former are %v, want %v", status.FormerHosts, c.want)
			}
		})
	}
}

// TestFormerHostsAreBounded: the last ones are kept.
func TestFormerHostsAreBounded(t *testing.T) {
	t.Parallel()
	rec := &reconciliation{r: remediation(in(fencing.PoweringOff, usedHostA)), bmc: bmcFor("bmc-a", "node-a", "redfish://10.0.0.1")}
	status := rec.r.Status.DeepCopy()
	for i := range mostFormer {
		status.FormerHosts = append(status.FormerHosts, v1alpha1.FormerHost{Namespace: "metal3", Name: strconv.Itoa(i), UID: "u"})
	}
	rec.recordBMC(status)
	if got := status.FormerHosts; len(got) != mostFormer || got[0].Name != "1" || got[mostFormer-1] != hostA {
		t.Errorf("former are %v", got)
	}
}

// TestChangeOfAnAddressIsSaid where the host may be off, since the former address is not known any more.
func TestChangeOfAnAddressIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*v1alpha1.PowerRemediationStatus)
		want   bool
	}{
		"the host may be off":     {func(*v1alpha1.PowerRemediationStatus) {}, true},
		"it has been on again":    {func(s *v1alpha1.PowerRemediationStatus) { s.PoweredOff = false }, false},
		"the BMC is the same":     {func(s *v1alpha1.PowerRemediationStatus) { s.BMC.Generation = 1 }, false},
		"it was a BareMetalHost":  {func(s *v1alpha1.PowerRemediationStatus) { s.BMC.HostUID = "u" }, false},
		"it is the first command": {func(s *v1alpha1.PowerRemediationStatus) { s.BMC = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := v1alpha1.PowerRemediationStatus{PoweredOff: true, BMC: &v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 2}}
			c.change(&before)
			w := newWorld(t)
			rec := &reconciliation{node: "node-a", r: remediation(), slot: apiSlot{of: w.apiSlots}}
			rec.r.Status.BMC = &v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 1}
			w.warnOfOldAddress(rec, &before)
			rec.end(t.Context())
			events := eventsOf(w)
			if said := len(events) == 1 && strings.HasPrefix(events[0], "Warning BMCChanged "); said != c.want || len(events) > 1 {
				t.Errorf("the events are %q", events)
			}
		})
	}
}

// TestProofIsOfOneBMC: reads through a BMC count for nothing once it is deleted, replaced or changed, and a proof through it is void.
func TestProofIsOfOneBMC(t *testing.T) {
	t.Parallel()
	const address = "redfish://10.0.0.1"
	for name, c := range map[string]struct {
		bmc     *v1alpha1.BMC
		counts  bool
		changed bool
	}{
		"the same":     {bmcFor("bmc-a", "node-a", address), true, false},
		"deleted":      {nil, false, false},
		"replaced":     {bmcFor("bmc-a", "node-a", address, func(b *v1alpha1.BMC) { b.UID = "other" }), false, true},
		"another name": {bmcFor("bmc-b", "node-a", address, func(b *v1alpha1.BMC) { b.UID = "bmc-a-uid" }), false, true},
		"changed":      {bmcFor("bmc-a", "node-a", "redfish://10.0.0.2", func(b *v1alpha1.BMC) { b.Generation = 2 }), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			used := v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 1}
			r := remediation(in(fencing.Releasing, func(s *v1alpha1.PowerRemediationStatus) {
				s.BMC, s.Proof = &used, &v1alpha1.FencingProof{Kind: string(fencing.PowerOff), At: metav1.NewMicroTime(noon)}
			}))
			once := fencing.Reading{Begun: noon, Ended: noon, State: fencing.IsOff}
			rec := &reconciliation{key: client.ObjectKeyFromObject(r), r: r, bmc: c.bmc, record: recordOf(&r.Status), s: &session{bmc: used, power: fencing.Power{Off: noon, FirstOff: once, Last: once}}}
			w.refresh(t.Context(), rec)
			p := rec.facts.Power
			p.RetryAt = time.Time{}
			if (p == fencing.Power{Off: noon, FirstOff: once, Last: once, Left: true}) != c.counts || !c.counts && (p.Off != time.Time{} || p.FirstOff != fencing.Reading{}) {
				t.Errorf("known is %+v", rec.facts.Power)
			}
			if rec.facts.HostChanged != c.changed {
				t.Errorf("it is another host: %t", rec.facts.HostChanged)
			}
		})
	}
}
