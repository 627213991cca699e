package informer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/informer"
)

// fakeInformers serve nodes, and pods once those are served.
type fakeInformers struct {
	cache.Informers

	nodes, pods fakeInformer
	noPods      error
}

func (i *fakeInformers) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := obj.(*corev1.Node); ok {
		return &i.nodes, nil
	}
	return &i.pods, i.noPods
}

// fakeInformer counts who has subscribed.
type fakeInformer struct {
	cache.Informer

	handlers int
	handler  toolscache.ResourceEventHandler
	synced   bool
	refuse   error
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration

	of *fakeInformer
}

func (r registration) HasSynced() bool { return r.of.synced }

func (i *fakeInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.refuse != nil {
		return nil, i.refuse
	}
	i.handlers++
	i.handler = handler
	return registration{of: i}, nil
}

// TestAllKindsOrNone: a kind that is served is not watched twice because another was not served at first.
func TestAllKindsOrNone(t *testing.T) {
	var k informer.Kinds
	in := &fakeInformers{noPods: &meta.NoKindMatchError{}}
	begin := func() error {
		return k.Watch(t.Context(), in, informer.Kind{Plural: "nodes", Object: &corev1.Node{}}, informer.Kind{Plural: "pods", Object: &corev1.Pod{}})
	}
	if err := begin(); !meta.IsNoMatchError(err) || in.nodes.handlers != 0 || k.HasSynced() {
		t.Fatalf("while pods are not served it gives %v, nodes are watched %d times, in step: %t", err, in.nodes.handlers, k.HasSynced())
	}
	in.noPods = nil
	for range 2 {
		if err := begin(); err != nil || in.nodes.handlers != 1 || in.pods.handlers != 1 {
			t.Fatalf("it gives %v; nodes are watched %d times and pods %d times", err, in.nodes.handlers, in.pods.handlers)
		}
	}
	for _, one := range []*fakeInformer{&in.nodes, &in.pods} {
		if k.HasSynced() {
			t.Error("it is in step before everything has been taken in")
		}
		if k.KindHasSynced("nodes") != in.nodes.synced || k.KindHasSynced("pods") != in.pods.synced || k.KindHasSynced("others") {
			t.Errorf("nodes are taken in: %t, pods: %t, others: %t", k.KindHasSynced("nodes"), k.KindHasSynced("pods"), k.KindHasSynced("others"))
		}
		one.synced = true
	}
	if !k.HasSynced() {
		t.Error("everything has been taken in, and it is not in step")
	}
}

// TestRefusedSubscriptions are told with the kind, and leave nothing that could be in step.
func TestRefusedSubscriptions(t *testing.T) {
	var k informer.Kinds
	stopped := errors.New("the informer has stopped")
	in := &fakeInformers{nodes: fakeInformer{refuse: stopped}}
	err := k.Watch(t.Context(), in, informer.Kind{Plural: "nodes", Object: &corev1.Node{}})
	if !errors.Is(err, stopped) || err.Error() != "subscribing to nodes: the informer has stopped" || k.HasSynced() {
		t.Errorf("it gives %v, in step: %t", err, k.HasSynced())
	}
}

// TestPanickingHandlers: a handler that panics ends neither the process nor the events after it. What is known of the kind may be
// wrong, so it is out of step for good, and other kinds are not.
func TestPanickingHandlers(t *testing.T) {
	for name, event := range map[string]func(h toolscache.ResourceEventHandler, obj any){
		"add":    func(h toolscache.ResourceEventHandler, obj any) { h.OnAdd(obj, false) },
		"update": func(h toolscache.ResourceEventHandler, obj any) { h.OnUpdate(nil, obj) },
		"delete": func(h toolscache.ResourceEventHandler, obj any) { h.OnDelete(obj) },
	} {
		t.Run(name, func(t *testing.T) {
			var k, others informer.Kinds
			in := &fakeInformers{nodes: fakeInformer{synced: true}, pods: fakeInformer{synced: true}}
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
			event(in.nodes.handler, &corev1.Node{})
			if !k.HasSynced() || !k.KindHasSynced(name) || handled != 1 {
				t.Fatalf("before the panic it is in step: %t, taken in: %t, and has handled %d", k.HasSynced(), k.KindHasSynced(name), handled)
			}
			event(in.nodes.handler, nil)
			event(in.nodes.handler, &corev1.Node{})
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
