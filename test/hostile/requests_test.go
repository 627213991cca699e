package hostile

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// TestI14RequestsOfOthers: by the template of a health check, the parts of machines look like remediation objects.
// Fettle deletes none of them. The machines are healthy, and the health check permits no repair at all.
func TestI14RequestsOfOthers(t *testing.T) {
	c := requestsCluster(t)
	for name, attack := range map[string]struct {
		machines, apiVersion, kind string
		wants                      []string
	}{
		"capi-vendor":         {requestsClusterAPI, requestsVendor, "VendorMachine", []string{"False/TemplateUnusable", "itself is made"}},
		"capi-docker":         {requestsClusterAPI, requestsInfra, "DockerMachine", []string{"False/InvalidSpec", "DockerMachineTemplate", "can't be the template of a remediator"}},
		"capi-kubeadm":        {requestsClusterAPI, requestsBootstrap, "KubeadmConfig", []string{"False/InvalidSpec", "KubeadmConfigTemplate", "can't be the template of a remediator"}},
		"openshift-vendor":    {requestsOpenShift, requestsVendor, "VendorMachine", []string{"True"}},
		"openshift-bootstrap": {requestsOpenShift, requestsBootstrap, "KubeadmConfig", []string{"False/InvalidSpec", "KubeadmConfigTemplate", "can't be the template of a remediator"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRequestsWorld(t, c, name, attack.machines)
			w.check("attack", "pool: workers", attack.apiVersion, attack.kind, "0")
			w.wantAllowed("attack", attack.wants[0], attack.wants[1:]...)
			w.canary()
			w.wantParts()
		})
	}
	t.Run("copied-annotations", func(t *testing.T) { requestsCopies(t, c) })
	t.Run("nodes", func(t *testing.T) { requestsOfNodes(t, c) })
	t.Run("core-kinds", func(t *testing.T) { requestsCoreKinds(t, c) })
	t.Run("admission", func(t *testing.T) { requestsAdmission(t, c) })
}

// requestsCopies: a user who may annotate the parts of machines, and not delete them, signs them as Fettle signs its
// remediation objects.
func requestsCopies(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	w := newRequestsWorld(t, c, "copies", requestsClusterAPI)
	w.check("attack", "pool: workers", requestsVendor, "VendorMachine", "0")
	w.wantAllowed("attack", "False/TemplateUnusable")
	request := requestsObject(requestsVendor, "VendorReboot", w.namespace, "canary")
	w.canaryFails(request)
	stolen := w.read(request).GetAnnotations()
	for _, machine := range []string{"a", "b"} {
		annotations := maps.Clone(stolen)
		if machine == "b" { // forged for this very object
			annotations["fettle.io/requested-as"] = fmt.Sprintf("VendorMachine.vendor.example/%s/b/%s", w.namespace, w.read(w.object("Machine", "b")).GetUID())
		}
		part := w.read(requestsObject(requestsVendor, "VendorMachine", w.namespace, machine))
		changed := part.DeepCopy()
		annotations["cluster.x-k8s.io/cloned-from-name"] = "md-0"
		changed.SetAnnotations(annotations)
		if err := w.Patch(cluster.Context(t), changed, client.MergeFrom(part)); err != nil {
			t.Fatalf("annotating a part: %v", err)
		}
	}
	w.canary()
	w.wantParts()
}

// requestsCoreKinds: with a PodTemplate, which exists, in a health check, Fettle neither lists nor watches pods.
func requestsCoreKinds(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	w := newRequestsWorld(t, c, "core-kinds", requestsOpenShift)
	w.apply("{apiVersion: v1, kind: PodTemplate, metadata: {name: md-0, namespace: %s}, template: {spec: {containers: [{name: c, image: none.invalid/c}]}}}", w.namespace)
	w.check("attack", "pool: workers", "v1", "Pod", "100%")
	w.wantAllowed("attack", "False/InvalidSpec", "PodTemplate", "Kubernetes itself")
	w.ready("a", "False")
	w.canary()
	for _, r := range c.Requests(t) {
		if (r.Resource == "pods" || r.Resource == "podtemplates") && r.Namespace != "kube-system" {
			t.Errorf("Fettle did %s %s in namespace %q", r.Verb, r.Resource, r.Namespace)
		}
	}
}

// requestsAdmission: where the policy is installed, it refuses templates of well-known kinds of parts.
func requestsAdmission(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, u := range cluster.Manifest(t, "config/admission/remediation_template.yaml") {
		if err := c.Create(cluster.Context(t), u); client.IgnoreAlreadyExists(err) != nil {
			t.Fatalf("installing the policy: %v", err)
		}
	}
	for _, machines := range []string{requestsClusterAPI, requestsOpenShift} {
		w := &requestsWorld{Cluster: c, t: t, namespace: "default", machines: machines}
		for _, kind := range []string{requestsInfra + " DockerMachine", requestsBootstrap + " KubeadmConfig", "coordination.k8s.io/v1 Lease"} {
			apiVersion, kind, _ := strings.Cut(kind, " ")
			u := cluster.Decode(t, []byte(w.manifest("attack", "pool: workers", apiVersion, kind, "0")))[0]
			w.Eventually(t, "a health check by "+kind+"Template is refused", func(ctx context.Context) error {
				err := c.Create(ctx, u.DeepCopy(), client.DryRunAll)
				if err == nil || !strings.Contains(err.Error(), "can't be the template") {
					return fmt.Errorf("it is answered with %w", err)
				}
				return nil
			})
		}
		u := cluster.Decode(t, []byte(w.manifest("good", "pool: workers", "infrastructure.cluster.x-k8s.io/v1beta1", "Metal3Remediation", "0")))[0]
		if err := c.Create(cluster.Context(t), u, client.DryRunAll); err != nil {
			t.Errorf("a health check by a Metal3RemediationTemplate is refused: %v", err)
		}
	}
	nodes := cluster.Decode(t, []byte(`{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, metadata: {name: attack},
  spec: {selector: {matchLabels: {none: such}}, escalatingRemediations: [{order: 1, timeout: 5m,
    remediationTemplate: {apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, name: t, namespace: default}}]}}`))[0]
	if err := c.Create(cluster.Context(t), nodes, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "can't be the template") {
		t.Errorf("a NodeHealthCheck is answered with %v", err)
	}
	// A health check from before the policy can be changed in all but its template.
	stored := requestsObject(requestsClusterAPI, "MachineHealthCheck", "capi-docker", "attack")
	patch := func(body string) error {
		return c.Patch(cluster.Context(t), stored.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body)))
	}
	if err := patch(`{"metadata":{"annotations":{"fettle.io/dry-run":"true"}},"spec":{"selector":{"matchLabels":{"pool":"none"}}}}`); err != nil {
		t.Errorf("a stored health check can't be changed: %v", err)
	}
	if err := patch(`{"spec":{"remediation":{"templateRef":{"name":"md-1"}}}}`); err == nil || !strings.Contains(err.Error(), "can't be the template") {
		t.Errorf("another template of that kind is answered with %v", err)
	}
}

func requestsSeen(w *requestsWorld, u *unstructured.Unstructured) func(context.Context) error {
	return func(ctx context.Context) error { return w.Get(ctx, client.ObjectKeyFromObject(u), u.DeepCopy()) }
}
