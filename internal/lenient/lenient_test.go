package lenient

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// part is a part of an object with fields of the kinds that objects have.
type part struct {
	Name   string              `json:"name,omitempty"`
	Number int32               `json:"number,omitempty"`
	Amount *intstr.IntOrString `json:"amount,omitempty"`
	At     *metav1.Time        `json:"at,omitempty"`
	Rows   []row               `json:"rows,omitempty"`
	Labels map[string]string   `json:"labels,omitempty"`
}

type row struct {
	Key string `json:"key"`
}

func TestPart(t *testing.T) {
	noon := metav1.NewTime(time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC))
	two := intstr.FromInt32(2)
	whole := part{Name: "n", Number: 7, Amount: &two, At: &noon, Rows: []row{{Key: "k"}}, Labels: map[string]string{"a": "b"}}
	text := `"name": "n", "number": 7, "amount": 2, "at": "2026-08-03T12:00:00Z", "rows": [{"key": "k"}], "labels": {"a": "b"}`
	without := func(change func(*part)) part {
		p := whole
		change(&p)
		return p
	}
	cases := map[string]struct {
		object string
		want   part
		says   []Problem
	}{
		"nothing":                 {`{}`, part{}, nil},
		"null":                    {`{"spec": null}`, part{}, nil},
		"all of it":               {`{"spec": {` + text + `}}`, whole, nil},
		"unknown fields":          {`{"spec": {` + text + `, "other": [1]}}`, whole, nil},
		"null in a field":         {`{"spec": {"name": null, "rows": null}}`, part{}, nil},
		"a word for the part":     {`{"spec": "many"}`, part{}, []Problem{{"spec", `"many"`}}},
		"a list for the part":     {`{"spec": [1, 2]}`, part{}, []Problem{{"spec", `[1,2]`}}},
		"a number for a word":     {`{"spec": {` + text + `, "name": 5}}`, without(func(p *part) { p.Name = "" }), []Problem{{"spec.name", "5"}}},
		"a number that is wide":   {`{"spec": {` + text + `, "number": 9999999999}}`, without(func(p *part) { p.Number = 0 }), []Problem{{"spec.number", "9999999999"}}},
		"a list for an amount":    {`{"spec": {` + text + `, "amount": [1]}}`, without(func(p *part) { p.Amount = nil }), []Problem{{"spec.amount", "[1]"}}},
		"a word for a time":       {`{"spec": {` + text + `, "at": "soon"}}`, without(func(p *part) { p.At = nil }), []Problem{{"spec.at", `"soon"`}}},
		"a number in a row":       {`{"spec": {` + text + `, "rows": [{"key": "k"}, {"key": 1}]}}`, without(func(p *part) { p.Rows = nil }), []Problem{{"spec.rows.key", `[{"key":"k"},{"key":1}]`}}},
		"a number in a label":     {`{"spec": {` + text + `, "labels": {"a": 1}}}`, without(func(p *part) { p.Labels = nil }), []Problem{{"spec.labels", `{"a":1}`}}},
		"several, in their order": {`{"spec": {"rows": 1, "name": {}, "number": 7}}`, part{Number: 7}, []Problem{{"spec.name", "{}"}, {"spec.rows", "1"}}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			var object map[string]any
			if err := json.Unmarshal([]byte(tc.object), &object); err != nil {
				t.Fatalf("reading the object: %v", err)
			}
			got, problems := Part[part](object, "spec")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("part (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.says, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsQuotedIsShort(t *testing.T) {
	long := strings.Repeat("ü", 1<<19)
	cases := map[string]struct{ got, want string }{
		"a word":               {Quote("a b"), `"a b"`},
		"a word of lines":      {Quote("a\nb\x00"), `"a\nb\x00"`},
		"a long word":          {Quote(long), `"` + strings.Repeat("ü", 32) + `"… (1048576 bytes)`},
		"the longest word":     {Quote(strings.Repeat("a", 64)), `"` + strings.Repeat("a", 64) + `"`},
		"a word that is cut":   {Quote(strings.Repeat("a", 65)), `"` + strings.Repeat("a", 64) + `"… (65 bytes)`},
		"the longest JSON":     {Excerpt(strings.Repeat("1", 64)), strings.Repeat("1", 64)},
		"JSON that is cut":     {Excerpt(strings.Repeat("1", 65)), strings.Repeat("1", 65) + "… (65 bytes)"},
		"JSON":                 {Excerpt(`{"a": 1}`), `{"a": 1}`},
		"JSON of lines":        {Excerpt("[1,\n2]"), "[1, 2]"},
		"JSON that is no text": {Excerpt("\"\xff\""), `"\xff"`},
		"JSON with a password": {Excerpt(`"https://me:secret@h"`), `"https://***@h"`},
		"a password":           {Quote("https://me:" + long + "@h"), `"https://***… (1048589 bytes)"`},
		"long JSON":            {Excerpt(`"` + long + `"`), `"` + strings.Repeat("ü", 31) + `… (1048578 bytes)`},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %q, want %q", tc.got, tc.want)
			}
		})
	}
}

// The object that is read stays as it was, since caches share it.
func TestPartChangesNothing(t *testing.T) {
	object := map[string]any{"spec": map[string]any{"name": int64(5), "number": int64(7)}}
	if _, problems := Part[part](object, "spec"); len(problems) != 1 {
		t.Errorf("got problems %v, want one", problems)
	}
	want := map[string]any{"spec": map[string]any{"name": int64(5), "number": int64(7)}}
	if diff := cmp.Diff(want, object); diff != "" {
		t.Errorf("the object (-want +got):\n%s", diff)
	}
}

// A value that JSON can't hold is named by its type.
func TestPartThatIsNoJSON(t *testing.T) {
	_, problems := Part[part](map[string]any{"spec": make(chan int)}, "spec")
	if diff := cmp.Diff([]Problem{{"spec", "a chan int"}}, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestAnyExcerptIsOneLineOfText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
		for _, got := range []string{Quote(string(bytes)), Excerpt(string(bytes))} {
			if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\x00\r") || len(got) > 5*maxQuoted {
				t.Errorf("%q", got)
			}
		}
	})
}

func TestChild(t *testing.T) {
	for path, want := range map[string]string{
		"spec": "", "spec.selector": "selector", "spec.selector.matchLabels": "selector", "status.conditions.0.type": "conditions",
	} {
		if got := (Problem{Field: path}).Child(); got != want {
			t.Errorf("%s: want %q, have %q", path, want, got)
		}
	}
}
