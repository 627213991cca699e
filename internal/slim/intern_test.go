package slim

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

// someLabels draws labels of which several objects have some.
func someLabels() *rapid.Generator[map[string]string] {
	word := rapid.SampledFrom([]string{"", "a", "b", "c", "zone"})
	return rapid.MapOfN(word, word, 0, 4)
}

// TestLabelsAreASet: they answer as the map does that they are made of.
func TestLabelsAreASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, other := someLabels().Draw(t, "labels"), someLabels().Draw(t, "others")
		l := LabelsOf(set)
		for _, key := range []string{"", "a", "b", "c", "zone", "none"} {
			value, has := l.Lookup(key)
			if want, there := set[key]; value != want || has != there || l.Has(key) != there || l.Get(key) != want {
				t.Errorf("label %q is %q, there: %t; want %q, %t", key, value, has, want, there)
			}
		}
		if got := l.Map(); !labels.Equals(got, set) {
			t.Errorf("as a map they are %v, want %v", got, set)
		}
		if got, want := l.Equal(LabelsOf(other)), labels.Equals(set, other); got != want {
			t.Errorf("equal to %v: %t, want %t", other, got, want)
		}
		selector := labels.SelectorFromSet(other)
		if got, want := selector.Matches(l), selector.Matches(labels.Set(set)); got != want {
			t.Errorf("selected by %s: %t, want %t", selector, got, want)
		}
	})
}

func decodedNode(t *testing.T, change func(*corev1.Node)) *Node {
	t.Helper()
	stock := kubeletNode("n")
	change(stock)
	body, err := stock.Marshal()
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	n := &Node{}
	if err := n.Unmarshal(body); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	return n
}

// TestWhatRepeatsIsShared: nodes that have the same words have them once.
func TestWhatRepeatsIsShared(t *testing.T) {
	for format, decode := range decoders() {
		a, b := decode(t, kubeletNode("n")), decode(t, kubeletNode("m"))
		for i := range a.Conditions {
			c, d := &a.Conditions[i], &b.Conditions[i]
			if unsafe.StringData(c.Type) != unsafe.StringData(d.Type) || unsafe.StringData(c.Status) != unsafe.StringData(d.Status) || unsafe.StringData(c.Reason) != unsafe.StringData(d.Reason) {
				t.Errorf("%s: each node has its own copy of %s=%s", format, c.Type, c.Status)
			}
		}
		for i := range a.Labels {
			if a.Labels[i] != b.Labels[i] && a.Labels[i].key != "kubernetes.io/hostname" {
				t.Errorf("%s: each node has its own copy of the label %s", format, a.Labels[i].key)
			}
		}
	}
}

// TestTableStaysSmall: words and labels of which each comes once don't pile up.
func TestTableStaysSmall(t *testing.T) {
	for i := range 3 * maxGeneration {
		unique := fmt.Sprint("unique-", i)
		if got := Intern(unique); got != unique {
			t.Fatalf("the word %s became %s", unique, got)
		}
		if got := LabelsOf(map[string]string{unique: unique}).Map(); !cmp.Equal(got, map[string]string{unique: unique}) {
			t.Fatalf("the label %s became %v", unique, got)
		}
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	for _, generation := range []int{len(shared.words), len(shared.pastWords), len(shared.labels), len(shared.pastLabels)} {
		if generation > maxGeneration {
			t.Errorf("a generation has %d words or labels", generation)
		}
	}
}

// TestHeartbeatAllocates what the node holds that is its own: itself, its identity, its list of
// labels, the label with its name, its list of annotations, and its conditions.
func TestHeartbeatAllocates(t *testing.T) {
	body, err := kubeletNode("n").Marshal()
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	if got := testing.AllocsPerRun(100, func() { _ = new(Node).Unmarshal(body) }); got > 6 {
		t.Errorf("decoding a heartbeat allocates %.0f times", got)
	}
}

// TestSharedIsSafeForConcurrentUse has the race detector look at it.
func TestSharedIsSafeForConcurrentUse(t *testing.T) {
	body, err := kubeletNode("n").Marshal()
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	t.Run("all", func(t *testing.T) {
		for i := range 4 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for range 20 {
					if err := new(Node).Unmarshal(body); err != nil {
						t.Fatalf("decoding: %v", err)
					}
					if got := Intern(strings.Repeat("w", i)); len(got) != i {
						t.Fatalf("the word is %q", got)
					}
				}
			})
		}
	})
}

// BenchmarkHeartbeat compares what one heartbeat costs to decode, from protobuf.
func BenchmarkHeartbeat(b *testing.B) {
	body, err := kubeletNode("worker-0001.example").Marshal()
	if err != nil {
		b.Fatalf("encoding: %v", err)
	}
	b.Run("stock", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			_ = new(corev1.Node).Unmarshal(body)
		}
	})
	b.Run("slim", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			_ = new(Node).Unmarshal(body)
		}
	})
}
