package hostile

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// The kinds of the attacks on requests. All but requestsReboot are parts of machines.
const (
	requestsClusterAPI = "cluster.x-k8s.io/v1beta2"
	requestsOpenShift  = "machine.openshift.io/v1beta1"
	requestsInfra      = "infrastructure.cluster.x-k8s.io/v1beta2"
	requestsBootstrap  = "bootstrap.cluster.x-k8s.io/v1beta2"
	requestsVendor     = "vendor.example/v1"
)

// requestsSpec is the spec of every part and of every template. It must be valid as a KubeadmConfig, whose schema is
// Cluster API's own. Otherwise the API server would refuse the requests that Fettle must not make.
const requestsSpec = "format: cloud-config"

// requestsWorld is a namespace with machines of an API and their parts, on a management cluster that is its own
// workload cluster.
type requestsWorld struct {
	*cluster.Cluster

	t *testing.T
	// namespace is of this world alone, and machines is the API version of its machines.
	namespace, machines string
}

// requestsCluster starts a sandbox with the kinds of all attacks, and Fettle. Fettle's admission policies on health
// checks are not installed, so Fettle itself must refuse.
func requestsCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller", "--cluster-api", "--cluster-api-kinds-only"}})
	c.InstallFettle(t)
	c.AllowClusterAPI(t)
	requestsUnbind(t, c)
	var groups []string
	for kind, apiVersion := range map[string]string{
		"DockerMachine": requestsInfra, "KubeadmConfig": requestsBootstrap, "VendorMachine": requestsVendor, "VendorReboot": requestsVendor,
	} {
		group, _, _ := strings.Cut(apiVersion, "/")
		groups = append(groups, group)
		requestsDefine(t, c, apiVersion, kind)
		requestsDefine(t, c, apiVersion, kind+"Template")
	}
	c.Apply(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole,
  metadata: {name: requests-remediators, labels: {rbac.ext-remediation/aggregate-to-ext-remediation: "true"}},
  rules: [{apiGroups: [`+strings.Join(groups, ", ")+`], resources: ["*"], verbs: [get, list, watch, create, patch, delete]}]}`)
	c.StartFettle(t)
	return c
}

func requestsUnbind(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	binding := requestsObject("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "", "remediation-template.fettle.io")
	if err := c.Delete(cluster.Context(t), binding); client.IgnoreNotFound(err) != nil {
		t.Fatalf("deleting a binding: %v", err)
	}
}

// requestsDefine serves a kind that accepts anything.
func requestsDefine(t *testing.T, c *cluster.Cluster, apiVersion, kind string) {
	t.Helper()
	group, version, _ := strings.Cut(apiVersion, "/")
	plural := strings.ToLower(kind) + "s"
	c.Apply(t, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s, annotations: {api-approved.kubernetes.io: "unapproved, experimental-only"}}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[1]s, singular: %[4]s}
  versions:
  - name: %[5]s
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, plural, group, kind, strings.ToLower(kind), version))
	c.Eventually(t, "serving "+kind, func(context.Context) error {
		_, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: kind}, version)
		return err
	})
}

func requestsObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// newRequestsWorld makes a namespace with healthy machines a, b and c, whose parts are of a vendor, and a canary. The
// health check of the canary has a remediator.
func newRequestsWorld(t *testing.T, c *cluster.Cluster, namespace, machines string) *requestsWorld {
	t.Helper()
	w := newUncheckedWorld(t, c, namespace, machines)
	w.check("canary", "pool: canary", requestsVendor, "VendorReboot", "100%")
	return w
}

// newUncheckedWorld is newRequestsWorld without the health check of the canary.
func newUncheckedWorld(t *testing.T, c *cluster.Cluster, namespace, machines string) *requestsWorld {
	t.Helper()
	w := &requestsWorld{Cluster: c, t: t, namespace: namespace, machines: machines}
	c.Namespace(t, namespace)
	if machines == requestsClusterAPI {
		w.cluster()
	}
	for _, kind := range []string{"VendorMachine", "VendorReboot"} {
		w.template(requestsVendor, kind)
	}
	w.template(requestsInfra, "DockerMachine")
	w.template(requestsBootstrap, "KubeadmConfig")
	for _, name := range []string{"a", "b", "c", "canary"} {
		w.machine(name)
	}
	return w
}

func (w *requestsWorld) apply(format string, args ...any) {
	w.t.Helper()
	w.Apply(w.t, fmt.Sprintf(format, args...))
}

// template makes a template called md-0, the name that Cluster API gives the templates of a machine deployment.
func (w *requestsWorld) template(apiVersion, kind string) {
	w.t.Helper()
	w.apply("{apiVersion: %s, kind: %sTemplate, metadata: {name: md-0, namespace: %s}, spec: {template: {spec: {%s}}}}", apiVersion, kind, w.namespace, requestsSpec)
}

// cluster makes a Cluster that is up, and whose workload cluster is this API server too.
func (w *requestsWorld) cluster() {
	w.t.Helper()
	raw, err := os.ReadFile(w.Kubeconfig())
	if err != nil {
		w.t.Fatalf("reading a kubeconfig: %v", err)
	}
	secret := &corev1.Secret{Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": raw}}
	secret.Namespace, secret.Name, secret.Labels = w.namespace, "c-kubeconfig", map[string]string{"cluster.x-k8s.io/cluster-name": "c"}
	if err := w.Create(cluster.Context(w.t), secret); err != nil {
		w.t.Fatalf("creating a secret: %v", err)
	}
	w.apply(`{apiVersion: %s, kind: Cluster, metadata: {name: c, namespace: %s},
  spec: {infrastructureRef: {apiGroup: vendor.example, kind: VendorCluster, name: c}, controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: c}}}`,
		requestsClusterAPI, w.namespace)
	w.status(requestsObject(requestsClusterAPI, "Cluster", w.namespace, "c"), `{"conditions":[
{"type":"InfrastructureReady","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},
{"type":"ControlPlaneInitialized","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`)
}

func (w *requestsWorld) status(u *unstructured.Unstructured, status string) {
	w.t.Helper()
	if err := w.Status().Patch(cluster.Context(w.t), u, client.RawPatch(types.MergePatchType, []byte(`{"status":`+status+`}`))); err != nil {
		w.t.Fatalf("setting the status of %s: %v", u.GetName(), err)
	}
}

// machine makes a machine with a ready node and its parts, as Cluster API does. The parts are annotated with the
// template that they were cloned from, and the machine controls them.
func (w *requestsWorld) machine(name string) {
	w.t.Helper()
	pool := "workers"
	if name == "canary" {
		pool = name
	}
	w.apply(`{apiVersion: %s, kind: Machine, metadata: {name: %s, namespace: %s, labels: {pool: %s, cluster.x-k8s.io/cluster-name: c}},
  spec: {clusterName: c, infrastructureRef: {apiGroup: vendor.example, kind: VendorMachine, name: %[2]s},
    bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: %[2]s}}}}`, w.machines, name, w.namespace, pool)
	for kind, apiVersion := range w.parts() {
		w.part(apiVersion, kind, name)
	}
	w.apply("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {world: %s}}}", w.node(name), w.namespace)
	w.ready(name, "True")
	w.status(w.object("Machine", name), `{"nodeRef":{"name":"`+w.node(name)+`"}}`)
}

func (w *requestsWorld) parts() map[string]string {
	return map[string]string{"VendorMachine": requestsVendor, "KubeadmConfig": requestsBootstrap, "DockerMachine": requestsInfra}
}

func (w *requestsWorld) part(apiVersion, kind, machine string) {
	w.t.Helper()
	m := w.read(w.object("Machine", machine))
	group, _, _ := strings.Cut(w.machines, "/")
	w.apply(`{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s, labels: {cluster.x-k8s.io/cluster-name: c},
  annotations: {%s/cloned-from-name: md-0, %[5]s/cloned-from-groupkind: %[2]sTemplate},
  ownerReferences: [{apiVersion: %[6]s, kind: Machine, name: %[3]s, uid: %[7]s, controller: true}]}, spec: {%[8]s}}`,
		apiVersion, kind, machine, w.namespace, group, w.machines, m.GetUID(), requestsSpec)
}

func (w *requestsWorld) object(kind, name string) *unstructured.Unstructured {
	return requestsObject(w.machines, kind, w.namespace, name)
}

func (w *requestsWorld) read(u *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	if err := w.Get(cluster.Context(w.t), client.ObjectKeyFromObject(u), u); err != nil {
		w.t.Fatalf("reading %s %s: %v", u.GetKind(), u.GetName(), err)
	}
	return u
}

func (w *requestsWorld) node(machine string) string { return w.namespace + "-" + machine }

// ready writes the Ready condition of a machine's node.
func (w *requestsWorld) ready(machine, status string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, status)
	n := requestsObject("v1", "Node", "", w.node(machine))
	if err := w.Status().Patch(cluster.Context(w.t), n, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		w.t.Fatalf("setting the condition of a node: %v", err)
	}
}

// check makes a health check of a pool with a template of a kind.
func (w *requestsWorld) check(name, labels, apiVersion, kind, most string) {
	w.t.Helper()
	w.apply("%s", w.manifest(name, labels, apiVersion, kind, most))
}

func (w *requestsWorld) manifest(name, labels, apiVersion, kind, most string) string {
	if w.machines == requestsOpenShift {
		return fmt.Sprintf(`{apiVersion: %s, kind: MachineHealthCheck, metadata: {name: %s, namespace: %s}, spec: {selector: {matchLabels: {%s}}, maxUnhealthy: %s,
  unhealthyConditions: [{type: Ready, status: "False", timeout: 1s}], remediationTemplate: {apiVersion: %s, kind: %sTemplate, name: md-0}}}`,
			w.machines, name, w.namespace, labels, most, apiVersion, kind)
	}
	return fmt.Sprintf(`{apiVersion: %s, kind: MachineHealthCheck, metadata: {name: %s, namespace: %s}, spec: {clusterName: c, selector: {matchLabels: {%s}},
  checks: {unhealthyNodeConditions: [{type: Ready, status: "False", timeoutSeconds: 1}]},
  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: %s}, templateRef: {apiVersion: %s, kind: %sTemplate, name: md-0}}}}`,
		w.machines, name, w.namespace, labels, most, apiVersion, kind)
}

// wantAllowed waits for the condition RemediationAllowed of a health check, as "Status/Reason", with words in its
// message.
func (w *requestsWorld) wantAllowed(check, want string, words ...string) {
	w.t.Helper()
	w.wantAllowedOf(w.object("MachineHealthCheck", check), want, words...)
}

func (w *requestsWorld) wantAllowedOf(u *unstructured.Unstructured, want string, words ...string) {
	w.t.Helper()
	w.Eventually(w.t, "the condition of health check "+u.GetName(), func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range conditions {
			of, _ := c.(map[string]any)
			if of["type"] != "RemediationAllowed" {
				continue
			}
			got := fmt.Sprintf("%v/%v", of["status"], of["reason"])
			for _, word := range words {
				if !strings.Contains(fmt.Sprint(of["message"]), word) {
					got += " without " + word
				}
			}
			if strings.HasPrefix(got, want) && !strings.Contains(got, " without ") {
				return nil
			}
			return fmt.Errorf("it is %s: %v", got, of["message"])
		}
		return fmt.Errorf("there is none among %v", conditions)
	})
}

// canary breaks the canary, waits for its remediation object, mends the canary, and waits for the withdrawal. By then
// Fettle has seen all that was there before, and has withdrawn what it would withdraw.
func (w *requestsWorld) canary() {
	w.t.Helper()
	request := requestsObject(requestsVendor, "VendorReboot", w.namespace, "canary")
	w.canaryFails(request)
	w.canaryRecovers(request)
}

// canaryFails breaks the canary, and waits for its remediation object.
func (w *requestsWorld) canaryFails(request *unstructured.Unstructured) {
	w.t.Helper()
	w.ready("canary", "False")
	w.Eventually(w.t, "the canary has a remediation object", requestsSeen(w, request))
}

// canaryRecovers mends the canary, and waits until its remediation object is deleted.
func (w *requestsWorld) canaryRecovers(request *unstructured.Unstructured) {
	w.t.Helper()
	w.ready("canary", "True")
	w.Eventually(w.t, "the canary's remediation object is deleted", func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(request), request.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// wantParts fails the test when a part of a healthy machine is gone, or in deletion.
func (w *requestsWorld) wantParts() {
	w.t.Helper()
	for _, machine := range []string{"a", "b", "c", "canary"} {
		for kind, apiVersion := range w.parts() {
			u := requestsObject(apiVersion, kind, w.namespace, machine)
			if err := w.Get(cluster.Context(w.t), client.ObjectKeyFromObject(u), u); err != nil || u.GetDeletionTimestamp() != nil {
				w.t.Errorf("machine %s is healthy and has lost its %s (%v)", machine, kind, err)
			}
		}
	}
}
