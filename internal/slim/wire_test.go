package slim

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// message is what a field holds that is a message.
func message(number protowire.Number, fields ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), slices.Concat(fields...))
}

func text(number protowire.Number, s string) []byte { return message(number, []byte(s)) }

func varint(number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
}

func fixed32(number protowire.Number) []byte {
	return protowire.AppendFixed32(protowire.AppendTag(nil, number, protowire.Fixed32Type), 7)
}

func fixed64(number protowire.Number) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, number, protowire.Fixed64Type), 7)
}

func group(number protowire.Number, fields ...[]byte) []byte {
	return protowire.AppendGroup(protowire.AppendTag(nil, number, protowire.StartGroupType), number, slices.Concat(fields...))
}

// later is what a version of Kubernetes to come may add to any message.
func later() []byte {
	return slices.Concat(varint(100, 1<<63), fixed32(101), fixed64(102), text(103, "new"), group(104, varint(1, 7), group(2, text(3, "deep"))))
}

func label1(key, value string) []byte { return message(11, text(1, key), text(2, value)) }

func annotation1(key, value string) []byte { return message(12, text(1, key), text(2, value)) }

// TestWireForms: bytes that no encoder of today makes are read as the stock type reads them.
func TestWireForms(t *testing.T) {
	ready := []byte("Ready")
	forms := map[string][]byte{
		"unknown fields in each message": slices.Concat(
			later(), message(1, later(), text(1, "n"), message(8, later(), varint(1, 7), later()), message(11, later(), text(1, "a"), later(), text(2, "b")), later()),
			later(), message(3, later(), message(4, text(1, "Ready"), later(), text(2, "True"), message(4, varint(1, 9), later())))),
		"metadata in two parts":               slices.Concat(message(1, text(1, "n"), text(6, "1"), label1("a", "1")), message(1, text(5, "uid"), label1("b", "2"))),
		"a status in two parts":               slices.Concat(message(3, message(4, text(1, "A"))), message(3, message(4, text(1, "B")))),
		"a boot ID in two parts":              message(3, message(7, later(), text(3, "0f8fad5b-d9cb-469f-a165-70867728950e"), later()), message(7, text(2, "x"))),
		"a boot ID that comes twice":          message(3, message(7, text(3, "0f8fad5b-d9cb-469f-a165-70867728950e"), text(3, "1f8fad5b-d9cb-469f-a165-70867728950e"))),
		"a boot ID that is taken back":        message(3, message(7, text(3, "0f8fad5b-d9cb-469f-a165-70867728950e")), message(7, text(3, ""))),
		"a string that comes twice":           message(1, text(1, "first"), text(1, "last"), text(6, "1"), text(6, "")),
		"a label that comes twice":            message(1, label1("b", "1"), label1("a", "1"), label1("b", "2"), label1("a", "0"), label1("b", "3")),
		"labels in no order":                  message(1, label1("c", "1"), label1("a", "1"), label1("b", "2")),
		"a label without a value":             message(1, message(11, text(1, "a")), message(11)),
		"a time that comes twice":             message(3, message(4, message(4, varint(1, 5)), message(4, varint(1, 6), varint(1, 7)))),
		"a time that is taken back":           message(3, message(4, message(4, varint(1, 5)), message(4))),
		"a time of nanoseconds alone":         message(3, message(4, message(4, varint(2, 5)))),
		"a time before the epoch":             message(3, message(4, message(4, varint(1, ^uint64(0))))),
		"the last second that can be written": message(3, message(4, message(4, varint(1, 1<<63-1)))),
		"text that is no text":                slices.Concat(message(1, text(1, "\xff\xfe"), label1("\xff", "\x00")), message(3, message(4, text(1, "\xc3\x28")))),
		"empty messages":                      slices.Concat(message(1), message(2), message(3), message(3, message(4))),
		"a deletion without a time":           message(1, message(9)),
		"more conditions than are common":     message(3, slices.Repeat(message(4, message(1, ready)), 3*commonConditions)),
		"more labels than are common":         message(1, slices.Repeat(label1("a", "b"), 40), label1("b", "c")),
		"annotations in two parts": slices.Concat(
			message(1, text(1, "n"), annotation1("machineconfiguration.openshift.io/desiredConfig", "b"), annotation1("x", "y")),
			message(1, annotation1("machineconfiguration.openshift.io/currentConfig", "a"), annotation1("remediation.medik8s.io/manually-confirmed-healthy", "m/n"))),
		"an annotation that comes twice": message(1, slices.Repeat(annotation1("remediation.medik8s.io/manually-confirmed-healthy", "a"), 2*commonAnnotations),
			annotation1("remediation.medik8s.io/manually-confirmed-healthy", "b")),
		"a bookmark's annotation": message(1, message(12, text(1, "k8s.io/initial-events-end"), text(2, "true"))),
	}
	for sentence, body := range forms {
		t.Run(sentence, func(t *testing.T) {
			var stock corev1.Node
			if err := stock.Unmarshal(body); err != nil {
				t.Fatalf("the stock type refuses it: %v", err)
			}
			n := &Node{}
			if err := n.Unmarshal(body); err != nil {
				t.Fatalf("decoding: %v", err)
			}
			if diff := cmp.Diff(stockView(&stock), slimView(n)); diff != "" {
				t.Errorf("node (-stock +slim):\n%s", diff)
			}
		})
	}
}

