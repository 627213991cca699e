package integration

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// remediatesNodes is the part of TestRights about nodes alone: the rights for their health checks, leases and
// remediators.
func remediatesNodes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.InstallRemediators(t)
	for _, resource := range []string{"rebootremediations", "rebootremediationtemplates", "reprovisionremediations", "reprovisionremediationtemplates"} {
		awaitRight(t, c, "watch", "sandbox.fettle.io", resource, "")
	}
	p := newPool(t, c, "nodes")
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.template(reinstall, "install", true)
	escalates(p)
	meetsWhatOthersLeft(p)
}

// awaitRight waits until Fettle has a right. Aggregated roles are filled in after a while.
func awaitRight(t *testing.T, c *cluster.Cluster, verb, group, resource, namespace string) {
	t.Helper()
	c.Eventually(t, "Fettle may "+verb+" "+resource, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:fettle-system:fettle",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace},
		}}
		err := c.Create(ctx, review)
		if err == nil && !review.Status.Allowed {
			err = errors.New("it may not")
		}
		return err
	})
}

// escalates: a remediator fails and is stopped, the next step begins, and a user's confirmation ends the repair. The
// repair is recorded once its namespace exists.
func escalates(p *pool) {
	p.healthCheck(append([]string{"healthyDelay: -1s"}, p.steps("10m", rebooting, "reboot", reinstall, "install"))...)
	p.fails("a")
	wantNamespaceRequested(p)
	p.Namespace(p.t, repairNamespace)
	p.wantObjects("a reboot")
	p.say("a reboot", "Succeeded=False")
	p.wantObjects("a reboot", "a install")
	p.wantStopped("a reboot", true)
	p.recovers("a")
	p.wantHealthySince("a", true)
	p.annotate(object("v1", "Node", "", p.nodeName("a")), v1alpha1.ConfirmedHealthyAnnotation, "")
	p.wantObjects()
	p.nothingIsLeft("a", "3/3")
}

// wantNamespaceRequested waits until a Repair was refused since its namespace is missing. Fettle creates no remediation
// object without a record.
func wantNamespaceRequested(p *pool) {
	p.t.Helper()
	p.Eventually(p.t, "a Repair is refused", func(context.Context) error {
		if cluster.Count(p.Requests(p.t), "create", "repairs", repairNamespace) == 0 {
			return errors.New("none is")
		}
		return nil
	})
	p.wantObjects()
}

// meetsWhatOthersLeft: Fettle takes an expired lease. An object about another node has the name of a remediation.
// Fettle reads it before it creates anything.
func meetsWhatOthersLeft(p *pool) {
	p.takeLease("b", "")
	alien := object(remediators, rebooting, p.namespace, p.nodeName("b"))
	alien.SetAnnotations(map[string]string{v1alpha1.NodeNameAnnotation: "another"})
	p.create(alien)
	p.fails("b")
	p.Eventually(p.t, "what is there already is read", func(context.Context) error {
		if cluster.Count(p.Requests(p.t), "get", "rebootremediations", p.namespace) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	if err := p.Delete(cluster.Context(p.t), alien); err != nil {
		p.t.Fatalf("deleting the foreign object: %v", err)
	}
	p.wantObjects("b reboot")
	p.recovers("b")
	p.annotate(object("v1", "Node", "", p.nodeName("b")), v1alpha1.ConfirmedHealthyAnnotation, "")
	p.wantObjects()
	p.nothingIsLeft("b", "3/3")
}

// repairsTheControlPlane: the guards of quorum read their facts. At first the cluster is a plain one, where an
// administrator's annotation replaces the evidence that no node shows. Then it is an OpenShift.
func repairsTheControlPlane(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	p := newPool(t, c, "masters")
	for _, name := range []string{"a", "b", "c"} {
		p.labelledNode(name, map[string]string{"node-role.kubernetes.io/control-plane": ""})
	}
	p.template(rebooting, "reboot", false)
	p.healthCheck(p.single(rebooting, "reboot"))
	repair := func(node string) {
		p.fails(node)
		p.wantObjects(node + " reboot")
		p.recovers(node)
		p.wantObjects()
		p.nothingIsLeft(node, "3/3")
	}
	p.annotate(object("v1", "Namespace", "", "kube-system"), annotation.ControlPlaneQuorum, "external")
	repair("a")

	c.Namespace(t, "openshift-etcd")
	for _, u := range cluster.Kustomization(t, "config/openshift") {
		p.create(u)
	}
	none := intstr.FromInt32(0)
	p.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-etcd", Name: "etcd-guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guard"}},
		},
	})
	for group, resource := range map[string]string{"": "pods", "policy": "poddisruptionbudgets"} {
		awaitRight(t, c, "list", group, resource, "openshift-etcd")
	}
	c.Apply(t, clusterVersions)
	repair("b")
}

// clusterVersions defines the fields of OpenShift's kind that Fettle reads.
const clusterVersions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterversions.config.openshift.io}
spec:
  group: config.openshift.io
  scope: Cluster
  names: {kind: ClusterVersion, plural: clusterversions, singular: clusterversion, listKind: ClusterVersionList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// asksNoMoreOfRemediators: Fettle needs no more rights than docs/contract.md tells remediators to grant. Their roles
// may grant more to other health checkers.
func asksNoMoreOfRemediators(t *testing.T, uses []cluster.Use) {
	t.Helper()
	used := map[string]map[string]bool{}
	for _, u := range uses {
		if u.Group != "sandbox.fettle.io" {
			continue
		}
		of := "objects"
		if strings.HasSuffix(u.Resource, "templates") {
			of = "templates"
		}
		if used[of] == nil {
			used[of] = map[string]bool{}
		}
		used[of][u.Verb] = true
	}
	have := map[string][]string{}
	for of, verbs := range used {
		have[of] = slices.Sorted(maps.Keys(verbs))
	}
	want := map[string][]string{"templates": {"list", "watch"}, "objects": {"create", "delete", "get", "list", "patch", "watch"}}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("the verbs on kinds of remediators (-documented +used):\n%s", diff)
	}
}
