package faults

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	medik8s "github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// The kinds of the sandbox's remediators, which the monitor of a pool plays. The first is namespaced.
const (
	remediators = "sandbox.fettle.io/v1alpha1"
	rebooting   = "RebootRemediation"
	reinstall   = "ReprovisionRemediation"
)

// pool is some nodes for one test, with a NodeHealthCheck of the pool's name, templates, and a monitor. All names begin
// with the pool's. So the name of a pool, with a hyphen, must not be a prefix of another's.
type pool struct {
	*stage
	*monitor

	name string
}

func newPool(t *testing.T, c *cluster.Cluster, name string) *pool {
	t.Helper()
	p := &pool{stage: newStage(t, c), name: name}
	c.Namespace(t, name)
	t.Cleanup(p.clear)
	p.monitor = newMonitor(p)
	return p
}

func (p *pool) node(name string) string { return p.name + "-" + name }

// addNodes makes ready nodes, with labels beside the pool's own.
func (p *pool) addNodes(names []string, labels ...string) {
	p.t.Helper()
	p.each(names, func(ctx context.Context, name string) error {
		n := object("v1", "Node", "", p.node(name))
		own := map[string]string{"pool": p.name}
		for _, label := range labels {
			own[label] = ""
		}
		n.SetLabels(own)
		if err := p.Create(ctx, n); err != nil {
			return err
		}
		return p.ready(ctx, name, corev1.ConditionTrue, time.Now())
	})
	p.Eventually(p.t, "the monitor sees all nodes", func(context.Context) error { return p.knows(names) })
}

// addControlPlane makes nodes of a control plane, which keeps its quorum without two of five.
func (p *pool) addControlPlane() []string {
	p.t.Helper()
	all := names("plane", 5)
	p.addNodes(all, "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/etcd")
	return all
}

func (p *pool) ready(ctx context.Context, name string, status corev1.ConditionStatus, since time.Time) error {
	return p.report(ctx, p.node(name), corev1.NodeReady, status, since)
}

// longBroken makes nodes fail long enough ago to be unhealthy at once.
func (p *pool) longBroken(names []string) { p.brokenFor(names, time.Hour) }

func (p *pool) brokenFor(names []string, since time.Duration) {
	p.t.Helper()
	p.each(names, func(ctx context.Context, name string) error {
		return p.ready(ctx, name, corev1.ConditionFalse, time.Now().Add(-since))
	})
}

// recover makes nodes healthy, without a remediator.
func (p *pool) recover(names []string) {
	p.t.Helper()
	p.each(names, func(ctx context.Context, name string) error {
		return p.ready(ctx, name, corev1.ConditionTrue, time.Now())
	})
}

func (p *pool) templateName(name string) string { return p.name + "-" + name }

func namespaceFor(kind, namespace string) string {
	if kind == rebooting {
		return namespace
	}
	return ""
}

// addTemplate makes a template of a kind. Reprovisioning has several for a node.
func (p *pool) addTemplate(kind, name string) {
	p.t.Helper()
	several := ""
	if kind == reinstall {
		several = medik8s.MultipleTemplatesAnnotation + `: "true"`
	}
	p.Apply(p.t, fmt.Sprintf(`
apiVersion: %s
kind: %sTemplate
metadata: {name: %s, namespace: %q, annotations: {%s}}
spec: {template: {spec: {outcome: Ignore}}}
`, remediators, kind, p.templateName(name), namespaceFor(kind, p.name), several))
}

func (p *pool) template(kind, name string) *unstructured.Unstructured {
	return object(remediators, kind+"Template", namespaceFor(kind, p.name), p.templateName(name))
}

func (p *pool) reference(kind, name string) string {
	namespace := ""
	if in := namespaceFor(kind, p.name); in != "" {
		namespace = ", namespace: " + in
	}
	return "{apiVersion: " + remediators + ", kind: " + kind + "Template, name: " + p.templateName(name) + namespace + "}"
}

// rebooted makes a template, and a health check with it, for this many nodes at a time.
func (p *pool) rebooted(inFlight int) {
	p.t.Helper()
	p.addTemplate(rebooting, "reboot")
	p.healthCheck(inFlight, "remediationTemplate: "+p.reference(rebooting, "reboot"))
}

// inThreeSteps makes templates of three steps, and a health check that escalates over them. The remediators of the
// first fail.
func (p *pool) inThreeSteps() {
	p.t.Helper()
	p.addTemplate(rebooting, "first")
	p.addTemplate(reinstall, "second")
	p.addTemplate(reinstall, "third")
	p.failsAt("first")
	p.healthCheck(unlimited, "escalatingRemediations:",
		"- {order: 1, timeout: 10m, remediationTemplate: "+p.reference(rebooting, "first")+"}",
		"- {order: 2, timeout: 10m, remediationTemplate: "+p.reference(reinstall, "second")+"}",
		"- {order: 3, timeout: 10m, remediationTemplate: "+p.reference(reinstall, "third")+"}")
}

func inFlightText(inFlight int) string {
	if inFlight == unlimited {
		return "unlimited"
	}
	return strconv.Itoa(inFlight)
}

