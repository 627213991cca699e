package selffencing

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/selffence"
)

// TestRefusals: a remediation that can't start says why, and nothing is done.
func TestRefusals(t *testing.T) {
	noted := func(key, value string) func(*v1alpha1.SelfFenceRemediation) {
		return func(r *v1alpha1.SelfFenceRemediation) { r.Annotations = map[string]string{key: value} }
	}
	broken := leaseOf(t, "node-a")
	broken.Annotations[annotation.PromiseBoot] = "x"
	newer := node(func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute)) })
	for sentence, tc := range map[string]struct {
		r              *v1alpha1.SelfFenceRemediation
		others         []client.Object
		reason, saying string
	}{
		"it was stopped":             {remediation(noted(v1alpha1.TimedOutAnnotation, "now")), []client.Object{node(), leaseOf(t, "node-a")}, v1alpha1.RemediationStoppedReason, "requested a stop"},
		"no node can be called so":   {remediation(noted(v1alpha1.NodeNameAnnotation, "no/de")), []client.Object{node(), leaseOf(t, "node-a")}, v1alpha1.CannotStartNodeNotFoundReason, "no node can be called no/de"},
		"there is no such node":      {remediation(), nil, v1alpha1.CannotStartNodeNotFoundReason, "there is no node node-a"},
		"the node is newer":          {remediation(), []client.Object{newer, leaseOf(t, "node-a")}, v1alpha1.CannotStartNodeIsNewerReason, "not older"},
		"there is no Lease":          {remediation(), []client.Object{node()}, v1alpha1.CannotStartNoPromiseReason, "fettle-agents/node-a"},
		"the Lease can't be read":    {remediation(), []client.Object{node(), broken}, v1alpha1.CannotStartNoPromiseReason, "can't be read"},
		"the promise is withdrawn":   {remediation(), []client.Object{node(), leaseOf(t, "node-a", withdrawn)}, v1alpha1.CannotStartNoPromiseReason, "withdrawn"},
		"its phase is of another":    {remediation(in("PoweringOff")), []client.Object{node(), leaseOf(t, "node-a")}, "StatusInvalid", "PoweringOff"},
		"its status names no node":   {remediation(in(fencing.Condemning, func(s *v1alpha1.SelfFenceRemediationStatus) { s.Node = nil })), []client.Object{node(), leaseOf(t, "node-a")}, "StatusInvalid", "status.node"},
		"for a node of another name": {remediation(noted(v1alpha1.NodeNameAnnotation, "node-b")), []client.Object{node(), leaseOf(t, "node-a")}, v1alpha1.CannotStartNodeNotFoundReason, "there is no node node-b"},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, append(tc.others, tc.r)...)
			for range 2 { // the second time, it has said so already
				r := w.reconciles(t)
				said := succeeded(r)
				if said.Status != metav1.ConditionFalse || said.Reason != tc.reason || !strings.Contains(said.Message, tc.saying) || processing(r) != tc.reason {
					t.Fatalf("it is %+v", r.Status.Conditions)
				}
			}
			if len(tc.others) > 0 {
				if n := w.node(t); len(n.Spec.Taints) != 0 || len(n.Annotations) != 0 {
					t.Errorf("the node is %+v", n)
				}
			}
			if w.Claims.Len() != 0 {
				t.Error("it holds a node")
			}
		})
	}
}

// TestARefusalIsFinal: the health checker takes its next step, so the remediation doesn't begin later.
func TestARefusalIsFinal(t *testing.T) {
	w := newWorld(t, leaseOf(t, "node-a"), remediation())
	if r := w.reconciles(t); succeeded(r).Reason != v1alpha1.CannotStartNodeNotFoundReason {
		t.Fatalf("it is %+v", r.Status)
	}
	if err := w.api.Create(t.Context(), node()); err != nil {
		t.Fatal(err)
	}
	if r := w.reconciles(t); r.Status.Phase != "" || len(r.Finalizers) != 0 || w.lease(t).State != selffence.Promised {
		t.Errorf("it begins: %+v", r.Status)
	}
}

// TestAReadyNodeIsFenced, unless its remediation has waited for another: the health check that made it has its own criteria.
func TestAReadyNodeIsFenced(t *testing.T) {
	w := newWorld(t, node(ready), leaseOf(t, "node-a"), remediation())
	if r := w.reconciles(t); r.Status.Phase != string(fencing.Condemning) {
		t.Errorf("it is %+v", r.Status)
	}
}

