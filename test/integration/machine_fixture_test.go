package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

// short is the time-out of the health checks of these tests.
const short = "2s"

// quiet is how long a test watches for something that must not happen.
const quiet = 2 * time.Second

// machineFixture is a namespace of machines for one test.
type machineFixture struct {
	*cluster.Cluster

	t         *testing.T
	namespace string
	owner     metav1.OwnerReference
}

func newMachineFixture(t *testing.T, c *cluster.Cluster, namespace string) *machineFixture {
	t.Helper()
	c.Namespace(t, namespace)
	set := object("machine.openshift.io/v1beta1", "MachineSet", namespace, "workers")
	set.Object["spec"] = map[string]any{"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"made": "never"}}}
	f := &machineFixture{Cluster: c, t: t, namespace: namespace}
	f.create(set)
	f.owner = *metav1.NewControllerRef(set, set.GroupVersionKind())
	return f
}

// machineOptions describe a machine. The zero value is a running worker that a machine set owns, with a ready node.
type machineOptions struct {
	labels      map[string]string
	noOwner     bool
	noNode      bool
	noNodeRef   bool
	phase       string
	finalizer   bool
	controlNode bool
}

// machine creates a machine and its node. The node's name is the machine's after the namespace.
func (f *machineFixture) machine(name string, o machineOptions) {
	f.t.Helper()
	m := object("machine.openshift.io/v1beta1", "Machine", f.namespace, name)
	labels := map[string]string{"role": "worker", "machine.openshift.io/cluster-api-cluster": "test"}
	maps.Copy(labels, o.labels)
	m.SetLabels(labels)
	if !o.noOwner {
		m.SetOwnerReferences([]metav1.OwnerReference{f.owner})
	}
	if o.finalizer {
		m.SetFinalizers([]string{"machine.machine.openshift.io"})
	}
	f.create(m)
	if !o.noNode {
		f.node(name, o.controlNode)
	}
	status := map[string]any{"phase": "Running", "lastUpdated": metav1.Now().UTC().Format(time.RFC3339)}
	if o.phase != "" {
		status["phase"] = o.phase
	}
	if !o.noNodeRef {
		status["nodeRef"] = map[string]any{"kind": "Node", "name": f.nodeName(name)}
	}
	f.patchStatus(m, status)
}

func (f *machineFixture) nodeName(machine string) string { return f.namespace + "-" + machine }

func (f *machineFixture) node(machine string, controlPlane bool) {
	f.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.nodeName(machine), Labels: map[string]string{"for": "test"}}}
	if controlPlane {
		n.Labels["node-role.kubernetes.io/control-plane"] = ""
	}
	f.create(n)
	f.setReady(machine, corev1.ConditionTrue)
}

// setReady writes the Ready condition of a machine's node as of now.
func (f *machineFixture) setReady(machine string, status corev1.ConditionStatus) {
	f.t.Helper()
	f.setCondition(machine, "Ready", status, time.Now())
}

func (f *machineFixture) setCondition(machine, kind string, status corev1.ConditionStatus, since time.Time) {
	f.t.Helper()
	n := object("v1", "Node", "", f.nodeName(machine))
	f.patchStatus(n, map[string]any{"conditions": []any{map[string]any{
		"type": kind, "status": string(status), "reason": "Test", "message": "set by a test",
		"lastTransitionTime": since.UTC().Format(time.RFC3339), "lastHeartbeatTime": since.UTC().Format(time.RFC3339),
	}}})
}

// healthCheck creates a health check from the lines of its spec.
func (f *machineFixture) healthCheck(name string, annotations map[string]string, spec string) {
	f.t.Helper()
	if err := f.tryHealthCheck(name, annotations, spec); err != nil {
		f.t.Fatalf("creating health check %s: %v", name, err)
	}
}

func (f *machineFixture) tryHealthCheck(name string, annotations map[string]string, spec string) error {
	f.t.Helper()
	text := "apiVersion: machine.openshift.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: " + name + ", namespace: " + f.namespace + "}\nspec:\n" + indent(spec)
	u := cluster.Decode(f.t, []byte(text))[0]
	u.SetAnnotations(annotations)
	return f.Create(cluster.Context(f.t), u)
}

// readyCheck returns the spec of the OpenShift guide (docs/reference/proposals.md#openshift-guide) with short
// time-outs, and lines of a test's own.
func readyCheck(lines ...string) string {
	return strings.Join(append([]string{
		"selector: {matchLabels: {role: worker}}",
		"unhealthyConditions:",
		`- {type: Ready, status: "False", timeout: ` + short + `}`,
		`- {type: Ready, status: Unknown, timeout: ` + short + `}`,
	}, lines...), "\n")
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") + "\n"
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func (f *machineFixture) create(o client.Object) {
	f.t.Helper()
	if err := f.Create(cluster.Context(f.t), o); err != nil {
		f.t.Fatalf("creating %s: %v", o.GetName(), err)
	}
}

func (f *machineFixture) patchStatus(u *unstructured.Unstructured, status map[string]any) {
	f.t.Helper()
	patch := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	body, err := patch.MarshalJSON()
	if err == nil {
		err = f.Status().Patch(cluster.Context(f.t), u, client.RawPatch(types.MergePatchType, body))
	}
	if err != nil {
		f.t.Fatalf("patching the status of %s: %v", u.GetName(), err)
	}
}

func (f *machineFixture) annotate(u *unstructured.Unstructured, key string, value any) {
	f.t.Helper()
	patch := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}}
	body, err := patch.MarshalJSON()
	if err == nil {
		err = f.Patch(cluster.Context(f.t), u, client.RawPatch(types.MergePatchType, body))
	}
	if err != nil {
		f.t.Fatalf("annotating %s: %v", u.GetName(), err)
	}
}

