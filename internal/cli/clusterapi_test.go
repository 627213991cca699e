package cli

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// TestNodesThatChange: a node of a workload cluster changes what is read when it is new or otherwise than before.
func TestNodesThatChange(t *testing.T) {
	nodes := ClusterAPI{}.Read().(*clusterAPIReading).Nodes(core.ClusterKey{Namespace: "fleets", Name: "east"})
	for _, tc := range []struct {
		text    string
		changes bool
	}{
		{"{metadata: {name: a, uid: a}}", true}, {"{metadata: {name: a, uid: a}}", false}, {"{metadata: {name: a, uid: other}}", true},
	} {
		n := &slim.Node{}
		if err := yaml.Unmarshal([]byte(tc.text), n); err != nil {
			t.Fatal(err)
		}
		if got := nodes.Put(n); got != tc.changes {
			t.Errorf("%s changes what is read: %t", tc.text, got)
		}
	}
}
