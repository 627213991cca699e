package watching_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/watching"
)

// informers serve nodes, and pods once those are served.
type informers struct {
	cache.Informers

	nodes, pods informer
	noPods      error
}

func (i *informers) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := obj.(*corev1.Node); ok {
		return &i.nodes, nil
	}
	return &i.pods, i.noPods
}

// informer counts who has subscribed.
type informer struct {
	cache.Informer

	handlers int
	synced   bool
	refuse   error
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration

	of *informer
}

func (r registration) HasSynced() bool { return r.of.synced }

func (i *informer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.refuse != nil {
		return nil, i.refuse
	}
	i.handlers++
	return registration{of: i}, nil
}

// TestAllKindsOrNone: a kind that is served is not watched twice because another was not served at first.
func TestAllKindsOrNone(t *testing.T) {
	var k watching.Kinds
	in := &informers{noPods: &meta.NoKindMatchError{}}
	begin := func() error {
		return k.Begin(t.Context(), in, watching.Kind{Plural: "nodes", Object: &corev1.Node{}}, watching.Kind{Plural: "pods", Object: &corev1.Pod{}})
	}
	if err := begin(); !meta.IsNoMatchError(err) || in.nodes.handlers != 0 || k.InStep() {
		t.Fatalf("while pods are not served it gives %v, nodes are watched %d times, in step: %t", err, in.nodes.handlers, k.InStep())
	}
	in.noPods = nil
	for range 2 {
		if err := begin(); err != nil || in.nodes.handlers != 1 || in.pods.handlers != 1 {
			t.Fatalf("it gives %v; nodes are watched %d times and pods %d times", err, in.nodes.handlers, in.pods.handlers)
		}
	}
	for _, one := range []*informer{&in.nodes, &in.pods} {
		if k.InStep() {
			t.Error("it is in step before everything has been taken in")
		}
		one.synced = true
	}
	if !k.InStep() {
		t.Error("everything has been taken in, and it is not in step")
	}
}

// TestRefusedSubscriptions are told with the kind, and leave nothing that could be in step.
func TestRefusedSubscriptions(t *testing.T) {
	var k watching.Kinds
	stopped := errors.New("the informer has stopped")
	in := &informers{nodes: informer{refuse: stopped}}
	err := k.Begin(t.Context(), in, watching.Kind{Plural: "nodes", Object: &corev1.Node{}})
	if !errors.Is(err, stopped) || err.Error() != "subscribing to nodes: the informer has stopped" || k.InStep() {
		t.Errorf("it gives %v, in step: %t", err, k.InStep())
	}
}
