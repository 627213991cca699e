package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// draft is one document of a file: as an object, and as a tree with line numbers.
type draft struct {
	Document

	object *unstructured.Unstructured
	// dialect is that of the health check, or nil for any other document.
	dialect Dialect
	// isPower is set for a kind for bare metal. bmc is the BMC, if it is one.
	isPower bool
	bmc     *v1alpha1.BMC
	policy  *v1alpha1.FencePolicy
	tree    *yaml.Node
	// offset is the number of lines above the tree.
	offset int
}

// readFile reads a file, or standard input for "-".
func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return text, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading a file to check: %w", err)
	}
	return text, nil
}

// readDrafts reads the documents of a file. A document that is not YAML becomes a draft with a problem.
func readDrafts(file string, text []byte) []draft {
	var drafts []draft
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var part []string
	begins := 0
	lines := strings.Split(string(text), "\n")
	for i, line := range append(lines, "---") {
		if !isSeparator(line) {
			part = append(part, line)
			continue
		}
		drafts = append(drafts, readDocument(file, strings.Join(part, "\n"), begins)...)
		part, begins = nil, i+1
	}
	return drafts
}

func isSeparator(line string) bool {
	rest, dashed := strings.CutPrefix(strings.TrimRight(line, " \t\r"), "---")
	return dashed && (rest == "" || strings.HasPrefix(strings.TrimLeft(rest, " \t"), "#"))
}

// readDocument reads one document, which begins after offset lines of its file. An empty document has no drafts, and a
// List has one for each item.
func readDocument(file, text string, offset int) []draft {
	d := draft{Document: newDocument(file, offset+1), offset: offset}
	var tree yaml.Node
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		return []draft{d.broken(err, text)}
	}
	if len(tree.Content) == 0 || tree.Content[0].Tag == "!!null" {
		return nil
	}
	d.tree = tree.Content[0]
	d.Line = offset + d.tree.Line
	body, err := kyaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return []draft{d.broken(err, text)}
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &u.Object); err != nil {
		d.Problems = append(d.Problems, Finding{Line: d.Line, Message: "it is not an object with apiVersion, kind and metadata"})
		return []draft{d}
	}
	normalise(u)
	items, isList := d.items(u)
	if isList {
		return items
	}
	d.setObject(u)
	return []draft{d}
}

func newDocument(file string, line int) Document {
	return Document{File: file, Line: line, Problems: []Finding{}, Warnings: []Finding{}}
}

// normalise converts numbers to the types of the API server: int64 for whole numbers.
func normalise(u *unstructured.Unstructured) {
	if body, err := json.Marshal(u.Object); err == nil {
		_ = u.UnmarshalJSON(body) // without a kind it stays as it is, and review says so
	}
}

func (d *draft) setObject(u *unstructured.Unstructured) {
	d.object = u
	d.Kind, d.Namespace, d.Name = u.GetKind(), u.GetNamespace(), u.GetName()
}

// items returns the items of a List, as kubectl prints several objects.
func (d *draft) items(u *unstructured.Unstructured) ([]draft, bool) {
	list, has := u.Object["items"].([]any)
	if u.GetKind() != "List" || !has {
		return nil, false
	}
	_, trees := child(d.tree, "items")
	var drafts []draft
	for i := range list {
		item := draft{Document: newDocument(d.File, d.Line), tree: d.tree, offset: d.offset}
		if trees != nil && i < len(trees.Content) {
			item.tree = trees.Content[i]
			item.Line = d.offset + item.tree.Line
		}
		object, isObject := list[i].(map[string]any)
		if !isObject {
			item.Problems = append(item.Problems, Finding{Line: item.Line, Message: "it is not an object with apiVersion, kind and metadata"})
		} else {
			item.setObject(&unstructured.Unstructured{Object: object})
		}
		drafts = append(drafts, item)
	}
	return drafts, true
}

var linePattern = regexp.MustCompile(`line (\d+): `)