func TestBrokenBytesAreRefused(t *testing.T) {
	broken := map[string][]byte{
		"a tag without an end":                {0x80},
		"the field number 0":                  {0x02, 0x00},
		"a length beyond the end":             {0x0a, 0x7f},
		"a length beyond all ends":            {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"a number without an end":             message(1, []byte{0x38, 0xff}),
		"a wire type that is none":            {0x0f},
		"a group that ends before it starts":  {0x0c},
		"a group without an end":              {0x53},
		"metadata that is a number":           varint(1, 7),
		"a status that is a number":           varint(3, 7),
		"a name that is a number":             message(1, varint(1, 7)),
		"a label that is a number":            message(1, varint(11, 7)),
		"an annotation that is a number":      message(1, varint(12, 7)),
		"a key that is a number":              message(1, message(11, varint(1, 7))),
		"a condition that is a number":        message(3, varint(4, 7)),
		"node info that is a number":          message(3, varint(7, 7)),
		"a boot ID that is a number":          message(3, message(7, varint(3, 7))),
		"a time that is a number":             message(3, message(4, varint(4, 7))),
		"seconds that are text":               message(3, message(4, message(4, text(1, "now")))),
		"a broken message within a condition": message(3, message(4, []byte{0x0a, 0x7f})),
	}
	for sentence, body := range broken {
		t.Run(sentence, func(t *testing.T) {
			n, l := &Node{}, &NodeList{}
			if err := n.Unmarshal(body); err == nil {
				t.Errorf("it was decoded as %+v", n)
			}
			if err := l.Unmarshal(message(2, body)); err == nil {
				t.Errorf("it was decoded as an item: %+v", l)
			}
		})
	}
	for sentence, body := range map[string][]byte{
		"metadata that is a number":        varint(1, 7),
		"a version that is a number":       message(1, varint(2, 7)),
		"a continuation that is a number":  message(1, varint(3, 7)),
		"a number of items that is text":   message(1, text(4, "many")),
		"an item that is a number":         varint(2, 7),
		"a continuation without its bytes": message(1, []byte{0x1a, 0x7f}),
	} {
		if err := new(NodeList).Unmarshal(body); err == nil {
			t.Errorf("%s was decoded as a list", sentence)
		}
	}
}

// TestEveryTruncationIsNoticed: wherever the bytes of a node end too early, both kinds of node agree
// whether that is a node.
func TestEveryTruncationIsNoticed(t *testing.T) {
	body, err := kubeletNode("n").Marshal()
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	for end := range body {
		var stock corev1.Node
		want, got := stock.Unmarshal(body[:end]), new(Node).Unmarshal(body[:end])
		if (want == nil) != (got == nil) {
			t.Fatalf("%d of %d bytes: stock says %v, slim says %v", end, len(body), want, got)
		}
	}
}

// FuzzNodeUnmarshal: no bytes make decoding panic, and what both kinds of node accept they read alike.
func FuzzNodeUnmarshal(f *testing.F) {
	for _, n := range []*corev1.Node{{}, kubeletNode("n")} {
		n.ManagedFields, n.Status.Images = nil, nil
		body, err := n.Marshal()
		if err != nil {
			f.Fatalf("encoding: %v", err)
		}
		f.Add(body)
	}
	f.Add(slices.Concat(later(), message(1, later(), text(1, "n"), label1("a", "b"), message(9)), message(3, message(4, text(1, "A"), message(4, varint(1, 5))))))
	f.Fuzz(func(t *testing.T, body []byte) {
		_ = new(NodeList).Unmarshal(body)
		n := &Node{}
		if err := n.Unmarshal(body); err != nil || n.Unread != "" {
			return
		}
		var stock corev1.Node
		if err := stock.Unmarshal(body); err != nil {
			return
		}
		if diff := cmp.Diff(stockView(&stock), slimView(n)); diff != "" {
			t.Errorf("node (-stock +slim):\n%s", diff)
		}
	})
}

// TestFlippedBytes: the same on bytes that are nearly those of a real node.
func TestFlippedBytes(t *testing.T) {
	body, err := kubeletNode("n").Marshal()
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	rapid.Check(t, func(t *rapid.T) {
		flipped := slices.Clone(body)
		for range rapid.IntRange(1, 4).Draw(t, "flips") {
			flipped[rapid.IntRange(0, len(body)-1).Draw(t, "at")] ^= rapid.Byte().Draw(t, "bits")
		}
		n, stock := &Node{}, &corev1.Node{}
		if n.Unmarshal(flipped) != nil || stock.Unmarshal(flipped) != nil || n.Unread != "" {
			return
		}
		if diff := cmp.Diff(stockView(stock), slimView(n)); diff != "" {
			t.Errorf("node (-stock +slim):\n%s", diff)
		}
	})
}
