package powercycle

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/informer/informertest"
	"github.com/fettle-io/fettle/internal/slim"
)

// silentReader answers nothing before the context ends.
type silentReader struct{ client.Reader }

func (silentReader) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestWorkOfOneMoment is bounded in number and time, for remediations and for BMCs.
func TestWorkOfOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more = 9
		var objects []client.Object
		for i := range maxProbes + more {
			objects = append(objects, bmcFor(fmt.Sprint(i), fmt.Sprint("node-", i), fmt.Sprintf("redfish://10.0.1.%d", i), unchecked))
		}
		w := newWorld(t, objects...)
		w.Cache = silentReader{}
		for range maxOperations { // no operation of a BMC begins
			w.hosts.slots <- struct{}{}
		}
		informers := &informertest.Syncing{}
		informers.Synced.Store(true)
		w.Informers = informers
		ctx, cancel := context.WithCancel(t.Context())
		if err := w.Watch(ctx); err != nil {
			t.Fatal(err)
		}
		for i := range maxReconciles + more {
			w.remediations.Add(types.NamespacedName{Namespace: "checks", Name: fmt.Sprint(i)})
		}
		for _, o := range objects {
			w.probes.Add(client.ObjectKeyFromObject(o))
		}
		done := make(chan error, 1)
		go func() { done <- w.Start(ctx) }()
		begun := time.Now() //nolint:forbidigo // the clock of the bubble
		wants := func(sentence string, at time.Duration, reconciles, probes int) {
			t.Helper()
			<-time.After(at - time.Since(begun)) //nolint:forbidigo // the same
			synctest.Wait()
			if w.remediations.Len() != reconciles || w.probes.Len() != probes {
				t.Errorf("%s: %d remediations and %d BMCs wait, want %d and %d", sentence, w.remediations.Len(), w.probes.Len(), reconciles, probes)
			}
		}
		wants("at first", 0, more, more)
		wants("before the limit of a probe", probeTimeout-1, more, more)
		wants("after it", probeTimeout, more, 0)
		for _, o := range objects { // a probe that is tried again ends at once
			w.bmcs.drop(client.ObjectKeyFromObject(o))
		}
		wants("before the limit of a reconcile", reconcileTimeout-1, more, 0)
		wants("after it", reconcileTimeout, 0, 0)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start returns %v", err)
		}
	})
}

// lateReader has a reconcile go on after the end of its context, and then use a BMC.
type lateReader struct {
	client.Reader

	entered chan struct{}
	use     func()
}

func (r lateReader) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	close(r.entered)
	<-ctx.Done()
	r.use()
	return ctx.Err()
}

// TestSessionsEndAfterTheWork: a reconcile that is still under way when the process ends may use a BMC. Its session is given back too.
func TestSessionsEndAfterTheWork(t *testing.T) {
	w, r := newRack(t, 1)
	bmc := w.bmc(t, hostKey(0).Name)
	informers := &informertest.Syncing{}
	informers.Synced.Store(true)
	w.Informers = informers
	entered := make(chan struct{})
	w.Cache = lateReader{entered: entered, use: func() {
		if _, found := w.readPower(t.Context(), bmc); found.found() {
			t.Error(found)
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	if err := w.Watch(ctx); err != nil {
		t.Fatal(err)
	}
	w.remediations.Add(hostKey(0))
	go func() { <-entered; cancel() }()
	err := w.Start(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || r.ended != 1 {
		t.Errorf("Start returns %v, and %d sessions were given back", err, r.ended)
	}
}

// TestChangesThatConcernNothing: events of other types, and nodes whose readiness is as before, wake nothing.
func TestChangesThatConcernNothing(t *testing.T) {
	named := func() *slim.Node {
		n := &slim.Node{}
		n.Name = "node-a"
		return n
	}
	other := named()
	other.UID = "later"
	for sentence, tc := range map[string]struct {
		old, changed any
		want         bool
	}{
		"another readiness":    {named(), other, true},
		"the same readiness":   {named(), named(), false},
		"nothing was known":    {nil, named(), true},
		"nothing is known now": {named(), nil, true},
		"neither is a node":    {"x", "y", true},
	} {
		if got := wakes(tc.old, tc.changed); got != tc.want {
			t.Errorf("%s: it wakes: %t", sentence, got)
		}
	}
	w := newWorld(t)
	events := w.remediationEvents()
	events.OnUpdate(nil, "nonsense")
	if woken := taken(w.remediations); len(woken) != 0 {
		t.Errorf("nonsense wakes %v", woken)
	}
	events.OnUpdate(nil, toolscache.DeletedFinalStateUnknown{Key: keyA.String()})
	if woken := taken(w.remediations); !woken[keyA] {
		t.Error("a remediation in another form wakes nothing")
	}
}

// queueOf calls a function before each key that is added.
type queueOf struct {
	queue

	before func()
}

func (q queueOf) Add(key types.NamespacedName) { q.before(); q.queue.Add(key) }

// TestABMCThatIsGoneWakesItsNode, which is known only until the BMC is dropped. A probe finds it gone.
func TestABMCThatIsGoneWakesItsNode(t *testing.T) {
	w := newWorld(t, bmcFor("a", "node-a", "redfish://10.0.0.1"))
	w.probes = queueOf{w.probes, func() {
		if w.bmcs.get(bmcKey("a")) != nil {
			t.Error("it is probed before it is dropped")
		}
	}}
	w.sessions.of(keyA, "r-uid", "node-a")
	w.bmcEvents().OnDelete(bmcFor("a", "node-a", "redfish://10.0.0.1"))
	reconciled, probed := taken(w.remediations), taken(w.probes)
	if !reconciled[keyA] || !probed[bmcKey("a")] || w.bmcs.get(bmcKey("a")) != nil {
		t.Errorf("reconciled are %v, probed are %v", reconciled, probed)
	}
}

// TestTheFirstProbeOfAKnownBMCWaits, since the probes after a restart are spread.
func TestTheFirstProbeOfAKnownBMCWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 20 {
			w.bmcEvents().OnAdd(bmcFor(fmt.Sprint(i), "node-a", "redfish://10.0.0.1", reachedSystem("")), true)
		}
		if early := len(taken(w.probes)); early > 5 {
			t.Errorf("%d of 20 are probed at once", early)
		}
		<-time.After(probeEvery)
		synctest.Wait()
		if len(taken(w.probes)) < 15 {
			t.Error("some are not probed within a period")
		}
	})
}