// broken says why a document is not YAML, with lines counted from the beginning of its file.
func (d *draft) broken(err error, document string) draft {
	if f, found := misaligned(document, d.offset); found {
		d.Problems = append(d.Problems, f)
		return *d
	}
	for text := range strings.SplitSeq(err.Error(), "\n") {
		text = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(text), "error converting YAML to JSON: "), "yaml: ")
		if text == "unmarshal errors:" {
			continue
		}
		line := d.Line
		if at := linePattern.FindStringSubmatchIndex(text); at != nil {
			if n, err := strconv.Atoi(text[at[2]:at[3]]); err == nil {
				line = n + d.offset
			}
			text = text[:at[0]] + text[at[1]:]
		}
		d.Problems = append(d.Problems, Finding{Line: line, Message: "it is not YAML: " + text})
	}
	return *d
}

// misaligned finds a list whose entries have different indentations. Parsers blame a line far above.
// The document begins after offset lines of its file.
func misaligned(document string, offset int) (Finding, bool) {
	lines := strings.Split(document, "\n")
	first := -1 // the first entry of the present list
	for i, line := range lines {
		entry := strings.TrimLeft(line, " ")
		switch indent := len(line) - len(entry); {
		case entry == "" || entry[0] == '#':
		case first < 0 && strings.HasPrefix(entry, "- "):
			first = i
		case first < 0:
		case !strings.HasPrefix(entry, "- ") && indent <= indentOf(lines[first]):
			first = -1
		case first > 0 && indent < indentOf(lines[first]) && indent > indentOf(lines[first-1]):
			return Finding{Line: offset + i + 1, Message: fmt.Sprintf("it is not YAML: the entries of a list begin below each other; this one is indented by %d, and the first, in line %d, by %d",
				indent, offset+first+1, indentOf(lines[first]))}, true
		}
	}
	return Finding{}, false
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// locate returns the line of a field, or of the deepest part of its path that exists. A path without an index may match
// several values; locate takes the first of the JSON type.
func (d *draft) locate(path, jsonType string) int {
	if d.tree == nil {
		return d.Line
	}
	return max(d.Line, d.offset+descend(d.tree, segments(path), jsonType))
}

// segments splits a path. The key of an annotation is one segment, with its dots.
func segments(path string) []string {
	const annotations = "metadata.annotations."
	if key, is := strings.CutPrefix(path, annotations); is {
		return []string{"metadata", "annotations", key}
	}
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

// descend returns the line of a value, or 0 if there is none of the JSON type, nor a list with an element of it.
func descend(n *yaml.Node, path []string, jsonType string) int {
	ofType := func(n *yaml.Node) bool { return typeOf(n) == jsonType }
	switch {
	case len(path) == 0 && (ofType(n) || n.Kind == yaml.SequenceNode && slices.ContainsFunc(n.Content, ofType)):
		return n.Line
	case len(path) == 0:
	case n.Kind == yaml.MappingNode:
		return descendField(n, path, jsonType)
	case n.Kind == yaml.SequenceNode:
		return descendElements(n, path, jsonType)
	}
	return 0
}

// descendField finds a field. Where the end of the path is missing, it returns the line of the field's name.
func descendField(n *yaml.Node, path []string, jsonType string) int {
	name, value := child(n, path[0])
	if value == nil {
		return 0
	}
	found := descend(value, path[1:], jsonType)
	switch {
	case found != 0 && len(path) > 1:
		return found
	case found != 0 || jsonType == "":
		return name.Line
	}
	return 0
}

func descendElements(n *yaml.Node, path []string, jsonType string) int {
	if i, err := strconv.Atoi(path[0]); err == nil && i < len(n.Content) {
		return max(descend(n.Content[i], path[1:], jsonType), n.Content[i].Line)
	}
	for _, element := range n.Content {
		if found := descend(element, path, jsonType); found != 0 {
			return found
		}
	}
	return 0
}

// child returns the name and the value of a field.
func child(n *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

func typeOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "object"
	case yaml.SequenceNode:
		return "array"
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
	switch n.Tag {
	case "!!bool":
		return "bool"
	case "!!int", "!!float":
		return "number"
	case "!!null":
		return "null"
	}
	if n.Style == 0 && slices.Contains(oldBooleans[:], strings.ToLower(n.Value)) {
		return "bool"
	}
	return "string"
}

// oldBooleans are the unquoted words that are booleans for kubectl's YAML parser, and strings for newer ones.
var oldBooleans = [...]string{"y", "yes", "on", "n", "no", "off"}
