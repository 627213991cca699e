package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestSlimReadsWhatStockReads: on a real API server, the slim decoder reads the same facts of nodes and machines as the
// stock types. It does so by watch, by pages and one by one, in protobuf and in JSON.
func TestSlimReadsWhatStockReads(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	f := newMachineFixture(t, c, "slim")
	f.makeNodesOfManyShapes()
	f.machine("m", machineOptions{labels: map[string]string{"zone": "a"}})
	f.machine("alone", machineOptions{noOwner: true, noNodeRef: true, finalizer: true})
	for name, format := range map[string]string{"as Fettle requests it": "", "JSON alone": runtime.ContentTypeJSON} {
		t.Run("nodes, "+name, func(t *testing.T) { f.compareNodes(t, slimReader(t, c, format)) })
		t.Run("machines, "+name, func(t *testing.T) { f.compareMachines(t, slimReader(t, c, format)) })
	}
}

// slimReaders read as Fettle does: from a cache, and live from the API server.
type slimReaders struct{ cached, live client.Reader }

func slimReader(t *testing.T, c *cluster.Cluster, format string) slimReaders {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{metav1.AddMetaToScheme, slim.AddToScheme, openshift.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatalf("making a scheme: %v", err)
		}
	}
	config := rest.CopyConfig(c.Config)
	config.ContentType = format
	live, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	cached, err := cache.New(config, cache.Options{Scheme: s})
	if err != nil {
		t.Fatalf("making a cache: %v", err)
	}
	go func() { _ = cached.Start(t.Context()) }()
	return slimReaders{cached: cached, live: live}
}

func (f *machineFixture) makeNodesOfManyShapes() {
	f.t.Helper()
	ready := func(since time.Time) corev1.NodeCondition {
		return corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since), LastHeartbeatTime: metav1.Now(), Reason: "R", Message: "m"}
	}
	shapes := map[string]*corev1.Node{
		"bare":     {},
		"ready":    {Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready(time.Now())}}},
		"timeless": {Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready(time.Time{})}}},
		"old":      {Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready(time.Date(1960, time.May, 1, 0, 0, 0, 0, time.UTC))}}},
		"labelled": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"node-role.kubernetes.io/control-plane": "", "zone": "a"}}},
		"leaving":  {ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"other.example/waits"}}},
		"large": {
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"note": "n"}},
			Spec:       corev1.NodeSpec{ProviderID: "cloud:///large", Unschedulable: true},
			Status:     corev1.NodeStatus{Phase: corev1.NodeRunning, Conditions: []corev1.NodeCondition{ready(time.Now()), {Type: "Other", Status: corev1.ConditionUnknown}}},
		},
	}
	for name, n := range shapes {
		for i := range 40 {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("images.example/%d", i)}})
		}
		n.Name = f.namespace + "-" + name
		status := n.Status
		f.create(n)
		before := client.MergeFrom(n.DeepCopy())
		n.Status = status
		if err := f.Status().Patch(cluster.Context(f.t), n, before); err != nil {
			f.t.Fatalf("reporting the status of %s: %v", n.Name, err)
		}
	}
	if err := f.Delete(cluster.Context(f.t), shapes["leaving"]); err != nil {
		f.t.Fatalf("deleting a node: %v", err)
	}
	f.t.Cleanup(func() {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		_ = f.Patch(context.WithoutCancel(f.t.Context()), shapes["leaving"], patch)
	})
}

// nodeReading has the facts that Fettle reads of a node.
type nodeReading struct {
	Meta       map[string]any
	Conditions []core.Condition
}

func metaReading(o client.Object) map[string]any {
	labels := map[string]any{}
	for key, value := range o.GetLabels() {
		labels[key] = value
	}
	reading := map[string]any{
		"namespace": o.GetNamespace(), "name": o.GetName(), "uid": o.GetUID(), "version": o.GetResourceVersion(), "labels": labels,
		"created": o.GetCreationTimestamp().UTC(), "deleting": o.GetDeletionTimestamp() != nil, "owner": "",
	}
	if owner := metav1.GetControllerOf(o); owner != nil {
		reading["owner"] = owner.Kind + " " + owner.Name + " " + string(owner.UID)
	}
	return reading
}

func slimNode(n *slim.Node) nodeReading {
	return nodeReading{Meta: metaReading(n), Conditions: append([]core.Condition{}, n.Conditions...)}
}

