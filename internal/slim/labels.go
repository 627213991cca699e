package slim

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Labels are the labels of an object, for selectors, or its annotations. Objects share each label.
type Labels []*label

type label struct{ key, value string }

var _ labels.Labels = Labels{}

// Pair is a pair of words that many objects have, such as the type of a condition and its status.
type Pair = label

// InternPair returns a pair of words that objects share.
func InternPair(key, value string) *Pair {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return shared.label(label{key, value})
}

// Key returns the first of the two words.
func (l *label) Key() string { return l.key }

// Value returns the second of the two words.
func (l *label) Value() string { return l.value }

// LabelsOf returns the labels of a map.
func LabelsOf(set map[string]string) Labels {
	if len(set) == 0 {
		return nil
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	l := make(Labels, 0, len(set))
	for _, key := range slices.Sorted(maps.Keys(set)) {
		l = append(l, shared.label(label{key, set[key]}))
	}
	return l
}

// Lookup returns the value of a label, and whether there is such a label.
func (l Labels) Lookup(key string) (string, bool) {
	i, found := slices.BinarySearchFunc(l, key, func(l *label, key string) int { return strings.Compare(l.key, key) })
	if !found {
		return "", false
	}
	return l[i].value, true
}

// Has reports whether there is such a label.
func (l Labels) Has(key string) bool {
	_, found := l.Lookup(key)
	return found
}

// Get returns the value of a label, or an empty string.
func (l Labels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// Equal reports whether two objects have the same labels.
func (l Labels) Equal(other Labels) bool {
	return slices.EqualFunc(l, other, func(a, b *label) bool { return a == b || *a == *b })
}

// Map returns the labels as a new map.
func (l Labels) Map() map[string]string {
	if l == nil {
		return nil
	}
	set := make(map[string]string, len(l))
	for _, each := range l {
		set[each.key] = each.value
	}
	return set
}

// arranged returns the labels sorted by their keys. Of two labels with one key, the later one counts.
func (l Labels) arranged() Labels {
	inOrder := true
	for i := 1; i < len(l) && inOrder; i++ {
		inOrder = l[i-1].key < l[i].key
	}
	if inOrder {
		return l
	}
	slices.Reverse(l)
	slices.SortStableFunc(l, func(a, b *label) int { return strings.Compare(a.key, b.key) })
	return slices.CompactFunc(l, func(a, b *label) bool { return a.key == b.key })
}

// with returns the labels with more of them.
func (l Labels) with(raw []rawEntry, of func(rawEntry) *label) Labels {
	if len(raw) == 0 {
		return l
	}
	all := make(Labels, len(l), len(l)+len(raw))
	copy(all, l)
	for _, each := range raw {
		all = append(all, of(each))
	}
	return all.arranged()
}

func sharedLabel(raw rawEntry) *label { return shared.rawLabel(raw.key, raw.value) }
