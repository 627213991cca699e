package selector

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

type thing struct {
	Member

	namespace, name string
	labels          labels.Set
}

func (t *thing) Key() string { return t.namespace + "/" + t.name }

func (t *thing) Matches(namespace string, s labels.Selector) bool {
	return namespace == t.namespace && s.Matches(t.labels)
}

// rule is a selector of the model, with its selection.
type rule struct {
	namespace string
	selector  labels.Selector
	selection *Selection
}

// model is a naive index.
type model struct {
	index  *Index[*thing]
	things map[string]*thing
	rules  []*rule
}

func (m *model) targets() []*thing {
	var all []*thing
	for _, t := range m.things {
		if !m.index.SelectedOnly || slices.ContainsFunc(m.rules, func(r *rule) bool { return t.Matches(r.namespace, r.selector) }) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *thing) int { return strings.Compare(a.Key(), b.Key()) })
	return all
}

func (m *model) check(t *rapid.T) {
	want := m.targets()
	if got := m.index.Targets(); !slices.Equal(got, want) {
		t.Fatalf("targets are %v, want %v", keys(got), keys(want))
	}
	if m.index.Len() != len(m.things) || m.index.Selections() != len(m.rules) {
		t.Fatalf("%d objects and %d selections, want %d and %d", m.index.Len(), m.index.Selections(), len(m.things), len(m.rules))
	}
	for _, r := range m.rules {
		var members []*thing
		for _, place := range m.index.Members(r.selection) {
			members = append(members, want[place])
		}
		for _, o := range m.things {
			if selects := o.Matches(r.namespace, r.selector); slices.Contains(members, o) != selects || o.In(r.selection) != selects {
				t.Fatalf("%s of %s selects %s: %t, and the index has %v", r.selector, r.namespace, o.Key(), selects, keys(members))
			}
		}
		if !slices.IsSortedFunc(members, func(a, b *thing) int { return strings.Compare(a.Key(), b.Key()) }) {
			t.Fatalf("members are not in order: %v", keys(members))
		}
	}
	for _, o := range m.things {
		selected := slices.ContainsFunc(m.rules, func(r *rule) bool { return o.Matches(r.namespace, r.selector) })
		if o.Selected() != selected {
			t.Fatalf("%s is selected: %t, want %t", o.Key(), o.Selected(), selected)
		}
	}
}

func keys(things []*thing) []string {
	all := make([]string, len(things))
	for i, t := range things {
		all[i] = t.Key()
	}
	return all
}

var (
	namespaces = rapid.SampledFrom([]string{"a", "b"})
	names      = rapid.SampledFrom([]string{"k", "l", "m", "n"})
	sets       = rapid.SampledFrom([]labels.Set{{}, {"role": "worker"}, {"role": "worker", "zone": "1"}, {"zone": "1"}})
	selectors  = rapid.SampledFrom([]string{"", "role=worker", "zone=1", "!zone", "role=worker,zone!=1"})
)

func drawSelector(t *rapid.T) labels.Selector {
	s, err := labels.Parse(selectors.Draw(t, "selector"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestIndex compares the index with a naive one after each of any changes.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{index: &Index[*thing]{SelectedOnly: rapid.Bool().Draw(t, "selected only")}, things: map[string]*thing{}}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				o := &thing{namespace: namespaces.Draw(t, "namespace"), name: names.Draw(t, "name"), labels: sets.Draw(t, "labels")}
				old := m.things[o.Key()]
				m.things[o.Key()] = o
				if old != nil && labels.Equals(old.labels, o.labels) {
					m.index.Replace(o)
					return
				}
				m.index.Put(o)
			},
			"relabel": func(t *rapid.T) {
				key := namespaces.Draw(t, "namespace") + "/" + names.Draw(t, "name")
				o, has := m.index.Get(key)
				if has != (m.things[key] != nil) || (has && o != m.things[key]) {
					t.Fatalf("%s is found: %t", key, has)
				}
				if !has {
					return
				}
				var was, is []bool
				for _, r := range m.rules {
					was = append(was, o.Matches(r.namespace, r.selector))
				}
				o.labels = sets.Draw(t, "labels")
				for _, r := range m.rules {
					is = append(is, o.Matches(r.namespace, r.selector))
				}
				if changed := m.index.Match(o); changed == slices.Equal(was, is) {
					t.Fatalf("the selections of %s change: %t", key, changed)
				}
			},
			"remove": func(t *rapid.T) {
				key := namespaces.Draw(t, "namespace") + "/" + names.Draw(t, "name")
				delete(m.things, key)
				m.index.Remove(key)
			},
			"select": func(t *rapid.T) {
				r := &rule{namespace: namespaces.Draw(t, "namespace"), selector: drawSelector(t)}
				r.selection = m.index.Select(r.namespace, r.selector)
				m.rules = append(m.rules, r)
			},
			"end": func(t *rapid.T) {
				if len(m.rules) == 0 {
					return
				}
				i := rapid.IntRange(0, len(m.rules)-1).Draw(t, "rule")
				ended := m.rules[i].selection
				m.index.End(ended)
				m.rules = slices.Delete(m.rules, i, i+1)
				for _, o := range m.things {
					if o.In(ended) {
						t.Fatalf("%s is in a selection that has ended", o.Key())
					}
				}
			},
			"": m.check,
		})
	})
}

