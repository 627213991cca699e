package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fettlev1alpha1 "github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// The kinds of the sandbox's remediators, one of them namespaced. No remediator answers unless a test plays it.
const (
	remediators = "sandbox.fettle.io/v1alpha1"
	rebooting   = "RebootRemediation"
	reinstall   = "ReprovisionRemediation"
)

// pool is some nodes for one test, and the NodeHealthChecks that it makes for them. All names begin with the pool's,
// including the namespace of its templates. So the name of a pool, with a hyphen, must not be a prefix of another's.
type pool struct{ *machineFixture }

func newPool(t *testing.T, c *cluster.Cluster, name string) *pool {
	t.Helper()
	c.Namespace(t, name)
	return &pool{&machineFixture{Cluster: c, t: t, namespace: name}}
}

// nodes makes ready nodes.
func (p *pool) nodes(names ...string) {
	p.t.Helper()
	for _, name := range names {
		p.labelledNode(name, nil)
	}
}

func (p *pool) labelledNode(name string, labels map[string]string) {
	p.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.nodeName(name), Labels: map[string]string{"pool": p.namespace}}}
	maps.Copy(n.Labels, labels)
	p.create(n)
	p.setReady(name, corev1.ConditionTrue)
}

// fails makes nodes report that they are not ready as of now, and returns an earlier instant.
func (p *pool) fails(names ...string) time.Time {
	p.t.Helper()
	at := time.Now()
	for _, name := range names {
		p.setReady(name, corev1.ConditionFalse)
	}
	return at
}

// recovers makes nodes report that they are ready as of now, and returns an earlier instant.
func (p *pool) recovers(names ...string) time.Time {
	p.t.Helper()
	at := time.Now()
	for _, name := range names {
		p.setReady(name, corev1.ConditionTrue)
	}
	return at
}

func (p *pool) removeNode(name string) {
	p.t.Helper()
	if err := p.Delete(cluster.Context(p.t), object("v1", "Node", "", p.nodeName(name))); err != nil {
		p.t.Fatalf("deleting node %s: %v", name, err)
	}
}

// patch applies a merge patch to an object.
func (p *pool) patch(u *unstructured.Unstructured, patch string) error {
	p.t.Helper()
	return p.Patch(cluster.Context(p.t), u, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// change applies a merge patch that the API server must accept.
func (p *pool) change(u *unstructured.Unstructured, patch string) {
	p.t.Helper()
	if err := p.patch(u, patch); err != nil {
		p.t.Fatalf("patching %s %s with %s: %v", u.GetKind(), u.GetName(), patch, err)
	}
}

// label sets labels of a node, by JSON.
func (p *pool) label(node, labels string) {
	p.t.Helper()
	p.change(object("v1", "Node", "", p.nodeName(node)), `{"metadata":{"labels":`+labels+`}}`)
}

// templateName is in the names of all templates, since kinds without namespaces have templates of all pools.
func (p *pool) templateName(name string) string { return p.namespace + "-" + name }

// template makes a template of a remediation kind. Several templates of a kind serve the same nodes if each says so.
func (p *pool) template(kind, name string, several bool) {
	p.t.Helper()
	u := object(remediators, kind+"Template", p.namespaceOf(kind), p.templateName(name))
	u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"outcome": "Ignore", "takes": "7s"}}}
	if several {
		u.SetAnnotations(map[string]string{v1alpha1.MultipleTemplatesAnnotation: "true"})
	}
	p.create(u)
}

func (p *pool) namespaceOf(kind string) string {
	if kind == rebooting {
		return p.namespace
	}
	return ""
}

// reference returns the name of a template as health checks write it.
func (p *pool) reference(kind, name string) string {
	namespace := ""
	if p.namespaceOf(kind) != "" {
		namespace = ", namespace: " + p.namespace
	}
	return "{apiVersion: " + remediators + ", kind: " + kind + "Template, name: " + p.templateName(name) + namespace + "}"
}

// single is the remedy of a health check without escalation.
func (p *pool) single(kind, name string) string {
	return "remediationTemplate: " + p.reference(kind, name)
}

// steps returns an escalation, by kinds and names of templates in turn. The time of a step suffices for any test.
func (p *pool) steps(timeout string, kindsAndNames ...string) string {
	lines := []string{"escalatingRemediations:"}
	for i := 0; i < len(kindsAndNames); i += 2 {
		lines = append(lines, fmt.Sprintf("- {order: %d, timeout: %s, remediationTemplate: %s}", i, timeout, p.reference(kindsAndNames[i], kindsAndNames[i+1])))
	}
	return strings.Join(lines, "\n")
}

