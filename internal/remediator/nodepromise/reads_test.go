package nodepromise

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// condemnedLease returns the Lease of node-a as a remediation has condemned it, with three witnesses.
func condemnedLease(t *testing.T, by string) *coordinationv1.Lease {
	t.Helper()
	l, err := promiselease.Encode("node-a", promiselease.Record{Lease: selffence.Lease{State: selffence.Condemned, By: by, Promise: selffence.Promise{
		Boot: boot1, Timed: true, Times: selffence.Times{Validity: 10 * time.Second, Watchdog: 10 * time.Second}, Witnesses: selffence.Members{"w-0", "w-1", "w-2"},
	}}}, noon)
	if err != nil {
		t.Fatal(err)
	}
	l.ResourceVersion = ""
	return l
}

// unlisted is an API server that answers no list.
type unlisted struct{ client.Client }

func (unlisted) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no list")
}

// TestReadsThatFail: while a part of what a promise depends on can't be read, nothing is known of the promise.
func TestReadsThatFail(t *testing.T) {
	broken := leaseOf(t, "node-a")
	delete(broken.Annotations, annotation.PromiseState)
	witnessless := func(w *world) {
		w.reads = func(string) { w.fault = errors.New("no witness") } // the Lease of the node is read before
	}
	for sentence, tc := range map[string]struct {
		lease  *coordinationv1.Lease
		change func(*world)
		state  fencing.PromiseState
		failed string
	}{
		"the Lease can't be decoded":       {broken, func(*world) {}, fencing.PromiseUnknown, ""},
		"there is no Lease":                {nil, func(*world) {}, fencing.NoPromise, ""},
		"its witnesses can't be read":      {condemnedLease(t, "uid"), witnessless, fencing.PromiseUnknown, "no witness"},
		"the remediations can't be listed": {condemnedLease(t, "another"), func(w *world) { w.Promises = New(unlisted{w.api}, w.now) }, fencing.PromiseUnknown, "no list"},
		"all of it can be read":            {condemnedLease(t, "uid"), func(*world) {}, fencing.Revoked, ""},
	} {
		var objects []client.Object
		if tc.lease != nil {
			objects = append(objects, tc.lease)
		}
		w := newWorld(t, objects...)
		tc.change(w)
		p := &Promise{Node: "node-a", By: "uid"}
		w.Read(t.Context(), p)
		if failed := tc.failed != ""; p.Facts.State != tc.state || failed != !p.Facts.RetryAt.IsZero() || failed && !strings.Contains(p.Failure.Error(), tc.failed) {
			t.Errorf("%s: it is %+v, %v", sentence, p.Facts, p.Failure)
		}
	}
}

// TestWritesThatDoNotSuit: a promise that stands isn't freed, and a write that meets another Lease leaves nothing known.
func TestWritesThatDoNotSuit(t *testing.T) {
	w := newWorld(t, leaseOf(t, "node-a"))
	p := &Promise{Node: "node-a", By: "uid"}
	w.Read(t.Context(), p)
	if err := w.Free(t.Context(), p); err == nil || p.Facts.State != fencing.Promised {
		t.Errorf("a promise that stands is freed: %v, %+v", err, p.Facts)
	}
	var l coordinationv1.Lease
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: promiselease.Namespace, Name: "node-a"}, &l); err != nil {
		t.Fatal(err)
	}
	l.Labels = map[string]string{"renewed": "yes"}
	if err := w.api.Update(t.Context(), &l); err != nil {
		t.Fatal(err)
	}
	if err := w.Revoke(t.Context(), p); err != nil || p.Facts != (fencing.Promise{}) {
		t.Errorf("after a conflict: %v, %+v", err, p.Facts)
	}
	if err := w.Revoke(t.Context(), p); err == nil {
		t.Error("a Lease is written again that was not read again")
	}
	w.Read(t.Context(), p)
	if err := w.Revoke(t.Context(), p); err != nil || p.Facts.State != fencing.Revoked {
		t.Errorf("after another read: %v, %+v", err, p.Facts)
	}
}

// TestMissing: a Lease holds a promise, or it is said why it holds none. Where only a time proves something, a promise that is not timed won't do. A Lease
// that can't be read is no reason.
func TestMissing(t *testing.T) {
	with := func(key, value string) *coordinationv1.Lease {
		l := leaseOf(t, "node-a")
		l.Annotations[key] = value
		return l
	}
	const none, notTimed = v1alpha1.CannotStartNoPromiseReason, v1alpha1.CannotStartPromiseNotTimedReason
	for sentence, tc := range map[string]struct {
		lease         *coordinationv1.Lease
		fault         error
		missing, time string // the reasons
	}{
		"a timed promise":         {leaseOf(t, "node-a"), nil, "", ""},
		"it is not timed":         {with(annotation.PromiseTimed, "false"), nil, "", notTimed},
		"it is withdrawn":         {with(annotation.PromiseState, "Withdrawn"), nil, none, none},
		"it can't be decoded":     {with(annotation.PromiseState, "Kept"), nil, none, none},
		"there is no Lease":       {nil, nil, none, none},
		"the Lease can't be read": {leaseOf(t, "node-a"), errors.New("no answer"), "", ""},
	} {
		var objects []client.Object
		if tc.lease != nil {
			objects = append(objects, tc.lease)
		}
		w := newWorld(t, objects...)
		w.fault = tc.fault
		if found, err := w.Missing(t.Context(), "node-a"); found.Reason != tc.missing || !errors.Is(err, tc.fault) {
			t.Errorf("%s: it is missing for %q (%v), want %q", sentence, found.Reason, err, tc.missing)
		}
		if found, err := w.MissingTimed(t.Context(), "node-a"); found.Reason != tc.time || !errors.Is(err, tc.fault) {
			t.Errorf("%s: a timed one is missing for %q (%v), want %q", sentence, found.Reason, err, tc.time)
		}
	}
}

// TestAPolicyThatCanNotBeRead: a message has a bounded part of what is wrong with the selector, which a user has written.
func TestAPolicyThatCanNotBeRead(t *testing.T) {
	wrong := &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}, Spec: v1alpha1.FencePolicySpec{RequiredProof: v1alpha1.PowerAndPromise}}
	wrong.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: metav1.LabelSelectorOperator(strings.Repeat("x", 5000))}}
	_, unknown, err := RequiresBoth(t.Context(), newWorld(t, wrong).api, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}})
	_, part, _ := strings.Cut(unknown.Message, "(")
	part, rest, _ := strings.Cut(part, "); ")
	if err != nil || unknown.Reason != FencePolicyUnknown || len(part) != 512 || rest != "correct the selector" {
		t.Errorf("after %v it says %q, with %d bytes of the reason", err, unknown.Message, len(part))
	}
}