func stockNode(n *corev1.Node) nodeReading {
	r := nodeReading{Meta: metaReading(n), Conditions: []core.Condition{}}
	for _, c := range n.Status.Conditions {
		r.Conditions = append(r.Conditions, core.Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Since: c.LastTransitionTime.Time})
	}
	return r
}

func (f *machineFixture) stockNodes(t *testing.T) map[string]nodeReading {
	t.Helper()
	var list corev1.NodeList
	if err := f.List(cluster.Context(t), &list); err != nil {
		t.Fatalf("listing nodes: %v", err)
	}
	want := map[string]nodeReading{}
	for i := range list.Items {
		want[list.Items[i].Name] = stockNode(&list.Items[i])
	}
	if len(want) < 8 {
		t.Fatalf("there are %d nodes only", len(want))
	}
	return want
}

// compareNodes retries until all agree, since controllers still annotate nodes for a moment.
func (f *machineFixture) compareNodes(t *testing.T, r slimReaders) {
	t.Helper()
	readers := map[string]func(context.Context) (map[string]nodeReading, error){
		"by watch": r.watched, "by pages": r.paged, "one by one": r.gotten,
	}
	compare := func() {
		for how, read := range readers {
			f.Eventually(t, "nodes "+how, func(ctx context.Context) error {
				got, err := read(ctx)
				return differ(err, f.stockNodes(t), got)
			})
		}
	}
	compare()
	f.setCondition("m", "Ready", corev1.ConditionFalse, time.Now())
	compare()
}

func (r slimReaders) watched(ctx context.Context) (map[string]nodeReading, error) {
	var list slim.NodeList
	err := r.cached.List(ctx, &list)
	return readAll(&list), err
}

func (r slimReaders) paged(ctx context.Context) (map[string]nodeReading, error) {
	all, total := map[string]nodeReading{}, int64(-1)
	for page := (&slim.NodeList{}); ; {
		if err := r.live.List(ctx, page, client.Limit(3), client.Continue(page.Continue)); err != nil {
			return nil, err
		}
		if total >= 0 && total < int64(len(page.Items)) {
			return nil, fmt.Errorf("%d nodes came where %d were left", len(page.Items), total)
		}
		maps.Copy(all, readAll(page))
		if page.Continue == "" {
			return all, nil
		}
		if page.RemainingItemCount == nil {
			return nil, errors.New("a page does not tell how many are left")
		}
		total = *page.RemainingItemCount
	}
}

func (r slimReaders) gotten(ctx context.Context) (map[string]nodeReading, error) {
	listed, err := r.watched(ctx)
	for name := range listed {
		n := &slim.Node{}
		if err := r.live.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return nil, err
		}
		listed[name] = slimNode(n)
	}
	return listed, err
}

func readAll(list *slim.NodeList) map[string]nodeReading {
	all := map[string]nodeReading{}
	for i := range list.Items {
		all[list.Items[i].Name] = slimNode(&list.Items[i])
	}
	return all
}

func differ(err error, want, got any) error {
	if err != nil {
		return err
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("(-stock +slim):\n%s", diff)
	}
	return nil
}

func (f *machineFixture) compareMachines(t *testing.T, r slimReaders) {
	t.Helper()
	stock := &unstructured.UnstructuredList{}
	stock.SetAPIVersion("machine.openshift.io/v1beta1")
	stock.SetKind("MachineList")
	if err := f.List(cluster.Context(t), stock, client.InNamespace(f.namespace)); err != nil || len(stock.Items) != 2 {
		t.Fatalf("listing machines: %d, %v", len(stock.Items), err)
	}
	want := map[string]map[string]any{}
	for i := range stock.Items {
		u := &stock.Items[i]
		reading := metaReading(u)
		reading["phase"], _, _ = unstructured.NestedString(u.Object, "status", "phase")
		reading["node"], _, _ = unstructured.NestedString(u.Object, "status", "nodeRef", "name")
		updated, _, _ := unstructured.NestedString(u.Object, "status", "lastUpdated")
		reading["updated"] = updated
		want[u.GetName()] = reading
	}
	f.Eventually(t, "machines by watch", func(ctx context.Context) error {
		var list openshift.MachineList
		err := r.cached.List(ctx, &list)
		got := map[string]map[string]any{}
		for i := range list.Items {
			m := &list.Items[i]
			got[m.Name] = metaReading(m)
			got[m.Name]["phase"], got[m.Name]["node"] = m.Phase, m.Node
			got[m.Name]["updated"] = m.LastUpdated.UTC().Format(time.RFC3339)
		}
		return differ(err, want, got)
	})
}
