package workload

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	protobufserializer "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/slim"
)

// travelling is an object as an API server sends it.
func travelling(t testing.TB, o runtime.Object) []byte {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	var b bytes.Buffer
	if err := protobufserializer.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func eventOf(t testing.TB, of watch.EventType, o runtime.Object) []byte {
	t.Helper()
	e := &metav1.WatchEvent{Type: string(of), Object: runtime.RawExtension{Raw: travelling(t, o)}}
	body, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func nodeNamed(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7"}}
}

func TestDecodeNodes(t *testing.T) {
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "more"}, Items: []corev1.Node{*nodeNamed("a"), *nodeNamed("b")}}
	got, err := decodeNodes(travelling(t, list), 2)
	if err != nil || len(got.Items) != 2 || got.Items[1].Name != "b" || got.Continue != "more" || got.ResourceVersion != "9" {
		t.Errorf("it reads %+v, %v", got, err)
	}
	if _, err := decodeNodes(travelling(t, list), 1); !errors.Is(err, errBound) {
		t.Errorf("of a page with more nodes than allowed it reads %v", err)
	}
	nonsense := travelling(t, list)
	nonsense[bytes.LastIndex(nonsense, []byte("more"))+len("more")] = 0xff // the tag of the first node
	if _, err := decodeNodes(nonsense, 2); !errors.Is(err, errNotProtobuf) {
		t.Errorf("a page with a broken node is read with %v", err)
	}
	for sentence, body := range map[string][]byte{
		"nothing": nil, "JSON": []byte(`{"kind":"NodeList","apiVersion":"v1"}`), "a broken envelope": []byte("k8s\x00\xff"), "another kind": travelling(t, &corev1.PodList{}),
		"a node": travelling(t, nodeNamed("a")),
	} {
		if _, err := decodeNodes(body, 2); err == nil {
			t.Errorf("%s is read as nodes", sentence)
		}
	}
}

func TestDecodeEvent(t *testing.T) {
	for _, of := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark} {
		if e, err := decodeEvent(eventOf(t, of, nodeNamed("a"))); err != nil || e.kind != of || e.node.Name != "a" || e.node.ResourceVersion != "7" {
			t.Errorf("%s: it reads %+v, %v", of, e, err)
		}
	}
	gone := &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}
	if _, err := decodeEvent(eventOf(t, watch.Error, gone)); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch that is out of date is read as %v", err)
	}
	for gone.Size() < errorBytes {
		gone.Message += strings.Repeat("x", max(1, (errorBytes-gone.Size())/2))
	}
	if _, err := decodeEvent(eventOf(t, watch.Error, gone)); !apierrors.IsResourceExpired(err) {
		t.Errorf("a failure of %d bytes is read as %v", gone.Size(), err)
	}
	gone.Message += "x"
	if _, err := decodeEvent(eventOf(t, watch.Error, gone)); !errors.Is(err, errNotProtobuf) {
		t.Errorf("a failure of %d bytes is read as %v", gone.Size(), err)
	}
	if _, err := decodeEvent(eventOf(t, watch.Error, &corev1.Pod{})); !errors.Is(err, errNotNodes) {
		t.Errorf("a pod in the place of a failure is read as %v", err)
	}
	added := protowire.AppendString(protowire.AppendTag(nil, eventType, protowire.BytesType), string(watch.Added))
	broken := protowire.AppendBytes(protowire.AppendTag(slices.Clone(added), eventObject, protowire.BytesType), []byte("\xff"))
	for sentence, frame := range map[string][]byte{"a type, and then bytes": append(slices.Clone(added), 0xff), "an object of bytes": broken} {
		if e, err := decodeEvent(frame); e != (event{}) || !errors.Is(err, errNotProtobuf) {
			t.Errorf("%s: it reads %+v, %v", sentence, e, err)
		}
	}
	for sentence, frame := range map[string][]byte{"nothing": nil, "bytes": []byte("\xff\xff"), "a pod": eventOf(t, watch.Added, &corev1.Pod{})} {
		if _, err := decodeEvent(frame); err == nil {
			t.Errorf("%s is read as an event", sentence)
		}
	}
}

// FuzzDecodeEvent: whatever a cluster sends is read without a panic, and never as a node without an event.
func FuzzDecodeEvent(f *testing.F) {
	f.Add(eventOf(f, watch.Added, nodeNamed("a")))
	f.Add(eventOf(f, watch.Error, &metav1.Status{Code: 410}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if e, err := decodeEvent(frame); err == nil && e.node == nil {
			t.Errorf("%q is read as %+v", frame, e)
		}
	})
}

