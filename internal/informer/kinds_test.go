package informer_test

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/informer/informertest"
)

// TestAllKindsOrNone: a kind that is served is not watched twice because another was not served at first.
func TestAllKindsOrNone(t *testing.T) {
	var k informer.Kinds
	in := informertest.New()
	in.Refuse["Pod"] = &meta.NoKindMatchError{}
	begin := func() error {
		return k.Watch(t.Context(), in, informer.Kind{Plural: "nodes", Object: &corev1.Node{}}, informer.Kind{Plural: "pods", Object: &corev1.Pod{}})
	}
	if err := begin(); !meta.IsNoMatchError(err) || in.Of("Node").Handlers != 0 || k.HasSynced() {
		t.Fatalf("while pods are not served it gives %v, nodes are watched %d times, in step: %t", err, in.Of("Node").Handlers, k.HasSynced())
	}
	delete(in.Refuse, "Pod")
	for range 2 {
		if err := begin(); err != nil || in.Of("Node").Handlers != 1 || in.Of("Pod").Handlers != 1 {
			t.Fatalf("it gives %v; nodes are watched %d times and pods %d times", err, in.Of("Node").Handlers, in.Of("Pod").Handlers)
		}
	}
	for _, one := range []*informertest.Informer{in.Of("Node"), in.Of("Pod")} {
		if k.HasSynced() {
			t.Error("it is in step before everything has been taken in")
		}
		if k.KindHasSynced("nodes") != in.Of("Node").Synced || k.KindHasSynced("pods") != in.Of("Pod").Synced || k.KindHasSynced("others") {
			t.Errorf("nodes are taken in: %t, pods: %t, others: %t", k.KindHasSynced("nodes"), k.KindHasSynced("pods"), k.KindHasSynced("others"))
		}
		one.Synced = true
	}
	if !k.HasSynced() {
		t.Error("everything has been taken in, and it is not in step")
	}
}

// TestRefusedSubscriptions are told with the kind, and leave nothing that could be in step.
func TestRefusedSubscriptions(t *testing.T) {
	var k informer.Kinds
	stopped := errors.New("the informer has stopped")
	in := informertest.New()
	in.Of("Node").Refuse = stopped
	err := k.Watch(t.Context(), in, informer.Kind{Plural: "nodes", Object: &corev1.Node{}})
	if !errors.Is(err, stopped) || err.Error() != "subscribing to nodes: the informer has stopped" || k.HasSynced() {
		t.Errorf("it gives %v, in step: %t", err, k.HasSynced())
	}
}

// TestPanickingHandlers: a handler that panics ends neither the process nor the events after it. The known objects of the kind may be
// wrong, so it is out of step for good, and other kinds are not.
func TestPanickingHandlers(t *testing.T) {
	for name, event := range map[string]func(h toolscache.ResourceEventHandler, obj any){
		"add":    func(h toolscache.ResourceEventHandler, obj any) { h.OnAdd(obj, false) },
		"update": func(h toolscache.ResourceEventHandler, obj any) { h.OnUpdate(nil, obj) },
		"delete": func(h toolscache.ResourceEventHandler, obj any) { h.OnDelete(obj) },
	} {
		t.Run(name, func(t *testing.T) {
			informer.Panics.Reset() // an earlier run of the test may have counted
			var k, others informer.Kinds
			in := informertest.New()
			in.SetSynced(true)
			handled := 0
			handle := func(obj any) {
				if obj == nil {
					panic("nothing is here")
				}
				handled++
			}
			handler := toolscache.ResourceEventHandlerFuncs{AddFunc: handle, UpdateFunc: func(_, obj any) { handle(obj) }, DeleteFunc: handle}
			if err := k.Watch(t.Context(), in, informer.Kind{Plural: name, Object: &corev1.Node{}, Handler: handler}); err != nil {
				t.Fatal(err)
			}
			if err := others.Watch(t.Context(), in, informer.Kind{Plural: "pods", Object: &corev1.Pod{}, Handler: handler}); err != nil {
				t.Fatal(err)
			}
			if got := counted(t, name); got != 0 {
				t.Errorf("at first %v panics are counted", got)
			}
			event(in.Of("Node").Handler, &corev1.Node{})
			if !k.HasSynced() || !k.KindHasSynced(name) || handled != 1 {
				t.Fatalf("before the panic it is in step: %t, taken in: %t, and has handled %d", k.HasSynced(), k.KindHasSynced(name), handled)
			}
			event(in.Of("Node").Handler, nil)
			event(in.Of("Node").Handler, &corev1.Node{})
			if k.HasSynced() || k.KindHasSynced(name) || handled != 2 {
				t.Errorf("after the panic it is in step: %t, taken in: %t, and has handled %d", k.HasSynced(), k.KindHasSynced(name), handled)
			}
			if !others.HasSynced() {
				t.Error("another kind is out of step")
			}
			if got := counted(t, name); got != 1 {
				t.Errorf("%v panics are counted", got)
			}
		})
	}
}

// counted returns how many panics are counted of a kind, -1 while there is no series.
func counted(t *testing.T, kind string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(informer.Panics)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if series.GetLabel()[0].GetValue() == kind {
				return series.GetCounter().GetValue()
			}
		}
	}
	return -1
}
