package slim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/internal/core"
)

// TestRolesOfTheControlPlane: each label alone makes a node a member of the control plane, with any value.
func TestRolesOfTheControlPlane(t *testing.T) {
	want := []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/etcd"}
	if got := ControlPlaneLabels(); !slices.Equal(got, want) {
		t.Errorf("the labels of the control plane are %q, want %q", got, want)
	}
	for _, label := range want {
		for _, value := range []string{"", "true", "false"} {
			if !LabelsOf(map[string]string{label: value, "other": ""}).OfControlPlane() {
				t.Errorf("a node with %s=%q is no member of the control plane", label, value)
			}
		}
	}
	if LabelsOf(map[string]string{"node-role.kubernetes.io/worker": ""}).OfControlPlane() {
		t.Error("a worker is a member of the control plane")
	}
}

func TestCloneOfMetadataSharesNothing(t *testing.T) {
	m := Meta{DeletionTimestamp: &metav1.Time{Time: time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)}, Owner: &Owner{Name: "pool"}}
	c := m.CloneMeta()
	if c.DeletionTimestamp == m.DeletionTimestamp || !c.DeletionTimestamp.Equal(m.DeletionTimestamp) {
		t.Errorf("the time of deletion of the clone is %v", c.DeletionTimestamp)
	}
	if c.Owner == m.Owner || *c.Owner != *m.Owner {
		t.Errorf("the owner of the clone is %+v", c.Owner)
	}
}

// TestDecodingReplacesWhatWasThere: decoding into an object that is in use keeps nothing of it.
func TestDecodingReplacesWhatWasThere(t *testing.T) {
	stock := kubeletNode("n")
	body, err := stock.Marshal()
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	n := &Node{Meta: Meta{Unread: "before", Labels: LabelsOf(map[string]string{"before": ""})}, Conditions: make([]core.Condition, 3)}
	if err := n.Unmarshal(body); err != nil || n.Unread != "" || n.Labels.Has("before") || len(n.Conditions) != len(stock.Status.Conditions) {
		t.Errorf("the node is %+v (%v)", n, err)
	}
	list, err := (&corev1.NodeList{Items: []corev1.Node{*stock}}).Marshal()
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	l := &NodeList{Items: make([]Node, 3)}
	if err := l.Unmarshal(list); err != nil || len(l.Items) != 1 {
		t.Errorf("the list has %d items (%v)", len(l.Items), err)
	}
	l.Reset()
	if len(l.Items) > 0 {
		t.Error("a list that was reset has items")
	}
	stock.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Machine", Name: "m", UID: "u", Controller: new(true)}}
	text, err := json.Marshal(stock)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	if err := n.UnmarshalJSON(text); err != nil || n.Owner != nil {
		t.Errorf("the owner of a node is %+v (%v)", n.Owner, err)
	}
}

func TestLongestSharedWord(t *testing.T) {
	for n, want := range map[int]bool{maxShared: true, maxShared + 1: false} {
		word := strings.Repeat("w", n)
		first, second := Intern(word), Intern(strings.Clone(word))
		if got := unsafe.StringData(first) == unsafe.StringData(second); got != want {
			t.Errorf("a word of %d bytes is shared: %t", n, got)
		}
		for _, pair := range [][2]string{{word, "value"}, {"key", word}} {
			if got := InternPair(pair[0], pair[1]) == InternPair(strings.Clone(pair[0]), strings.Clone(pair[1])); got != want {
				t.Errorf("a label with a word of %d bytes is shared: %t", n, got)
			}
		}
	}
}

// TestLongestWordsOfAnOwner: a reference with words of the greatest length is kept.
func TestLongestWordsOfAnOwner(t *testing.T) {
	long := strings.Repeat("w", maxWord)
	var m Meta
	m.own(long, long, long, long)
	if m.Owner == nil || m.Owner.Name != long || m.Unread != "" {
		t.Errorf("the owner is %v, and %q was skipped", m.Owner != nil, m.Unread)
	}
}

// TestWordMovesToTheNextGeneration: a word that is used again keeps its copy while the table forgets others.
func TestWordMovesToTheNextGeneration(t *testing.T) {
	tab := table{words: map[string]string{}}
	first := tab.word([]byte("zone-a"))
	for i := range maxGeneration {
		tab.word(fmt.Append(nil, "other", i))
	}
	if tab.words[first] != "" {
		t.Fatal("the word is still in the present generation")
	}
	if again := tab.word([]byte("zone-a")); unsafe.StringData(again) != unsafe.StringData(first) {
		t.Error("a word of the past generation has another copy now")
	}
}

// TestKnownWordsAllocateNothing: neither a word nor a label of the table needs memory again.
func TestKnownWordsAllocateNothing(t *testing.T) {
	tab := table{words: map[string]string{}, labels: map[label]*label{}}
	word := []byte(strings.Repeat("w", maxShared))
	if got := testing.AllocsPerRun(10, func() { tab.word(word); tab.rawLabel(word, word) }); got > 0 {
		t.Errorf("a word and a label allocate %v times", got)
	}
}

// TestLabelWithTheNameOfItsObject: it shares the memory of the name, and the table does not store it.
func TestLabelWithTheNameOfItsObject(t *testing.T) {
	const name = "a-node-of-this-test"
	stock := kubeletNode(name)
	body, err := stock.Marshal()
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	n := &Node{}
	if err := n.Unmarshal(body); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	if got := n.Labels.Get("kubernetes.io/hostname"); got != name || unsafe.StringData(got) != unsafe.StringData(n.Name) {
		t.Errorf("the label %q has a copy of the name %q", got, n.Name)
	}
	if _, stored := shared.labels[label{"kubernetes.io/hostname", name}]; stored {
		t.Error("the table stores a label that no other object has")
	}
	var first, second Meta
	for _, nameless := range []*Meta{&first, &second} {
		nameless.label([]rawEntry{{key: []byte("a")}})
	}
	if first.Labels[0] != second.Labels[0] {
		t.Error("objects without a name have their own copies of a label without a value")
	}
}

