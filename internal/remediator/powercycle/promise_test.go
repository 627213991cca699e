package powercycle

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

const uuid1 = "11111111-1111-1111-1111-111111111111"

// expiry is after which time the promise of leaseOf has expired: 1.05 × (10 s + 3 × 10 s).
const expiry = 42 * time.Second

func inBoot1(n *corev1.Node) { n.Status.NodeInfo.BootID = uuid1 }

// requiresPowerAndPromise returns a policy of all nodes.
func requiresPowerAndPromise(changes ...func(*v1alpha1.FencePolicy)) *v1alpha1.FencePolicy {
	p := &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "databases"}, Spec: v1alpha1.FencePolicySpec{RequiredProof: v1alpha1.PowerAndPromise}}
	for _, change := range changes {
		change(p)
	}
	return p
}

// leaseOf returns the Lease of node-a. It is Promised, and timed.
func leaseOf(t *testing.T, changes ...func(*promiselease.Record)) *coordinationv1.Lease {
	t.Helper()
	r := promiselease.Record{Lease: selffence.Lease{State: selffence.Promised, Promise: selffence.Promise{
		Boot: uuid1, Timed: true, Times: selffence.Times{Validity: 10 * time.Second, Watchdog: 10 * time.Second},
	}}}
	for _, change := range changes {
		change(&r)
	}
	l, err := promiselease.Encode("node-a", r, noon)
	if err != nil {
		t.Fatal(err)
	}
	l.ResourceVersion = ""
	return l
}

func notTimed(r *promiselease.Record) { r.Promise.Timed = false }
func condemned(r *promiselease.Record) {
	r.State, r.By = selffence.Condemned, "r-uid"
}

func (w *world) state(t *testing.T) selffence.State {
	t.Helper()
	record, err := promiselease.Decode(read(t, w, promiselease.Namespace, "node-a", &coordinationv1.Lease{}))
	if err != nil {
		t.Fatal(err)
	}
	return record.State
}

// byBoth has a remediation in an attempt that needs both proofs.
func byBoth(s *v1alpha1.PowerRemediationStatus) {
	s.RequiredProof, s.Node.BootID, s.PoweredOff = v1alpha1.PowerAndPromise, uuid1, true
	s.Condemned = s.Phase != string(fencing.Preparing)
}

// isOff has the host of node-a read as off twice, through BMC a.
func (w *world) isOff(t *testing.T) {
	t.Helper()
	bmc := w.bmc(t, "a")
	s := w.sessions.of(keyA, "r-uid", "node-a")
	s.bmc = (&reconciliation{bmc: bmc}).fencingBMC()
	at := func(ago time.Duration) fencing.Reading {
		return fencing.Reading{Begun: noon.Add(-ago), Ended: noon.Add(-ago), State: fencing.IsOff}
	}
	s.power = fencing.Power{Off: noon.Add(-time.Minute), FirstOff: at(20 * time.Second), Last: at(10 * time.Second)}
}

func messageOf(r *v1alpha1.PowerRemediation) string {
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ProcessingCondition); c != nil {
		return c.Message
	}
	return ""
}

// noBMC is a BMC that is never reached.
func noBMC() *v1alpha1.BMC { return bmcFor("a", "node-a", "telnet://x") }

// TestPowerAndPromise: a host that is off releases nothing before the promise of its node has expired.
func TestPowerAndPromise(t *testing.T) {
	w := newWorld(t, node(inBoot1), leaseOf(t), noBMC(), requiresPowerAndPromise(), remediation(in(fencing.PoweringOff, byBoth)))
	w.isOff(t)
	r := w.reconciles(t)
	if processing(r) != "PromiseStands" || !strings.Contains(messageOf(r), "has reset itself at 2026-08-03T12:00:42Z at the latest") || w.state(t) != selffence.Condemned {
		t.Fatalf("it is %+v, and the Lease %s", r.Status, w.state(t))
	}
	w.forward(expiry - time.Second)
	if r = w.reconciles(t); processing(r) != "PromiseStands" || r.Status.Proof != nil {
		t.Fatalf("before its time it is %+v", r.Status)
	}
	w.forward(time.Second)
	r = w.reconciles(t)
	if p := r.Status.Proof; p == nil || p.Kind != "PowerOffAndPromiseExpired" || r.Status.Phase != "Releasing" || r.Status.WorkloadReleased {
		t.Fatalf("after its time it is %+v", r.Status)
	}
	if processing(r) != "PowerNotRead" {
		t.Errorf("right before the release its power was not read: %+v", r.Status.Conditions)
	}
}

