package openshift

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
)

// noon is the time of these tests. It is a local time, as decoding returns it.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC).Local()

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// manifest decodes an object as a watch delivers it.
func manifest(t *testing.T, yaml string) *unstructured.Unstructured {
	t.Helper()
	body, err := utilyaml.ToJSON([]byte(yaml))
	if err != nil {
		t.Fatalf("reading a manifest: %v", err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(body); err != nil {
		t.Fatalf("reading a manifest: %v", err)
	}
	return u
}

func manifestFile(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	yaml, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatalf("reading a manifest: %v", err)
	}
	return manifest(t, string(yaml))
}

// check returns a health check of the namespace machines with this spec, as YAML in one line.
func check(t *testing.T, name, revision, spec string, annotations map[string]string) *unstructured.Unstructured {
	t.Helper()
	u := manifest(t, `
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {creationTimestamp: "2026-08-02T12:00:00Z"}
spec: `+spec)
	u.SetNamespace("machines")
	u.SetName(name)
	u.SetUID(types.UID(name + "-uid"))
	u.SetResourceVersion(revision)
	u.SetAnnotations(annotations)
	return u
}

// apiMachine is a Machine with all fields, as a typed client decodes it.
type apiMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   map[string]any `json:"spec,omitempty"`
	Status struct {
		Phase        *string      `json:"phase,omitempty"`
		LastUpdated  *metav1.Time `json:"lastUpdated,omitempty"`
		ErrorMessage *string      `json:"errorMessage,omitempty"`
		NodeRef      *reference   `json:"nodeRef,omitempty"`
	} `json:"status,omitzero"`
}

type reference struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

// decoded returns the machine as a client of this dialect decodes it.
func (s *apiMachine) decoded() *Machine {
	body, err := json.Marshal(s)
	m := &Machine{}
	if err := errors.Join(err, json.Unmarshal(body, m)); err != nil {
		panic(err)
	}
	return m
}

// newAPIMachine returns a machine of the namespace machines that a machine set owns and whose node
// has joined.
func newAPIMachine(name string, changes ...func(*apiMachine)) *apiMachine {
	yes := true
	m := &apiMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "machines", Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "7",
		CreationTimestamp: metav1.NewTime(ago(24 * time.Hour)),
		Labels:            map[string]string{"role": "worker"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: "workers", UID: "workers-uid", Controller: &yes},
		},
	}}
	phase, updated := "Running", metav1.NewTime(ago(23*time.Hour))
	m.Status.Phase, m.Status.LastUpdated = &phase, &updated
	refer(name + "-node")(m)
	for _, change := range changes {
		change(m)
	}
	return m
}

// aMachine returns the same, decoded.
func aMachine(name string, changes ...func(*apiMachine)) *Machine {
	return newAPIMachine(name, changes...).decoded()
}

func refer(node string) func(*apiMachine) {
	return func(m *apiMachine) { m.Status.NodeRef = &reference{Kind: "Node", Name: node} }
}

func labelled(key, value string) func(*apiMachine) {
	return func(m *apiMachine) {
		m.Labels = maps.Clone(m.Labels)
		m.Labels[key] = value
	}
}

func annotated(key, value string) func(*apiMachine) {
	return func(m *apiMachine) { m.Annotations = map[string]string{key: value} }
}

func inNamespace(namespace string) func(*apiMachine) {
	return func(m *apiMachine) { m.Namespace = namespace }
}

func inPhase(phase string) func(*apiMachine) { return func(m *apiMachine) { m.Status.Phase = &phase } }

func withoutNode(m *apiMachine)  { m.Status.NodeRef = nil }
func neverUpdated(m *apiMachine) { m.Status.LastUpdated = nil }

func deleting(m *apiMachine) {
	at := metav1.NewTime(noon)
	m.DeletionTimestamp = &at
}

// none finds no node.
func none(string) (node.Facts, bool) { return node.Facts{}, false }

// these returns a function that finds nodes among these facts.
func these(facts map[string]node.Facts) func(string) (node.Facts, bool) {
	return func(name string) (node.Facts, bool) {
		f, ok := facts[name]
		return f, ok
	}
}

// membersOf returns the names of the targets that each policy selects.
func membersOf(policies []core.Policy, targets []core.Target) map[string][]string {
	members := map[string][]string{}
	for i := range policies {
		names := []string{}
		for _, m := range policies[i].Members {
			names = append(names, targets[m].ID.Name)
		}
		members[policies[i].ID.Name] = names
	}
	return members
}

// readHealthCheck translates a health check under a controller without a setting.
func readHealthCheck(u *unstructured.Unstructured) *healthCheck { return translate(u, "") }
