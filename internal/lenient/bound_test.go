package lenient

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestI15ObjectsAreBounded: a cache keeps a bounded part of an object that any user may have written. Readers don't
// take a dropped part for absent.
func TestI15ObjectsAreBounded(t *testing.T) {
	many := make([]any, 100_000)
	for i := range many {
		many[i] = map[string]any{"type": "Ready", "status": "False"}
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Check",
		"metadata": map[string]any{"name": "a", "annotations": map[string]any{"paused": strings.Repeat("x", 200_000), "other": "1"}},
		"spec":     map[string]any{"conditions": many},
		"status":   map[string]any{"message": strings.Repeat("x", maxPart/2)},
		"data":     map[string]any{"one": strings.Repeat("x", maxPart)},
		"rest":     map[string]any{strings.Repeat("x", maxPart): "1"},
	}}
	Bound(u)
	body, err := json.Marshal(u.Object)
	if err != nil || len(body) > maxPart {
		t.Errorf("%d bytes are kept, %v", len(body), err)
	}
	if got := u.GetAnnotations(); len(got["paused"]) != 4100 || got["other"] != "1" {
		t.Errorf("annotations are %d bytes and %q", len(got["paused"]), got["other"])
	}
	_, problems := Part[struct {
		Conditions []any `json:"conditions"`
	}](u.Object, "spec")
	if len(problems) != 1 || problems[0].Field != "spec" || !strings.Contains(problems[0].Value, "more than the 524288 bytes") {
		t.Errorf("a spec that is too large reads as %v", problems)
	}
	if status, problems := Part[struct {
		Message string `json:"message"`
	}](u.Object, "status"); len(status.Message) != maxPart/2 || len(problems) > 0 {
		t.Errorf("a status that is not too large reads as %d bytes, %v", len(status.Message), problems)
	}
}

// TestI15BoundIsExact: a part as large as is read stays, and a part with one byte more does not. The name of an object always stays.
func TestI15BoundIsExact(t *testing.T) {
	const ofAString = 8
	fits, long := strings.Repeat("x", maxPart-ofAString), strings.Repeat("x", maxPart-ofAString+1)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": long, "kind": long, "metadata": map[string]any{"name": long, "annotations": map[string]any{"a": 7}}, "fits": fits, "long": long,
	}}
	Bound(u)
	if u.GetAPIVersion() != long || u.GetKind() != long || u.GetName() != long {
		t.Error("the object is not named as before")
	}
	if got, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "annotations", "a"); got != 7 {
		t.Errorf("an annotation that is no text becomes %v", got)
	}
	if u.Object["fits"] != fits || u.Object["long"] == long {
		t.Errorf("the part that fits is kept: %t, the longer one: %t", u.Object["fits"] == fits, u.Object["long"] == long)
	}
}

// TestSizeOf: values are counted, and no more of them once they are above the limit.
func TestSizeOf(t *testing.T) {
	for sentence, tc := range map[string]struct {
		value       any
		limit, want int
	}{
		"a text":                         {"ab", 100, 10},
		"a number":                       {7, 100, 8},
		"a list":                         {[]any{"ab", "c"}, 100, 8 + 10 + 9},
		"a map":                          {map[string]any{"k": "", "l": ""}, 100, 8 + 2*(1+8)},
		"a list as large as the limit":   {[]any{""}, 8, 8 + 8},
		"a list that is too large":       {[]any{"", "", ""}, 10, 8 + 8},
		"a map as large as the limit":    {map[string]any{"k": "", "l": ""}, 17, 17 + 1 + 8},
		"a map that is too large":        {map[string]any{"k": "", "l": "", "m": ""}, 10, 8 + 1 + 8},
		"a list within a list":           {[]any{[]any{"", "", ""}}, 20, 8 + 8 + 8},
		"a list within a map":            {map[string]any{"k": []any{"", "", ""}}, 20, 8 + 1 + 8 + 8},
		"what follows a list within one": {[]any{[]any{""}, ""}, 100, 8 + 16 + 8},
	} {
		if got := sizeOf(tc.value, tc.limit); got != tc.want {
			t.Errorf("%s has %d bytes, want %d", sentence, got, tc.want)
		}
	}
}

func TestPrefix(t *testing.T) {
	for _, tc := range []struct {
		text string
		most int
		want string
	}{
		{"abc", 4, "abc"}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""},
		{"aü", 3, "aü"}, {"aü", 2, "a"}, {"ü", 1, ""}, {"a🙂", 4, "a"},
		{"\x80\x80\x80", 2, ""}, {"a\x80\x80", 2, ""}, {"", 0, ""},
	} {
		if got := Prefix(tc.text, tc.most); got != tc.want {
			t.Errorf("the first %d bytes of %q are %q, want %q", tc.most, tc.text, got, tc.want)
		}
	}
}

func TestI15AnnotationsAreBounded(t *testing.T) {
	annotations := map[string]string{"long": strings.Repeat("x", 5000), "wide": strings.Repeat("x", 4097) + strings.Repeat("🙂", 9), "short": "1"}
	BoundAnnotations(annotations)
	if len(annotations["long"]) != 4100 || annotations["short"] != "1" {
		t.Errorf("kept are %d bytes and %q", len(annotations["long"]), annotations["short"])
	}
	if got := len(annotations["wide"]); got <= MaxAnnotation {
		t.Errorf("%d bytes are kept of a long value, which then seems to be short", got)
	}
}