// TestAnnotationsThatAreKept: each annotation that is read is found by its key, and no other is there.
func TestAnnotationsThatAreKept(t *testing.T) {
	want := map[string]string{metav1.InitialEventsAnnotationKey: "true", MachineAnnotation: "machines"}
	for _, key := range nodeAnnotations {
		if key != MachineAnnotation {
			want[key] = "value of " + key
		}
	}
	for format, decode := range decoders() {
		stock := kubeletNode("n")
		maps.Copy(stock.Annotations, want)
		stock.Annotations[MachineAnnotation] = "machines/m"
		n := decode(t, stock)
		for key, value := range want {
			if got := n.Annotations.Get(key); got != value {
				t.Errorf("%s: the annotation %s is %q, want %q", format, key, got, value)
			}
		}
		if diff := cmp.Diff(want, n.GetAnnotations()); diff != "" {
			t.Errorf("%s: annotations (-want +got):\n%s", format, diff)
		}
		stock.Annotations = nil
		if n := decode(t, stock); len(n.Annotations) > 0 {
			t.Errorf("%s: a node without annotations has %v", format, n.GetAnnotations())
		}
	}
}

// TestAnnotationsOfAKind are found by their keys, in whatever order a kind names them.
func TestAnnotationsOfAKind(t *testing.T) {
	w := Metadata{Annotations: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}}
	m := w.Keep("c", "b", "a")
	for key, want := range map[string]string{"a": "1", "b": "2", "c": "3", "d": ""} {
		if got := m.Annotations.Get(key); got != want {
			t.Errorf("the annotation %s is %q, want %q", key, got, want)
		}
	}
}

// TestOrderOfLabels: labels in any order are sorted by their keys, and the last label of a key counts.
func TestOrderOfLabels(t *testing.T) {
	for encoded, want := range map[string]string{"": "", "a1": "a1", "a1 b1": "a1 b1", "b1 a1": "a1 b1", "a1 a2": "a2", "b1 a1 a2 b2": "a2 b2"} {
		var l Labels
		for word := range strings.FieldsSeq(encoded) {
			l = append(l, &label{word[:1], word[1:]})
		}
		var got []string
		for _, each := range l.arranged() {
			got = append(got, each.key+each.value)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q is arranged as %q, want %q", encoded, got, want)
		}
	}
}

// TestEqualLabels: labels with the same words are equal, whether objects share them or not.
func TestEqualLabels(t *testing.T) {
	of := func(key, value string) Labels { return Labels{{key, value}} }
	if !of("a", "b").Equal(of("a", "b")) {
		t.Error("labels with the same words differ")
	}
	for _, other := range []Labels{of("a", "c"), of("c", "b"), nil} {
		if of("a", "b").Equal(other) {
			t.Errorf("a=b is equal to %v", other.Map())
		}
	}
}

// TestAbsentParts: an object without labels, annotations and owner says so as the stock type does.
func TestAbsentParts(t *testing.T) {
	m := &Meta{}
	m.SetAnnotations(map[string]string{"a": "b"})
	m.SetOwnerReferences([]metav1.OwnerReference{{Name: "owner", Controller: new(true)}})
	if got := m.GetAnnotations(); got["a"] != "b" || m.Owner == nil || m.Owner.Name != "owner" {
		t.Errorf("the annotations are %v, the owner is %+v", got, m.Owner)
	}
	m.SetAnnotations(nil)
	m.SetOwnerReferences([]metav1.OwnerReference{{Name: "no controller"}})
	if m.GetLabels() != nil || m.GetAnnotations() != nil || m.GetOwnerReferences() != nil {
		t.Errorf("labels %v, annotations %v and owners %v are there", m.GetLabels(), m.GetAnnotations(), m.GetOwnerReferences())
	}
}

// TestSchemeHasOptionsOfRequests: a client encodes the options of a list or watch by the scheme.
func TestSchemeHasOptionsOfRequests(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatalf("adding to the scheme: %v", err)
	}
	v1 := schema.GroupVersion{Version: "v1"}
	got, err := runtime.NewParameterCodec(s).EncodeParameters(&metav1.ListOptions{Watch: true}, v1)
	if err != nil || got.Get("watch") != "true" {
		t.Errorf("the options of a watch are encoded as %v (%v)", got, err)
	}
	if !s.Recognizes(v1.WithKind("WatchEvent")) {
		t.Error("the scheme has no event of a watch")
	}
}

// TestListsAreNotEncoded, by any of the methods of protobuf.
func TestListsAreNotEncoded(t *testing.T) {
	for method, encode := range map[string]func([]byte) (int, error){"MarshalTo": NodeList{}.MarshalTo, "MarshalToSizedBuffer": NodeList{}.MarshalToSizedBuffer} {
		if n, err := encode(make([]byte, 10)); n != 0 || !errors.Is(err, errPartial) {
			t.Errorf("%s writes %d bytes (%v)", method, n, err)
		}
	}
}

func TestBrokenJSONIsRefused(t *testing.T) {
	for _, body := range []string{"", "7", "{", `{"metadata":7}`, `{"status":{"conditions":{}}}`} {
		n := &Node{}
		if err := n.UnmarshalJSON([]byte(body)); err == nil {
			t.Errorf("%q was decoded as %+v", body, n)
		}
	}
}
