package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestStandardInputIsRead for the file "-". An error of it is told.
func TestStandardInputIsRead(t *testing.T) {
	if text, err := readFile("-", strings.NewReader("a: b\n")); string(text) != "a: b\n" || err != nil {
		t.Errorf("it reads %q, %v", text, err)
	}
	broken := errors.New("broken pipe")
	text, err := readFile("-", iotest.ErrReader(broken))
	if text != nil || !errors.Is(err, broken) || err.Error() != "reading standard input: broken pipe" {
		t.Errorf("it reads %q, %v", text, err)
	}
	path := filepath.Join(t.TempDir(), "-")
	if err := os.WriteFile(path, []byte("c: d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := readFile(path, iotest.ErrReader(broken)); string(text) != "c: d\n" || err != nil {
		t.Errorf("of a file it reads %q, %v", text, err)
	}
}

// TestDocumentsOfAFile: each document and each item of a List is judged apart, by lines of the file. Its name and its problems
// are told at those lines.
func TestDocumentsOfAFile(t *testing.T) {
	const notAnObject = "it is not an object with apiVersion, kind and metadata"
	object := func(line int, name string) Document {
		return Document{File: "f", Line: line, Kind: "K", Name: name}
	}
	problem := func(line, at int, message string) Document {
		return Document{File: "f", Line: line, Problems: []Finding{{Line: at, Message: message}}}
	}
	cases := map[string]struct {
		text string
		want []Document
	}{
		"none":                         {"", nil},
		"only comments":                {"# a\n--- # b\n\n---\n", nil},
		"null":                         {"~\n---\nnull\n", nil},
		"a comment above":              {"# a\n\nkind: K\nmetadata: {name: a}\n", []Document{object(3, "a")}},
		"a byte order mark":            {"\xef\xbb\xbfkind: K\nmetadata: {name: a}\n", []Document{object(1, "a")}},
		"a byte order mark, separated": {"\xef\xbb\xbf---\nkind: K\nmetadata: {name: a}\n", []Document{object(2, "a")}},
		"a byte order mark, broken": {"\xef\xbb\xbf- a: [\n  - b\n - c\n", []Document{problem(1, 1,
			"it is not YAML: did not find expected node content")}},
		"separators": {
			"kind: K\nmetadata: {name: a}\n--- \t# next\nkind: K\nmetadata: {name: b}\n---\r\nkind: K\nmetadata: {name: c}\n---\t\n",
			[]Document{object(1, "a"), object(4, "b"), object(7, "c")},
		},
		"dashes that separate nothing": {"kind: K\nmetadata: {name: a, labels: {b: \"\n---x\n\"}}\n", []Document{object(1, "a")}},
		"a word":                       {"---\n\nhello\n", []Document{problem(3, 3, notAnObject)}},
		"a List": {
			"---\nkind: List\nitems:\n- kind: K\n  metadata: {name: a}\n- kind: K\n  metadata: {name: b}\n- word\n",
			[]Document{object(4, "a"), object(6, "b"), problem(8, 8, notAnObject)},
		},
		"a List with an alias": {
			"kind: List\nx: &x\n- kind: K\n  metadata: {name: a}\nitems: *x\n", []Document{object(1, "a")},
		},
		"a List that merges": {
			"kind: List\n<<: {items: [{kind: K, metadata: {name: a}}]}\n", []Document{object(1, "a")},
		},
		"a kind like a List": {"kind: K\nmetadata: {name: a}\nitems:\n- kind: K\n", []Document{object(1, "a")}},
		"a List of no items": {"kind: List\nmetadata: {name: a}\n", []Document{{File: "f", Line: 1, Kind: "List", Name: "a"}}},
		"not YAML": {
			"kind: K\nmetadata: {name: a}\n---\na: b\n\tc: d\n", []Document{object(1, "a"), problem(4, 5, "it is not YAML: found a tab character that violates indentation")},
		},
		"a key twice": {"---\n\na: b\na: c\n", []Document{problem(3, 4, `it is not YAML: key "a" already set in map`)}},
		"keys twice": {"a: b\na: c\nb: 1\nb: 2\n", []Document{{File: "f", Line: 1, Problems: []Finding{
			{Line: 2, Message: `it is not YAML: key "a" already set in map`}, {Line: 4, Message: `it is not YAML: key "b" already set in map`},
		}}}},
		"an alias of nothing": {"---\na: *b\n", []Document{problem(2, 2, "it is not YAML: unknown anchor 'b' referenced")}},
		"a list misaligned": {"---\n\n\nc:\n  - d: [\n - e\n", []Document{problem(2, 6,
			"it is not YAML: the entries of a list begin below each other; this one is indented by 1, and the first, in line 5, by 2")}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			var got []Document
			for _, d := range readDrafts("f", []byte(tc.text)) {
				if read := d.object != nil; read != (len(d.Problems) == 0) {
					t.Errorf("the object of line %d is read: %t", d.Line, read)
				}
				got = append(got, d.Document)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("of %q it reads (-want +got):\n%s", tc.text, diff)
			}
		})
	}
}

