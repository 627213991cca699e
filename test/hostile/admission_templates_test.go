package hostile

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/specparse"
	"github.com/fettle-io/fettle/test/cluster"
)

// templatesWorld has the kinds of health checks, with definitions that accept anything. Some health checks were stored
// before the policy was installed.
type templatesWorld struct {
	*cluster.Cluster

	t *testing.T
}

const (
	templatesNodes     = "remediation.medik8s.io/v1alpha1"
	templatesFormerAPI = "cluster.x-k8s.io/v1beta1"
	// templatesRefused is of a kind that no remediator has, and so is templatesOther. templatesGood is of a
	// remediator's kind.
	templatesRefused = `{apiVersion: v1, kind: PodTemplate, name: t}`
	templatesOther   = `{apiVersion: apps/v1, kind: DeploymentTemplate, name: t}`
	templatesGood    = `{apiVersion: reboot.example/v1, kind: RebootTemplate, name: t}`
)

// templatesShapes are the places in a spec where health checks name a template.
func templatesShapes() map[string]string {
	return map[string]string{
		"classic":    `{remediationTemplate: %s}`,
		"escalating": `{escalatingRemediations: [{order: 1, remediationTemplate: ` + templatesGood + `}, {order: 2, remediationTemplate: %s}]}`,
		"reference":  `{remediation: {templateRef: %s}}`,
		// A field of a wrong type does not hide a template, and does not prevent changes of the object.
		"beside-text":      `{remediationTemplate: %s, escalatingRemediations: none, remediation: none}`,
		"beside-no-steps":  `{remediationTemplate: %s, escalatingRemediations: [7, none, [], {}, {remediationTemplate: 7}]}`,
		"beside-no-object": `{escalatingRemediations: [{remediationTemplate: %s}], remediationTemplate: none, remediation: {templateRef: 7}}`,
	}
}

// templatesNonsense are specs without a template that Fettle can read. Fettle says so in a status.
func templatesNonsense() []string {
	return []string{
		`7`, `none`, `[]`, `null`, `{}`,
		`{remediationTemplate: 7}`, `{remediationTemplate: none}`, `{remediationTemplate: []}`, `{remediationTemplate: null}`, `{remediationTemplate: {}}`,
		`{escalatingRemediations: 7}`, `{escalatingRemediations: {a: b}}`, `{escalatingRemediations: none}`, `{escalatingRemediations: [7, none, null, [], {}]}`,
		`{escalatingRemediations: [{remediationTemplate: 7}, {remediationTemplate: none}, {remediationTemplate: null}]}`,
		`{remediation: 7}`, `{remediation: none}`, `{remediation: []}`, `{remediation: null}`, `{remediation: {templateRef: 7}}`, `{remediation: {templateRef: null}}`,
		`{remediationTemplate: {apiVersion: 7, kind: PodTemplate}}`, `{remediationTemplate: {apiVersion: v1, kind: 7}}`,
		`{remediationTemplate: {apiVersion: [], kind: {}}}`, `{remediationTemplate: {apiVersion: null, kind: null}}`,
		`{remediationTemplate: {apiVersion: v1}}`, `{remediationTemplate: {kind: PodTemplate}}`,
		`{remediationTemplate: {apiVersion: "", kind: PodTemplate}}`, `{remediationTemplate: {apiVersion: v1, kind: ""}}`,
	}
}

// templatesKinds are kinds of templates, and whether the policy refuses them. RequestKind decides the same.
func templatesKinds() map[string]bool {
	return map[string]bool{
		"v1 PodTemplate":                                                        true,
		"reboot.example RebootTemplate":                                         true, // a version without a group
		"policy/v1 EvictionTemplate":                                            true,
		"coordination.k8s.io/v1 LeaseTemplate":                                  true,
		"k8s.io/v1 XTemplate":                                                   true,
		"node.kubernetes.io/v1 XTemplate":                                       true,
		"kubernetes.io/v1 XTemplate":                                            true,
		"cluster.x-k8s.io/v1beta2 XTemplate":                                    true,
		"machine.openshift.io/v1beta1 XTemplate":                                true,
		"config.openshift.io/v1 ClusterVersionTemplate":                         true,
		"remediation.medik8s.io/v1alpha1 NodeHealthCheckTemplate":               true,
		"fettle.io/v1alpha1 RepairTemplate":                                     true,
		"infrastructure.cluster.x-k8s.io/v1beta2 DockerMachineTemplate":         true,
		"infrastructure.cluster.x-k8s.io/v1beta1 AWSClusterTemplate":            true,
		"infrastructure.cluster.x-k8s.io/v1beta1 AzureMachinePoolTemplate":      true,
		"bootstrap.cluster.x-k8s.io/v1beta2 KubeadmConfigTemplate":              true,
		"controlplane.cluster.x-k8s.io/v1beta2 XTemplate":                       true,
		"infrastructure.cluster.x-k8s.io/v1beta1 Metal3RemediationTemplate":     false,
		"infrastructure.cluster.x-k8s.io/v1beta1 MachineTemplateRebootTemplate": false,
		"remediation.medik8s.io/v1alpha1 RebootTemplate":                        false,
		"fettle.io/v1alpha1 MachineDeletionRemediationTemplate":                 false,
		"x-k8s.io/v1 XTemplate":                                                 false,
		"x-kubernetes.io/v1 XTemplate":                                          false,
		"machines.example/v1 VendorMachineTemplate":                             false,
	}
}