// healthCheck creates the pool's own health check, with short time-outs and lines of the test's own.
func (p *pool) healthCheck(lines ...string) {
	p.t.Helper()
	p.namedCheck(p.namespace, "{pool: "+p.namespace+"}", lines...)
}

func (p *pool) namedCheck(name, labels string, lines ...string) {
	p.t.Helper()
	spec := strings.Join(append([]string{
		"selector: {matchLabels: " + labels + "}",
		"unhealthyConditions:",
		`- {type: Ready, status: "False", duration: ` + short + `}`,
		`- {type: Ready, status: Unknown, duration: ` + short + `}`,
	}, lines...), "\n")
	p.Apply(p.t, "apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck\nmetadata: {name: "+name+"}\nspec:\n"+indent(spec))
}

func (p *pool) nodeCheck(name string) *unstructured.Unstructured {
	return object("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", "", name)
}

// own returns the pool's own health check.
func (p *pool) own() *unstructured.Unstructured { return p.nodeCheck(p.namespace) }

// annotateCheck sets annotations of the pool's own health check, by JSON.
func (p *pool) annotateCheck(annotations string) {
	p.t.Helper()
	p.change(p.own(), `{"metadata":{"annotations":`+annotations+`}}`)
}

// isRefused fails the test unless a write was refused with a reason.
func (p *pool) isRefused(why string, err error) {
	p.t.Helper()
	if err == nil || !strings.Contains(err.Error(), why) {
		p.t.Errorf("the answer does not say %q: %v", why, err)
	}
}

func (p *pool) removeCheck(name string) {
	p.t.Helper()
	if err := p.Delete(cluster.Context(p.t), p.nodeCheck(name)); err != nil {
		p.t.Fatalf("deleting health check %s: %v", name, err)
	}
}

// remediations returns the remediation objects of the pool's nodes, as "node template", with a minus before those in
// deletion.
func (p *pool) remediations(ctx context.Context) (map[string]*unstructured.Unstructured, error) {
	found := map[string]*unstructured.Unstructured{}
	for _, kind := range []string{rebooting, reinstall} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(remediators)
		list.SetKind(kind + "List")
		if err := p.List(ctx, list); err != nil {
			return nil, err
		}
		for i := range list.Items {
			u := &list.Items[i]
			node, ours := strings.CutPrefix(u.GetAnnotations()[v1alpha1.NodeNameAnnotation], p.namespace+"-")
			if !ours {
				continue
			}
			text := node + " " + strings.TrimPrefix(u.GetAnnotations()[v1alpha1.TemplateNameAnnotation], p.namespace+"-")
			if u.GetDeletionTimestamp() != nil {
				text = "-" + text
			}
			if found[text] != nil {
				return nil, fmt.Errorf("there are two remediation objects %q", text)
			}
			found[text] = u
		}
	}
	return found, nil
}

// wantObjects waits until exactly these remediation objects exist.
func (p *pool) wantObjects(want ...string) {
	p.t.Helper()
	p.wantObjectsAfter(0, want...)
}

func (p *pool) wantObjectsAfter(while time.Duration, want ...string) {
	p.t.Helper()
	p.After(p.t, while, fmt.Sprintf("remediation objects %q", want), func(ctx context.Context) error { return p.areObjects(ctx, want) })
}

// keepsObjects checks for a while that exactly these exist.
func (p *pool) keepsObjects(want ...string) {
	p.t.Helper()
	p.Never(p.t, fmt.Sprintf("remediation objects %q must stay", want), quiet, func(ctx context.Context) error { return p.areObjects(ctx, want) })
}

func (p *pool) areObjects(ctx context.Context, want []string) error {
	found, err := p.remediations(ctx)
	if err != nil {
		return err
	}
	have := slices.Sorted(maps.Keys(found))
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(have, want) {
		return fmt.Errorf("remediation objects are %q, want %q", have, want)
	}
	return nil
}

// object returns a remediation object that exists.
func (p *pool) object(text string) *unstructured.Unstructured {
	p.t.Helper()
	found, err := p.remediations(cluster.Context(p.t))
	if err != nil || found[text] == nil {
		p.t.Fatalf("there is no remediation object %q (%v)", text, err)
	}
	return found[text]
}

