package template

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/internal/core"
)

var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// parse reads an object as a person writes it.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("parsing YAML: %v", err)
	}
	return u
}

// plainTemplate is one of a remediator that serves one template per node.
const plainTemplate = `
apiVersion: x.example/v1
kind: XTemplate
metadata: {name: t, namespace: remediators}
spec: {template: {spec: {retries: 3, way: {by: [power]}}}}
`

// manyTemplate is one of a remediator that heeds the annotation of requests.
const manyTemplate = `
apiVersion: x.example/v1
kind: XTemplate
metadata: {name: t, namespace: remediators, annotations: {remediation.medik8s.io/multiple-templates-support: "true"}}
spec: {template: {spec: {}}}
`

func reference(name string) core.Reference {
	return core.Reference{APIVersion: "x.example/v1", Kind: "XTemplate", Namespace: "remediators", Name: name}
}

func nodeStep(name string) core.Step {
	return core.Step{Remedy: NodeRemedy, Nature: core.CreateRequest, Template: reference(name)}
}

func machineStep(name string) core.Step {
	s := nodeStep(name)
	s.Remedy, s.Template.Namespace = MachineRemedy, "machines"
	return s
}

func nodeCall() core.RemedyCall {
	return core.RemedyCall{
		Target: core.Target{ID: core.ID{Kind: "Node", Name: "w", UID: "w-uid"}},
		Policy: core.ID{Kind: "NodeHealthCheck", Name: "check", UID: "check-uid"},
		Step:   nodeStep("t"),
		Repair: "w-1",
	}
}

// laterNodeCall is an order for a node that has the name of an earlier one.
func laterNodeCall() core.RemedyCall {
	o := nodeCall()
	o.Target.ID.UID = "later"
	return o
}

func machineCall() core.RemedyCall {
	return core.RemedyCall{
		Target: core.Target{ID: core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}, Revision: "7"},
		Policy: core.ID{Kind: "MachineHealthCheck", Namespace: "machines", Name: "check", UID: "check-uid"},
		Step:   machineStep("t"),
	}
}

func clusterMachineCall() core.RemedyCall {
	o := machineCall()
	o.Step.Remedy = ClusterMachineRemedy
	return o
}
