package template

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/remedy/conform"
)

// TestConforms runs all forms of the remedy.
func TestConforms(t *testing.T) {
	for name, c := range map[string]struct {
		order              core.RemedyCall
		template, namesake string
	}{
		"for nodes": {
			nodeCall(), plainTemplate,
			"{apiVersion: x.example/v1, kind: X, metadata: {name: w, namespace: remediators, uid: another}, spec: {}}",
		},
		"for machines": {
			machineCall(), "{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: t, namespace: machines}, spec: {template: {spec: {}}}}",
			"{apiVersion: x.example/v1, kind: X, metadata: {name: m, namespace: machines, uid: another}, spec: {}}",
		},
		"for machines of Cluster API": {
			clusterMachineCall(), "{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: t, namespace: machines}, spec: {template: {spec: {}}}}",
			"{apiVersion: x.example/v1, kind: X, metadata: {name: m, namespace: machines, uid: another}, spec: {}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			template := parse(t, c.template)
			conform.Run(t, conform.Fixture{
				Objects: []*unstructured.Unstructured{
					template,
					parse(t, "{apiVersion: machine.openshift.io/v1beta1, kind: Machine, metadata: {name: m, namespace: machines, uid: m-uid, resourceVersion: \"7\"}}"),
					parse(t, "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: m, namespace: machines, uid: m-uid, resourceVersion: \"7\"}}"),
				},
				Call: c.order,
				New: func(t *testing.T, s *conform.Server) conform.Remedy {
					t.Helper()
					client := knows(t, namespaced(synced), namespaced(synced))
					client.API = s
					if u := s.Object(xTemplates, template.GetNamespace(), template.GetName()); u != nil {
						client.kinds[xTemplates].store.put(u)
					}
					return client
				},
				RemovePrerequisite: func(s *conform.Server) { s.Remove(template) },
				InsertNamesake:     func(s *conform.Server) { s.Put(parse(t, c.namesake)) },
				Request: func(s *conform.Server) core.Request {
					u := s.Object(xs, template.GetNamespace(), c.order.Target.ID.Name)
					r, _, is := readRequest(u)
					if !is {
						t.Fatalf("%v is no request", u)
					}
					return r
				},
			})
		})
	}
}
