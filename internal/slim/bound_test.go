package slim

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// retained returns how many bytes of heap stay in use because of what is done.
func retained(do func()) int64 {
	inUse := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	do()
	return inUse() - before
}

// flooding returns a node as written by a kubelet that wants to fill the memory of every reader.
func flooding(update int) *corev1.Node {
	long := func(what string) string { return fmt.Sprint(what, update, strings.Repeat("x", 20<<10)) }
	n := kubeletNode("n")
	n.Labels[long("key")] = long("value")
	n.Annotations[ConfirmedHealthyAnnotation] = long("annotation")
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeConditionType(long("type")), Status: corev1.ConditionStatus(long("status")), Reason: long("reason"), Message: long("message"),
	})
	return n
}

// TestI15UpdatesOfANodeAreForgotten: whatever a kubelet writes, what is kept of its node is what the last update left.
func TestI15UpdatesOfANodeAreForgotten(t *testing.T) {
	for name, decode := range decoders() {
		t.Run(name, func(t *testing.T) {
			var last *Node
			got := retained(func() {
				for update := range 1000 {
					last = decode(t, flooding(update))
				}
			})
			if got > 8<<20 {
				t.Errorf("after a thousand updates %d MiB are kept", got>>20)
			}
			if last.Unread == "" {
				t.Error("it is not told that something was skipped")
			}
			runtime.KeepAlive(last)
		})
	}
}

// decoders decode a node from each format in which it travels.
func decoders() map[string]func(*testing.T, *corev1.Node) *Node {
	return map[string]func(*testing.T, *corev1.Node) *Node{
		"protobuf": func(t *testing.T, stock *corev1.Node) *Node {
			t.Helper()
			body, err := stock.Marshal()
			n := &Node{}
			if err == nil {
				err = n.Unmarshal(body)
			}
			if err != nil {
				t.Fatalf("decoding: %v", err)
			}
			return n
		},
		"JSON": func(t *testing.T, stock *corev1.Node) *Node {
			t.Helper()
			body, err := json.Marshal(stock)
			n := &Node{}
			if err == nil {
				err = n.UnmarshalJSON(body)
			}
			if err != nil {
				t.Fatalf("decoding: %v", err)
			}
			return n
		},
	}
}

// TestI15WordsAreForgotten: short words of which each comes once are not kept either.
func TestI15WordsAreForgotten(t *testing.T) {
	got := retained(func() {
		for i := range 1_000_000 {
			InternPair(fmt.Sprint("Reason", i), "True")
		}
	})
	if got > 8<<20 {
		t.Errorf("after a million words %d MiB are kept", got>>20)
	}
}

// TestI15LongWordsAreNotShared: an object has its own copy of a long word, and takes it along when it goes.
func TestI15LongWordsAreNotShared(t *testing.T) {
	long := strings.Repeat("x", maxShared)
	for sentence, share := range map[string]func(i int){
		"words":  func(i int) { Intern(fmt.Sprint(i, long)) },
		"keys":   func(i int) { InternPair(fmt.Sprint(i, long), "") },
		"values": func(i int) { InternPair("key", fmt.Sprint(i, long)) },
	} {
		before := len(shared.words) + len(shared.labels)
		for i := range 100 {
			share(i)
		}
		if after := len(shared.words) + len(shared.labels); after > before+1 { // the key is short
			t.Errorf("%s: the table has %d entries more", sentence, after-before)
		}
	}
	if maxShared > 128 || maxGeneration > 4096 {
		t.Errorf("%d words of %d bytes are shared, which is more than the bounds of a node allow for", maxGeneration, maxShared)
	}
}

// TestI15ReferenceToTheControllerIsBounded, in each of its words.
func TestI15ReferenceToTheControllerIsBounded(t *testing.T) {
	long := strings.Repeat("x", maxWord+1)
	for field, reference := range map[string][4]string{
		"apiVersion": {long, "K", "n", "u"}, "kind": {"g/v1", long, "n", "u"}, "name": {"g/v1", "K", long, "u"}, "uid": {"g/v1", "K", "n", long},
	} {
		var m Meta
		m.own(reference[0], reference[1], reference[2], reference[3])
		if m.Owner != nil || m.Unread != tooLongOwner {
			t.Errorf("%s: kept is %+v, told is %q", field, m.Owner, m.Unread)
		}
	}
}

// TestI15SharingIsNotUndone: a flood of words does not take away what many objects share.
func TestI15SharingIsNotUndone(t *testing.T) {
	before := InternPair("topology.kubernetes.io/zone", "zone-a")
	for i := range 5 * maxGeneration {
		InternPair(fmt.Sprint("flood", i), "")
		if i%(maxGeneration/2) == 0 {
			InternPair("topology.kubernetes.io/zone", "zone-a")
		}
	}
	after := InternPair("topology.kubernetes.io/zone", "zone-a")
	if before != after || unsafe.StringData(before.key) != unsafe.StringData(after.key) {
		t.Error("a label that came all the time has another copy now")
	}
}