// TestTakingTurns: a remediation waits while another one fences its node.
func TestTakingTurns(t *testing.T) {
	begun := remediation(in(fencing.Booting))
	begun.Name, begun.UID = keyB.Name, "other-uid"
	elsewhere := begun.DeepCopy()
	elsewhere.Status.Node.Name = "node-b"
	nowhere := begun.DeepCopy()
	nowhere.Status.Node = nil
	ended := begun.DeepCopy()
	ended.Status.Phase = string(fencing.Failed)
	power := fencednode.Holder{Kind: "PowerRemediation", NamespacedName: keyB}
	for sentence, tc := range map[string]struct {
		others []client.Object
		set    func(*world)
		waits  bool
	}{
		"another has begun":           {[]client.Object{begun}, func(*world) {}, true},
		"another has begun elsewhere": {[]client.Object{elsewhere}, func(*world) {}, false},
		"another has no node":         {[]client.Object{nowhere}, func(*world) {}, false},
		"another has ended":           {[]client.Object{ended}, func(*world) {}, false},
		"another holds the node":      {nil, func(w *world) { w.Claims.Claim("node-a", power) }, true},
		"another kind has begun": {nil, func(w *world) {
			w.OtherFences = func(_ context.Context, name string) (fencednode.Holder, bool) { return power, name == "node-a" }
		}, true},
		"another kind has begun elsewhere": {nil, func(w *world) {
			w.OtherFences = func(context.Context, string) (fencednode.Holder, bool) { return fencednode.Holder{}, false }
		}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, append(tc.others, node(), leaseOf(t, "node-a"), remediation())...)
			tc.set(w)
			r := w.reconciles(t)
			if waits := processing(r) == fencednode.AnotherRemediation; waits != tc.waits || waits != (r.Status.Phase == "") || waits != (len(r.Finalizers) == 0) {
				t.Errorf("it is %+v", r.Status)
			}
		})
	}
	t.Run("after a restart", func(t *testing.T) {
		w := newWorld(t, node(), leaseOf(t, "node-a"), remediation(in(fencing.Condemning)))
		w.Claims.Claim("node-a", power)
		if r := w.reconciles(t); processing(r) != fencednode.AnotherRemediation || w.lease(t).State != selffence.Promised {
			t.Errorf("it is %+v", r.Status)
		}
		w.Claims.Release(power)
		w.reconciles(t)
		if w.lease(t).State != selffence.Condemned {
			t.Error("it does not go on")
		}
	})
}

// TestAFailedCall: nothing is done before what it needs is read, and the status says what failed.
func TestAFailedCall(t *testing.T) {
	of := func(verb string, sample runtime.Object) func(string, runtime.Object) error {
		return func(v string, o runtime.Object) error {
			same := v == verb
			switch sample.(type) {
			case *corev1.Node:
				_, is := o.(*corev1.Node)
				same = same && is
			case *coordinationv1.Lease:
				_, is := o.(*coordinationv1.Lease)
				same = same && is
			case *corev1.PodList:
				_, is := o.(*corev1.PodList)
				same = same && is
			}
			if same {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "node-a", errors.New("no"))
			}
			return nil
		}
	}
	condemned := leaseOf(t, "node-a", condemnedBy(uidA))
	proven := in(fencing.Releasing, func(s *v1alpha1.SelfFenceRemediationStatus) {
		s.Proof, s.WorkloadReleased = &v1alpha1.FencingProof{Kind: "PromiseExpired", At: metav1.NewMicroTime(noon)}, true
	})
	for sentence, tc := range map[string]struct {
		r      *v1alpha1.SelfFenceRemediation
		lease  *coordinationv1.Lease
		fault  func(string, runtime.Object) error
		reason string
		fails  bool
	}{
		"the node can't be read at the beginning":  {remediation(), leaseOf(t, "node-a"), of("get", &corev1.Node{}), notRead, true},
		"the Lease can't be read at the beginning": {remediation(), leaseOf(t, "node-a"), of("get", &coordinationv1.Lease{}), notRead, true},
		"the node can't be read":                   {remediation(in(fencing.Condemning)), condemned, of("get", &corev1.Node{}), "NodeNotRead", false},
		"the Lease can't be read":                  {remediation(in(fencing.Condemning)), condemned, of("get", &coordinationv1.Lease{}), "PromiseNotRead", false},
		"the Lease can't be written":               {remediation(in(fencing.Condemning)), leaseOf(t, "node-a"), of("update", &coordinationv1.Lease{}), "PromiseNotRead", false},
		"the node can't be tainted":                {remediation(), leaseOf(t, "node-a"), of("patch", &corev1.Node{}), notChanged, true},
		"the pods can't be listed":                 {remediation(proven), condemned, of("list", &corev1.PodList{}), "WorkloadNotCounted", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, node(), tc.lease, tc.r)
			w.refuses(tc.fault)
			err := w.reconcile(t.Context(), keyA)
			w.refuses(nil)
			r := w.remediation(t)
			if (err != nil) != tc.fails || processing(r) != tc.reason || !strings.Contains(messageOf(r), "config/selffence") {
				t.Errorf("%v, %+v", err, r.Status.Conditions)
			}
		})
	}
}