// createdBefore fails the test if a remediation object was created before an instant, in whole seconds.
func (p *pool) createdBefore(text string, at time.Time) {
	p.t.Helper()
	if made := p.object(text).GetCreationTimestamp(); made.Time.Before(at.Truncate(time.Second)) {
		p.t.Errorf("remediation object %q was made at %s, before %s", text, made, at)
	}
}

// say writes conditions of a remediation object, as its remediator would: "Succeeded=False".
func (p *pool) say(text string, conditions ...string) {
	p.t.Helper()
	p.sayAt(text, time.Now(), conditions...)
}

// sayAt writes conditions with an instant of their transition.
func (p *pool) sayAt(text string, since time.Time, conditions ...string) {
	p.t.Helper()
	var list []any
	for _, c := range conditions {
		kind, status, _ := strings.Cut(c, "=")
		list = append(list, map[string]any{
			"type": kind, "status": status, "reason": "Test", "message": "", "lastTransitionTime": since.UTC().Format(time.RFC3339),
		})
	}
	p.patchStatus(p.object(text), map[string]any{"conditions": list})
}

// keep adds a finalizer to a remediation object, as a remediator does that has to undo its work. release removes it.
func (p *pool) keep(text string) {
	p.t.Helper()
	p.change(p.object(text), `{"metadata":{"finalizers":["sandbox.fettle.io/remediation"]}}`)
}

func (p *pool) letGo(text string) {
	p.t.Helper()
	p.change(p.object(text), `{"metadata":{"finalizers":null}}`)
}

// nodeStatus reads the status of the pool's own health check.
func (p *pool) nodeStatus(ctx context.Context, name string) (*v1alpha1.NodeHealthCheckStatus, error) {
	var nhc v1alpha1.NodeHealthCheck
	if err := p.Get(ctx, types.NamespacedName{Name: name}, &nhc); err != nil {
		return nil, err
	}
	return &nhc.Status, nil
}

// wantNodeStatus waits until the status of the pool's own health check is as wanted, by a line such as
// "3/4 healthy, Remediating, unhealthy: a[reboot] b[]".
func (p *pool) wantNodeStatus(want string) {
	p.t.Helper()
	p.Eventually(p.t, "status of the health check", func(ctx context.Context) error {
		s, err := p.nodeStatus(ctx, p.namespace)
		if err != nil {
			return err
		}
		if have := p.statusText(s); have != want {
			return fmt.Errorf("status is %q, want %q", have, want)
		}
		return nil
	})
}

func (p *pool) statusText(s *v1alpha1.NodeHealthCheckStatus) string {
	if s.HealthyNodes == nil || s.ObservedNodes == nil {
		return "not filled in yet"
	}
	var unhealthy []string
	for _, n := range s.UnhealthyNodes {
		var templates []string
		for _, r := range n.Remediations {
			templates = append(templates, strings.TrimPrefix(r.TemplateName, p.namespace+"-"))
		}
		unhealthy = append(unhealthy, strings.TrimPrefix(n.Name, p.namespace+"-")+"["+strings.Join(templates, " ")+"]")
	}
	slices.Sort(unhealthy)
	return strings.TrimSpace(fmt.Sprintf("%d/%d healthy, %s, unhealthy: %s", *s.HealthyNodes, *s.ObservedNodes, s.Phase, strings.Join(unhealthy, " ")))
}