func (f *machineFixture) check(name string) *unstructured.Unstructured {
	return object("machine.openshift.io/v1beta1", "MachineHealthCheck", f.namespace, name)
}

// machines returns the names of the machines that exist, with a minus before those in deletion.
func (f *machineFixture) machines(ctx context.Context) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("machine.openshift.io/v1beta1")
	list.SetKind("MachineList")
	if err := f.List(ctx, list, client.InNamespace(f.namespace)); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		name := list.Items[i].GetName()
		if list.Items[i].GetDeletionTimestamp() != nil {
			name = "-" + name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// wantMachines waits until exactly these machines exist.
func (f *machineFixture) wantMachines(names ...string) {
	f.t.Helper()
	f.Eventually(f.t, "machines "+strings.Join(names, " "), func(ctx context.Context) error {
		return f.areMachines(ctx, names)
	})
}

// keepsMachines checks for a while that exactly these machines exist.
func (f *machineFixture) keepsMachines(names ...string) {
	f.t.Helper()
	f.Never(f.t, "machines "+strings.Join(names, " ")+" must stay", quiet, func(ctx context.Context) error {
		return f.areMachines(ctx, names)
	})
}

func (f *machineFixture) areMachines(ctx context.Context, want []string) error {
	have, err := f.machines(ctx)
	if err != nil {
		return err
	}
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(have, want) {
		return fmt.Errorf("machines are %v, want %v", have, want)
	}
	return nil
}

// wantStatus waits until a health check's status is as wanted, by lines such as "healthy 2/3".
func (f *machineFixture) wantStatus(name string, healthy, expected int, allowed int32, reason string) *v1beta1.Condition {
	f.t.Helper()
	var found v1beta1.Condition
	f.Eventually(f.t, "status of "+name, func(ctx context.Context) error {
		var mhc v1beta1.MachineHealthCheck
		if err := f.Get(ctx, types.NamespacedName{Namespace: f.namespace, Name: name}, &mhc); err != nil {
			return err
		}
		s := mhc.Status
		at := slices.IndexFunc(s.Conditions, func(c v1beta1.Condition) bool { return c.Type == v1beta1.RemediationAllowedCondition })
		if s.CurrentHealthy == nil || s.ExpectedMachines == nil || at < 0 {
			return fmt.Errorf("status is not filled in yet: %+v", s)
		}
		found = s.Conditions[at]
		have := fmt.Sprintf("%d/%d healthy, %d allowed, reason %q", *s.CurrentHealthy, *s.ExpectedMachines, s.RemediationsAllowed, found.Reason)
		if want := fmt.Sprintf("%d/%d healthy, %d allowed, reason %q", healthy, expected, allowed, reason); have != want {
			return fmt.Errorf("status is %s, want %s", have, want)
		}
		return nil
	})
	return &found
}

func (f *machineFixture) wantEvent(name, reason string) {
	f.t.Helper()
	f.Eventually(f.t, "event "+reason+" about "+name, func(context.Context) error {
		if have := f.EventReasons(f.t, f.namespace, name); !slices.Contains(have, reason) {
			return fmt.Errorf("events are %v", have)
		}
		return nil
	})
}

// wantEventsSaying waits for an event of a reason about each of these objects, with these words in its note.
func (f *machineFixture) wantEventsSaying(reason string, words map[string]string) {
	f.t.Helper()
	f.Eventually(f.t, "events "+reason, func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := f.List(ctx, &list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		missing := maps.Clone(words)
		for i := range list.Items {
			e := &list.Items[i]
			if want, waits := missing[e.Regarding.Name]; waits && e.Reason == reason && strings.Contains(e.Note, want) {
				delete(missing, e.Regarding.Name)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%d of %d are missing: %v", len(missing), len(words), missing)
		}
		return nil
	})
}

// comesToRest waits until Fettle has made no request, and no watch of it has ended, for a while. A loop that never ends
// its requests never comes to rest.
func (f *machineFixture) comesToRest() {
	f.t.Helper()
	last, since := -1, time.Now()
	f.Eventually(f.t, "Fettle is at rest", func(context.Context) error {
		requests := append(f.Requests(f.t), f.EndedWatches(f.t)...)
		if len(requests) != last {
			last, since = len(requests), time.Now()
		}
		if time.Since(since) < quiet {
			return fmt.Errorf("it still makes requests, the last of %d being %+v", last, requests[max(0, last-3):])
		}
		return nil
	})
}

// repairs returns the repairs of the namespace.
func (f *machineFixture) repairs(ctx context.Context) ([]v1alpha1.Repair, error) {
	var list v1alpha1.RepairList
	err := f.List(ctx, &list, client.InNamespace(f.namespace))
	return list.Items, err
}

// wantRepairs waits until the repairs of the namespace are these, as "machine phase".
func (f *machineFixture) wantRepairs(want ...string) {
	f.t.Helper()
	slices.Sort(want)
	f.Eventually(f.t, "repairs", func(ctx context.Context) error {
		repairs, err := f.repairs(ctx)
		if err != nil {
			return err
		}
		have := make([]string, 0, len(repairs))
		for i := range repairs {
			have = append(have, repairs[i].Spec.Target.Name+" "+string(repairs[i].Status.Phase))
		}
		slices.Sort(have)
		if !slices.Equal(have, want) {
			return fmt.Errorf("repairs are %q, want %q", have, want)
		}
		return nil
	})
}
