package guards

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/guard/lease"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/test/cluster"
)

// start starts a cluster in which only the test sets the state of nodes and disruption budgets.
func start(t *testing.T) *cluster.Cluster {
	t.Helper()
	return cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller,-disruption-controller"}})
}

// clock is a clock that stands still until a test sets it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

// newClock returns a clock that shows the present in whole seconds.
func newClock() *clock { return &clock{at: time.Now().Truncate(time.Second)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// scheme returns the part of Fettle's scheme with core/v1.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{metav1.AddMetaToScheme, slim.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatalf("making a scheme: %v", err)
		}
	}
	return s
}

// as returns a client like Fettle's that acts as a user.
func as(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return c
}

// account creates a service account, and returns a configuration for it.
func account(t *testing.T, c *cluster.Cluster, name string) *rest.Config {
	t.Helper()
	c.ServiceAccount(t, "default", name)
	return identity(t, c.KubeconfigOf(t, "default", name))
}

func identity(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("reading a kubeconfig: %v", err)
	}
	config.QPS = -1
	return config
}

// informers returns the informers of a cache that is limited to the namespace of leases, like Fettle's.
func informers(t *testing.T, config *rest.Config, namespaces ...string) cache.Cache {
	t.Helper()
	o := cache.Options{Scheme: scheme(t)}
	for _, ns := range namespaces {
		o.DefaultNamespaces = map[string]cache.Config{ns: {}}
	}
	in, err := cache.New(config, o)
	if err != nil {
		t.Fatalf("making a cache: %v", err)
	}
	go func() { _ = in.Start(t.Context()) }()
	return in
}

// leases returns a guard of leases that acts as a user, and a counter of its wake-ups of the engine.
func leases(t *testing.T, config *rest.Config, now func() time.Time) (*lease.Client, *wakeCounter) {
	t.Helper()
	direct, woken := as(t, config), &wakeCounter{}
	return lease.NewClient(lease.Config{
		Informers: informers(t, config, lease.Namespace), Live: direct, Writer: direct, Now: now, Wake: woken.wake,
	}), woken
}

// wakeCounter counts how often the engine was woken.
type wakeCounter struct {
	mu sync.Mutex
	n  int
}

func (w *wakeCounter) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
}

func (w *wakeCounter) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// node creates a node with labels, ready or not, and returns its target.
func node(t *testing.T, c *cluster.Cluster, name string, ready corev1.ConditionStatus, labels ...string) core.Target {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, key := range labels {
		n.Labels[key] = ""
	}
	if err := c.Create(cluster.Context(t), n); err != nil {
		t.Fatalf("creating node %s: %v", name, err)
	}
	t.Cleanup(func() { _ = client.IgnoreNotFound(c.Delete(context.WithoutCancel(t.Context()), n)) })
	setReady(t, c, n, ready)
	return core.Target{
		ID:   core.ID{Kind: "Node", Name: name, UID: string(n.UID)},
		Node: core.Node{State: core.NodePresent, Name: name, UID: string(n.UID)},
	}
}

func setReady(t *testing.T, c *cluster.Cluster, n *corev1.Node, ready corev1.ConditionStatus) {
	t.Helper()
	before := client.MergeFrom(n.DeepCopy())
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now()}}
	if err := c.Status().Patch(cluster.Context(t), n, before); err != nil {
		t.Fatalf("reporting the status of node %s: %v", n.Name, err)
	}
}

// mirror makes a pod look like the mirror pod of a kubelet.
func mirror(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
}

// pod creates a pod on a node, ready or not.
func pod(t *testing.T, c *cluster.Cluster, namespace, node string, ready corev1.ConditionStatus, labels map[string]string, as ...func(*corev1.Pod)) {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod-" + node, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "images.example/c"}}},
	}
	for _, change := range as {
		change(p)
	}
	c.Eventually(t, "creating a pod on "+node, func(ctx context.Context) error { return c.Create(ctx, p) })
	t.Cleanup(func() {
		_ = client.IgnoreNotFound(c.Delete(context.WithoutCancel(t.Context()), p, client.GracePeriodSeconds(0)))
	})
	before := client.MergeFrom(p.DeepCopy())
	if ready != "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	}
	if err := c.Status().Patch(cluster.Context(t), p, before); err != nil {
		t.Fatalf("reporting the status of a pod on %s: %v", node, err)
	}
}

// wantTri fails the test unless a fact was read and has this value.
func wantTri(t *testing.T, sentence string, want, got core.Tri, err error) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("%s: %s, want %s (%v)", sentence, got, want, err)
	}
}

// is waits until a fact has a value.
func is[T comparable](t *testing.T, c *cluster.Cluster, what string, want T, get func() T) {
	t.Helper()
	c.Eventually(t, what, func(context.Context) error {
		if got := get(); got != want {
			return fmt.Errorf("it is %v, want %v", got, want)
		}
		return nil
	})
}
