package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// For machines that a test plays itself.
const (
	clusterAPI     = "cluster.x-k8s.io/v1beta2"
	herdCluster    = "c"
	skipAnnotation = "cluster.x-k8s.io/skip-remediation"
)

// clusterAPIOnly are the flags of a management cluster whose controllers a test plays itself.
func clusterAPIOnly() cluster.Options {
	return cluster.Options{Args: []string{noNodeController, "--cluster-api", "--cluster-api-kinds-only"}}
}

// clusterFixture is a workload cluster for one test, in a namespace of the management cluster. Its machines are there.
// Its nodes are in a workload cluster that it may share with others, so their names begin with the fixture's.
type clusterFixture struct {
	client.Client

	t                    *testing.T
	management, workload *cluster.Cluster
	namespace            string
}

// newClusterFixture makes a Cluster that is up, and owners of its machines.
func newClusterFixture(t *testing.T, management, workload *cluster.Cluster, name string) *clusterFixture {
	t.Helper()
	management.Namespace(t, name)
	h := &clusterFixture{Client: typed(t, management), t: t, management: management, workload: workload, namespace: name}
	h.create(&corev1.Secret{
		ObjectMeta: h.meta(herdCluster + "-kubeconfig"), Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": kubeconfigOf(t, workload)},
	})
	h.create(&clusterv1.Cluster{
		ObjectMeta: h.meta(herdCluster),
		Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxCluster", Name: herdCluster},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: herdCluster},
		},
	})
	h.clusterIs(clusterv1.ClusterInfrastructureReadyCondition, true)
	h.clusterIs(clusterv1.ClusterControlPlaneInitializedCondition, true)
	h.create(h.machineSet())
	return h
}

// typed returns an administrator's client that knows Cluster API's kinds.
func typed(t *testing.T, c *cluster.Cluster) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatalf("registering kinds: %v", err)
		}
	}
	config := rest.CopyConfig(c.Config)
	config.WarningHandlerWithContext = rest.NoWarnings{} // v1beta1 is deprecated
	out, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return out
}

func kubeconfigOf(t *testing.T, c *cluster.Cluster) []byte {
	t.Helper()
	raw, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		t.Fatalf("reading a kubeconfig: %v", err)
	}
	return raw
}

func (h *clusterFixture) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: h.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: herdCluster}}
}

func (h *clusterFixture) create(o client.Object) {
	h.t.Helper()
	if err := h.Create(cluster.Context(h.t), o); err != nil {
		h.t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

// machineSet creates the owner of the workers. The garbage collector deletes objects without their owner.
func (h *clusterFixture) machineSet() *clusterv1.MachineSet {
	infrastructure := clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxMachineTemplate", Name: "workers"}
	secret := "bootstrap"
	return &clusterv1.MachineSet{
		ObjectMeta: h.meta("workers"),
		Spec: clusterv1.MachineSetSpec{
			ClusterName: herdCluster, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"nodepool": "workers"}},
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"nodepool": "workers"}},
				Spec: clusterv1.MachineSpec{
					ClusterName: herdCluster, InfrastructureRef: infrastructure, Bootstrap: clusterv1.Bootstrap{DataSecretName: &secret},
				},
			},
		},
	}
}

// clusterIs sets a condition of the Cluster as of now.
func (h *clusterFixture) clusterIs(condition string, status bool) {
	h.t.Helper()
	h.changeCluster(func(c *clusterv1.Cluster) {
		fresh := metav1.Condition{Type: condition, Status: metav1.ConditionFalse, Reason: "Test", LastTransitionTime: metav1.Now()}
		if status {
			fresh.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&c.Status.Conditions, fresh)
	})
}

func (h *clusterFixture) changeCluster(change func(*clusterv1.Cluster)) {
	h.t.Helper()
	h.management.Eventually(h.t, "changing the cluster", func(ctx context.Context) error {
		c := &clusterv1.Cluster{}
		if err := h.Get(ctx, types.NamespacedName{Namespace: h.namespace, Name: herdCluster}, c); err != nil {
			return err
		}
		spec := c.DeepCopy()
		change(spec)
		status := spec.DeepCopy()
		if err := h.Patch(ctx, spec, client.MergeFrom(c)); err != nil {
			return err
		}
		return h.Status().Patch(ctx, status, client.MergeFrom(c))
	})
}

