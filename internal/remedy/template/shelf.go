package template

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fettle-io/fettle/internal/core"
)

// shelf keeps the objects of one kind, as its informer has them.
type shelf struct {
	wake func()

	mu      sync.Mutex
	objects map[string]item
}

// item is one object. Nobody may change it: the informer's cache has it too.
type item struct {
	object *unstructured.Unstructured
	// request is what it asks for, where asks says that it is a request.
	request core.Request
	asks    bool
}

func newShelf(wake func()) *shelf { return &shelf{wake: wake, objects: map[string]item{}} }

// handler takes in what comes, and wakes the engine only for what can change a decision. What comes at first is told
// together, by whoever waits for it.
func (s *shelf) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, atFirst bool) {
			if s.put(obj) && !atFirst {
				s.wake()
			}
		},
		UpdateFunc: func(_, obj any) {
			if s.put(obj) {
				s.wake()
			}
		},
		DeleteFunc: func(obj any) {
			if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil && s.drop(key) {
				s.wake()
			}
		},
	}
}

// put takes in an object, and tells whether anything is different that is read of it.
func (s *shelf) put(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	fresh := item{object: u}
	fresh.request, fresh.asks = readRequest(u)
	key := toolscache.NewObjectName(u.GetNamespace(), u.GetName()).String()
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.objects[key]
	s.objects[key] = fresh
	return !known || fresh.asks != old.asks || fresh.request != old.request || manyPerNode(u) != manyPerNode(old.object) ||
		!reflect.DeepEqual(blueprint(u), blueprint(old.object))
}

func (s *shelf) drop(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.objects[key]
	delete(s.objects, key)
	return known
}

// find gives an object, or nil. A nil shelf is empty.
func (s *shelf) find(namespace, name string) *unstructured.Unstructured {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[toolscache.NewObjectName(namespace, name).String()].object
}

// appendRequests adds the requests, in the order of their names.
func (s *shelf) appendRequests(requests []core.Request) []core.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if o := s.objects[key]; o.asks {
			requests = append(requests, o.request)
		}
	}
	return requests
}
