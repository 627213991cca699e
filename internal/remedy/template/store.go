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

// store keeps the objects of one kind, as its informer has them.
type store struct {
	// wake is called with a new, changed or deleted object, if decisions read it.
	wake func(*unstructured.Unstructured)

	mu      sync.Mutex
	objects map[types.NamespacedName]storedObject
	// requestCounts has the number of requests by cluster. ownCounts has the number of requests that Fettle created.
	requestCounts, ownCounts map[core.ClusterKey]int
	// past are the last of Fettle's own requests with evidence that are gone, the oldest first.
	past []pastRequest
}

// pastRequest is a request that is gone.
type pastRequest struct {
	request core.Request
	cluster core.ClusterKey
}

// mostPast bounds the requests of one kind that are kept when they are gone.
const mostPast = 1000

// storedObject is one object. It is shared with the informer's cache, and must not be changed.
type storedObject struct {
	object *unstructured.Unstructured
	// request and cluster are what readRequest returns, if isRequest is set.
	request   core.Request
	cluster   core.ClusterKey
	isRequest bool
	// nodeRequest is what remediators of nodes read of it, whatever its author.
	nodeRequest nodeRequest
}

func newStore(wake func(*unstructured.Unstructured)) *store {
	return &store{wake: wake, objects: map[types.NamespacedName]storedObject{}, requestCounts: map[core.ClusterKey]int{}, ownCounts: map[core.ClusterKey]int{}}
}

// handler stores the objects of events. It wakes a cluster only for a change that can change a decision. For the
// initial list it wakes none: the caller of newStore does so once, after the sync.
func (s *store) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, atFirst bool) {
			if s.put(obj) && !atFirst {
				s.notify(obj)
			}
		},
		UpdateFunc: func(old, obj any) {
			if s.put(obj) {
				s.notify(old) // it may have been about another cluster
				s.notify(obj)
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

func (s *store) notify(obj any) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		s.wake(u)
	}
}

// put stores an object, and reports whether a field has changed that decisions read.
func (s *store) put(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	fresh := storedObject{object: u}
	fresh.request, fresh.cluster, fresh.isRequest = readRequest(u)
	if !fresh.isRequest || fresh.request.Remedy == NodeRemedy {
		fresh.nodeRequest = nodeRequestOf(u)
	}
	name := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.objects[name]
	s.objects[name] = fresh
	s.adjustCounts(old, -1)
	s.adjustCounts(fresh, 1)
	if old.request.ID.UID != fresh.request.ID.UID {
		s.keepPast(old)
	}
	return !known || fresh.isRequest != old.isRequest || fresh.cluster != old.cluster || !decidesAlike(fresh.request, old.request) || manyPerNode(u) != manyPerNode(old.object) ||
		!reflect.DeepEqual(specTemplate(u), specTemplate(old.object))
}

// decidesAlike reports whether two states of a request are the same for decisions. Only users read the phase. Of the evidence
// only a proof is recorded at once.
func decidesAlike(a, b core.Request) bool {
	a.Phase, b.Phase = "", ""
	a.Evidence, b.Evidence = a.Evidence.Proof(), b.Evidence.Proof()
	return a == b
}

// drop forgets an object, and returns it, or nil if it was not known.
func (s *store) drop(name types.NamespacedName) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[name]
	delete(s.objects, name)
	s.adjustCounts(old, -1)
	s.keepPast(old)
	return old.object
}

// keepPast keeps the evidence of a request that is gone. The pass that ends its repair may not have seen the last of it.
func (s *store) keepPast(o storedObject) {
	if !o.request.Own || o.request.Evidence == (core.Evidence{}) {
		return
	}
	s.past = append(s.past[max(0, len(s.past)-mostPast+1):], pastRequest{o.request, o.cluster})
}

// appendPast appends the requests about a cluster that are gone and have evidence.
func (s *store) appendPast(requests []core.Request, of core.ClusterKey) []core.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.past {
		if s.past[i].cluster == of {
			requests = append(requests, s.past[i].request)
		}
	}
	return requests
}

func (s *store) adjustCounts(o storedObject, by int) {
	if !o.isRequest {
		return
	}
	if s.requestCounts[o.cluster] += by; s.requestCounts[o.cluster] == 0 {
		delete(s.requestCounts, o.cluster)
	}
	if !o.request.Own {
		return
	}
	if s.ownCounts[o.cluster] += by; s.ownCounts[o.cluster] == 0 {
		delete(s.ownCounts, o.cluster)
	}
}

// hasOwn reports whether a request of a cluster stands that Fettle created.
func (s *store) hasOwn(key core.ClusterKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownCounts[key] > 0
}

// find returns an object, or nil. A nil store is empty.
func (s *store) find(namespace, name string) *unstructured.Unstructured {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[types.NamespacedName{Namespace: namespace, Name: name}].object
}

// findForeign returns the first object, by name, that requests the same node by the same template as a call. It ignores
// the requests of the call's health check, and returns nil without another. For machines it returns nil, since the name
// of their requests is fixed.
func (s *store) findForeign(o core.RemedyCall, templateName string) *unstructured.Unstructured {
	if o.Step.Remedy != NodeRemedy {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *unstructured.Unstructured
	for _, other := range s.objects {
		if !other.nodeRequest.matches(o.Target.ID.Name, templateName) || (other.request.Own && other.nodeRequest.check == o.Policy.Name) {
			continue
		}
		if first == nil || idOf(other.object).Compare(idOf(first)) < 0 {
			first = other.object
		}
	}
	return first
}

// appendRequests appends the requests about a cluster, ordered by name.
func (s *store) appendRequests(requests []core.Request, of core.ClusterKey) []core.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requestCounts[of] == 0 {
		return requests
	}
	from := len(requests)
	for _, o := range s.objects {
		if o.isRequest && o.cluster == of {
			requests = append(requests, o.request)
		}
	}
	slices.SortFunc(requests[from:], func(a, b core.Request) int { return a.ID.Compare(b.ID) })
	return requests
}