// TestMisalignedLists: the first entry with another indentation than those above is named.
func TestMisalignedLists(t *testing.T) {
	for text, want := range map[string]int{
		"a:\n  - b\n  - c":               0,
		"a:\n  - b\n - c":                3,
		"  a:\n    - b\n   - c":          3,
		"a:\n  - b\n- c":                 0, // the list may go on in another above
		"a:\n - b\n  - c":                0, // a deeper list
		"a:\n  - b\n  # - c\n\n - d":     5,
		"a:\n  - b\n # - c\n  - d":       0,
		"a:\n  - b\n   c: d\n - e":       4,
		"a:\n  - b\n  c: d\n - e":        0, // the list is over
		"a:\n  - b\nc:\n   - d\n  - e":   5,
		"a:\n  - b\nc:\n  - d\n  -e":     0, // no entry
		"- a\n  - b\n - c":               0,
		"  - a\n - b":                    0, // no line above says how deep the list is
		"- a\nb:\n  - c\n - d":           4,
		"\n  a:\n    - b\n   - c":        4,
		"a:\n  - b\nc:\n    - d\n   - e": 5,
	} {
		f, found := misaligned(text, 100)
		if found && f.Line != 100+want || found != (want > 0) {
			t.Errorf("of %q it names line %d (%t), want %d", text, f.Line, found, want)
		}
	}
}

// TestLinesOfFields: a finding is at the line of its field, or of the deepest part of the path that the document has. Without
// an index, it is at the first value of the type.
func TestLinesOfFields(t *testing.T) {
	const text = `# a comment
kind: K
metadata:
  annotations:
    a.example/b: c
    a.example/d: e
spec:
  conditions:
  - type: A
    status: "False"
  - type: B
    status:
      False
  - status: {}
  - status: []
  - status: 1
  - status: 1.5
  - status: no
  - status: ~
  on: 'yes'
  off: word
  nested:
  - [{a: 1}]
  - [{b: 2},
     {a: 3}]
status: [1, "a"]
`
	d := readDrafts("f", []byte("---\n"+text))[0]
	for _, tc := range []struct {
		path, jsonType string
		want           int
	}{
		{"", "", 3},
		{"", "string", 3},
		{"missing", "", 3},
		{"missing.field", "", 3},
		{"kind", "", 3},
		{"kind.field", "", 3},
		{"metadata", "", 4},
		{"metadata", "string", 3},
		{"metadata.name", "", 4},
		{"metadata.annotations.a.example/b", "", 6},
		{"metadata.annotations.a.example/d", "", 7},
		{"metadata.annotations.a.example/f", "", 5},
		{"spec.conditions", "", 9},
		{"spec.conditions[0]", "", 10},
		{"spec.conditions[0].status", "", 11},
		{"spec.conditions[0].timeout", "", 10},
		{"spec.conditions[1].status", "", 13},
		{"spec.conditions[8].status", "", 9},
		{"spec.conditions[9].status", "", 9},
		{"spec.conditions.status", "string", 11},
		{"spec.conditions.status", "bool", 13},
		{"spec.conditions.status", "object", 15},
		{"spec.conditions.status", "array", 16},
		{"spec.conditions.status", "number", 17},
		{"spec.conditions.status", "null", 20},
		{"spec.conditions[5].status", "number", 18},
		{"spec.conditions[6].status", "bool", 19},
		{"spec.on", "string", 21},
		{"spec.on", "bool", 3},
		{"spec.off", "string", 22},
		{"spec.nested.a", "number", 24},
		{"spec.nested[1].a", "number", 26},
		{"spec.nested.b", "", 25},
		{"spec.nested.c", "number", 3},
		{"status", "number", 27},
		{"status", "array", 27},
		{"status.field", "number", 3},
	} {
		if got := d.locate(tc.path, tc.jsonType); got != tc.want {
			t.Errorf("field %q of the type %q is in line %d, want %d", tc.path, tc.jsonType, got, tc.want)
		}
	}
	if got := (&draft{Document: newDocument("f", 5), offset: 2}).locate("kind", ""); got != 5 {
		t.Errorf("of a document that can't be read it is in line %d", got)
	}
}
