package template

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// stocked returns a BuiltIn with one template, called t, of the namespace of machines.
func stocked(t *testing.T, problem string, pending bool) BuiltIn {
	t.Helper()
	object := parse(t, `{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: t, namespace: machines}, spec: {template: {spec: {from: stock}}}}`)
	return func(r core.Reference) BuiltInTemplate {
		if r != machineStep("t").Template {
			return BuiltInTemplate{}
		}
		return BuiltInTemplate{object, problem, pending}
	}
}

// machineTemplate is an object of the name of the built-in template.
const machineTemplate = "{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: t, namespace: machines}, spec: {template: {spec: {retries: 3}}}}"

// TestBuiltInTemplates: a template that is built in need not exist, and it can say why it can't be used. Watching and
// reading find the same.
func TestBuiltInTemplates(t *testing.T) {
	ready, unserved := namespaced(synced), watchStatus{state: unserved}
	const absent = "template XTemplate machines/u does not exist; create it, or name another template"
	for sentence, tc := range map[string]struct {
		stock               BuiltIn
		templates, requests watchStatus
		objects             []string
		step                string
		problem             string
		missing, pending    bool
	}{
		"it is built in":                     {stocked(t, "", false), ready, ready, nil, "t", "", false, false},
		"it has a problem":                   {stocked(t, "rights are missing", false), ready, ready, nil, "t", "rights are missing", false, false},
		"its problem is not known yet":       {stocked(t, "it is being read", true), ready, ready, nil, "t", "it is being read", false, true},
		"an object has its name":             {stocked(t, "", false), ready, ready, []string{machineTemplate}, "t", "", false, false},
		"an object does not end its problem": {stocked(t, "rights are missing", false), ready, ready, []string{machineTemplate}, "t", "rights are missing", false, false},
		"another is not built in":            {stocked(t, "rights are missing", false), ready, ready, nil, "u", absent, true, false},
		"nothing is built in":                {nil, ready, ready, nil, "u", absent, true, false},
		"its kind is not served": {stocked(t, "rights are missing", false), unserved, unserved, nil, "t",
			"there is no template XTemplate machines/t, since the cluster does not serve XTemplate (x.example/v1); install the remediator that defines it, or name another template", true, false},
		"its requests are not served": {stocked(t, "rights are missing", true), ready, unserved, nil, "t",
			"no request can be created from template XTemplate machines/t, since the cluster does not serve X (x.example/v1); install the remediator that defines it", false, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			watching := knows(t, tc.templates, tc.requests, tc.objects...)
			watching.BuiltIn = tc.stock
			reading := NewReading()
			reading.BuiltIn = tc.stock
			for gvk, s := range map[schema.GroupVersionKind]watchStatus{xTemplates: tc.templates, xs: tc.requests} {
				if s.state == synced {
					reading.Begin(gvk, true)
				} else {
					reading.Unserved(gvk)
				}
			}
			for _, text := range tc.objects {
				u := parse(t, text)
				reading.Put(u.GroupVersionKind(), u)
			}
			want := machineStep(tc.step)
			want.Problem, want.Missing, want.Pending = tc.problem, tc.missing, tc.pending
			for who, facts := range map[string]interface {
				AddFacts(policies []core.Policy, cluster *core.Cluster)
			}{"watching": watching, "reading": reading} {
				policies := []core.Policy{{ID: machineCall().Policy, Steps: []core.Step{machineStep(tc.step)}}}
				facts.AddFacts(policies, &core.Cluster{})
				if diff := cmp.Diff([]core.Step{want}, policies[0].Steps); diff != "" {
					t.Errorf("%s (-want +got):\n%s", who, diff)
				}
			}
		})
	}
}

// creates stores the object that is created.
type creates struct {
	answers

	made client.Object
}

func (c *creates) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	c.made = o
	return nil
}

// Get returns the machine of machineCall.
func (*creates) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetUID("m-uid")
	o.SetResourceVersion("7")
	return nil
}

// TestBuiltInForMachinesAlone: other health checks have the template that they name, or none.
func TestBuiltInForMachinesAlone(t *testing.T) {
	for _, remedy := range []string{NodeRemedy, ClusterMachineRemedy} {
		d := knows(t, namespaced(synced), namespaced(synced))
		d.BuiltIn = stocked(t, "", false)
		step := machineStep("t")
		step.Remedy = remedy
		policies := []core.Policy{{ID: machineCall().Policy, Steps: []core.Step{step}}}
		d.AddFacts(policies, &core.Cluster{})
		if got := policies[0].Steps[0]; !got.Missing {
			t.Errorf("%s: the step is %+v", remedy, got)
		}
		call := machineCall()
		call.Step = step
		if result, err := d.Start(t.Context(), call); result != core.Stale || err != nil {
			t.Errorf("%s: the result is %s, %v", remedy, result, err)
		}
	}
}

// TestRequestOfABuiltInTemplate has the template's spec and name. That of an object of its name has the object's.
func TestRequestOfABuiltInTemplate(t *testing.T) {
	for sentence, tc := range map[string]struct {
		objects []string
		want    map[string]any
	}{
		"it is built in":         {nil, map[string]any{"from": "stock"}},
		"an object has its name": {[]string{machineTemplate}, map[string]any{"retries": float64(3)}},
	} {
		d, api := knows(t, namespaced(synced), namespaced(synced), tc.objects...), &creates{}
		d.API, d.BuiltIn = api, stocked(t, "", false)
		if result, err := d.Start(t.Context(), machineCall()); result != core.Accepted || err != nil {
			t.Fatalf("%s: the result is %s, %v", sentence, result, err)
		}
		made, _ := api.made.(*unstructured.Unstructured)
		if diff := cmp.Diff(tc.want, made.Object["spec"]); diff != "" || made.GetAnnotations()["machine.openshift.io/cloned-from-name"] != "t" {
			t.Errorf("%s: annotations %v, spec (-want +got):\n%s", sentence, made.GetAnnotations(), diff)
		}
	}
}
