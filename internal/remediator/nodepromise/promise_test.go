package nodepromise

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

const boot1 = "11111111-1111-1111-1111-111111111111"

// leaseOf returns the Lease of a node. It is Promised, and timed.
func leaseOf(t *testing.T, name string) *coordinationv1.Lease {
	t.Helper()
	l, err := promiselease.Encode(name, promiselease.Record{Lease: selffence.Lease{State: selffence.Promised, Promise: selffence.Promise{
		Boot: boot1, Timed: true, Times: selffence.Times{Validity: 10 * time.Second, Watchdog: 10 * time.Second},
	}}}, noon)
	if err != nil {
		t.Fatal(err)
	}
	l.ResourceVersion = ""
	return l
}

// world has promises before an API server with some objects. Reads fail while fault is set, and call reads before. A write calls wrote before its
// answer arrives.
type world struct {
	*Promises

	api   client.Client
	fault error
	reads func(name string)
	wrote func()
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{coordinationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.fault != nil {
				return w.fault
			}
			if key.Name == "" {
				return errors.New("resource name may not be empty") // as a client of a real API server says
			}
			if w.reads != nil {
				w.reads(key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			err := c.Update(ctx, o, opts...)
			if w.wrote != nil {
				w.wrote()
			}
			return err
		},
	}).Build()
	w.Promises = New(w.api, func() time.Time { return noon })
	return w
}

// TestSight: the Lease of a node is read. Where nothing is set up, that is no failure.
func TestSight(t *testing.T) {
	broken := leaseOf(t, "node-c")
	delete(broken.Annotations, annotation.PromiseState)
	w := newWorld(t, leaseOf(t, "node-a"), broken)
	for _, node := range []string{"node-a", "node-b", "node-c"} {
		if err := w.Observe(t.Context(), node); err != nil {
			t.Error(err)
		}
	}
	if seen, known := w.observations.byNode["node-a"]; len(w.observations.byNode) != 1 || !known || seen.Lease.Revision == 0 || !seen.At.Equal(noon) {
		t.Errorf("%+v", w.observations.byNode)
	}
	for want, err := range map[bool]error{false: apierrors.NewForbidden(schema.GroupResource{}, "", nil), true: errors.New("no")} {
		w.fault = err
		if got := w.Observe(t.Context(), "node-a"); (got != nil) != want {
			t.Errorf("after %v it fails with %v", err, got)
		}
	}
	w.Drop("node-a")
	if len(w.observations.byNode) != 0 {
		t.Errorf("%+v", w.observations.byNode)
	}
	if promiselease.Namespace != "fettle-agents" {
		t.Error("the messages name another namespace")
	}
}

// TestAWriteOfALeaseThatWasNotRead: nothing is written then.
func TestAWriteOfALeaseThatWasNotRead(t *testing.T) {
	w := newWorld(t, leaseOf(t, "node-a"))
	for verb, write := range map[string]func(*Promise) error{
		"revoke": func(p *Promise) error { return w.Revoke(t.Context(), p) },
		"free":   func(p *Promise) error { return w.Free(t.Context(), p) },
	} {
		if err := write(&Promise{Node: "node-a", By: "uid"}); err == nil {
			t.Errorf("%s: no error", verb)
		}
	}
}

// newWitnessedWorld has the Lease of node-a, and that of its only witness, which acknowledges each condemnation at once.
func newWitnessedWorld(t *testing.T) *world {
	t.Helper()
	witnessed := leaseOf(t, "node-a")
	witnessed.Annotations[annotation.PromiseWitnesses] = "w-0"
	acknowledges := leaseOf(t, "w-0")
	acknowledges.Annotations[annotation.Witnessed], acknowledges.ResourceVersion = "5000", "9000"
	return newWorld(t, witnessed, acknowledges)
}

// TestSeenBeforeTheAnswer: another reconcile may see a condemned Lease, and the acknowledgements of its witnesses, before the answer to the write
// arrives. Its observation counts on.
func TestSeenBeforeTheAnswer(t *testing.T) {
	w, now := newWitnessedWorld(t), noon
	w.now = func() time.Time { return now }
	p := &Promise{Node: "node-a", By: "uid"}
	w.Read(t.Context(), p)
	w.wrote = func() {
		w.Read(t.Context(), &Promise{Node: "node-a", By: "uid"})
		now = now.Add(time.Minute)
	}
	if err := w.Revoke(t.Context(), p); err != nil || !p.Facts.Expires.Equal(noon.Add(42*time.Second)) {
		t.Errorf("the promise is %+v (%v), want an expiry 42s after it was acknowledged", p.Facts, err)
	}
}

// TestAcknowledgementsAreReadOnce: once enough witnesses have acknowledged, their Leases are read no more.
func TestAcknowledgementsAreReadOnce(t *testing.T) {
	w := newWitnessedWorld(t)
	p := &Promise{Node: "node-a", By: "uid"}
	w.Read(t.Context(), p)
	if err := w.Revoke(t.Context(), p); err != nil || p.Facts.Unwitnessed {
		t.Fatalf("the promise is %+v (%v)", p.Facts, err)
	}
	w.reads = func(name string) {
		if name == "w-0" {
			t.Error("a witness is read again")
		}
	}
	w.Read(t.Context(), p)
	if p.Facts.State != fencing.Revoked || p.Facts.Unwitnessed {
		t.Errorf("the promise is %+v", p.Facts)
	}
}

// TestSeenAnewMeanwhile: the acknowledgements of the witnesses of a Lease count for that Lease alone. Another reconcile may have seen a later one while
// their Leases were read.
func TestSeenAnewMeanwhile(t *testing.T) {
	w := newWitnessedWorld(t)
	p := &Promise{Node: "node-a", By: "uid"}
	w.Read(t.Context(), p)
	later := func(name string) {
		if name == "w-0" {
			w.observations.update("node-a", func(s selffence.Observation) selffence.Observation {
				l := s.Lease
				l.Revision++
				return s.Observe(l, noon.Add(time.Minute))
			})
		}
	}
	w.reads = later
	if err := w.Revoke(t.Context(), p); err != nil || p.Facts.Expired || !p.Facts.Unwitnessed || !p.Facts.Expires.IsZero() {
		t.Errorf("a Lease that was seen later is acknowledged: %+v (%v)", p.Facts, err)
	}
	w.reads = nil
	w.Read(t.Context(), p)
	if want := noon.Add(42 * time.Second); p.Facts.Unwitnessed || !p.Facts.Expires.Equal(want) || p.Facts.Expired {
		t.Errorf("the promise is %+v, want an expiry at %s", p.Facts, want)
	}
	later("w-0")
	w.observations.update("node-a", func(s selffence.Observation) selffence.Observation {
		return s.ReadWitnesses(map[string]uint64{"w-0": 5000}, noon)
	})
	if s := w.observations.byNode["node-a"]; s.Acknowledged.IsZero() {
		t.Errorf("the later Lease is not acknowledged: %+v", s)
	}
}