// TestALeaseThatChangesMeanwhile: a condemnation replaces only the promise that was seen.
func TestALeaseThatChangesMeanwhile(t *testing.T) {
	w := newWorld(t, node(), leaseOf(t, "node-a"), remediation())
	renewals := 2
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*coordinationv1.Lease); is && verb == "update" && renewals > 0 {
			renewals--
			return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "node-a", errors.New("changed"))
		}
		return nil
	})
	if r := w.reconciles(t); processing(r) != "PromiseStands" || renewals != 0 {
		t.Errorf("it is %+v", r.Status)
	}
}

// TestAWriteWithoutAnAnswer: it is not known whether the promise was revoked, so it is read again after a pause.
func TestAWriteWithoutAnAnswer(t *testing.T) {
	w := newWorld(t, node(), leaseOf(t, "node-a"), remediation())
	failures := 3
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*coordinationv1.Lease); is && verb == "update" && failures > 0 {
			failures--
			return errors.New("no answer")
		}
		return nil
	})
	for _, pause := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second} {
		if r := w.reconciles(t); processing(r) != "PromiseNotRead" || !strings.Contains(messageOf(r), "no answer") {
			t.Fatalf("it is %+v", r.Status)
		}
		w.forward(pause - time.Millisecond)
		if r := w.reconciles(t); processing(r) != "PromiseNotRead" {
			t.Fatalf("before the pause of %s is over, it is %+v", pause, r.Status)
		}
		w.forward(time.Millisecond)
	}
	if r := w.reconciles(t); processing(r) != "PromiseStands" {
		t.Errorf("it is %+v", r.Status)
	}
}

// TestPromisesThatOthersRevoked: only the promise of a remediation that is gone is freed.
func TestPromisesThatOthersRevoked(t *testing.T) {
	other := remediation()
	other.Name, other.UID = keyB.Name, "other-uid"
	for sentence, tc := range map[string]struct {
		others []client.Object
		reason string
		state  selffence.State
	}{
		"it exists":  {[]client.Object{other}, "PromiseOfOther", selffence.Condemned},
		"it is gone": {nil, "NothingPromised", selffence.Withdrawn},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, append(tc.others, node(), leaseOf(t, "node-a", condemnedBy("other-uid")), remediation(in(fencing.Condemning)))...)
			if r := w.reconciles(t); processing(r) != tc.reason || w.lease(t).State != tc.state {
				t.Errorf("it is %+v, and the Lease %+v", r.Status, w.lease(t))
			}
		})
	}
}

// TestSight: the Lease of a node that is not Ready is read, if there is a policy.
func TestSight(t *testing.T) {
	w := newWorld(t, node(), leaseOf(t, "node-a"), remediation())
	if err := w.readPromise(t.Context(), "node-a"); err != nil {
		t.Fatal(err)
	}
	w.forward(expiry)
	if r := w.reconciles(t); r.Status.Proof == nil {
		t.Errorf("its clock did not count from then: %+v", r.Status)
	}
	w.refuses(failing("list", &v1alpha1.FencePolicyList{}, errors.New("no")))
	if err := w.readPromise(t.Context(), "node-a"); err == nil {
		t.Error("policies that can't be read are none")
	}
	w.refuses(nil)
	if err := w.api.Delete(t.Context(), &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}); err != nil {
		t.Fatal(err)
	}
	w.refuses(func(verb string, _ runtime.Object) error {
		if verb == "get" {
			t.Error("a Lease is read, and there is no policy")
		}
		return nil
	})
	if err := w.readPromise(t.Context(), "node-a"); err != nil {
		t.Error(err)
	}
}

