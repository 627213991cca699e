package annotate

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/remedy/conform"
)

// machine returns a machine that exists.
func machine(uid, revision string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(machines)
	u.SetNamespace("machines")
	u.SetName("m")
	u.SetUID(types.UID(uid))
	u.SetResourceVersion(revision)
	return u
}

func TestConforms(t *testing.T) {
	conform.Run(t, conform.Fixture{
		Objects:            []*unstructured.Unstructured{machine("m-uid", "7")},
		Call:               core.RemedyCall{Target: target("m-uid", "7")},
		New:                func(_ *testing.T, s *conform.Server) conform.Remedy { return NewClient(machines, marks, s) },
		RemovePrerequisite: func(s *conform.Server) { s.Remove(machine("m-uid", "7")) },
		InsertNamesake:     func(s *conform.Server) { s.Put(machine("another", "7")) },
	})
}