// wantCondition waits until a condition of the pool's own health check has a status, and a reason unless that is empty.
func (p *pool) wantCondition(kind string, status metav1.ConditionStatus, reason string) {
	p.t.Helper()
	p.Eventually(p.t, "condition "+kind, func(ctx context.Context) error {
		s, err := p.nodeStatus(ctx, p.namespace)
		if err != nil {
			return err
		}
		for _, c := range s.Conditions {
			if c.Type == kind && c.Status == status && (reason == "" || c.Reason == reason) {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", s.Conditions)
	})
}

// wantCheckEvent waits for an event about a health check. Events about objects without a namespace are in default.
func (p *pool) wantCheckEvent(reason string) {
	p.t.Helper()
	p.Eventually(p.t, "event "+reason, func(context.Context) error {
		if have := p.EventReasons(p.t, corev1.NamespaceDefault, p.namespace); !slices.Contains(have, reason) {
			return fmt.Errorf("events are %v", have)
		}
		return nil
	})
}

// wantNodeRepairs waits until the repairs of the pool's nodes are these, as "node phase".
func (p *pool) wantNodeRepairs(want ...string) {
	p.t.Helper()
	slices.Sort(want)
	p.Eventually(p.t, "repairs", func(ctx context.Context) error {
		have, err := p.repairsOfNodes(ctx)
		if err != nil {
			return err
		}
		if !slices.Equal(have, want) {
			return fmt.Errorf("repairs are %q, want %q", have, want)
		}
		return nil
	})
}

// repairsOfNodes returns the repairs of the pool's nodes, as "node phase", in order.
func (p *pool) repairsOfNodes(ctx context.Context) ([]string, error) {
	var list fettlev1alpha1.RepairList
	err := p.List(ctx, &list)
	have := []string{}
	for i := range list.Items {
		if node, ours := strings.CutPrefix(list.Items[i].Spec.Target.Name, p.namespace+"-"); ours {
			have = append(have, node+" "+string(list.Items[i].Status.Phase))
		}
	}
	slices.Sort(have)
	return have, err
}

// nothingIsLeft: a node that is healthy, gone or no longer selected has no object, lease, running repair or entry of
// the status. Status is what the health check says then, in phase Enabled.
func (p *pool) nothingIsLeft(node, status string) {
	p.t.Helper()
	p.wantLease(node, "")
	p.wantNodeStatus(status + " healthy, Enabled, unhealthy:")
	p.Eventually(p.t, "no repair runs", func(ctx context.Context) error {
		var list fettlev1alpha1.RepairList
		if err := p.List(ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			if r := &list.Items[i]; r.Spec.Target.Name == p.nodeName(node) && r.Status.FinishedAt == nil {
				return fmt.Errorf("repair %s has not ended: %+v", r.Name, r.Status)
			}
		}
		return nil
	})
	s, err := p.nodeStatus(cluster.Context(p.t), p.namespace)
	if err != nil || len(s.InFlightRemediations) > 0 {
		p.t.Errorf("remediations are still in flight: %v (%v)", s.InFlightRemediations, err)
	}
}

func (p *pool) leaseOf(node string) types.NamespacedName {
	return types.NamespacedName{Namespace: v1alpha1.LeaseNamespace, Name: v1alpha1.LeasePrefix + p.nodeName(node)}
}

// wantLease waits until a node's lease has a holder, or has none if the name is empty.
func (p *pool) wantLease(node, holder string) {
	p.t.Helper()
	p.Eventually(p.t, "lease of "+node, func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		err := p.Get(ctx, p.leaseOf(node), lease)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		have := ""
		if err == nil && lease.Spec.HolderIdentity != nil {
			have = *lease.Spec.HolderIdentity
		}
		if have != holder {
			return fmt.Errorf("it is held by %q, want %q", have, holder)
		}
		return nil
	})
}

// takeLease makes another holder take a node's lease for an hour, whatever its holder is now.
func (p *pool) takeLease(node, holder string) {
	p.t.Helper()
	key := p.leaseOf(node)
	p.Namespace(p.t, key.Namespace)
	spec, err := json.Marshal(coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: new(int32(3600)), LeaseTransitions: new(int32(1)),
		AcquireTime: new(metav1.NewMicroTime(time.Now())), RenewTime: new(metav1.NewMicroTime(time.Now())),
	})
	if err != nil {
		p.t.Fatalf("encoding a lease: %v", err)
	}
	lease := object("coordination.k8s.io/v1", "Lease", key.Namespace, key.Name)
	if err := p.Create(cluster.Context(p.t), lease); client.IgnoreAlreadyExists(err) != nil {
		p.t.Fatalf("creating a lease: %v", err)
	}
	p.change(object("coordination.k8s.io/v1", "Lease", key.Namespace, key.Name), `{"spec":`+string(spec)+`}`)
}

func (p *pool) giveLeaseBack(node string) {
	p.t.Helper()
	key := p.leaseOf(node)
	if err := p.Delete(cluster.Context(p.t), object("coordination.k8s.io/v1", "Lease", key.Namespace, key.Name)); err != nil {
		p.t.Fatalf("deleting a lease: %v", err)
	}
}

// holderOf returns the name under which Fettle holds leases for a health check.
func holderOf(check string) string { return "fettle.io/NodeHealthCheck-" + check }