// TestI15NodeIsBounded: of a node with more than is read, a bounded part is kept, and that is told.
func TestI15NodeIsBounded(t *testing.T) {
	conditions := func(many int) func(*corev1.Node) {
		return func(n *corev1.Node) {
			for i := range many {
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(fmt.Sprint("C", i)), Status: "True"})
			}
		}
	}
	labels := func(many, size int) func(*corev1.Node) {
		return func(n *corev1.Node) {
			for i := range many {
				n.Labels[fmt.Sprintf("a%0*d", size, i)] = ""
			}
		}
	}
	const (
		own         = 20 // labels of kubeletNode
		asManyAsFit = -1
	)
	longest := func(size int) func(*corev1.Node) {
		word := strings.Repeat("x", size)
		return func(n *corev1.Node) {
			n.Labels[word], n.Labels["a"], n.Annotations[ConfirmedHealthyAnnotation] = "", word, word
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
				Type: corev1.NodeConditionType(word), Status: corev1.ConditionStatus(word), Reason: word,
			})
		}
	}
	cases := map[string]struct {
		change             func(*corev1.Node)
		conditions, labels int
		says               string
	}{
		"as kubelets are":      {func(*corev1.Node) {}, 5, own, ""},
		"as many as are read":  {conditions(maxConditions - 5), maxConditions, own, ""},
		"one condition more":   {conditions(maxConditions - 4), maxConditions, own, tooManyConditions},
		"many more":            {conditions(20_000), maxConditions, own, tooManyConditions},
		"as many labels":       {labels(maxLabels-own, 10), 5, maxLabels, ""},
		"one label more":       {labels(maxLabels-own+1, 10), 5, maxLabels, tooManyLabels},
		"many labels more":     {labels(20_000, 10), 5, maxLabels, tooManyLabels},
		"labels of many bytes": {labels(maxLabels-own, 300), 5, asManyAsFit, tooManyLabels},
		"a long status": {func(n *corev1.Node) {
			n.Status.Conditions[1].Status = corev1.ConditionStatus(strings.Repeat("x", maxWord+1))
		}, 4, own, tooLongCondition},
		"a long type": {func(n *corev1.Node) {
			n.Status.Conditions[1].Type = corev1.NodeConditionType(strings.Repeat("x", maxWord+1))
		}, 4, own, tooLongCondition},
		"a long reason":            {func(n *corev1.Node) { n.Status.Conditions[1].Reason = strings.Repeat("x", maxWord+1) }, 4, own, tooLongCondition},
		"a message is not read":    {func(n *corev1.Node) { n.Status.Conditions[1].Message = strings.Repeat("x", maxWord+1) }, 5, own, ""},
		"a long label":             {func(n *corev1.Node) { n.Labels["a"] = strings.Repeat("x", maxWord+1) }, 5, own, tooLongLabel},
		"an annotation that is ok": {func(n *corev1.Node) { n.Annotations["a"] = strings.Repeat("x", maxWord+1) }, 5, own, ""},
		"an annotation that is read": {func(n *corev1.Node) {
			n.Annotations[ConfirmedHealthyAnnotation] = strings.Repeat("x", maxWord+1)
		}, 5, own, tooLongAnnotation},
		"the longest words":   {longest(maxWord), 6, own + 2, ""},
		"longer words of all": {longest(maxWord + 1), 5, own, tooLongLabel + "; " + tooLongAnnotation + "; " + tooLongCondition},
		"too much of all":     {func(n *corev1.Node) { conditions(200)(n); labels(2000, 10)(n) }, maxConditions, maxLabels, tooManyLabels + "; " + tooManyConditions},
	}
	for sentence, tc := range cases {
		for format, decode := range decoders() {
			t.Run(sentence+" in "+format, func(t *testing.T) {
				stock := kubeletNode("n")
				tc.change(stock)
				n := decode(t, stock)
				if tc.labels == asManyAsFit {
					tc.labels = len(n.Labels)
				}
				if got := n.Annotations.Get(ConfirmedHealthyAnnotation); len(got) > maxWord {
					t.Errorf("of an annotation %d bytes are kept", len(got))
				}
				if n.labelBytes() > maxLabelBytes {
					t.Errorf("the labels that are kept have %d bytes", n.labelBytes())
				}
				if len(n.Conditions) != tc.conditions || len(n.Labels) != tc.labels || n.Unread != tc.says {
					t.Errorf("kept are %d conditions and %d labels, want %d and %d; told is %q, want %q",
						len(n.Conditions), len(n.Labels), tc.conditions, tc.labels, n.Unread, tc.says)
				}
			})
		}
	}
}