// newTemplatesWorld defines the kinds and stores health checks of each shape. Call it before the policy is installed.
func newTemplatesWorld(t *testing.T, c *cluster.Cluster) *templatesWorld {
	t.Helper()
	w := &templatesWorld{c, t}
	c.Apply(t, templatesDefinition(requestsOpenShift, "MachineHealthCheck", "Namespaced"))
	c.Apply(t, templatesDefinition(templatesFormerAPI, "MachineHealthCheck", "Namespaced"))
	c.Apply(t, templatesDefinition(templatesNodes, "NodeHealthCheck", "Cluster"))
	for name, shape := range templatesShapes() {
		w.Apply(t, w.manifest(requestsOpenShift, name, fmt.Sprintf(shape, templatesRefused)))
	}
	for i, spec := range templatesNonsense() {
		w.Apply(t, w.manifest(requestsOpenShift, fmt.Sprint("nonsense-", i), spec))
	}
	for _, api := range []string{requestsOpenShift, templatesFormerAPI, templatesNodes} {
		w.Apply(t, w.manifest(api, "good", fmt.Sprintf(`{remediationTemplate: %s}`, templatesGood)))
	}
	return w
}

func templatesDefinition(apiVersion, kind, scope string) string {
	group, version, _ := strings.Cut(apiVersion, "/")
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.%[2]s, annotations: {api-approved.kubernetes.io: "unapproved, experimental-only"}}
spec:
  group: %[2]s
  scope: %[5]s
  names: {kind: %[3]s, plural: %[1]ss, singular: %[1]s}
  versions:
  - {name: %[4]s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, strings.ToLower(kind), group, kind, version, scope)
}

func (w *templatesWorld) in(t *testing.T) *templatesWorld {
	t.Helper()
	return &templatesWorld{w.Cluster, t}
}

func (*templatesWorld) manifest(api, name, spec string) string {
	if api == templatesNodes {
		return fmt.Sprintf(`{apiVersion: %s, kind: NodeHealthCheck, metadata: {name: %s}, spec: %s}`, api, name, spec)
	}
	return fmt.Sprintf(`{apiVersion: %s, kind: MachineHealthCheck, metadata: {name: %s, namespace: default}, spec: %s}`, api, name, spec)
}

// create returns whether the API server accepts a new health check.
func (w *templatesWorld) create(api, spec string) error {
	w.t.Helper()
	return w.Create(cluster.Context(w.t), cluster.Decode(w.t, []byte(w.manifest(api, "new", spec)))[0], client.DryRunAll)
}

// change returns whether the API server accepts another spec of a stored health check, and an annotation. The spec ""
// stays as it is.
func (w *templatesWorld) change(api, name, spec string) error {
	w.t.Helper()
	u := cluster.Decode(w.t, []byte(w.manifest(api, name, "{}")))[0]
	if err := w.Get(cluster.Context(w.t), client.ObjectKeyFromObject(u), u); err != nil {
		w.t.Fatalf("reading health check %s: %v", name, err)
	}
	u.SetAnnotations(map[string]string{"a": "b"})
	if spec != "" {
		u.Object["spec"] = cluster.Decode(w.t, []byte("spec: "+spec))[0].Object["spec"]
	}
	return w.Update(cluster.Context(w.t), u, client.DryRunAll)
}

func (w *templatesWorld) want(refused bool, what string, err error) {
	w.t.Helper()
	switch {
	case refused && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "can't be the template of a remediator")):
		w.t.Errorf("%s: want it refused, got %v", what, err)
	case !refused && err != nil:
		w.t.Errorf("%s: want it allowed, got %v", what, err)
	}
}

