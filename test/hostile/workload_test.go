package hostile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// mostHeap bounds Fettle's heap while all hostile clusters attack at once. Each of them tries to take more than that.
const mostHeap = 512 << 20

// workloadStage is a management cluster with honest and hostile workload clusters, and Fettle.
type workloadStage struct {
	*cluster.Cluster

	t          *testing.T
	typed      client.Client
	url, token string
}

func newWorkloadStage(t *testing.T) *workloadStage {
	t.Helper()
	s := &workloadStage{t: t, Cluster: cluster.Start(t, cluster.Options{
		Args: []string{"--controllers=*,-node-lifecycle-controller", "--cluster-api", "--cluster-api-kinds-only"},
	})}
	kinds := runtime.NewScheme()
	s.must("registering kinds", errors.Join(clientgoscheme.AddToScheme(kinds), clusterv1.AddToScheme(kinds)))
	var err error
	s.typed, err = client.New(s.Config, client.Options{Scheme: kinds})
	s.must("making a client", err)
	s.InstallFettleForNodes(t)
	s.AllowClusterAPI(t)
	address := cluster.FreeAddress(t)
	s.url, s.token = "https://"+address+"/metrics", s.MetricsReader(t)
	s.StartFettle(t, "--metrics-bind-address="+address)
	return s
}

func (s *workloadStage) must(doing string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", doing, err)
	}
}

// joins makes a workload cluster with its own namespace, machines that have the first nodes of the cluster, and a
// health check.
func (s *workloadStage) joins(name string, kubeconfig []byte, machines int) {
	s.t.Helper()
	s.Namespace(s.t, name)
	of := func(object string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: name, Name: object, Labels: map[string]string{clusterv1.ClusterNameLabel: name}}
	}
	ctx := cluster.Context(s.t)
	s.must("creating the Secret", s.typed.Create(ctx, &corev1.Secret{
		ObjectMeta: of(name + "-kubeconfig"), Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": kubeconfig},
	}))
	c := &clusterv1.Cluster{ObjectMeta: of(name), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxCluster", Name: name},
		ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: name},
	}}
	s.must("creating the Cluster", s.typed.Create(ctx, c))
	for _, milestone := range []string{clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneInitializedCondition} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: milestone, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
		})
	}
	s.must("bringing the Cluster up", s.typed.Status().Update(ctx, c))
	infrastructure := clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxMachine", Name: "workers"}
	spec := clusterv1.MachineSpec{ClusterName: name, InfrastructureRef: infrastructure, Bootstrap: clusterv1.Bootstrap{DataSecretName: new("bootstrap")}}
	set := &clusterv1.MachineSet{ObjectMeta: of("workers"), Spec: clusterv1.MachineSetSpec{
		ClusterName: name, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}},
		Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "workers"}}, Spec: spec},
	}}
	s.must("creating the machine set", s.typed.Create(ctx, set))
	for i := range machines {
		m := &clusterv1.Machine{ObjectMeta: of(fmt.Sprintf("machine-%d", i)), Spec: spec}
		m.Labels["pool"] = "workers"
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))}
		s.must("creating a machine", s.typed.Create(ctx, m))
		before := m.DeepCopy()
		m.Status.NodeRef.Name = fmt.Sprintf("node-%d", i)
		s.must("giving a machine its node", s.typed.Status().Patch(ctx, m, client.MergeFrom(before)))
	}
	s.Apply(s.t, fmt.Sprintf(`apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: check, namespace: %[1]s}
spec:
  clusterName: %[1]s
  selector: {matchLabels: {pool: workers}}
  checks:
    unhealthyNodeConditions:
    - {type: Ready, status: "False", timeoutSeconds: 1}
`, name))
}

// repairs breaks a node of an honest cluster, waits until its machine is marked, and mends the node. It returns how
// long both took.
func (s *workloadStage) repairs(name string, on *workloadServer) time.Duration {
	s.t.Helper()
	began := time.Now()
	on.setReady(0, corev1.ConditionFalse)
	s.wantMarked(name, true)
	on.setReady(0, corev1.ConditionTrue)
	s.wantMarked(name, false)
	return time.Since(began)
}

func (s *workloadStage) marked(ctx context.Context, name string) (bool, error) {
	m := &clusterv1.Machine{}
	err := s.typed.Get(ctx, types.NamespacedName{Namespace: name, Name: "machine-0"}, m)
	return meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition) != nil, err
}

func (s *workloadStage) wantMarked(name string, want bool) {
	s.t.Helper()
	s.Eventually(s.t, "the machine of "+name+" is marked for its owner, or not any more", func(ctx context.Context) error {
		got, err := s.marked(ctx, name)
		if err == nil && got != want {
			err = fmt.Errorf("it is marked: %t", got)
		}
		return err
	})
}

// waiting is what Fettle says of a cluster that has used up a turn. On a busy machine some attacks get no further.
const waiting = "more slowly than others"

