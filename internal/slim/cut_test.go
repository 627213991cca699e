package slim

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestI15CutIsExact: as many bytes of labels as are read all stay, and of one byte more a label is skipped.
func TestI15CutIsExact(t *testing.T) {
	const each, count = 256, maxLabelBytes / 256
	raw := make([]rawEntry, count)
	for i := range raw {
		raw[i] = rawEntry{key: fmt.Appendf(nil, "a%06d", i), value: []byte(strings.Repeat("v", each-7))}
	}
	var all Meta
	if got := all.cut(raw); len(got) != count || all.Unread != "" {
		t.Errorf("%d labels of %d are kept, told is %q", len(got), count, all.Unread)
	}
	var most Meta
	raw[0].value = append(raw[0].value, 'v')
	if got := most.fits(raw); len(got) != count-1 || most.Unread != tooManyLabels {
		t.Errorf("%d labels of %d are kept, told is %q", len(got), count, most.Unread)
	}
	some := Meta{Labels: []*label{{key: "key", value: "value"}}}
	if got := some.labelBytes(); got != len("key")+len("value") {
		t.Errorf("a label has %d bytes", got)
	}
}

// TestI15RoomIsExact, in each of its bounds, beside a label that the object has.
func TestI15RoomIsExact(t *testing.T) {
	const has = len("key") + len("value")
	for sentence, tc := range map[string]struct {
		count, bytes, longest int
		want                  bool
	}{
		"as much as is read":     {maxLabels - 1, maxLabelBytes - has, maxWord, true},
		"one label more":         {maxLabels, maxLabelBytes - has, maxWord, false},
		"one byte more":          {maxLabels - 1, maxLabelBytes - has + 1, maxWord, false},
		"a word of a byte more":  {maxLabels - 1, maxLabelBytes - has, maxWord + 1, false},
		"a label of a few bytes": {1, 10, 5, true},
	} {
		m := Meta{Labels: []*label{{key: "key", value: "value"}}}
		if got := m.hasRoom(tc.count, tc.bytes, tc.longest); got != tc.want {
			t.Errorf("%s: there is room: %t", sentence, got)
		}
	}
}

// TestLabelsThatFitAreNotCopied: as many bytes of labels as are read need no list of their own.
func TestLabelsThatFitAreNotCopied(t *testing.T) {
	raw := make([]rawEntry, maxLabelBytes/256)
	for i := range raw {
		raw[i] = rawEntry{key: make([]byte, 128), value: make([]byte, 128)}
	}
	if got := new(Meta).fits(raw); len(got) != len(raw) || &got[0] != &raw[0] {
		t.Errorf("%d labels of %d are kept, in a list of their own", len(got), len(raw))
	}
}

// TestI15WordsAreCutExactly: a key and a value may be as long as a word, and no longer.
func TestI15WordsAreCutExactly(t *testing.T) {
	fits, long := []byte(strings.Repeat("x", 317)), []byte(strings.Repeat("x", 318))
	for sentence, tc := range map[string]struct {
		entry rawEntry
		want  bool
	}{
		"both fit": {rawEntry{fits, fits}, false}, "the key": {rawEntry{long, nil}, true}, "the value": {rawEntry{nil, long}, true},
	} {
		if got := tc.entry.tooLong(); got != tc.want {
			t.Errorf("%s: it is too long: %t", sentence, got)
		}
	}
	for _, value := range [][]byte{fits, long} {
		var m Meta
		got := m.short(rawEntry{[]byte("a"), value})
		if len(got.value) != len(fits) || (m.Unread != "") != (len(value) > len(fits)) {
			t.Errorf("of an annotation of %d bytes %d are kept, told is %q", len(value), len(got.value), m.Unread)
		}
	}
}

// TestMachineAnnotationIsItsNamespace: the name of the machine is not kept.
func TestMachineAnnotationIsItsNamespace(t *testing.T) {
	for value, want := range map[string]string{"machines/a": "machines", "/a": "", "a": "", "": "", "a/b/c": "a"} {
		var m Meta
		if got := m.short(rawEntry{[]byte(MachineAnnotation), []byte(value)}); string(got.value) != want {
			t.Errorf("of %q it keeps %q, want %q", value, got.value, want)
		}
	}
}

func TestIsGuarded(t *testing.T) {
	for key, want := range map[string]bool{
		ExcludeLabel: true, "kubernetes.io/a": true, "node-role.kubernetes.io/a": true, "k8s.io/a": true, "x.k8s.io/a": true,
		"kubelet.kubernetes.io/a": false, "x.kubelet.kubernetes.io/a": false, "node.kubernetes.io/a": false, "x.node.kubernetes.io/a": false,
		"kubernetes.io": false, "x-k8s.io/a": false, "example.com/a": false, "a": false,
	} {
		if got := isGuarded([]byte(key)); got != want {
			t.Errorf("label %s is kept before others: %t", key, got)
		}
	}
}

// TestNamesAsLongAsTheyCanBe are decoded. The error of a longer one says how long they can be.
func TestNamesAsLongAsTheyCanBe(t *testing.T) {
	for size, want := range map[int]bool{253: true, 254: false} {
		body, err := (&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", size)}}).Marshal()
		if err != nil {
			t.Fatalf("encoding: %v", err)
		}
		err = new(Node).Unmarshal(body)
		if (err == nil) != want || (!want && !strings.Contains(err.Error(), "has 254 bytes, and at most 253 are possible")) {
			t.Errorf("a name of %d bytes: %v", size, err)
		}
	}
}
