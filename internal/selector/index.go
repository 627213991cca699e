package selector

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Object is an object that selectors select. A type implements it by its own Key and Matches, and
// by embedding Member.
type Object interface {
	// Key returns the unique key of the object. The keys order the objects.
	Key() string
	// Matches reports whether a selector of a namespace selects the object.
	Matches(namespace string, selector labels.Selector) bool
	member() *Member
}

// Member records which selections an object is in.
type Member struct {
	// in may have selections that have ended. End removes them in time.
	in []*Selection
}

func (m *Member) member() *Member { return m }

// In reports whether an object is in a selection.
func (m *Member) In(s *Selection) bool { return s != nil && !s.ended && slices.Contains(m.in, s) }

// Selected reports whether an object is in any selection.
func (m *Member) Selected() bool {
	return slices.ContainsFunc(m.in, func(s *Selection) bool { return !s.ended })
}

// Selection is the set of objects that one selector selects. The objects refer to it. So a selector
// that comes, goes or changes costs one match per object, however many other selectors select the
// object too. Otherwise a user who may write health checks could make that cost more than
// everything else.
type Selection struct {
	namespace string
	selector  labels.Selector
	// positions are the indices of the members among the targets of the index.
	positions []int
	// ended is set by End. Objects may refer to an ended selection until a sweep removes it.
	ended bool
}

// Index holds objects in the order of their keys, and the selections of them. The zero Index is
// empty. It is not safe for concurrent use.
type Index[T Object] struct {
	// SelectedOnly leaves out of the targets the objects that no selector selects. The caller sets
	// it before the first use.
	SelectedOnly bool

	objects    []T
	selections []*Selection
	// ended is the number of ended selections that objects may refer to.
	ended int
	// positioned is false when positions and targets must be computed again.
	positioned bool
	targets    []T
}

// Len returns the number of objects.
func (x *Index[T]) Len() int { return len(x.objects) }

// All returns the objects in the order of their keys. The caller must not change the slice.
func (x *Index[T]) All() []T { return x.objects }

// Get returns the object of a key, and false if there is none.
func (x *Index[T]) Get(key string) (T, bool) {
	if i, found := x.position(key); found {
		return x.objects[i], true
	}
	var none T
	return none, false
}

func (x *Index[T]) position(key string) (int, bool) {
	return slices.BinarySearchFunc(x.objects, key, func(o T, key string) int { return strings.Compare(o.Key(), key) })
}

// Put adds or replaces an object and matches it against all selectors.
func (x *Index[T]) Put(o T) {
	x.store(o)
	x.Match(o)
}

// Replace replaces an object by a newer version that the same selectors match.
func (x *Index[T]) Replace(o T) { x.store(o) }

// store adds or replaces an object. The object takes over the selections of its older version,
// which Match compares with.
func (x *Index[T]) store(o T) {
	i, found := x.position(o.Key())
	switch {
	case !found:
		x.objects = slices.Insert(x.objects, i, o)
		x.positioned = false
	case x.objects[i].member() != o.member():
		*o.member() = *x.objects[i].member()
		x.objects[i] = o
		x.positioned = x.positioned && !x.SelectedOnly // the targets have the older version
	}
}

// Match matches an object of the index against all selectors, and reports whether the result
// differs from before.
func (x *Index[T]) Match(o T) bool {
	var in []*Selection
	for _, s := range x.selections {
		if o.Matches(s.namespace, s.selector) {
			in = append(in, s)
		}
	}
	m := o.member()
	former := slices.DeleteFunc(slices.Clone(m.in), func(s *Selection) bool { return s.ended })
	m.in = in
	if slices.Equal(in, former) {
		return false
	}
	x.positioned = false
	return true
}

// Remove removes an object.
func (x *Index[T]) Remove(key string) {
	if i, found := x.position(key); found {
		x.objects = slices.Delete(x.objects, i, i+1)
		x.positioned = false
	}
}

// Select adds a selector of a namespace and returns its selection.
func (x *Index[T]) Select(namespace string, selector labels.Selector) *Selection {
	s := &Selection{namespace: namespace, selector: selector}
	x.selections = append(x.selections, s)
	for _, o := range x.objects {
		if o.Matches(namespace, selector) {
			m := o.member()
			m.in = append(m.in, s)
		}
	}
	x.positioned = false
	return s
}

// End ends a selection; nil does nothing. Once more selections have ended than remain, End removes
// them from all objects.
func (x *Index[T]) End(s *Selection) {
	if s == nil || s.ended {
		return
	}
	s.ended = true
	x.positioned = false
	x.selections = slices.DeleteFunc(x.selections, func(of *Selection) bool { return of == s })
	x.ended++
	if x.ended <= len(x.selections) {
		return
	}
	x.ended = 0
	for _, o := range x.objects {
		m := o.member()
		m.in = slices.DeleteFunc(m.in, func(s *Selection) bool { return s.ended })
	}
}

// Targets returns the objects that the positions of Members refer to. The caller must not change
// the slice.
func (x *Index[T]) Targets() []T {
	x.setPositions()
	if x.SelectedOnly {
		return x.targets
	}
	return x.objects
}

// Members returns the positions among the targets of the objects in a selection. The slice never
// changes.
func (x *Index[T]) Members(s *Selection) []int {
	x.setPositions()
	return s.positions
}

func (x *Index[T]) setPositions() {
	if x.positioned {
		return
	}
	for _, s := range x.selections {
		s.positions = make([]int, 0, len(s.positions))
	}
	x.targets = nil
	for i, o := range x.objects {
		m := o.member()
		if x.SelectedOnly {
			if !m.Selected() {
				continue
			}
			i = len(x.targets)
			x.targets = append(x.targets, o)
		}
		for _, s := range m.in {
			if !s.ended {
				s.positions = append(s.positions, i)
			}
		}
	}
	x.positioned = true
}

// Selections returns the number of selections that have not ended.
func (x *Index[T]) Selections() int { return len(x.selections) }