// TestThePromiseAlone releases nothing: the power has to be observed off too.
func TestThePromiseAlone(t *testing.T) {
	w := newWorld(t, node(inBoot1), leaseOf(t), noBMC(), requiresPowerAndPromise(), remediation(in(fencing.PoweringOff, byBoth)))
	w.reconciles(t)
	w.forward(expiry)
	if r := w.reconciles(t); r.Status.Proof != nil || processing(r) != "PowerNotRead" || w.state(t) != selffence.Condemned {
		t.Errorf("it is %+v, and the Lease %s", r.Status, w.state(t))
	}
	w.forward(5 * time.Minute)
	if r := w.reconciles(t); r.Status.Phase != "PoweringOff" || r.Status.Attempt != 2 || r.Status.RequiredProof != v1alpha1.PowerAndPromise || !r.Status.Condemned {
		t.Errorf("after its limit it is %+v", r.Status)
	}
}

// notRecorded has a status not say which proofs its attempt needs.
func notRecorded(s *v1alpha1.PowerRemediationStatus) {
	s.RequiredProof, s.Condemned, s.Node.BootID, s.PoweredOff = "", false, uuid1, true
}

// TestAnAttemptThatDoesNotSayWhatItNeeds needs what the policy says: an older version may have written its status. An attempt that says so keeps to
// one proof.
func TestAnAttemptThatDoesNotSayWhatItNeeds(t *testing.T) {
	oneProof := func(s *v1alpha1.PowerRemediationStatus) { notRecorded(s); s.RequiredProof = v1alpha1.AnyProof }
	for sentence, tc := range map[string]struct {
		changes func(*v1alpha1.PowerRemediationStatus)
		objects []client.Object
		both    bool
	}{
		"it does not say":                {notRecorded, []client.Object{requiresPowerAndPromise()}, true},
		"it says that one is enough":     {oneProof, []client.Object{requiresPowerAndPromise()}, false},
		"it does not say, and no policy": {notRecorded, nil, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, append(tc.objects, node(inBoot1), leaseOf(t), noBMC(), remediation(in(fencing.PoweringOff, tc.changes)))...)
			w.isOff(t)
			r := w.reconciles(t)
			if want := map[bool]string{true: "PoweringOff", false: "Releasing"}[tc.both]; r.Status.Phase != want || r.Status.Condemned != tc.both {
				t.Errorf("it is %+v", r.Status)
			}
			if r.Status.RequiredProof != map[bool]v1alpha1.RequiredProof{true: v1alpha1.PowerAndPromise, false: v1alpha1.AnyProof}[tc.both] {
				t.Errorf("it records %q", r.Status.RequiredProof)
			}
		})
	}
}

// TestAProofOfTheOlderVersion by the power alone releases nothing where both are required.
func TestAProofOfTheOlderVersion(t *testing.T) {
	proven := func(s *v1alpha1.PowerRemediationStatus) {
		s.Proof = &v1alpha1.FencingProof{Kind: string(fencing.PowerOff), At: metav1.NewMicroTime(noon)}
	}
	w := newWorld(t, node(inBoot1), leaseOf(t), noBMC(), requiresPowerAndPromise(), remediation(in(fencing.Releasing, notRecorded, proven)))
	w.isOff(t)
	if r := w.reconciles(t); r.Status.Phase != "PoweringOff" || r.Status.Proof != nil || r.Status.WorkloadReleased || w.state(t) != selffence.Condemned {
		t.Errorf("it is %+v, and the Lease %s", r.Status, w.state(t))
	}
}