// TestANodeThatNeedsItsPowerOffToo: a FencePolicy may require both power and promise. Then this remediator doesn't begin.
func TestANodeThatNeedsItsPowerOffToo(t *testing.T) {
	both := func(change ...func(*v1alpha1.FencePolicy)) *v1alpha1.FencePolicy {
		p := &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "above-all"}, Spec: v1alpha1.FencePolicySpec{RequiredProof: v1alpha1.PowerAndPromise}}
		for _, f := range change {
			f(p)
		}
		return p
	}
	labelled := func(p *v1alpha1.FencePolicy) { p.Spec.NodeSelector.MatchLabels = map[string]string{"pool": "a"} }
	unreadable := func(p *v1alpha1.FencePolicy) {
		p.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Like"}}
	}
	const refused, waits, begins = v1alpha1.CannotStartPowerRequiredReason, "FencePolicyUnknown", "PromiseStands"
	for sentence, tc := range map[string]struct {
		policy *v1alpha1.FencePolicy
		want   string
	}{
		"its policy requires both":      {both(), refused},
		"that of other nodes does":      {both(labelled), begins},
		"its policy can't be read":      {both(unreadable), waits},
		"the policies can't be listed":  {nil, "NotRead"},
		"its policy requires any proof": {both(func(p *v1alpha1.FencePolicy) { p.Spec.RequiredProof = v1alpha1.AnyProof }), begins},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, node(), leaseOf(t, "node-a"), remediation())
			if tc.policy == nil {
				w.refuses(failing("list", &v1alpha1.FencePolicyList{}, errors.New("no")))
			} else if err := w.api.Create(t.Context(), tc.policy); err != nil {
				t.Fatal(err)
			}
			err := w.reconcile(t.Context(), keyA)
			r := w.remediation(t)
			if processing(r) != tc.want || (err != nil) != (tc.policy == nil) {
				t.Errorf("%v: it is %+v", err, r.Status)
			}
			if did := r.Status.Phase != "" || w.lease(t).State != selffence.Promised; did != (tc.want == begins) {
				t.Errorf("it has done something: %t", did)
			}
			if tc.want == refused && (succeeded(r).Status != metav1.ConditionFalse || !strings.Contains(messageOf(r), "FencePolicy above-all")) {
				t.Errorf("it says %+v", r.Status.Conditions)
			}
		})
	}
}

// TestANodeThatIsReadyOnceItsPolicyIsKnown is left alone.
func TestANodeThatIsReadyOnceItsPolicyIsKnown(t *testing.T) {
	for _, isReady := range []bool{false, true} {
		bad := &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "above-all"}, Spec: v1alpha1.FencePolicySpec{RequiredProof: v1alpha1.PowerAndPromise}}
		bad.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Like"}}
		w := newWorld(t, node(), leaseOf(t, "node-a"), remediation(), bad)
		w.reconciles(t)
		if isReady {
			w.reports(t, ready)
		}
		if err := w.api.Delete(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{false: "PromiseStands", true: v1alpha1.CannotStartFencedMeanwhileReason}[isReady]
		if r := w.reconciles(t); processing(r) != want {
			t.Errorf("ready %t: it is %+v", isReady, r.Status)
		}
	}
}

