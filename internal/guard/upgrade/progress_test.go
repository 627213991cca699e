package upgrade

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

func TestProgressing(t *testing.T) {
	cases := map[string]struct {
		reason, yaml string
		want         bool
	}{
		"on its way":          {"", `{status: {conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True"}]}}`, true},
		"there":               {"", `{status: {conditions: [{type: Available, status: "True"}, {type: Progressing, status: "False"}]}}`, false},
		"not known":           {"only True says that it progresses", `{status: {conditions: [{type: Progressing, status: Unknown}]}}`, false},
		"new":                 {"", `{spec: {}}`, false},
		"of no word on that":  {"", `{status: {conditions: [{type: Available, status: "True"}]}}`, false},
		"that can't be read":  {"what waits had better wait", `{status: {conditions: many}}`, true},
		"of no status at all": {"the same", `{status: 1}`, true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := utilyaml.Unmarshal([]byte(tc.yaml), &u.Object); err != nil {
				t.Fatalf("reading a ClusterVersion: %v", err)
			}
			if got := Progressing(u); got != tc.want {
				t.Errorf("progressing: %t, want %t. %s", got, tc.want, tc.reason)
			}
			u.SetGroupVersionKind(VersionKind)
			Trim(u)
			if Progressing(u) != tc.want {
				t.Errorf("what a cache keeps of it says %t", Progressing(u))
			}
		})
	}
}

// TestI15VersionsAreTrimmed: caches don't keep the growing list of updates.
func TestI15VersionsAreTrimmed(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"channel": "stable"}, "status": map[string]any{"availableUpdates": make([]any, 1000), "conditions": []any{}},
	}}
	u.SetGroupVersionKind(VersionKind)
	Trim(u)
	if got := fmt.Sprint(u.Object); got != "map[apiVersion:config.openshift.io/v1 kind:ClusterVersion status:map[conditions:[]]]" {
		t.Errorf("a cache keeps %s", got)
	}
}