// isHeld waits until the health check of a cluster says that nothing is known of it, and why. It reports whether the
// attack led to that.
func (s *workloadStage) isHeld(name, says string) bool {
	s.t.Helper()
	found := false
	s.Eventually(s.t, "the health check of "+name+" says "+says, func(ctx context.Context) error {
		check := &clusterv1.MachineHealthCheck{}
		if err := s.typed.Get(ctx, types.NamespacedName{Namespace: name, Name: "check"}, check); err != nil {
			return err
		}
		c := meta.FindStatusCondition(check.Status.Conditions, "RemediationAllowed")
		if c == nil || c.Status != metav1.ConditionUnknown || c.Reason != "ConnectionDown" {
			return fmt.Errorf("it says %+v", c)
		}
		if found = strings.Contains(c.Message, says); !found && !strings.Contains(c.Message, waiting) {
			return fmt.Errorf("it says %q", c.Message)
		}
		return nil
	})
	return found
}

func (s *workloadStage) series() (map[string]float64, error) {
	answer, err := cluster.Get(s.t, s.url, s.token, nil)
	if err != nil || answer.Status != http.StatusOK {
		return nil, fmt.Errorf("answered %d: %w", answer.Status, err)
	}
	return cluster.Series(s.t, answer.Body), nil
}

// watchHeap returns a function that returns the largest heap of Fettle until then, by its metrics.
func (s *workloadStage) watchHeap() func() float64 {
	ctx, end := context.WithCancel(context.Background())
	most := make(chan float64)
	go func() {
		largest := 0.0
		for ctx.Err() == nil {
			if all, err := s.series(); err == nil {
				largest = max(largest, all["go_memstats_heap_inuse_bytes"])
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		most <- largest
	}()
	return func() float64 {
		end()
		return <-most
	}
}

// TestI15HostileWorkloadClustersAtOnce: clusters attack in every way at once, more of them than list at a time. Fettle
// repairs machines of an honest cluster again and again, and another cluster joins. Fettle does nothing in clusters
// that exceed a bound, and says of each which one.
func TestI15HostileWorkloadClustersAtOnce(t *testing.T) {
	s := newWorkloadStage(t)
	first := newWorkloadServer(t, 50)
	began := time.Now()
	s.joins("first", first.kubeconfig(), 3)
	s.repairs("first", first)
	joined := time.Since(began)
	alone := s.repairs("first", first)
	heap := s.watchHeap()
	holding := s.holds()
	s.joins("mute", kubeconfigTo(mute(t), "insecure-skip-tls-verify: true"), 1)
	attacks := workloadAttacks()
	sentences := slices.Sorted(maps.Keys(attacks))
	for i, sentence := range sentences {
		hostile := newWorkloadServer(t, 1)
		attacks[sentence].arm(hostile)
		s.joins(fmt.Sprintf("hostile-%d", i), hostile.kubeconfig(), 1)
	}
	s.logTime("a repair while hostile clusters join", s.repairs("first", first), alone)
	last := newWorkloadServer(t, 50)
	s.joins("last", last.kubeconfig(), 3)
	s.repairs("last", last) // the turns of clusters that joined before it come first
	s.joinsBesideHolding(holding, joined)
	counted := map[string]bool{}
	for i, sentence := range sentences {
		name, a := fmt.Sprintf("hostile-%d", i), attacks[sentence]
		counted[name] = a.says != "" && s.isHeld(name, a.says) && a.bound
	}
	s.isHeld("mute", "it takes too long")
	for name, on := range map[string]*workloadServer{"first": first, "last": last} {
		s.logTime("a repair of "+name+" beside hostile clusters", s.repairs(name, on), alone)
	}
	for i, sentence := range sentences {
		if marked, err := s.marked(cluster.Context(t), fmt.Sprintf("hostile-%d", i)); marked || err != nil {
			t.Errorf("%s: the machine of a hostile cluster is marked: %t (%v)", sentence, marked, err)
		}
	}
	s.wantCounted(counted)
	if most := heap(); most == 0 || most > mostHeap {
		t.Errorf("the heap has had %.0f MiB, want at most %d MiB", most/(1<<20), mostHeap>>20)
	} else {
		t.Logf("the heap has had at most %.0f MiB", most/(1<<20))
	}
}

// wantCounted: Fettle counts each cluster that exceeds a bound, and no honest one.
func (s *workloadStage) wantCounted(want map[string]bool) {
	s.t.Helper()
	series, err := s.series()
	s.must("reading the metrics", err)
	counted := map[string]bool{}
	for name := range series {
		if strings.HasPrefix(name, "fettle_workload_cluster_bound_exceeded_total{") {
			_, of, _ := strings.Cut(name, `cluster="`)
			of, _, _ = strings.Cut(of, `"`)
			counted[of] = true
		}
	}
	for of, is := range want {
		if is && !counted[of] {
			s.t.Errorf("%s exceeds a bound, and that is not counted", of)
		}
	}
	if counted["first"] || counted["last"] || counted["next"] {
		s.t.Error("an honest cluster is counted")
	}
}
