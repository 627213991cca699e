package slim

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Labels are the labels of an object, for selectors, or its annotations. Each is shared with the objects
// that have it too.
type Labels []*label

type label struct{ key, value string }

var _ labels.Labels = Labels{}

// Pair is two words that many objects have together, such as the type of a condition and its status.
type Pair = label

// InternPair gives the pair of two words, which is shared with the objects that have it too.
func InternPair(key, value string) *Pair {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return shared.label(label{key, value})
}

// Key is the first of the two words.
func (l *label) Key() string { return l.key }

// Value is the second of the two words.
func (l *label) Value() string { return l.value }

// LabelsOf gives labels that are in a map.
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

// Lookup gives the value of a label, and whether there is such a label.
func (l Labels) Lookup(key string) (string, bool) {
	i, found := slices.BinarySearchFunc(l, key, func(l *label, key string) int { return strings.Compare(l.key, key) })
	if !found {
		return "", false
	}
	return l[i].value, true
}

// Has tells whether there is such a label.
func (l Labels) Has(key string) bool {
	_, found := l.Lookup(key)
	return found
}

// Get gives the value of a label, or "".
func (l Labels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// Equal tells whether two objects have the same labels.
func (l Labels) Equal(other Labels) bool {
	return slices.EqualFunc(l, other, func(a, b *label) bool { return a == b || *a == *b })
}

// Map gives the labels as a map of the caller's own.
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

// arranged sorts labels as they came, where needed. Of two with one key the later one counts.
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