// The differences between machines.
func controlPlane(m *clusterv1.Machine) {
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: herdCluster, clusterv1.MachineControlPlaneLabel: ""}
}
func orphan(m *clusterv1.Machine) { m.OwnerReferences = nil }
func annotated(key string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.Annotations = map[string]string{key: ""} }
}

// machine makes a worker without a node.
func (h *clusterFixture) machine(name string, changes ...func(*clusterv1.Machine)) {
	h.t.Helper()
	owner := &clusterv1.MachineSet{}
	if err := h.Get(cluster.Context(h.t), types.NamespacedName{Namespace: h.namespace, Name: "workers"}, owner); err != nil {
		h.t.Fatalf("reading the machine set: %v", err)
	}
	secret := "bootstrap"
	m := &clusterv1.Machine{
		ObjectMeta: h.meta(name),
		Spec: clusterv1.MachineSpec{
			ClusterName:       herdCluster,
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxMachine", Name: name},
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: &secret},
		},
	}
	m.Labels["nodepool"] = "workers"
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("MachineSet"))}
	for _, change := range changes {
		change(m)
	}
	h.create(m)
}

// running makes machines with ready nodes.
func (h *clusterFixture) running(names ...string) {
	h.t.Helper()
	for _, name := range names {
		h.machine(name)
		h.joins(name)
	}
}

// joins makes the ready node of a machine, and makes the machine refer to it.
func (h *clusterFixture) joins(name string) {
	h.t.Helper()
	if err := h.workload.Create(cluster.Context(h.t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.node(name)}}); err != nil {
		h.t.Fatalf("creating a node: %v", err)
	}
	h.nodeIs(name, corev1.ConditionTrue)
	h.changeStatus(name, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = h.node(name) })
}

func (h *clusterFixture) node(machine string) string { return h.namespace + "-" + machine }

// nodeIs sets the condition Ready of a machine's node as of now, and returns that instant.
func (h *clusterFixture) nodeIs(machine string, status corev1.ConditionStatus) time.Time {
	h.t.Helper()
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, Reason: "Test", LastHeartbeatTime: now, LastTransitionTime: now,
	}}}})
	if err != nil {
		h.t.Fatal(err)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.node(machine)}}
	if err := h.workload.Status().Patch(cluster.Context(h.t), n, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		h.t.Fatalf("setting the condition of a node: %v", err)
	}
	return now.Time
}

// fail makes the nodes of machines report that they are not ready, and returns when the last did.
func (h *clusterFixture) fail(machines ...string) time.Time {
	h.t.Helper()
	var at time.Time
	for _, m := range machines {
		at = h.nodeIs(m, corev1.ConditionFalse)
	}
	return at
}

func (h *clusterFixture) recover(machines ...string) {
	h.t.Helper()
	for _, m := range machines {
		h.nodeIs(m, corev1.ConditionTrue)
	}
}

func (h *clusterFixture) get(ctx context.Context, name string) (*clusterv1.Machine, error) {
	m := &clusterv1.Machine{}
	return m, h.Get(ctx, types.NamespacedName{Namespace: h.namespace, Name: name}, m)
}

// changeStatus changes the status of a machine as its controllers do.
func (h *clusterFixture) changeStatus(name string, change func(*clusterv1.Machine)) {
	h.t.Helper()
	h.management.Eventually(h.t, "changing the status of "+name, func(ctx context.Context) error {
		m, err := h.get(ctx, name)
		if err != nil {
			return err
		}
		fresh := m.DeepCopy()
		change(fresh)
		return h.Status().Patch(ctx, fresh, client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{}))
	})
}