// TestI15SentencesNameTheBounds that there are.
func TestI15SentencesNameTheBounds(t *testing.T) {
	word := fmt.Sprint(maxWord, " bytes")
	for sentence, bounds := range map[string][]string{
		tooManyConditions: {fmt.Sprint(maxConditions, " conditions")}, tooManyLabels: {fmt.Sprint("than the ", maxLabels), fmt.Sprint(maxLabelBytes, " bytes")},
		tooLongCondition: {word}, tooLongLabel: {word}, tooLongAnnotation: {word}, tooLongOwner: {word},
	} {
		for _, bound := range bounds {
			if !strings.Contains(sentence, bound) {
				t.Errorf("%q does not name %q", sentence, bound)
			}
		}
	}
}

// TestI15RepeatedPartsAreBounded: protobuf merges parts that come several times.
func TestI15RepeatedPartsAreBounded(t *testing.T) {
	stock := kubeletNode("n")
	for i := range maxLabels / 2 {
		stock.Labels[fmt.Sprint("a", i)] = ""
	}
	for i := range maxConditions / 2 {
		stock.Status.Conditions = append(stock.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(fmt.Sprint("C", i))})
	}
	body, err := stock.Marshal()
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	n := &Node{}
	if err := n.Unmarshal([]byte(strings.Repeat(string(body), 100))); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	wantRepeatedLabelsBounded(t)
	if len(n.Labels) > maxLabels || len(n.Conditions) > maxConditions || n.Unread == "" {
		t.Errorf("kept are %d labels and %d conditions, told is %q", len(n.Labels), len(n.Conditions), n.Unread)
	}
}

// wantRepeatedLabelsBounded decodes parts that have other labels each: parts of which each has few, and many bytes.
func wantRepeatedLabelsBounded(t *testing.T) {
	t.Helper()
	for sentence, size := range map[string]int{"short": 10, "long": 300} {
		var all []byte
		for part := range 20 {
			stock := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
			for i := range maxLabels / 10 {
				stock.Labels[fmt.Sprintf("a%0*d", size, part*maxLabels+i)] = ""
			}
			body, err := stock.Marshal()
			if err != nil {
				t.Fatalf("encoding: %v", err)
			}
			all = append(all, body...)
		}
		n := &Node{}
		if err := n.Unmarshal(all); err != nil {
			t.Fatalf("decoding: %v", err)
		}
		if len(n.Labels) > maxLabels || n.labelBytes() > maxLabelBytes || n.Unread != tooManyLabels {
			t.Errorf("%s: kept are %d labels of %d bytes, told is %q", sentence, len(n.Labels), n.labelBytes(), n.Unread)
		}
	}
}

// TestI15RoleIsNotHidden: a kubelet can set labels, and hides by no number of them what an administrator has said of
// its node.
func TestI15RoleIsNotHidden(t *testing.T) {
	said := map[string]string{
		"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/worker": "", ExcludeLabel: "true", "node-restriction.kubernetes.io/pool": "a",
	}
	for format, decode := range decoders() {
		t.Run(format, func(t *testing.T) {
			stock := kubeletNode("n")
			maps.Copy(stock.Labels, said)
			for i := range 5000 {
				stock.Labels[fmt.Sprint("a", i)], stock.Labels[fmt.Sprint("kubelet.kubernetes.io/", i)] = "", ""
				stock.Labels[fmt.Sprint("node.kubernetes.io/", i)], stock.Labels[fmt.Sprint("a.node.kubernetes.io/", i)] = "", ""
			}
			n := decode(t, stock)
			for key, value := range said {
				if got, has := n.Labels.Lookup(key); !has || got != value {
					t.Errorf("the label %s is %q, there: %t", key, got, has)
				}
			}
			if n.Unread != tooManyLabels || len(n.Labels) > maxLabels {
				t.Errorf("%d labels are kept, and told is %q", len(n.Labels), n.Unread)
			}
		})
	}
}

// TestI15NamesThatAreNone: no server of Kubernetes has objects of such names.
func TestI15NamesThatAreNone(t *testing.T) {
	long := strings.Repeat("x", maxIdentity+1)
	for sentence, meta := range map[string]metav1.ObjectMeta{
		"name": {Name: long}, "namespace": {Namespace: long}, "UID": {UID: types.UID(long)}, "revision": {ResourceVersion: long},
	} {
		stock := &corev1.Node{ObjectMeta: meta}
		binary, _ := stock.Marshal()
		text, err := json.Marshal(stock)
		if err != nil {
			t.Fatalf("encoding: %v", err)
		}
		if err := new(Node).Unmarshal(binary); err == nil {
			t.Errorf("a %s of %d bytes was decoded", sentence, len(long))
		}
		if err := new(Node).UnmarshalJSON(text); err == nil {
			t.Errorf("a %s of %d bytes was decoded from JSON", sentence, len(long))
		}
		list := &corev1.NodeList{Items: []corev1.Node{*stock}}
		all, _ := list.Marshal()
		if err := new(NodeList).Unmarshal(all); err == nil {
			t.Errorf("a list with a %s of %d bytes was decoded", sentence, len(long))
		}
	}
}
