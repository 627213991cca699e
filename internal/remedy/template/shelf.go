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
	// wake is called with an object that has come, changed or gone, and that decisions read.
	wake func(*unstructured.Unstructured)

	mu      sync.Mutex
	objects map[types.NamespacedName]item
	// asking counts the requests by the fleet that they are about, and own counts the requests that Fettle made.
	asking, own map[Fleet]int
}

// item is one object. Nobody may change it: the informer's cache has it too.
type item struct {
	object *unstructured.Unstructured
	// request is what it asks for, and fleet whose target it is about, where asks says that it is a request.
	request core.Request
	fleet   Fleet
	asks    bool
	// plea is what it asks for as remediators of nodes read it, whoever has made it.
	plea plea
}

func newShelf(wake func(*unstructured.Unstructured)) *shelf {
	return &shelf{wake: wake, objects: map[types.NamespacedName]item{}, asking: map[Fleet]int{}, own: map[Fleet]int{}}
}

// handler takes in what comes, and wakes the engine only for what can change a decision. What comes at first is told
// together, by whoever waits for it.
func (s *shelf) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, atFirst bool) {
			if s.put(obj) && !atFirst {
				s.tell(obj)
			}
		},
		UpdateFunc: func(old, obj any) {
			if s.put(obj) {
				s.tell(old) // it may have been about another fleet
				s.tell(obj)
			}
		},
		DeleteFunc: func(obj any) {
			if name, err := toolscache.DeletionHandlingObjectToName(obj); err == nil {
				if gone := s.drop(name.AsNamespacedName()); gone != nil {
					s.wake(gone)
				}
			}
		},
	}
}

func (s *shelf) tell(obj any) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		s.wake(u)
	}
}

// put takes in an object, and tells whether anything is different that is read of it.
func (s *shelf) put(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	fresh := item{object: u}
	fresh.request, fresh.fleet, fresh.asks = readRequest(u)
	if !fresh.asks || fresh.request.Remedy == NodeRemedy {
		fresh.plea = pleaOf(u)
	}
	name := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.objects[name]
	s.objects[name] = fresh
	s.count(old, -1)
	s.count(fresh, 1)
	return !known || fresh.asks != old.asks || fresh.fleet != old.fleet || !decidesAlike(fresh.request, old.request) || manyPerNode(u) != manyPerNode(old.object) ||
		!reflect.DeepEqual(blueprint(u), blueprint(old.object))
}

// decidesAlike reports whether two states of a request are the same to decisions. A phase is for people alone.
func decidesAlike(a, b core.Request) bool {
	a.Phase, b.Phase = "", ""
	return a == b
}

// drop forgets an object and gives it, nil when it was not known.
func (s *shelf) drop(name types.NamespacedName) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[name]
	delete(s.objects, name)
	s.count(old, -1)
	return old.object
}

func (s *shelf) count(o item, by int) {
	if !o.asks {
		return
	}
	if s.asking[o.fleet] += by; s.asking[o.fleet] == 0 {
		delete(s.asking, o.fleet)
	}
	if !o.request.Own {
		return
	}
	if s.own[o.fleet] += by; s.own[o.fleet] == 0 {
		delete(s.own, o.fleet)
	}
}

// hasOwn reports whether a request about a fleet stands that Fettle made.
func (s *shelf) hasOwn(fleet Fleet) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own[fleet] > 0
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

// inTheWay gives the first object by name that asks for what an order would ask for, and that another than its health
// check has made. It is nil when there is none. Requests for machines say by their names which they are.
func (s *shelf) inTheWay(o core.Order, templateName string) *unstructured.Unstructured {
	if o.Step.Remedy != NodeRemedy {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *unstructured.Unstructured
	for _, other := range s.objects {
		if !other.plea.asks(o.Target.ID.Name, templateName) || (other.request.Own && other.plea.check == o.Policy.Name) {
			continue
		}
		if first == nil || idOf(other.object).Compare(idOf(first)) < 0 {
			first = other.object
		}
	}
	return first
}

// appendRequests adds the requests about a fleet, in the order of their names.
func (s *shelf) appendRequests(requests []core.Request, of Fleet) []core.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking[of] == 0 {
		return requests
	}
	from := len(requests)
	for _, o := range s.objects {
		if o.asks && o.fleet == of {
			requests = append(requests, o.request)
		}
	}
	slices.SortFunc(requests[from:], func(a, b core.Request) int { return a.ID.Compare(b.ID) })
	return requests
}