// annotate sets an annotation of a machine. A minus before the key removes it.
func (h *clusterFixture) annotate(machine string, keys ...string) {
	h.t.Helper()
	values := make([]string, len(keys))
	for i, key := range keys {
		values[i] = fmt.Sprintf(`%q:""`, key)
		if without, is := strings.CutPrefix(key, "-"); is {
			values[i] = fmt.Sprintf(`%q:null`, without)
		}
	}
	m := &clusterv1.Machine{ObjectMeta: h.meta(machine)}
	patch := `{"metadata":{"annotations":{` + strings.Join(values, ",") + `}}}`
	if err := h.Patch(cluster.Context(h.t), m, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		h.t.Fatalf("annotating %s: %v", machine, err)
	}
}

// healthCheck returns a health check of the workers with short time-outs, and lines of the test's own.
func (h *clusterFixture) healthCheck(lines ...string) {
	h.t.Helper()
	spec := strings.Join(append([]string{
		"clusterName: " + herdCluster,
		"selector: {matchLabels: {nodepool: workers}}",
		"checks:",
		"  nodeStartupTimeoutSeconds: 600",
		"  unhealthyNodeConditions:",
		`  - {type: Ready, status: "False", timeoutSeconds: 1}`,
		`  - {type: Ready, status: Unknown, timeoutSeconds: 1}`,
	}, lines...), "\n")
	h.apply(clusterAPI, spec)
}

// apply creates the fixture's health check.
func (h *clusterFixture) apply(version, spec string) {
	h.t.Helper()
	h.management.Apply(h.t, "apiVersion: "+version+"\nkind: MachineHealthCheck\nmetadata: {name: check, namespace: "+h.namespace+"}\nspec:\n"+indent(spec))
}

func (h *clusterFixture) check(ctx context.Context) (*clusterv1.MachineHealthCheck, error) {
	c := &clusterv1.MachineHealthCheck{}
	return c, h.Get(ctx, types.NamespacedName{Namespace: h.namespace, Name: "check"}, c)
}

// changeCheck applies a merge patch to the health check.
func (h *clusterFixture) changeCheck(patch string) {
	h.t.Helper()
	c := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "check"}}
	if err := h.Patch(cluster.Context(h.t), c, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		h.t.Fatalf("changing the health check: %v", err)
	}
}

// wantCounts waits for "HEALTHY/EXPECTED healthy, ALLOWED allowed".
func (h *clusterFixture) wantCounts(want string) {
	h.t.Helper()
	h.management.Eventually(h.t, "the health check's status", func(ctx context.Context) error {
		c, err := h.check(ctx)
		if err != nil {
			return err
		}
		return countsAre(c, want)
	})
}

func countsAre(c *clusterv1.MachineHealthCheck, want string) error {
	number := func(n *int32) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	s := &c.Status
	if got := number(s.CurrentHealthy) + "/" + number(s.ExpectedMachines) + " healthy, " + number(s.RemediationsAllowed) + " allowed"; got != want {
		return fmt.Errorf("%s, want %s (%s)", got, want, wordsOf(s.Conditions))
	}
	return nil
}

