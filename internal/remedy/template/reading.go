package template

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
)

// Reading reads templates and requests for a program that has the core decide and writes nothing. It has the rules of the
// controller. It is not safe for concurrent use.
//
//	reading := template.NewReading()
//	for _, kind := range reading.Needs(policies, repairs) {
//		reading.Begin(kind, true) // or Unserved, or Hide
//		reading.Put(kind, object) // each
//	}
//	reading.AddFacts(policies, &cluster)
type Reading struct {
	// Cluster is the cluster of the requests that AddFacts adds.
	Cluster core.ClusterKey
	BuiltIn BuiltIn
	kinds   map[schema.GroupVersionKind]*kind
}

// NewReading returns an empty reading.
func NewReading() *Reading { return &Reading{kinds: map[schema.GroupVersionKind]*kind{}} }

// Needs returns the kinds that policies and running repairs need, and that are not read yet, ordered by name.
func (r *Reading) Needs(policies []core.Policy, repairs []core.Repair) []schema.GroupVersionKind {
	needs := map[schema.GroupVersionKind]bool{}
	collect := func(steps []core.Step) {
		for i := range steps {
			template, request, ok := kindsOf(steps[i].Template)
			if !ok || !isTemplateRemedy(steps[i].Remedy) {
				continue
			}
			for _, gvk := range [...]schema.GroupVersionKind{template, request} {
				if r.kinds[gvk] == nil {
					needs[gvk] = true
				}
			}
		}
	}
	for i := range policies {
		collect(policies[i].Steps)
	}
	for i := range repairs {
		if repairs[i].Running() {
			collect(repairs[i].Steps)
		}
	}
	return inOrderOfNames(needs)
}

// Begin notes that a kind is served, with or without a namespace for each of its objects. Its objects follow.
func (r *Reading) Begin(gvk schema.GroupVersionKind, namespaced bool) {
	scope := core.No
	if namespaced {
		scope = core.Yes
	}
	r.kinds[gvk] = &kind{gvk: gvk, watchStatus: watchStatus{state: synced, namespaced: scope}, store: newStore(func(*unstructured.Unstructured) {})}
}

// Unserved notes that the cluster does not serve a kind.
func (r *Reading) Unserved(gvk schema.GroupVersionKind) {
	r.kinds[gvk] = &kind{gvk: gvk, watchStatus: watchStatus{state: unserved}}
}

// Hide notes that the objects of a kind can't be read, and why, such as "you may not list them".
func (r *Reading) Hide(gvk schema.GroupVersionKind, why string) {
	r.kinds[gvk] = &kind{gvk: gvk, watchStatus: watchStatus{state: hidden, why: why}}
}

// Put stores an object, and reports whether it can change a decision.
func (r *Reading) Put(gvk schema.GroupVersionKind, u *unstructured.Unstructured) bool {
	k := r.kinds[gvk]
	return k != nil && k.store != nil && k.store.put(u)
}

// Drop forgets an object.
func (r *Reading) Drop(gvk schema.GroupVersionKind, name types.NamespacedName) {
	if k := r.kinds[gvk]; k != nil && k.store != nil {
		k.store.drop(name)
	}
}

// Hidden says why the facts about a step are not known: whether it can be taken, or the state of its requests. It
// reports false when both are known.
func (r *Reading) Hidden(step core.Step) (why string, is bool) {
	template, request, ok := kindsOf(step.Template)
	if !ok || !isTemplateRemedy(step.Remedy) {
		return "", false
	}
	var whys []string
	for _, gvk := range [...]schema.GroupVersionKind{template, request} {
		if k := r.kinds[gvk]; k != nil && k.state == hidden {
			whys = append(whys, k.why)
		}
	}
	return strings.Join(whys, ", and "), len(whys) > 0
}

// AddFacts does as [ClusterClient.AddFacts] does. A kind that was not read is not known.
func (r *Reading) AddFacts(policies []core.Policy, cluster *core.Cluster) {
	factReader{r, r, r.Cluster}.addFacts(policies, cluster)
}

func (r *Reading) need(gvk schema.GroupVersionKind) *kind {
	if k := r.kinds[gvk]; k != nil {
		return k
	}
	return &kind{gvk: gvk}
}

func (r *Reading) inOrder() []schema.GroupVersionKind { return inOrderOfNames(r.kinds) }

func (r *Reading) builtIn(remedy string, t core.Reference) BuiltInTemplate {
	return r.BuiltIn.find(remedy, t)
}

func (r *Reading) known(gvk schema.GroupVersionKind) *kind { return r.kinds[gvk] }

func inOrderOfNames[T any](kinds map[schema.GroupVersionKind]T) []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
}
