package template

import (
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fettle-io/fettle/internal/core"
)

// shelf keeps the objects of one kind, as its informer has them.
type shelf struct {
	wake func()

	mu      sync.Mutex
	objects map[types.NamespacedName]item
	// asking counts those that are requests.
	asking int
}

// item is one object. Nobody may change it: the informer's cache has it too.
type item struct {
	object *unstructured.Unstructured
	// request is what it asks for, where asks says that it is a request.
	request core.Request
	asks    bool
}

func newShelf(wake func()) *shelf {
	return &shelf{wake: wake, objects: map[types.NamespacedName]item{}}
}

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
			if name, err := toolscache.DeletionHandlingObjectToName(obj); err == nil && s.drop(name.AsNamespacedName()) {
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
	name := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.objects[name]
	s.objects[name] = fresh
	s.asking += number(fresh.asks) - number(old.asks)
	return !known || fresh.asks != old.asks || fresh.request != old.request || manyPerNode(u) != manyPerNode(old.object) ||
		!reflect.DeepEqual(blueprint(u), blueprint(old.object))
}

func (s *shelf) drop(name types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.objects[name]
	delete(s.objects, name)
	s.asking -= number(old.asks)
	return known
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// find gives an object, or nil. A nil shelf is empty.
func (s *shelf) find(namespace, name string) *unstructured.Unstructured {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[types.NamespacedName{Namespace: namespace, Name: name}].object
}

// appendRequests adds the requests, in the order of their names.
func (s *shelf) appendRequests(requests []core.Request) []core.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking == 0 {
		return requests
	}
	from := len(requests)
	for _, o := range s.objects {
		if o.asks {
			requests = append(requests, o.request)
		}
	}
	slices.SortFunc(requests[from:], func(a, b core.Request) int { return a.ID.Compare(b.ID) })
	return requests
}
