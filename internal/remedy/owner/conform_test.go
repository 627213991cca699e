package owner

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/remedy/conform"
)

var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// parse reads an object as the API server has it.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	body, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(body)
	}
	if err != nil {
		t.Fatalf("reading an object: %v", err)
	}
	return u
}

// machine reads a machine as a cache gives it, nil for nothing.
func machine(t *testing.T, u *unstructured.Unstructured) *clusterapi.Machine {
	t.Helper()
	if u == nil {
		return nil
	}
	body, err := u.MarshalJSON()
	m := &clusterapi.Machine{}
	if err == nil {
		err = m.UnmarshalJSON(body)
	}
	if err != nil {
		t.Fatalf("reading a machine: %v", err)
	}
	return m
}

const plain = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  name: m
  namespace: clusters
  uid: m-uid
  resourceVersion: "7"
  generation: 3
  labels: {cluster.x-k8s.io/cluster-name: c}
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineSet, name: workers, uid: s-uid, controller: true}]
status:
  nodeRef: {name: w}
  conditions:
  - {type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-08-01T00:00:00Z"}
`

func order(changes ...func(*core.RemedyCall)) core.RemedyCall {
	o := core.RemedyCall{
		Target: core.Target{ID: core.ID{Kind: "Machine", Namespace: "clusters", Name: "m", UID: "m-uid"}, Revision: "7"},
		Findings: []core.Verdict{{
			Health: core.Unhealthy, Reason: core.ConditionMet, Criterion: core.ConditionCriterion{Type: "Ready", Status: "False", For: 5 * time.Minute},
		}},
	}
	for _, change := range changes {
		change(&o)
	}
	return o
}

// newClient makes a client whose cache shows what the server has now, and what is written.
func newClient(t *testing.T, s *conform.Server) *Client {
	t.Helper()
	s.RegisterKind(clusterapi.MachineKind, &clusterapi.Machine{})
	cached := machine(t, s.Object(clusterapi.MachineKind, "clusters", "m"))
	return NewClient(Config{
		Machine: func(core.ID) *clusterapi.Machine { return cached },
		Writer:  clusterapi.Writer{Statuses: s, Live: s, Now: func() time.Time { return noon }},
		OnWrite: func(m *clusterapi.Machine) { cached = m },
	})
}

func requestOn(m *clusterapi.Machine) core.Request {
	r := core.Request{ID: core.ID{Kind: "Machine", Namespace: m.Namespace, Name: m.Name}, Target: core.ID{Kind: "Machine", Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)}}
	if mark := m.OwnerRequest(); mark != nil {
		r.ID.UID = mark.ID(m)
	}
	return r
}

func TestConforms(t *testing.T) {
	namesake := func(s *conform.Server) {
		u := s.Object(clusterapi.MachineKind, "clusters", "m").DeepCopy()
		u.SetUID(types.UID("another"))
		s.Put(u)
	}
	conform.Run(t, conform.Fixture{
		Objects:            []*unstructured.Unstructured{parse(t, plain)},
		Call:               order(),
		New:                func(t *testing.T, s *conform.Server) conform.Remedy { t.Helper(); return newClient(t, s) },
		RemovePrerequisite: func(s *conform.Server) { s.Remove(parse(t, plain)) },
		InsertNamesake:     namesake,
		ReplaceRequest:     namesake,
		NeverStopped:       true,
		Request: func(s *conform.Server) core.Request {
			return requestOn(machine(t, s.Object(clusterapi.MachineKind, "clusters", "m")))
		},
	})
}