// TestAStatusThatIsNotKept: where the API server drops what an attempt needs, the remediation fails before it does anything.
func TestAStatusThatIsNotKept(t *testing.T) {
	w := newWorld(t, node(inBoot1), leaseOf(t), noBMC(), requiresPowerAndPromise(), remediation())
	w.drops = func(s *v1alpha1.PowerRemediationStatus) { s.RequiredProof, s.Condemned = "", false }
	r := w.reconciles(t)
	if r.Status.Phase != "Failed" || r.Status.Reason != "StatusNotKept" || !strings.Contains(messageOf(r), "apply the definitions of this version") {
		t.Errorf("it is %+v", r.Status)
	}
	if len(w.node(t).Spec.Taints) > 0 || w.state(t) != selffence.Promised {
		t.Errorf("the node has the taints %v, and the Lease is %s", w.node(t).Spec.Taints, w.state(t))
	}
}

// TestWhatAFencePolicyRequires: a remediation begins by what the policy of its node requires, and does nothing where that can't be had.
func TestWhatAFencePolicyRequires(t *testing.T) {
	otherNodes := func(p *v1alpha1.FencePolicy) { p.Spec.NodeSelector.MatchLabels = map[string]string{"pool": "a"} }
	unreadable := func(p *v1alpha1.FencePolicy) {
		p.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Like"}}
	}
	anyProof := func(p *v1alpha1.FencePolicy) { p.Spec.RequiredProof = v1alpha1.AnyProof }
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "node-a", errors.New("no"))
	with := func(objects ...client.Object) []client.Object { return objects }
	const both, one, none = v1alpha1.PowerAndPromise, v1alpha1.AnyProof, v1alpha1.RequiredProof("")
	for sentence, tc := range map[string]struct {
		objects []client.Object
		// failing is a type that can't be read, and err how that fails.
		failing runtime.Object
		err     error
		reason  string
		message string
		begins  bool
		want    v1alpha1.RequiredProof
	}{
		"both":                          {with(node(inBoot1), leaseOf(t), requiresPowerAndPromise()), nil, nil, "PowerNotRead", "", true, both},
		"any proof":                     {with(node(inBoot1), requiresPowerAndPromise(anyProof)), nil, nil, "PowerNotRead", "", true, one},
		"both, of other nodes":          {with(node(inBoot1), requiresPowerAndPromise(otherNodes)), nil, nil, "PowerNotRead", "", true, one},
		"there is no policy":            {with(node(inBoot1), leaseOf(t)), nil, nil, "PowerNotRead", "", true, one},
		"there is no node":              {with(requiresPowerAndPromise()), nil, nil, "PowerNotRead", "", true, one},
		"no promise":                    {with(node(inBoot1), requiresPowerAndPromise()), nil, nil, v1alpha1.CannotStartNoPromiseReason, "FencePolicy databases requires both power and promise", false, none},
		"it is not timed":               {with(node(inBoot1), leaseOf(t, notTimed), requiresPowerAndPromise()), nil, nil, v1alpha1.CannotStartPromiseNotTimedReason, "onIsolation", false, none},
		"a policy can't be read":        {with(node(inBoot1), leaseOf(t), requiresPowerAndPromise(unreadable)), nil, nil, "FencePolicyUnknown", "FencePolicy databases", false, none},
		"the policies can't be listed":  {with(node(inBoot1), leaseOf(t), requiresPowerAndPromise()), &v1alpha1.FencePolicyList{}, errors.New("no"), "NotRead", "FencePolicies", false, none},
		"the Lease can't be read":       {with(node(inBoot1), leaseOf(t), requiresPowerAndPromise()), &coordinationv1.Lease{}, forbidden, "NotRead", "config/selffence", false, none},
		"no Lease is read where it may": {with(node(inBoot1), requiresPowerAndPromise(anyProof)), &coordinationv1.Lease{}, forbidden, "PowerNotRead", "", true, one},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, append(tc.objects, noBMC(), remediation())...)
			w.refuses(func(_ string, o runtime.Object) error {
				if tc.failing != nil && typeOf(o) == typeOf(tc.failing) {
					return tc.err
				}
				return nil
			})
			err := w.reconcile(t.Context(), keyA)
			w.refuses(nil)
			r := w.remediation(t, keyA)
			if processing(r) != tc.reason || !strings.Contains(messageOf(r), tc.message) || (err != nil) != (tc.err != nil && !tc.begins) {
				t.Errorf("%v: it is %+v", err, r.Status)
			}
			if (r.Status.Phase != "") != tc.begins || r.Status.RequiredProof != tc.want {
				t.Errorf("it is %+v", r.Status)
			}
		})
	}
}