// healthCheck creates the pool's health check, with no limit of unhealthy nodes.
func (p *pool) healthCheck(inFlight int, lines ...string) {
	p.t.Helper()
	p.Apply(p.t, fmt.Sprintf(`
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: %s, annotations: {%s: %q}}
spec:
  selector: {matchLabels: {pool: %s}}
  maxUnhealthy: 100%%
  unhealthyConditions:
  - {type: Ready, status: "False", duration: %s}
  - {type: Ready, status: Unknown, duration: %s}
  %s
`, p.name, annotation.MaxInFlight, inFlightText(inFlight), p.name, short, short, strings.Join(lines, "\n  ")))
}

func (p *pool) check() *unstructured.Unstructured {
	return object("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", "", p.name)
}

// wantStatus waits until the status of the health check counts this many nodes.
func (p *pool) wantStatus(healthy, observed int) {
	p.t.Helper()
	p.Eventually(p.t, "status of the health check", func(ctx context.Context) error {
		var nhc medik8s.NodeHealthCheck
		if err := p.Get(ctx, types.NamespacedName{Name: p.name}, &nhc); err != nil {
			return err
		}
		s := &nhc.Status
		if s.HealthyNodes == nil || s.ObservedNodes == nil || *s.HealthyNodes != healthy || *s.ObservedNodes != observed {
			return fmt.Errorf("status is %+v, want %d/%d", s, healthy, observed)
		}
		return nil
	})
}

// pathOf returns the path of the remediation objects of a kind in all namespaces, which Fettle watches.
func pathOf(kind string) string {
	return "/apis/" + remediators + "/" + strings.ToLower(kind) + "s"
}

// rebootsHere is the path at which this pool's objects are created. They are changed and deleted below it.
func (p *pool) rebootsHere() string {
	return "/apis/" + remediators + "/namespaces/" + p.name + "/" + strings.ToLower(rebooting) + "s"
}

const nodeLeases = "/apis/coordination.k8s.io/v1/namespaces/" + medik8s.LeaseNamespace + "/leases"

// foreignRequest makes objects that look like Fettle's and are not: a remediation of a healthy node, and a lease.
func (p *pool) foreignRequest(node string) {
	p.t.Helper()
	ctx := cluster.Context(p.t)
	u := object(remediators, rebooting, p.name, p.node(node))
	u.SetAnnotations(map[string]string{medik8s.NodeNameAnnotation: p.node(node), medik8s.TemplateNameAnnotation: p.templateName("reboot")})
	u.SetLabels(map[string]string{foreign: ""})
	p.must("creating a foreign remediation", p.Create(ctx, u))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: medik8s.LeaseNamespace, Name: medik8s.LeasePrefix + p.node(node), Labels: map[string]string{foreign: ""},
	}}
	now := metav1.NewMicroTime(time.Now())
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: new("node-maintenance"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now,
	}
	p.must("creating a foreign lease", p.Create(ctx, lease))
}

// clear leaves nothing to do for the next Fettle on this cluster.
func (p *pool) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	note := func(err error) {
		if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
			p.t.Errorf("clearing the pool: %v", err)
		}
	}
	note(client.IgnoreNotFound(p.Patch(ctx, p.check(), merge(map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{annotation.ForceDelete: "true"},
	}}))))
	note(p.Delete(ctx, p.check()))
	note(p.DeleteAllOf(ctx, object("machine.openshift.io/v1beta1", "MachineHealthCheck", "", ""), client.InNamespace(p.name)))
	note(p.DeleteAllOf(ctx, object("machine.openshift.io/v1beta1", "Machine", "", ""), client.InNamespace(p.name)))
	note(p.DeleteAllOf(ctx, object(remediators, rebooting+"Template", "", ""), client.InNamespace(p.name)))
	note(p.DeleteAllOf(ctx, object(remediators, reinstall+"Template", "", "")))
	for _, name := range p.forgetAll() {
		note(p.Delete(ctx, object("v1", "Node", "", name)))
	}
	for _, kind := range []string{rebooting, reinstall} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(remediators)
		list.SetKind(kind + "List")
		note(p.List(ctx, list))
		for i := range list.Items {
			u := &list.Items[i]
			note(p.Delete(ctx, u))
			note(p.Patch(ctx, u, merge(map[string]any{"metadata": map[string]any{"finalizers": nil}})))
		}
	}
	for _, namespace := range []string{"fettle-system", p.name} {
		note(p.DeleteAllOf(ctx, &v1alpha1.Repair{}, client.InNamespace(namespace)))
	}
	note(p.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(medik8s.LeaseNamespace)))
	note(p.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "fettle-system", Name: "fettle"}}))
}

// thirty breaks thirty of forty-one nodes, two of them of the control plane, and returns when a dozen have remediation
// objects.
func (p *pool) thirty(inFlight int) {
	p.t.Helper()
	well, ill, plane := names("well", 8), names("ill", 28), p.addControlPlane()
	p.addNodes(slices.Concat(well, ill))
	p.foreignRequest("well-00")
	p.rebooted(inFlight)
	p.wantStatus(41, 41)
	p.longBroken(append(ill, plane[:2]...))
	p.wantRequested("reboot", 12)
}

// wantMended waits until Fettle has nothing left to do and its objects are gone. Then it verifies how that came about.
func (p *pool) wantMended(limit int) {
	p.t.Helper()
	p.Eventually(p.t, "all is mended", func(context.Context) error { return p.unmended() })
	p.verify(limit)
}