// awaitPolicy waits until the API server follows the policy.
func (w *templatesWorld) awaitPolicy() {
	w.t.Helper()
	w.Eventually(w.t, "the API server follows the policy", func(context.Context) error {
		if err := w.create(requestsOpenShift, fmt.Sprintf(`{remediationTemplate: %s}`, templatesRefused)); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
}

func (w *templatesWorld) wantRows() {
	w.awaitPolicy()
	w.wantKinds()
	w.wantStored()
	w.wantNonsense()
	for _, api := range []string{requestsOpenShift, templatesNodes, templatesFormerAPI} {
		w.wantShapes(api)
	}
	w.serveLatest()
	w.wantShapes(requestsClusterAPI)
}

// wantKinds: the policy and Fettle refuse the same kinds.
func (w *templatesWorld) wantKinds() {
	for kind, refused := range templatesKinds() {
		apiVersion, kind, _ := strings.Cut(kind, " ")
		w.want(refused, kind+" of "+apiVersion, w.create(requestsOpenShift, fmt.Sprintf(`{remediationTemplate: {apiVersion: %s, kind: %s, name: t}}`, apiVersion, kind)))
		if err := specparse.RequestKind(apiVersion, kind); (err != nil) != refused {
			w.t.Errorf("Fettle answers %s of %s with %v, and the policy refuses it: %t", kind, apiVersion, err, refused)
		}
	}
}

// wantStored: a stored health check may keep its templates while all else changes. It may get no other such template.
func (w *templatesWorld) wantStored() {
	for name, shape := range templatesShapes() {
		w.want(false, name+" as it is", w.change(requestsOpenShift, name, ""))
		w.want(false, name+", mended", w.change(requestsOpenShift, name, fmt.Sprintf(shape, templatesGood)))
		w.want(true, name+" with another", w.change(requestsOpenShift, name, fmt.Sprintf(shape, templatesOther)))
	}
}

func (w *templatesWorld) wantNonsense() {
	for i, spec := range templatesNonsense() {
		name := fmt.Sprint("nonsense-", i)
		w.want(false, "creating "+spec, w.create(requestsOpenShift, spec))
		w.want(false, "annotating "+spec, w.change(requestsOpenShift, name, ""))
		w.want(false, "mending "+spec, w.change(requestsOpenShift, name, fmt.Sprintf(`{remediationTemplate: %s}`, templatesGood)))
		w.want(true, "making worse "+spec, w.change(requestsOpenShift, name, fmt.Sprintf(`{remediationTemplate: %s}`, templatesRefused)))
	}
	steps := strings.Repeat(`{remediationTemplate: `+templatesGood+`}, `, 5_000)
	if err := w.create(requestsOpenShift, `{escalatingRemediations: [`+steps+`{remediationTemplate: `+templatesRefused+`}]}`); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		w.t.Errorf("a template behind 5,000 steps: want it refused, got %v", err)
	}
}

// wantShapes: the policy checks templates of each API wherever a spec names them, in all operations.
func (w *templatesWorld) wantShapes(api string) {
	for name, shape := range templatesShapes() {
		what := name + " of " + api
		w.want(true, "creating "+what, w.create(api, fmt.Sprintf(shape, templatesRefused)))
		w.want(false, "creating a good "+what, w.create(api, fmt.Sprintf(shape, templatesGood)))
		w.want(true, "changing to "+what, w.change(api, "good", fmt.Sprintf(shape, templatesRefused)))
		w.want(false, "changing to a good "+what, w.change(api, "good", fmt.Sprintf(shape, templatesGood)))
	}
}

// serveLatest makes the API server serve the health checks of Cluster API by a definition with the latest version
// alone. It restarts the server, which matches requests by the rules for each version that it has known.
func (w *templatesWorld) serveLatest() {
	w.t.Helper()
	former := cluster.Decode(w.t, []byte(templatesDefinition(templatesFormerAPI, "MachineHealthCheck", "Namespaced")))[0]
	if err := w.Delete(cluster.Context(w.t), former); err != nil {
		w.t.Fatalf("deleting a definition: %v", err)
	}
	w.Eventually(w.t, "the former definition is gone", func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(former), former.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
	w.Apply(w.t, templatesDefinition(requestsClusterAPI, "MachineHealthCheck", "Namespaced"))
	w.Eventually(w.t, "the latest definition is established", func(ctx context.Context) error {
		return w.established(ctx, former.DeepCopy())
	})
	w.Restart(w.t, syscall.SIGTERM)
	w.Apply(w.t, w.manifest(requestsClusterAPI, "good", fmt.Sprintf(`{remediationTemplate: %s}`, templatesGood)))
	w.awaitPolicy()
}

// established returns an error unless the API server has established a definition. A server that ends before that
// establishes the definition only at its next resync, after minutes.
func (w *templatesWorld) established(ctx context.Context, definition *unstructured.Unstructured) error {
	if err := w.Get(ctx, client.ObjectKeyFromObject(definition), definition); err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, _ := c.(map[string]any); condition["type"] == "Established" && condition["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("its conditions are %v (%w)", conditions, err)
}
