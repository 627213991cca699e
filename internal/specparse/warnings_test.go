package specparse

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestReviewIdentity(t *testing.T) {
	wrongVersion := Remark{Field: "apiVersion", Text: `apiVersion is "a.example/v2"; give a.example/v1`, Fault: true}
	noName := Remark{Field: "metadata.name", Text: "metadata.name is missing; give the health check a name", Fault: true}
	for sentence, tc := range map[string]struct {
		apiVersion string
		metadata   map[string]any
		want       []Remark
	}{
		"all is well":      {"a.example/v1", map[string]any{"name": "x"}, nil},
		"another version":  {"a.example/v2", map[string]any{"name": "x"}, []Remark{wrongVersion}},
		"no name":          {"a.example/v1", map[string]any{"namespace": "x"}, []Remark{noName}},
		"an empty name":    {"a.example/v1", map[string]any{"name": ""}, []Remark{noName}},
		"a mistyped name":  {"a.example/v1", map[string]any{"name": 7}, nil}, // ReadLeniently reports it
		"neither is right": {"a.example/v2", nil, []Remark{wrongVersion, noName}},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": tc.apiVersion, "kind": "Check"}}
		if tc.metadata != nil {
			u.Object["metadata"] = tc.metadata
		}
		if diff := cmp.Diff(tc.want, ReviewIdentity(u, schema.GroupVersion{Group: "a.example", Version: "v1"})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

func TestAnnotationWarnings(t *testing.T) {
	warning := func(key string) Remark {
		return Remark{Field: "metadata.annotations." + key, Text: "annotation " + key + " means nothing to this version of Fettle; it knows fettle.io/a, fettle.io/b"}
	}
	annotations := map[string]string{"fettle.io/c": "", "fettle.io/a": "", "fettle.io/0": "", "example.org/c": "", "fettle.io.example/c": ""}
	if diff := cmp.Diff([]Remark{warning("fettle.io/0"), warning("fettle.io/c")}, AnnotationWarnings(annotations, "fettle.io/a", "fettle.io/b")); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestConditionWarnings: each condition is reviewed once, and then the pairs that go badly together.
func TestConditionWarnings(t *testing.T) {
	type conditions = []WrittenCondition
	warning := func(field, text string) Remark { return Remark{Field: field, Text: text} }
	const (
		first, second = "spec.unhealthyConditions[0]", "spec.unhealthyConditions[1]"
		atOnce        = ".period is 0, so a machine is repaired on the first report, however short the fault; give a duration such as 300s"
		isReady       = " takes nodes that are Ready for unhealthy; False and Unknown are the statuses of other nodes"
		silence       = "Ready is listed with status False and not with Unknown, so a node that falls silent is never found; most faults end that way"
		contradiction = " and another contradict each other: condition A counts as a fault when True and when False, so every node that reports it is unhealthy in time"
	)
	for sentence, tc := range map[string]struct {
		conditions conditions
		want       []Remark
	}{
		"none":               {nil, nil},
		"both of Ready":      {conditions{{"Ready", "False", "5m"}, {"Ready", "Unknown", "5m"}}, nil},
		"both, turned":       {conditions{{"Ready", "Unknown", "5m"}, {"Ready", "False", "5m"}}, nil},
		"Unknown alone":      {conditions{{"Ready", "Unknown", "5m"}}, nil},
		"False alone":        {conditions{{"Ready", "False", "5m"}}, []Remark{warning(first, silence)}},
		"others are silent":  {conditions{{"A", "False", "5m"}, {"B", "True", "5m"}, {"C", "Unknown", "5m"}}, nil},
		"another is Unknown": {conditions{{"A", "Unknown", "5m"}, {"Ready", "False", "5m"}}, []Remark{warning(second, silence)}},
		"Ready nodes":        {conditions{{"Ready", "True", "5m"}}, []Remark{warning(first+".status", first+isReady)}},
		"NotReady": {conditions{{"NotReady", "True", "5m"}}, []Remark{
			warning(first+".type", first+".type is NotReady, which no node has; the condition is Ready, and its status is False or Unknown then"),
		}},
		"an unknown status": {conditions{{"A", "Bad", "5m"}}, []Remark{
			warning(first+".status", first+`.status is "Bad", and conditions of nodes are True, False or Unknown, so it never matches`),
		}},
		"no duration":           {conditions{{"A", "True", ""}}, []Remark{warning(first+".period", first+atOnce)}},
		"a duration of nothing": {conditions{{"A", "True", "0m"}}, []Remark{warning(first+".period", first+atOnce)}},
		"no duration at all":    {conditions{{"A", "True", "soon"}}, nil}, // another check reports it
		"the opposite":          {conditions{{"A", "True", "5m"}, {"A", "False", "5m"}}, []Remark{warning(second, second+contradiction)}},
		"the opposite, turned":  {conditions{{"A", "False", "5m"}, {"A", "True", "5m"}}, []Remark{warning(first, first+contradiction)}},
		"opposites of two":      {conditions{{"A", "True", "5m"}, {"B", "False", "5m"}}, nil},
		"repeated":              {conditions{{"Ready", "False", ""}, {"Ready", "False", ""}}, []Remark{warning(first+".period", first+atOnce), warning(first, silence)}},
		"all at once": {conditions{{"A", "False", "0s"}, {"A", "True", "5m"}, {"Ready", "False", "5m"}}, []Remark{
			warning(first+".period", first+atOnce), warning(first, first+contradiction), warning("spec.unhealthyConditions[2]", silence),
		}},
	} {
		if diff := cmp.Diff(tc.want, ConditionWarnings(tc.conditions, ConditionWords{Duration: "period", Target: "machine"})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

func TestRepeated(t *testing.T) {
	conditions := []WrittenCondition{{"A", "True", "5m"}, {"B", "True", "5m"}, {"A", "False", "5m"}, {"A", "True", "7m"}, {"B", "True", "5m"}, {"A", "True", "5m"}}
	if diff := cmp.Diff(map[int]int{3: 0, 4: 1, 5: 0}, Repeated(conditions)); diff != "" {
		t.Errorf("repeated (-want +got):\n%s", diff)
	}
}

func TestIsAmount(t *testing.T) {
	for _, tc := range []struct {
		amount intstr.IntOrString
		text   string
		want   bool
	}{
		{intstr.FromInt32(0), "0", true},
		{intstr.FromInt32(1), "0", false},
		{intstr.FromInt32(0), "", false},
		{intstr.FromString("0"), "0", true},
		{intstr.FromString("0%"), "0%", true},
		{intstr.FromString("0%"), "0", false},
		{intstr.FromString(""), "0", false},
	} {
		if got := IsAmount(&tc.amount, tc.text); got != tc.want {
			t.Errorf("%s was written as %q: %t", &tc.amount, tc.text, got)
		}
	}
}