func typeOf(o runtime.Object) string {
	switch o.(type) {
	case *v1alpha1.FencePolicyList:
		return "policies"
	case *coordinationv1.Lease:
		return "Lease"
	}
	return ""
}

// TestANodeThatIsReadyOnceItsPolicyIsKnown is left alone.
func TestANodeThatIsReadyOnceItsPolicyIsKnown(t *testing.T) {
	for _, isReady := range []bool{false, true} {
		bad := requiresPowerAndPromise(func(p *v1alpha1.FencePolicy) {
			p.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Like"}}
		})
		w := newWorld(t, node(inBoot1), leaseOf(t), noBMC(), bad, remediation())
		if r := w.reconciles(t); processing(r) != "FencePolicyUnknown" {
			t.Fatalf("it is %+v", r.Status)
		}
		if isReady {
			n := w.node(t)
			ready(n)
			if err := w.api.Status().Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.api.Delete(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{false: "PowerNotRead", true: v1alpha1.CannotStartFencedMeanwhileReason}[isReady]
		if r := w.reconciles(t); processing(r) != want {
			t.Errorf("ready %t: it is %+v", isReady, r.Status)
		}
	}
}

// TestPoliciesThatCanNotBeListedAnyMore: an attempt that begins then needs both proofs.
func TestPoliciesThatCanNotBeListedAnyMore(t *testing.T) {
	w := newWorld(t, node(inBoot1), leaseOf(t), noBMC())
	rec := &reconciliation{r: remediation(), raw: node(inBoot1)}
	if w.requiresBoth(t.Context(), rec) {
		t.Error("both are required without a policy")
	}
	w.refuses(func(string, runtime.Object) error { return errors.New("no") })
	if !w.requiresBoth(t.Context(), rec) {
		t.Error("policies that can't be listed require nothing")
	}
	if rec.raw = nil; w.requiresBoth(t.Context(), rec) {
		t.Error("both are required of no node")
	}
	rec.raw, rec.cluster.Namespace, rec.cluster.Name = node(inBoot1), "fleet", "east"
	if w.requiresBoth(t.Context(), rec) {
		t.Error("a policy of this cluster requires something of the nodes of another")
	}
	w = newWorld(t, requiresPowerAndPromise(func(p *v1alpha1.FencePolicy) {
		p.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Like"}}
	}))
	if !w.requiresBoth(t.Context(), &reconciliation{r: remediation(), raw: node(inBoot1)}) {
		t.Error("a policy that can't be read requires nothing")
	}
}

// TestPoliciesAreOfOneCluster: a policy of the cluster that Fettle runs in requires nothing of a node of another.
func TestPoliciesAreOfOneCluster(t *testing.T) {
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: newWorld(t, node(inBoot1))},
		forMember(), member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"), requiresPowerAndPromise())
	err := w.reconcile(t.Context(), keyM)
	if r := w.remediation(t, keyM); err != nil || r.Status.Phase == "" || r.Status.RequiredProof != v1alpha1.AnyProof {
		t.Errorf("%v, %+v", err, r.Status)
	}
}

// TestADeletedRemediationFrees: the Lease that it has condemned is free before it goes.
func TestADeletedRemediationFrees(t *testing.T) {
	isOn := func(s *v1alpha1.PowerRemediationStatus) { s.PoweredOff = false }
	w := newWorld(t, node(inBoot1), leaseOf(t, condemned), noBMC(), remediation(in(fencing.PoweringOff, byBoth, isOn), leaving))
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	if gone := w.api.Get(t.Context(), keyA, &v1alpha1.PowerRemediation{}); !apierrors.IsNotFound(gone) || w.state(t) != selffence.Withdrawn {
		t.Errorf("%v, and the Lease is %s", gone, w.state(t))
	}
}

// TestALeaseIsReadAfterItsRemediation: a remediation that was removed by force leaves a Lease that it may have condemned.
func TestALeaseIsReadAfterItsRemediation(t *testing.T) {
	r := remediation(in(fencing.PoweringOff, byBoth))
	for sentence, tc := range map[string]struct {
		event any
		want  string
	}{
		"it has gone":                {r, "node-a"},
		"the watch has missed it":    {toolscache.DeletedFinalStateUnknown{Key: "checks/node-a", Obj: r}, "node-a"},
		"it has condemned nothing":   {remediation(in(fencing.PoweringOff)), ""},
		"it had not begun":           {remediation(), ""},
		"the watch does not know it": {toolscache.DeletedFinalStateUnknown{Key: "checks/node-a"}, ""},
		"its node is not recorded":   {remediation(func(r *v1alpha1.PowerRemediation) { r.Status.Condemned = true }), ""},
	} {
		w, got := newWorld(t), ""
		w.remediationEvents().OnDelete(tc.event) // nothing tidies
		w.Tidy = func(node string) { got = node }
		w.remediationEvents().OnDelete(tc.event)
		if got != tc.want {
			t.Errorf("%s: that of %q is read", sentence, got)
		}
	}
}

// TestMessagesOfAVoidProof: a user learns that a pod may be the cause, and not the power.
func TestMessagesOfAVoidProof(t *testing.T) {
	for _, proof := range []v1alpha1.RequiredProof{"", remediation(in(fencing.PoweringOff, byBoth)).Status.RequiredProof} {
		s := remediation(in(fencing.PoweringOff)).Status
		s.Reason, s.RequiredProof = string(fencing.ProofVoid), proof
		if text := phaseMessage(&s); !strings.Contains(text, "a pod that tolerates Fettle's taint may run in its new boot") {
			t.Errorf("where %q is required it says %q", proof, text)
		}
	}
}

// TestMessagesOfBoth: an attempt that needs both says so, and why it goes back.
func TestMessagesOfBoth(t *testing.T) {
	for _, tc := range []struct {
		phase  fencing.Phase
		reason fencing.Reason
		want   string
	}{
		{fencing.PoweringOff, "", "and its promise is revoked, since its FencePolicy requires both"},
		{fencing.PoweringOff, fencing.ProofVoid, "or its promise was not revoked any more"},
		{fencing.Failed, fencing.PoweredOnByOthers, "or its promise was changed by others"},
		{fencing.Failed, fencing.FenceTimedOut, "within spec.fenceTimeout; its workload is held"},
	} {
		s := remediation(in(tc.phase, byBoth)).Status
		s.Reason = string(tc.reason)
		if text := phaseMessage(&s); !strings.Contains(text, tc.want) {
			t.Errorf("%s because of %q says %q", tc.phase, tc.reason, text)
		}
		if s.RequiredProof = ""; tc.reason != fencing.FenceTimedOut && strings.Contains(phaseMessage(&s), tc.want) {
			t.Errorf("%s because of %q speaks of a promise without one: %q", tc.phase, tc.reason, phaseMessage(&s))
		}
	}
}