// FuzzDecodeNodes: whatever a cluster sends is read without a panic, and never has more nodes than allowed.
func FuzzDecodeNodes(f *testing.F) {
	f.Add(travelling(f, &corev1.NodeList{Items: []corev1.Node{*nodeNamed("a"), *nodeNamed("b")}}))
	f.Fuzz(func(t *testing.T, body []byte) {
		if list, err := decodeNodes(body, 2); err == nil && len(list.Items) > 2 {
			t.Errorf("%q has %d nodes", body, len(list.Items))
		}
	})
}

func framed(size uint32, content string) io.ReadCloser {
	return io.NopCloser(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, size), content...)))
}

func TestI15EventsAreBounded(t *testing.T) {
	s := &stream{body: framed(3, "abc"), stalls: func() {}, patience: time.Hour}
	if frame, err := s.next(); string(frame) != "abc" || err != nil {
		t.Errorf("it reads %q, %v", frame, err)
	}
	if _, err := s.next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end it reads %v", err)
	}
	s.body = framed(nodeBytes+1, "abc")
	if _, err := s.next(); !errors.Is(err, errBound) {
		t.Errorf("of an event that is too large it reads %v", err)
	}
	s.body = framed(4, "abc")
	if _, err := s.next(); !errors.Is(err, io.ErrUnexpectedEOF) || !isEnd(err) {
		t.Errorf("of an event that is cut off it reads %v", err)
	}
	body, writer := io.Pipe()
	s.body, s.patience, s.stalls = body, time.Millisecond, func() { _ = writer.CloseWithError(errStalled) }
	go func() { _, _ = writer.Write([]byte{0, 0, 0, 9, 'a'}) }()
	if _, err := s.next(); !errors.Is(err, errStalled) {
		t.Errorf("of an event that stalls it reads %v", err)
	}
}

// TestI15WhatIsKeptOfAClusterIsBounded: events add up as a list does, and what goes makes room.
func TestI15WhatIsKeptOfAClusterIsBounded(t *testing.T) {
	config := Config{Now: func() time.Time { return noon }, Wake: func(types.NamespacedName) {}, Bounds: Bounds{Nodes: 2}, Log: logr.Discard()}
	named := func(name string) *slim.Node { return &slim.Node{Meta: slim.Meta{Name: name}} }
	heavy := named("c")
	heavy.Conditions = []core.Condition{{Type: strings.Repeat("x", 2*keptBytes)}}
	a, b, c := event{watch.Added, named("a")}, event{watch.Added, named("b")}, event{watch.Added, named("c")}
	cases := map[string]struct {
		events []event
		says   string
	}{
		"as many as it may have":      {[]event{a, b}, ""},
		"the same again":              {[]event{a, b, a, {watch.Modified, b.node}, a}, ""},
		"one more":                    {[]event{a, b, c}, "more than 2 nodes"},
		"one goes, and another comes": {[]event{a, b, {watch.Deleted, b.node}, c}, ""},
		"an unknown one goes":         {[]event{a, b, {watch.Deleted, named("d")}, c}, "more than 2 nodes"},
		"a node takes too much":       {[]event{a, {watch.Added, heavy}}, "labels and conditions"},
		"a node grows":                {[]event{a, c, {watch.Modified, heavy}}, "labels and conditions"},
		"a bookmark keeps nothing":    {[]event{c, {watch.Bookmark, heavy}, a}, ""},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := &session{Connection: New(config).Keep(types.NamespacedName{Name: "east"})}
			var err error
			for _, e := range tc.events {
				err = errors.Join(err, s.handleEvent(e))
			}
			if errors.Is(err, errBound) != (tc.says != "") || (err != nil && !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("it gives %v, want %q", err, tc.says)
			}
		})
	}
}

