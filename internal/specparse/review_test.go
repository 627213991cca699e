package specparse

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

func TestProblem(t *testing.T) {
	for text, field := range map[string]string{
		"spec.limit is 7; give less":      "spec.limit",
		"annotation fettle.io/x is wrong": "metadata.annotations.fettle.io/x",
		"annotation fettle.io/x":          "metadata.annotations.fettle.io/x",
		"annotation":                      "annotation",
	} {
		if diff := cmp.Diff(Remark{Field: field, Text: text, Fault: true}, Problem(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// readCheck reads a health check with a specification. It returns the specification that was read, as JSON without the
// fields that are zero.
func readCheck(t *testing.T, spec string) (string, []Remark) {
	t.Helper()
	type Duration string // wrongType knows a duration by this name
	type condition struct {
		Type string   `json:"type,omitempty"`
		For  Duration `json:"for,omitempty"`
	}
	type pool struct {
		Size int `json:"size,omitempty"`
	}
	type inline struct {
		Size int  `json:"size,omitempty"`
		Of   pool `json:"of,omitzero"`
	}
	type check struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`

		Spec struct {
			Name       string              `json:"name,omitempty"`
			Active     bool                `json:"active,omitempty"`
			Limit      *intstr.IntOrString `json:"limit,omitempty"`
			Conditions []condition         `json:"conditions,omitempty"`
			Words      []string            `json:"words,omitempty"`
			Rows       [][]string          `json:"rows,omitempty"`
			Labels     map[string]string   `json:"labels,omitempty"`
			Pools      map[string]pool     `json:"pools,omitempty"`
			Parent     *pool               `json:"parent,omitempty"`
			inline     `json:",inline"`
			Unnamed    *pool `json:",omitempty"`
		} `json:"spec"`
	}
	body, err := yaml.YAMLToJSON([]byte("apiVersion: a.example/v1\nkind: Check\nmetadata: {name: x}\n" + spec))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	before := u.DeepCopy()
	got, remarks := ReadLeniently[check](u, "spec.limit", "spec.parent.limit")
	if diff := cmp.Diff(before, u); diff != "" {
		t.Errorf("reading changes the object (-was +is):\n%s", diff)
	}
	if body, err = json.Marshal(got.Spec); err != nil {
		t.Fatal(err)
	}
	return string(body), remarks
}

// TestReadLeniently: values of the right type are read, also in other elements of the same list or map. The others
// are reported by their fields.
func TestReadLeniently(t *testing.T) {
	wrong := func(field, kind, says string) Remark {
		return Remark{Field: field, JSONType: kind, Fault: true, Text: field + " is of the wrong type: it is " + says}
	}
	unknown := func(field string, known ...string) Remark {
		return Remark{Field: field, Fault: true, Text: field + " is not a field of a check, so it would be ignored", Known: known}
	}
	inSpec := []string{"name", "active", "limit", "conditions", "words", "rows", "labels", "pools", "parent", "size", "of"}
	amount := func(field, kind string) Remark {
		return wrong(field, kind, "a "+kind+"; give a whole number such as 2 or a percentage such as 40%")
	}
	for spec, tc := range map[string]struct {
		read    string
		remarks []Remark
	}{
		"{name: x, limit: 2}":        {`{"name":"x","limit":2}`, nil},
		"{name: x, limit: 40%}":      {`{"name":"x","limit":"40%"}`, nil},
		"{name: x, limit: null}":     {`{"name":"x"}`, nil},
		"{name: x, limit: 1.5}":      {`{"name":"x"}`, []Remark{amount("spec.limit", "number")}},
		"{name: x, limit: true}":     {`{"name":"x"}`, []Remark{amount("spec.limit", "bool")}},
		"{name: x, limit: {}}":       {`{"name":"x"}`, []Remark{amount("spec.limit", "object")}},
		"{name: x, limit: [1]}":      {`{"name":"x"}`, []Remark{amount("spec.limit", "array")}},
		"{limit: [], parent: 7}":     {`{}`, []Remark{amount("spec.limit", "array"), wrong("spec.parent", "number", "a number and must be a map")}},
		"{name: 7, active: true}":    {`{"active":true}`, []Remark{wrong("spec.name", "number", "a number and must be a string; put it into quotes")}},
		"{name: true, active: true}": {`{"active":true}`, []Remark{wrong("spec.name", "bool", `a bool and must be a string; put it into quotes, such as "False"`)}},
		"{name: [a], active: true}":  {`{"active":true}`, []Remark{wrong("spec.name", "array", "a list and must be a string")}},
		"{name: {a: b}}":             {`{}`, []Remark{wrong("spec.name", "object", "a map and must be a string")}},
		"{name: x, active: 7}":       {`{"name":"x"}`, []Remark{wrong("spec.active", "number", "a number and must be a bool")}},
		"{name: x, active: [true]}":  {`{"name":"x"}`, []Remark{wrong("spec.active", "array", "a list and must be a bool")}},
		"{name: x, words: a}":        {`{"name":"x"}`, []Remark{wrong("spec.words", "string", "a string and must be a list")}},
		"{name: x, labels: [a]}":     {`{"name":"x"}`, []Remark{wrong("spec.labels", "array", "a list and must be a map")}},
		"{name: x, parent: true}":    {`{"name":"x"}`, []Remark{wrong("spec.parent", "bool", "a bool and must be a map")}},
		"{name: x, conditions: {type: A}}": {`{"name":"x"}`, []Remark{
			wrong("spec.conditions", "object", `a map and must be a list; put a dash before each entry, such as "- key: …"`),
		}},
		"{conditions: [{type: A, for: 300}]}": {`{"conditions":[{"type":"A"}]}`, []Remark{
			wrong("spec.conditions.for", "number", "a number and must be a string; give a duration such as 300s"),
		}},
		"{conditions: [{type: A, for: [5m]}]}": {`{"conditions":[{"type":"A"}]}`, []Remark{
			wrong("spec.conditions.for", "array", "a list and must be a string"),
		}},
		"{conditions: [{type: A, for: true}]}": {`{"conditions":[{"type":"A"}]}`, []Remark{
			wrong("spec.conditions.for", "bool", `a bool and must be a string; put it into quotes, such as "False"`),
		}},
		"{conditions: [{type: 7}, {type: true}, {type: 8}, {type: A}]}": {`{"conditions":[{},{},{},{"type":"A"}]}`, []Remark{
			wrong("spec.conditions.type", "number", "a number and must be a string; put it into quotes"),
			wrong("spec.conditions.type", "bool", `a bool and must be a string; put it into quotes, such as "False"`),
		}},
		"{name: x, words: [1, a, 2]}": {`{"name":"x","words":["a"]}`, []Remark{
			wrong("spec.words", "number", "a number and must be a string; put it into quotes"),
		}},
		"{name: x, labels: {a: 1, b: c, d: 2}}": {`{"name":"x","labels":{"b":"c"}}`, []Remark{
			wrong("spec.labels", "number", "a number and must be a string; put it into quotes"),
		}},
		// A field that can't be found by its name has no remark.
		"{name: x, rows: [[1]]}":              {`{}`, []Remark{wrong("spec.rows", "number", "a number and must be a string; put it into quotes")}},
		"{name: x, pools: {a: {size: many}}}": {`{}`, []Remark{wrong("spec.pools.size", "string", "a string and must be a int")}},

		"{names: x, active: true}":        {`{"active":true}`, []Remark{unknown("spec.names", inSpec...)}},
		"{a: 1, b: 2}":                    {`{}`, []Remark{unknown("spec.a", inSpec...), unknown("spec.b", inSpec...)}},
		"{name: 7, names: x}":             {`{}`, []Remark{wrong("spec.name", "number", "a number and must be a string; put it into quotes"), unknown("spec.names", inSpec...)}},
		"{conditions: [{}, {fro: 5m}]}":   {`{"conditions":[{},{}]}`, []Remark{unknown("spec.conditions[1].fro", "type", "for")}},
		"{parent: {size: 1, sise: 2}}":    {`{"parent":{"size":1}}`, []Remark{unknown("spec.parent.sise", "size")}},
		"{parent: {limit: 1.5}}":          {`{"parent":{}}`, []Remark{amount("spec.parent.limit", "number")}},
		"{of: {sise: 2}}":                 {`{}`, []Remark{unknown("spec.of.sise", "size")}},
		"{size: 3, Unnamed: {size: 1}}":   {`{"size":3,"Unnamed":{"size":1}}`, nil},
		"{pools: {a: {sise: 2}}}":         {`{"pools":{"a":{}}}`, []Remark{unknown("spec.pools.a.sise")}},
		"{name.of: x}":                    {`{}`, []Remark{unknown("spec.name.of")}},
		"{other.name: x}":                 {`{}`, []Remark{unknown("spec.other.name")}},
		"{name: x}\nsepc: {}":             {`{"name":"x"}`, []Remark{unknown("sepc", "kind", "apiVersion", "metadata", "spec")}},
		"{name: x}\nstatus: {healthy: 1}": {`{"name":"x"}`, []Remark{unknown("status", "kind", "apiVersion", "metadata", "spec")}},
	} {
		read, remarks := readCheck(t, "spec: "+spec)
		if read != tc.read {
			t.Errorf("%s is read as %s, want %s", spec, read, tc.read)
		}
		if diff := cmp.Diff(tc.remarks, remarks); diff != "" {
			t.Errorf("%s; remarks (-want +got):\n%s", spec, diff)
		}
	}
}

// TestReadNothing: where the error names no field, nothing is read.
func TestReadNothing(t *testing.T) {
	type named struct {
		Name  string      `json:"name"`
		Since metav1.Time `json:"since"`
	}
	object := func(key string, value any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"name": "x", key: value}}
	}
	for says, read := range map[string]func() (bool, []Remark){
		"parsing time": func() (bool, []Remark) {
			got, remarks := ReadLeniently[named](object("since", "soon"))
			return cmp.Equal(*got, named{}), remarks
		},
		"unsupported value": func() (bool, []Remark) {
			got, remarks := ReadLeniently[named](object("extra", math.Inf(1)))
			return cmp.Equal(*got, named{}), remarks
		},
		"cannot unmarshal object": func() (bool, []Remark) {
			got, remarks := ReadLeniently[[]string](object("name", "y"))
			return len(*got) == 0, remarks
		},
	} {
		empty, remarks := read()
		if !empty || len(remarks) != 1 || !remarks[0].Fault || remarks[0].Field != "" ||
			!strings.HasPrefix(remarks[0].Text, "it can't be read (") || !strings.Contains(remarks[0].Text, says) || !strings.HasSuffix(remarks[0].Text, "); correct it") {
			t.Errorf("%s: empty %t, remarks %+v", says, empty, remarks)
		}
	}
}

// TestRemove: only a field of the type is removed, or its parts of the type.
func TestRemove(t *testing.T) {
	for _, tc := range []struct {
		before, path, kind, after string
		removed                   bool
	}{
		{`{"a":1,"b":2}`, "a", "number", `{"b":2}`, true},
		{`{"a":1,"b":2}`, "a", "string", `{"a":1,"b":2}`, false},
		{`{"a":"x"}`, "b", "string", `{"a":"x"}`, false},
		{`{"a":{"b":true,"c":true}}`, "a.b", "bool", `{"a":{"c":true}}`, true},
		{`{"a":[{"b":1},{"b":"x"}]}`, "a.b", "number", `{"a":[{},{"b":"x"}]}`, true},
		{`{"a":[{"b":"x"},{"c":1}]}`, "a.b", "number", `{"a":[{"b":"x"},{"c":1}]}`, false},
		{`{"a":[1,"x",2]}`, "a", "number", `{"a":["x"]}`, true},
		{`{"a":["x"]}`, "a", "number", `{"a":["x"]}`, false},
		{`{"a":{"b":1,"c":"x"}}`, "a", "number", `{"a":{"c":"x"}}`, true},
		{`{"a":{"c":"x"}}`, "a", "number", `{"a":{"c":"x"}}`, false},
		{`{"a":[[1],[2]]}`, "a", "array", `{}`, true},
		{`{"a":{"b":{}}}`, "a", "object", `{}`, true},
		{`{"a":null}`, "a", "null", `{}`, true},
		{`{"a":"x"}`, "a.b", "string", `{"a":"x"}`, false},
		{`7`, "a", "number", `7`, false},
	} {
		var value any
		if err := json.Unmarshal([]byte(tc.before), &value); err != nil {
			t.Fatal(err)
		}
		removed := remove(value, strings.Split(tc.path, "."), tc.kind)
		after, err := json.Marshal(value)
		if err != nil || removed != tc.removed || string(after) != tc.after {
			t.Errorf("%s of the type %s is removed from %s: %t, %s (%v); want %t, %s", tc.path, tc.kind, tc.before, removed, after, err, tc.removed, tc.after)
		}
	}
}
