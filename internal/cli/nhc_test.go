package cli

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// TestSourcesOfNodes: nodes are read after the health checks that select them.
func TestSourcesOfNodes(t *testing.T) {
	check := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck", "metadata": map[string]any{"name": "workers", "uid": "check"},
		"spec": map[string]any{"selector": map[string]any{"matchExpressions": []any{map[string]any{"key": "role", "operator": "DoesNotExist"}}}},
	}}
	wantSources(t, NHC{}, []string{
		"nodehealthchecks.remediation.medik8s.io: *unstructured.UnstructuredList of NodeHealthCheckList",
		"nodes: *slim.NodeList of ",
	}, check, &slim.Node{Meta: slim.Meta{Name: "a"}})
}

// TestNothingIsWrittenOfNodes: only a NodeHealthCheck has a status, so a node is judged and excluded by its own facts.
func TestNothingIsWrittenOfNodes(t *testing.T) {
	reading, node := NHC{}.Read().(nhcReading), core.ID{Kind: "Node", Name: "a"}
	if health, says := reading.HealthOf(node); says || health != (WrittenHealth{}) {
		t.Errorf("its health is %+v", health)
	}
	if by, is := reading.SkippedBy(node); is || by != "" {
		t.Errorf("it is excluded by %q", by)
	}
}