// wordsOf renders conditions as "Type=Status/Reason".
func wordsOf(conditions []metav1.Condition) string {
	words := make([]string, len(conditions))
	for i, c := range conditions {
		words[i] = c.Type + "=" + string(c.Status) + "/" + c.Reason
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// wantCheck waits until a condition of the health check is "Status/Reason", with these words in its message.
func (h *clusterFixture) wantCheck(condition, want string, words ...string) {
	h.t.Helper()
	h.management.Eventually(h.t, "the health check's condition "+condition, func(ctx context.Context) error {
		c, err := h.check(ctx)
		if err != nil {
			return err
		}
		return compareCondition(c.Status.Conditions, condition, want, words)
	})
}

// wantMachine waits until a condition of a machine is "Status/Reason", or missing for "".
func (h *clusterFixture) wantMachine(name, condition, want string, words ...string) {
	h.t.Helper()
	h.management.Eventually(h.t, "condition "+condition+" of "+name, func(ctx context.Context) error {
		m, err := h.get(ctx, name)
		if err != nil {
			return err
		}
		return compareCondition(m.Status.Conditions, condition, want, words)
	})
}

func compareCondition(conditions []metav1.Condition, condition, want string, words []string) error {
	got, message := "", ""
	if c := meta.FindStatusCondition(conditions, condition); c != nil {
		got, message = string(c.Status)+"/"+c.Reason, c.Message
	}
	if got != want {
		return fmt.Errorf("%s is %q, want %q: %s", condition, got, want, message)
	}
	for _, w := range words {
		if !strings.Contains(message, w) {
			return fmt.Errorf("%s says %q, which lacks %q", condition, message, w)
		}
	}
	return nil
}

// wantLegacy waits until a condition of a machine in the older generation is "Status/Reason/Severity".
func (h *clusterFixture) wantLegacy(name string, condition clusterv1.ConditionType, want string) {
	h.t.Helper()
	h.management.Eventually(h.t, "older condition "+string(condition)+" of "+name, func(ctx context.Context) error {
		m, err := h.get(ctx, name)
		if err != nil {
			return err
		}
		got := ""
		if m.Status.Deprecated != nil && m.Status.Deprecated.V1Beta1 != nil {
			for _, c := range m.Status.Deprecated.V1Beta1.Conditions {
				if c.Type == condition {
					got = string(c.Status) + "/" + c.Reason + "/" + string(c.Severity)
				}
			}
		}
		if got != want {
			return fmt.Errorf("it is %q, want %q", got, want)
		}
		return nil
	})
}

// wantMarked waits until a machine is marked for its owner.
func (h *clusterFixture) wantMarked(name, reason string) {
	h.t.Helper()
	h.wantMachine(name, clusterv1.MachineHealthCheckSucceededCondition, "False/"+reason)
	h.wantMachine(name, clusterv1.MachineOwnerRemediatedCondition, "False/WaitingForRemediation")
}

// keepsUnmarked checks for a while that machines are not marked for their owner. It begins once Fettle has judged them.
func (h *clusterFixture) keepsUnmarked(names ...string) {
	h.t.Helper()
	h.management.Never(h.t, "nothing is marked", 3*time.Second, func(ctx context.Context) error {
		for _, name := range names {
			m, err := h.get(ctx, name)
			if err != nil {
				return err
			}
			for _, condition := range []string{clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition} {
				if c := meta.FindStatusCondition(m.Status.Conditions, condition); c != nil {
					return fmt.Errorf("%s has %s=%s/%s", name, condition, c.Status, c.Reason)
				}
			}
		}
		return nil
	})
}

// wantEvent waits for an event about an object of the fixture.
func (h *clusterFixture) wantEvent(name, reason string) {
	h.t.Helper()
	h.management.Eventually(h.t, "event "+reason+" about "+name, func(context.Context) error {
		if reasons := h.management.EventReasons(h.t, h.namespace, name); !slices.Contains(reasons, reason) {
			return fmt.Errorf("there are %v", reasons)
		}
		return nil
	})
}

// wantRepairs waits until the repairs are these, as "machine phase".
func (h *clusterFixture) wantRepairs(want ...string) {
	h.t.Helper()
	h.management.Eventually(h.t, "the repairs", func(ctx context.Context) error {
		got, err := h.repairs(ctx)
		if err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %v, want %v", got, want)
		}
		return nil
	})
}

func (h *clusterFixture) repairs(ctx context.Context) ([]string, error) {
	var list v1alpha1.RepairList
	if err := h.List(ctx, &list, client.InNamespace(h.namespace)); err != nil {
		return nil, err
	}
	var got []string
	for i := range list.Items {
		r := &list.Items[i]
		if r.Spec.Cluster != herdCluster {
			return nil, fmt.Errorf("repair %s is of cluster %q", r.Name, r.Spec.Cluster)
		}
		got = append(got, r.Spec.Target.Name+" "+string(r.Status.Phase))
	}
	slices.Sort(got)
	return got, nil
}

// request returns the remediation object of a machine, or nil.
func (h *clusterFixture) request(ctx context.Context, kind, name string) (*unstructured.Unstructured, error) {
	u := object(remediators, kind, h.namespace, name)
	err := h.management.Get(ctx, client.ObjectKeyFromObject(u), u)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // there is none
	}
	return u, nil
}
