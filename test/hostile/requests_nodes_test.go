package hostile

import (
	"fmt"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// requestsOfNodes: a NodeHealthCheck whose template makes objects of a kind that other clients have created too. Their
// author claims that the health check requested each. Fettle withdraws its own object alone.
func requestsOfNodes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	w := newUncheckedWorld(t, c, "nodes", requestsOpenShift)
	for _, refused := range []string{requestsInfra + " DockerMachine", requestsBootstrap + " KubeadmConfig"} {
		attack := w.nodeCheck(refused)
		w.wantAllowedOf(attack, "False/RemediationTemplateInvalid", "can't be the template of a remediator")
		w.delete(attack)
	}
	w.wantAllowedOf(w.nodeCheck(requestsVendor+" VendorMachine"), "True")
	request := requestsObject(requestsVendor, "VendorMachine", w.namespace, w.node("canary"))
	w.canaryFails(request)
	own := w.read(request).GetAnnotations()
	w.apply("{apiVersion: %s, kind: VendorMachine, metadata: {name: %s, namespace: %s}, spec: {}}", requestsVendor, w.node("c"), w.namespace)
	foreign := requestsObject(requestsVendor, "VendorMachine", w.namespace, w.node("c"))
	w.annotate(foreign, maps.Clone(own), "c") // with the signature of another object
	for _, machine := range []string{"a", "b"} {
		annotations := maps.Clone(own)
		if machine == "b" { // forged for this very object
			u := w.read(requestsObject("v1", "Node", "", w.node(machine)))
			annotations["fettle.io/requested-as"] = fmt.Sprintf("VendorMachine.vendor.example/%s/b/%s", w.namespace, u.GetUID())
		}
		w.annotate(requestsObject(requestsVendor, "VendorMachine", w.namespace, machine), annotations, machine)
	}
	w.canaryRecovers(request)
	w.wantParts()
	for _, name := range []string{"a", "b", foreign.GetName()} {
		u := w.read(requestsObject(requestsVendor, "VendorMachine", w.namespace, name))
		if at, reported := u.GetAnnotations()[v1alpha1.TimedOutAnnotation]; reported || u.GetDeletionTimestamp() != nil {
			t.Errorf("VendorMachine %s is another's, and is withdrawn (stopped at %q, deleted at %s)", name, at, u.GetDeletionTimestamp())
		}
	}
}

// nodeCheck creates a NodeHealthCheck of all nodes of the world. Its template makes objects of an API version and a
// kind.
func (w *requestsWorld) nodeCheck(makes string) *unstructured.Unstructured {
	w.t.Helper()
	var apiVersion, kind string
	if _, err := fmt.Sscan(makes, &apiVersion, &kind); err != nil {
		w.t.Fatalf("reading %q: %v", makes, err)
	}
	w.apply(`{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, metadata: {name: attack},
  spec: {selector: {matchLabels: {world: %s}}, unhealthyConditions: [{type: Ready, status: "False", duration: 1s}],
    remediationTemplate: {apiVersion: %s, kind: %sTemplate, name: md-0, namespace: %[1]s}}}`, w.namespace, apiVersion, kind)
	return requestsObject(v1alpha1.GroupVersion.String(), "NodeHealthCheck", "", "attack")
}

func (w *requestsWorld) delete(u *unstructured.Unstructured) {
	w.t.Helper()
	if err := w.Delete(cluster.Context(w.t), u); err != nil {
		w.t.Fatalf("deleting %s: %v", u.GetName(), err)
	}
}

// annotate makes an object look like the remediation object for the node of a machine.
func (w *requestsWorld) annotate(u *unstructured.Unstructured, annotations map[string]string, machine string) {
	w.t.Helper()
	annotations[v1alpha1.NodeNameAnnotation] = w.node(machine)
	before := w.read(u)
	changed := before.DeepCopy()
	changed.SetAnnotations(annotations)
	if err := w.Patch(cluster.Context(w.t), changed, client.MergeFrom(before)); err != nil {
		w.t.Fatalf("annotating %s: %v", u.GetName(), err)
	}
}