// TestADeletedRemediation: a remediation that has not begun, or whose status is not Fettle's, is let go.
func TestADeletedRemediation(t *testing.T) {
	deleted := func(r *v1alpha1.SelfFenceRemediation) {
		r.Finalizers = []string{annotation.SelfFenceFinalizer, "other"}
		r.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	for sentence, r := range map[string]*v1alpha1.SelfFenceRemediation{
		"it has not begun": remediation(deleted), "its phase is unknown": remediation(in("Dancing"), deleted), "it has ended": remediation(in(fencing.Aborted), deleted),
	} {
		w := newWorld(t, node(), leaseOf(t, "node-a"), r)
		if got := w.reconciles(t); len(got.Finalizers) != 1 || got.Finalizers[0] != "other" {
			t.Errorf("%s: it keeps %v", sentence, got.Finalizers)
		}
	}
}

// messageOf returns the message of the condition Processing.
func messageOf(r *v1alpha1.SelfFenceRemediation) string {
	for _, c := range r.Status.Conditions {
		if c.Type == v1alpha1.ProcessingCondition {
			return c.Message
		}
	}
	return ""
}

// TestARemediationThatHasEndedLeavesTheNodeToAnother: the taint on the node is that of another remediation, which has begun and not ended. A process
// that has just started has no claims.
func TestARemediationThatHasEndedLeavesTheNodeToAnother(t *testing.T) {
	power := fencednode.Holder{Kind: "PowerRemediation", NamespacedName: keyB}
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: annotation.FencingTaint, Effect: corev1.TaintEffectNoExecute}}
	}
	leaving := func(r *v1alpha1.SelfFenceRemediation) { r.DeletionTimestamp = &metav1.Time{Time: noon} }
	for sentence, change := range map[string][]func(*v1alpha1.SelfFenceRemediation){
		"it was taken back":             {in(fencing.Aborted)},
		"it was taken back, and leaves": {in(fencing.Aborted), leaving},
		"it has failed, and leaves":     {in(fencing.Failed), leaving},
		"it has succeeded, and leaves":  {in(fencing.Succeeded), leaving},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, node(tainted), leaseOf(t, "node-a", condemnedBy("another-uid")), remediation(change...))
			fences := true
			w.OtherFences = func(context.Context, string) (fencednode.Holder, bool) { return power, fences }
			if r := w.reconciles(t); !isTainted(w.node(t), annotation.FencingTaint) || w.Claims.Len() > 0 || len(r.Finalizers) == 0 {
				t.Errorf("while another fences the node, the node has %v, and there are %d claims", w.node(t).Spec.Taints, w.Claims.Len())
			}
			fences = false
			if err := w.reconcile(t.Context(), keyA); err != nil || isTainted(w.node(t), annotation.FencingTaint) {
				t.Errorf("after that, the node has %v (%v)", w.node(t).Spec.Taints, err)
			}
		})
	}
}

// TestTheTaintOfAnotherStays: a remediation that was taken back removes no taint that another one keeps.
func TestTheTaintOfAnotherStays(t *testing.T) {
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: annotation.FencingTaint, Effect: corev1.TaintEffectNoExecute}}
	}
	called := func(r *v1alpha1.SelfFenceRemediation) { r.Name, r.UID = keyB.Name, "another-uid" }
	elsewhere := func(s *v1alpha1.SelfFenceRemediationStatus) { s.Node.Name = "node-b" }
	nowhere := func(s *v1alpha1.SelfFenceRemediationStatus) { s.Node = nil }
	none := func(*world) {}
	for sentence, tc := range map[string]struct {
		other func(*v1alpha1.SelfFenceRemediation)
		set   func(*world)
		stays bool
	}{
		"another has failed":                  {in(fencing.Failed), none, true},
		"another has succeeded":               {in(fencing.Succeeded), none, false},
		"another was taken back too":          {in(fencing.Aborted), none, false},
		"another has failed for another node": {in(fencing.Failed, elsewhere), none, false},
		"another has no node":                 {in(fencing.Failed, nowhere), none, false},
		"another kind keeps it": {in(fencing.Aborted), func(w *world) {
			w.OtherKeeps = func(_ context.Context, node string, but types.UID) bool { return node == "node-a" && but == uidA }
		}, true},
		"another kind keeps none": {in(fencing.Aborted), func(w *world) {
			w.OtherKeeps = func(context.Context, string, types.UID) bool { return false }
		}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, node(tainted), leaseOf(t, "node-a"), remediation(in(fencing.Aborted)), remediation(called, tc.other))
			tc.set(w)
			w.reconciles(t)
			if stays := isTainted(w.node(t), annotation.FencingTaint); stays != tc.stays {
				t.Errorf("the taint stays: %t", stays)
			}
		})
	}
	t.Run("it restores the node", func(t *testing.T) {
		w := newWorld(t, node(tainted), leaseOf(t, "node-a"), remediation(in(fencing.Restoring)), remediation(called, in(fencing.Failed)))
		w.reconciles(t)
		if isTainted(w.node(t), annotation.FencingTaint) {
			t.Error("the taint stays where the node is back")
		}
	})
	w := newWorld(t, remediation(in(fencing.Failed)))
	if w.Keeps(t.Context(), "node-a", uidA) || !w.Keeps(t.Context(), "node-a", "another-uid") {
		t.Error("a remediation that has failed keeps the taint from itself, or not from another")
	}
	w.refuses(func(verb string, _ runtime.Object) error {
		if verb == "list" {
			return errors.New("no")
		}
		return nil
	})
	if !w.Keeps(t.Context(), "node-a", uidA) {
		t.Error("while remediations can't be read, none of them keeps a taint")
	}
}