// TestBoundsAreNamed: the texts have the numbers that the bounds have.
func TestBoundsAreNamed(t *testing.T) {
	for want, err := range map[string]error{
		"it has nodes whose labels and conditions take more than 3906 MiB":           tooHeavy(1_000_000),
		"it stopped in the middle of an event for 15s":                               errStalled,
		"it has more than 7 nodes":                                                   tooManyNodes(7),
		"it sent an answer of more than 3 KiB":                                       tooLarge("an answer", 3<<10),
		"those of all clusters take more than 5 MiB and its namespace has its share": tooHeavyTogether(5 << 20),
	} {
		if !errors.Is(err, errBound) || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

// handles returns a session of a cluster with these bounds, and the number of wakes.
func handles(bounds Bounds) (*session, *int) {
	woken := 0
	all := New(Config{Now: func() time.Time { return noon }, Wake: func(types.NamespacedName) { woken++ }, Bounds: bounds, Log: logr.Discard()})
	s := &session{Connection: all.Keep(types.NamespacedName{Namespace: "fleet", Name: "east"})}
	s.update(state.listed)
	return s, &woken
}

// TestEvents: each is a sign of life. An event wakes if it changes what decisions read. The account is that of the stored nodes.
func TestEvents(t *testing.T) {
	s, woken := handles(Bounds{})
	named := func(name, status string) *slim.Node {
		return &slim.Node{Meta: slim.Meta{Name: name}, Conditions: []core.Condition{{Type: "Ready", Status: status}}}
	}
	for _, step := range []struct {
		sentence string
		event    event
		wakes    bool
		nodes    int
	}{
		{"a node comes", event{watch.Added, named("a", "True")}, true, 1},
		{"another comes", event{watch.Added, named("b", "True")}, true, 2},
		{"it is the same", event{watch.Modified, named("a", "True")}, false, 2},
		{"it changes", event{watch.Modified, named("a", "False")}, true, 2},
		{"a bookmark comes", event{watch.Bookmark, named("c", "")}, false, 2},
		{"it goes", event{watch.Deleted, named("a", "False")}, true, 1},
		{"it goes again", event{watch.Deleted, named("a", "False")}, true, 1},
		{"the other goes", event{watch.Deleted, named("b", "True")}, true, 0},
	} {
		*woken = 0
		s.state.heard = noon.Add(-time.Second)
		if err := s.handleEvent(step.event); err != nil || (*woken > 0) != step.wakes || !s.state.heard.Equal(noon) {
			t.Errorf("%s: %v, it wakes %d times, and was heard at %s", step.sentence, err, *woken, s.state.heard)
		}
		weight := 0
		for _, name := range s.knows("a", "b", "c") {
			status := "True"
			if step.sentence == "it changes" && name == "a" {
				status = "False"
			}
			weight += weigh(node.FactsOf(named(name, status)))
		}
		if known := len(s.knows("a", "b", "c")); known != step.nodes || s.nodeCount != step.nodes {
			t.Errorf("%s: %d nodes are known, and %d are counted, want %d", step.sentence, known, s.nodeCount, step.nodes)
		}
		if step.sentence != "a bookmark comes" && s.weight != weight || s.budget.held() != s.weight {
			t.Errorf("%s: they weigh %d, and %d bytes are reserved; want %d", step.sentence, s.weight, s.budget.held(), weight)
		}
	}
	if err := s.handleEvent(event{"OTHER", named("a", "")}); !errors.Is(err, errNotNodes) {
		t.Errorf("an event of another kind is handled with %v", err)
	}
	small, _ := handles(Bounds{Memory: 1})
	if err := small.handleEvent(event{watch.Added, named("a", "")}); !errors.Is(err, errBound) || !strings.Contains(err.Error(), "those of all clusters") || small.nodeCount != 0 {
		t.Errorf("a node beyond the memory of all clusters is stored with %v", err)
	}
}

// TestEventsCostByTheirSize: one token, and one more for each unit.
func TestEventsCostByTheirSize(t *testing.T) {
	sized := func(size int) []byte {
		n := nodeNamed("a")
		for n.Annotations = map[string]string{"a": ""}; len(eventOf(t, watch.Added, n)) < size; {
			n.Annotations["a"] += strings.Repeat("x", max(1, (size-len(eventOf(t, watch.Added, n)))/2))
		}
		return eventOf(t, watch.Added, n)
	}
	for _, tc := range []struct{ size, tokens int }{{1000, 1}, {eventUnit - 1, 1}, {eventUnit, 2}, {2*eventUnit - 1, 2}, {2 * eventUnit, 3}} {
		frame := sized(tc.size)
		if len(frame) != tc.size {
			t.Fatalf("the frame has %d bytes, want %d", len(frame), tc.size)
		}
		s, _ := handles(Bounds{})
		s.events = rate.NewLimiter(0, tc.tokens)
		if revision, err := s.handleFrame(t.Context(), frame); err != nil || revision != "7" {
			t.Errorf("an event of %d bytes costs more than %d: %v", tc.size, tc.tokens, err)
		}
		if s.events.Tokens() != 0 {
			t.Errorf("an event of %d bytes leaves %v of %d", tc.size, s.events.Tokens(), tc.tokens)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := s.handleFrame(ended, frame); err == nil || !strings.Contains(err.Error(), "waiting to take in an event") {
			t.Errorf("without a token, an event is handled with %v", err)
		}
	}
}
