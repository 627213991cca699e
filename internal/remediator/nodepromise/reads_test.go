package nodepromise

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
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
