package slim

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestI15BufferKeepsNoBytes: between two objects the buffer for labels refers to no bytes of either, however many labels
// they have.
func TestI15BufferKeepsNoBytes(t *testing.T) {
	for _, many := range []int{20, 3 * maxLabels, 10} {
		shared.labelBuffer = nil
		decodedNode(t, func(*corev1.Node) {})
		decodedNode(t, func(n *corev1.Node) {
			for i := range many {
				n.Labels[fmt.Sprint("a", i)] = ""
			}
		})
		all := shared.labelBuffer[:cap(shared.labelBuffer)]
		if slices.ContainsFunc(all, func(e rawEntry) bool { return e.key != nil || e.value != nil }) {
			t.Errorf("after %d labels the buffer refers to bytes", many)
		}
	}
}

// TestBufferIsReused up to a size that objects with all labels that are read need.
func TestBufferIsReused(t *testing.T) {
	for size, want := range map[int]int{20: 20, 2 * maxLabels: 2 * maxLabels, 2*maxLabels + 1: 0} {
		tab := table{labelBuffer: make([]rawEntry, 1)}
		tab.release(make([]rawEntry, size))
		if got := cap(tab.labelBuffer); got != want {
			t.Errorf("of a buffer of %d labels %d are reused, want %d", size, got, want)
		}
	}
}
