package template

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

func TestRender(t *testing.T) {
	changed := func(o core.RemedyCall, change func(*core.RemedyCall)) core.RemedyCall {
		change(&o)
		return o
	}
	sibling := core.ID{Kind: "Machine", Namespace: "remediators", Name: "m", UID: "m-uid"}
	cases := map[string]struct {
		template string
		order    core.RemedyCall
		want     string
	}{
		"a node": {plainTemplate, nodeCall(), `
apiVersion: x.example/v1
kind: X
metadata:
  name: w
  namespace: remediators
  annotations: {fettle.io/node-health-check: check, remediation.medik8s.io/node-name: w, remediation.medik8s.io/template-name: t}
  labels: {app.kubernetes.io/part-of: node-healthcheck-controller}
  ownerReferences:
  - {apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, name: check, uid: check-uid, controller: false}
  - {apiVersion: v1, kind: Node, name: w, uid: w-uid, controller: false}
spec: {retries: 3, way: {by: [power]}}
`},
		"a control-plane node with a machine, by a template that says what its objects wear": {`
apiVersion: x.example/v1
kind: XTemplate
metadata: {name: t, namespace: remediators, annotations: {remediation.medik8s.io/multiple-templates-support: ""}, labels: {not: copied}}
spec:
  template:
    metadata: {name: not-copied, finalizers: [not/copied], labels: {a: b, app.kubernetes.io/part-of: another}, annotations: {c: d}}
    status: {not: copied}
`, changed(nodeCall(), func(o *core.RemedyCall) { o.Target.ControlPlane, o.Sibling = true, sibling }), `
apiVersion: x.example/v1
kind: X
metadata:
  name: w-r2ebs
  namespace: remediators
  annotations: {c: d, fettle.io/node-health-check: check, remediation.medik8s.io/node-name: w, remediation.medik8s.io/template-name: t}
  labels: {a: b, app.kubernetes.io/part-of: node-healthcheck-controller, remediation.medik8s.io/isControlPlaneNode: ""}
  ownerReferences:
  - {apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, name: check, uid: check-uid, controller: false}
  - {apiVersion: v1, kind: Node, name: w, uid: w-uid, controller: false}
  - {apiVersion: machine.openshift.io/v1beta1, kind: Machine, name: m, uid: m-uid, controller: false}
spec: {}
`},
		"a node whose machine is elsewhere, and a kind that the cluster has once": {`
apiVersion: x.example/v1
kind: XTemplate
metadata: {name: t}
spec: {template: {spec: {}}}
`, changed(nodeCall(), func(o *core.RemedyCall) { o.Sibling = sibling }), `
apiVersion: x.example/v1
kind: X
metadata:
  name: w
  annotations: {fettle.io/node-health-check: check, remediation.medik8s.io/node-name: w, remediation.medik8s.io/template-name: t}
  labels: {app.kubernetes.io/part-of: node-healthcheck-controller}
  ownerReferences:
  - {apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, name: check, uid: check-uid, controller: false}
  - {apiVersion: v1, kind: Node, name: w, uid: w-uid, controller: false}
spec: {}
`},
		"a machine": {`
apiVersion: x.example/v1
kind: XTemplate
metadata: {name: t, namespace: machines}
spec:
  template:
    metadata: {name: not-copied, uid: not-copied, ownerReferences: [{name: not-copied}], labels: {a: b}, annotations: {c: d}}
    spec: {strategy: {type: Reboot}}
    data: {e: f}
    status: {not: copied}
`, machineCall(), `
apiVersion: x.example/v1
kind: X
metadata:
  name: m
  namespace: machines
  annotations: {c: d, machine.openshift.io/cloned-from-name: t, machine.openshift.io/cloned-from-groupkind: XTemplate.x.example}
  labels: {a: b}
  ownerReferences:
  - {apiVersion: machine.openshift.io/v1beta1, kind: Machine, name: m, uid: m-uid, controller: false}
spec: {strategy: {type: Reboot}}
data: {e: f}
`},
		"a machine of Cluster API": {`
apiVersion: x.example/v1
kind: XTemplate
metadata: {name: t, namespace: machines}
spec:
  template:
    metadata: {finalizers: [not-copied], resourceVersion: "1", labels: {a: b}}
    spec: {strategy: {type: Reboot}}
`, clusterMachineCall(), `
apiVersion: x.example/v1
kind: X
metadata:
  name: m
  namespace: machines
  annotations: {cluster.x-k8s.io/cloned-from-name: t, cluster.x-k8s.io/cloned-from-groupkind: XTemplate.x.example}
  labels: {a: b, cluster.x-k8s.io/cluster-name: blue}
  ownerReferences:
  - {apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: m, uid: m-uid, controller: false}
spec: {strategy: {type: Reboot}}
`},
		"a machine of Cluster API, by a template of nothing": {`
apiVersion: x.example/v1
kind: XTemplate
metadata: {name: t, namespace: machines}
`, clusterMachineCall(), `
apiVersion: x.example/v1
kind: X
metadata:
  name: m
  namespace: machines
  annotations: {cluster.x-k8s.io/cloned-from-name: t, cluster.x-k8s.io/cloned-from-groupkind: XTemplate.x.example}
  labels: {cluster.x-k8s.io/cluster-name: blue}
  ownerReferences:
  - {apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: m, uid: m-uid, controller: false}
`},
		"a machine by a template from elsewhere": {plainTemplate, machineCall(), `
apiVersion: x.example/v1
kind: X
metadata:
  name: m
  namespace: machines
  annotations:
    machine.openshift.io/cloned-from-name: t
    machine.openshift.io/cloned-from-groupkind: XTemplate.x.example
    fettle.io/template-namespace: remediators
  ownerReferences:
  - {apiVersion: machine.openshift.io/v1beta1, kind: Machine, name: m, uid: m-uid, controller: false}
spec: {retries: 3, way: {by: [power]}}
`},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			template := parse(t, tc.template)
			got, err := render(template, tc.order, "blue")
			if err != nil {
				t.Fatalf("rendering: %v", err)
			}
			want := parse(t, tc.want)
			annotate(want, map[string]string{
				"fettle.io/requested-by-uid": "check-uid",
				"fettle.io/requested-as":     "X.x.example/" + want.GetNamespace() + "/" + want.GetName() + "/" + tc.order.Target.ID.UID,
			})
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parse(t, tc.template).Object, template.Object); diff != "" {
				t.Errorf("the template itself has changed (-want +got):\n%s", diff)
			}
			if spec, _ := got.Object["spec"].(map[string]any); spec != nil {
				spec["changed"] = true
			}
			if diff := cmp.Diff(parse(t, tc.template).Object, template.Object); diff != "" {
				t.Errorf("the request shares its spec with the template (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatIsRenderedIsRead: a request is read as that of the order for which it was made.
func TestWhatIsRenderedIsRead(t *testing.T) {
	elsewhere := machineCall()
	elsewhere.Step = machineStep("t")
	elsewhere.Step.Template.Namespace = "remediators"
	beside := parse(t, plainTemplate)
	beside.SetNamespace("machines")
	for sentence, tc := range map[string]struct {
		template *unstructured.Unstructured
		order    core.RemedyCall
		policy   core.ID
	}{
		"a node":                             {parse(t, plainTemplate), nodeCall(), nodeCall().Policy},
		"a node, one of many":                {parse(t, manyTemplate), nodeCall(), nodeCall().Policy},
		"a machine":                          {beside, machineCall(), core.ID{}},
		"a machine of Cluster API":           {beside, clusterMachineCall(), core.ID{}},
		"a machine, by a template of others": {parse(t, plainTemplate), elsewhere, core.ID{}},
	} {
		t.Run(sentence, func(t *testing.T) {
			u, err := render(tc.template, tc.order, "blue")
			if err != nil {
				t.Fatalf("rendering: %v", err)
			}
			got, _, isRequest := readRequest(u)
			if !isRequest || got.Remedy != tc.order.Step.Remedy || got.Template != tc.order.Step.Template || got.Target != tc.order.Target.ID || got.Policy != tc.policy {
				t.Errorf("read as %+v (%t)", got, isRequest)
			}
			if answer, err := checkExisting(u, tc.order, tc.template.GetName()); answer != core.Accepted || err != nil {
				t.Errorf("for its own order it is %s, %v", answer, err)
			}
		})
	}
}

func TestNothingIsRenderedFromNonsense(t *testing.T) {
	noNode := nodeCall()
	noNode.Target.ID.UID = ""
	unsigned := machineCall()
	unsigned.Policy.UID = ""
	cases := map[string]struct {
		template string
		order    core.RemedyCall
		says     []string
	}{
		"no template by its kind":   {"{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, spec: {template: {}}}", nodeCall(), []string{"ConfigMap c", "does not end in Template"}},
		"nothing before the suffix": {"{apiVersion: v1, kind: Template, metadata: {name: c}, spec: {template: {}}}", nodeCall(), []string{"Template c"}},
		"no spec":                   {"{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: t}}", nodeCall(), []string{"XTemplate t", "spec.template"}},
		"a word for the template":   {"{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: t}, spec: {template: no}}", nodeCall(), []string{"spec.template"}},
		"a target of no UID":        {plainTemplate, noNode, []string{"the UID of Node w is not known"}},
		"a health check of no UID":  {plainTemplate, unsigned, []string{"the UID of MachineHealthCheck machines/check is not known"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got, err := render(parse(t, tc.template), tc.order, "blue")
			if err == nil {
				t.Fatalf("rendered %v", got.Object)
			}
			for _, words := range tc.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("the message does not say %q: %v", words, err)
				}
			}
		})
	}
}

// TestNamesOfRequests: they are valid names, and the same for each leader. They differ between templates and nodes,
// also between nodes that had one name after the other.
func TestNamesOfRequests(t *testing.T) {
	many := parse(t, manyTemplate)
	labels := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?`)
	names := rapid.Custom(func(t *rapid.T) string {
		name := strings.Join(rapid.SliceOfN(labels, 1, 8).Draw(t, "labels"), ".")
		return strings.TrimRight(name[:min(len(name), 253)], "-.")
	})
	named := func(name string) *core.ID { return &core.ID{Kind: nodeKind, Name: name, UID: name + "-uid"} }
	rapid.Check(t, func(t *rapid.T) {
		template := many.DeepCopy()
		template.SetName(names.Draw(t, "template"))
		node := named(names.Draw(t, "node"))
		name := nodeRequestName(template, node)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%q can't be a name: %v", name, problems)
		}
		if again := nodeRequestName(template, node); again != name {
			t.Errorf("%q the first time and %q the second", name, again)
		}
		later := *node
		later.UID = "later"
		if nodeRequestName(template, &later) == name {
			t.Errorf("%q is the name for an earlier node too", name)
		}
		other := template.DeepCopy()
		other.SetName(names.Draw(t, "other template"))
		if other.GetName() != template.GetName() && nodeRequestName(other, node) == name {
			t.Errorf("templates %q and %q both give %q", template.GetName(), other.GetName(), name)
		}
	})
	long := strings.Repeat("a", 250)
	if a, b := nodeRequestName(many, named(long+"bbb")), nodeRequestName(many, named(long+"ccc")); a == b || len(a) != 253 {
		t.Errorf("two long nodes have the requests %q and %q", a, b)
	}
	if got := nodeRequestName(parse(t, plainTemplate), named("w")); got != "w" {
		t.Errorf("a remediator that serves one template per node gets a request called %q", got)
	}
}