// TestI15SelectionsThatAreOverAreSwept: a selector that changes again and again leaves no
// selections behind.
func TestI15SelectionsThatAreOverAreSwept(t *testing.T) {
	x := &Index[*thing]{}
	o := &thing{name: "m"}
	x.Put(o)
	last := x.Select("", labels.Everything())
	for range 1000 {
		next := x.Select("", labels.Everything())
		x.End(last)
		last = next
		x.End(x.Select("", labels.Everything()))
	}
	if kept := len(o.in); kept > 10 || !o.In(last) {
		t.Errorf("an object refers to %d selections of one selector; to the last one: %t", kept, o.In(last))
	}
}

// TestI15SweepsArePaidByEnds: ended selections are removed from all objects only once more have ended than remain. So the cost
// of a sweep is shared by as many ends.
func TestI15SweepsArePaidByEnds(t *testing.T) {
	x := &Index[*thing]{}
	o := &thing{name: "m"}
	x.Put(o)
	var selections []*Selection
	add := func(n int) {
		for range n {
			selections = append(selections, x.Select("", labels.Everything()))
		}
	}
	ends := func(sentence string, kept ...int) {
		t.Helper()
		for _, want := range kept {
			x.End(selections[0])
			selections = selections[1:]
			if got := len(o.in); got != want {
				t.Errorf("%s: after an end with %d selections left, the object refers to %d, want %d", sentence, len(selections), got, want)
			}
		}
	}
	add(4)
	ends("the third end of four", 4, 4, 1)
	add(3)
	ends("the same again", 4, 4, 1)
}

// TestNoSelection: nil is a selection that no object is in, and a selection ends once.
func TestNoSelection(t *testing.T) {
	x := &Index[*thing]{}
	o := &thing{name: "m"}
	x.Put(o)
	s, other := x.Select("", labels.Everything()), x.Select("", labels.Everything())
	x.End(nil)
	if o.In(nil) || !o.In(s) || x.Selections() != 2 {
		t.Errorf("the object is in no selection: %t, in one: %t, and there are %d", o.In(nil), o.In(s), x.Selections())
	}
	x.End(s)
	x.End(s)
	if len(o.in) != 2 || !o.In(other) || x.Selections() != 1 {
		t.Errorf("after one end the object refers to %d selections, of %d", len(o.in), x.Selections())
	}
}

// TestReplaceKeepsChangesDue: a newer version of an object does not hide that positions are outdated.
func TestReplaceKeepsChangesDue(t *testing.T) {
	x := &Index[*thing]{}
	s := x.Select("", labels.Everything())
	x.Put(&thing{name: "b"})
	x.Members(s)
	x.Put(&thing{name: "a"})
	newer := &thing{name: "a"}
	x.Replace(newer)
	if got := x.Members(s); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("members are %v, want 0 and 1", got)
	}
	if got, found := x.Get("/a"); got != newer || !found {
		t.Errorf("the index has %v, want the newer version", got)
	}
}

// TestPositionsAreKept: while nothing changes, members are not computed again.
func TestPositionsAreKept(t *testing.T) {
	x := &Index[*thing]{}
	x.Put(&thing{name: "a"})
	s := x.Select("", labels.Everything())
	if first, again := x.Members(s), x.Members(s); &first[0] != &again[0] {
		t.Error("members were computed again")
	}
}

// TestI15SelectorsThatSelectTheSame: a copied list of selections for each selector would take
// gigabytes.
func TestI15SelectorsThatSelectTheSame(t *testing.T) {
	const things, selectors = 100, 2000
	x := &Index[*thing]{SelectedOnly: true}
	for i := range things {
		x.Put(&thing{name: fmt.Sprint(i)})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range selectors {
		x.Select("", labels.Everything())
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 50 {
		t.Errorf("%d selectors of %d objects took %d MiB of memory", selectors, things, took)
	}
}

// TestMembersOfASnapshotStay: later changes don't overwrite a returned slice.
func TestMembersOfASnapshotStay(t *testing.T) {
	x := &Index[*thing]{}
	x.Put(&thing{name: "a"})
	x.Put(&thing{name: "b", labels: labels.Set{"role": "worker"}})
	s := x.Select("", labels.SelectorFromSet(labels.Set{"role": "worker"}))
	before := x.Members(s)
	x.Remove("/a")
	if after := x.Members(s); !slices.Equal(before, []int{1}) || !slices.Equal(after, []int{0}) {
		t.Errorf("members are %v before a removal and %v after it, want 1 and 0", before, after)
	}
}

// TestUnmet covers selectors with unmet requirements.
func TestUnmet(t *testing.T) {
	for name, c := range map[string]struct {
		selector string
		want     []string
	}{
		"all are met": {"role=worker", []string{}},
		"one is not":  {"role=worker,zone", []string{"zone"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := labels.Parse(c.selector)
			if err != nil {
				t.Fatal(err)
			}
			if got, selectable := Unmet(s, labels.Set{"role": "worker"}); !slices.Equal(got, c.want) || got == nil || !selectable {
				t.Errorf("Unmet returns %q, %t, want %q", got, selectable, c.want)
			}
		})
	}
	if _, selectable := Unmet(labels.Nothing(), labels.Set{}); selectable {
		t.Error("a selector that selects nothing has requirements")
	}
}
