package hostile

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/workload"
)

// workloadWithin bounds how long a test waits for a state. The honest cluster needs milliseconds.
const workloadWithin = 4 * time.Minute

// workloadConnections has the connections without the rest of Fettle. Attacks on them need no management cluster.
type workloadConnections struct {
	*workload.Connections

	mu      sync.Mutex
	secrets map[string][]byte
}

// Get implements workload.Reader.
func (r *workloadConnections) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, there := r.secrets[key.Name]
	if !there {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	u, is := obj.(*unstructured.Unstructured)
	if !is {
		return errors.ErrUnsupported
	}
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	return unstructured.SetNestedField(u.Object, base64.StdEncoding.EncodeToString(raw), "data", "value")
}

func newWorkloadConnections(t *testing.T) *workloadConnections {
	t.Helper()
	return newBoundedWorkloadConnections(t, workload.Bounds{})
}

func newBoundedWorkloadConnections(t *testing.T, bounds workload.Bounds) *workloadConnections {
	t.Helper()
	r := &workloadConnections{secrets: map[string][]byte{}}
	r.Connections = workload.New(workload.Config{
		Secrets: r, Now: time.Now, Wake: func(types.NamespacedName) {}, Log: logr.Discard(), UserAgent: "fettle/test", Bounds: bounds,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Start(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return r
}

// connect connects a cluster by a kubeconfig.
func (r *workloadConnections) connect(name string, kubeconfig []byte) *workload.Connection {
	return r.connectIn("default", name, kubeconfig)
}

func (r *workloadConnections) connectIn(namespace, name string, kubeconfig []byte) *workload.Connection {
	r.mu.Lock()
	r.secrets[name+"-kubeconfig"] = kubeconfig
	r.mu.Unlock()
	return r.Keep(types.NamespacedName{Namespace: namespace, Name: name})
}

// workloadEventually waits for a state.
func workloadEventually(t *testing.T, sentence string, reached func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(workloadWithin); time.Now().Before(deadline); {
		if err = reached(); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("%s: %v", sentence, err)
}

func answersYes(c *workload.Connection) error {
	if got, why := c.Answers(); got != core.Yes {
		return fmt.Errorf("it answers %s: %s", got, why)
	}
	return nil
}

// isServed checks that a cluster is served, from its list to later changes.
func isServed(t *testing.T, c *workload.Connection, s *workloadServer) {
	t.Helper()
	workloadEventually(t, "the honest cluster answers", func() error { return answersYes(c) })
	for _, ready := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
		// A watch may begin just after an event was sent, so the event is repeated until it is seen.
		workloadEventually(t, "the honest cluster is watched", func() (err error) {
			s.setReady(0, ready)
			c.Lookup(func(find func(string) (node.Facts, bool)) {
				if n, known := find("node-0"); !known || n.Node.Conditions[0].Status != string(ready) {
					err = fmt.Errorf("node-0 is known (%t) as %v, want %s", known, n.Node.Conditions, ready)
				}
			})
			return err
		})
	}
	if err := answersYes(c); err != nil {
		t.Errorf("the honest cluster, at the end: %v", err)
	}
	if n, err := c.ReadNode(t.Context(), "node-0"); err != nil || n.State != core.NodePresent {
		t.Errorf("a node of the honest cluster is read as %+v, %v", n, err)
	}
}

// heapPeak measures how much the heap grows, until the caller calls the returned function.
func heapPeak() func() uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	first := read()
	end, peak := make(chan struct{}), make(chan uint64)
	go func() {
		most := first
		for {
			select {
			case <-end:
				peak <- most - first
				return
			case <-time.After(time.Millisecond):
				most = max(most, read())
			}
		}
	}()
	return func() uint64 {
		close(end)
		return <-peak
	}
}

// TestI15HostileWorkloadClusters: whatever a workload cluster sends, it costs no more than its share. Fettle reports it
// with advice, and serves an honest cluster beside it. The share is 300 MiB, for both sides of the connection and
// garbage.
func TestI15HostileWorkloadClusters(t *testing.T) {
	const share = 300 << 20
	for sentence, a := range workloadAttacks() {
		t.Run(sentence, func(t *testing.T) {
			hostile, honest := newWorkloadServer(t, 1), newWorkloadServer(t, 100)
			a.arm(hostile)
			peak := heapPeak()
			r := newWorkloadConnections(t)
			bad, good := r.connect("bad", hostile.kubeconfig()), r.connect("good", honest.kubeconfig())
			if a.says != "" {
				workloadEventually(t, "it is told", func() error {
					if got, why := bad.Answers(); got != core.Unknown || !strings.Contains(why, a.says) {
						return fmt.Errorf("%s: %s", got, why)
					}
					return nil
				})
			}
			isServed(t, good, honest)
			if a.says != "" {
				if got, why := bad.Answers(); got == core.Yes || strings.Contains(why, "xxxx") {
					t.Errorf("the hostile cluster answers %s: %s", got, why)
				}
			}
			grown := peak()
			t.Logf("the heap has grown by %d MiB", grown>>20)
			if grown > share {
				t.Errorf("the heap has grown by %d MiB, more than %d MiB", grown>>20, share>>20)
			}
		})
	}
}

// TestI15ClustersThatNeverFinish: more clusters than there are places hold on to their turns, and keep none out.
func TestI15ClustersThatNeverFinish(t *testing.T) {
	r := newWorkloadConnections(t)
	const many = 12
	var holding []*workloadServer
	for i := range many {
		s := newWorkloadServer(t, 1)
		if s.list = trickle; i%4 == 0 {
			s.list = drip
		}
		holding = append(holding, s)
		r.connect(fmt.Sprintf("hold-%d", i), s.kubeconfig())
		r.connect(fmt.Sprintf("mute-%d", i), kubeconfigTo(mute(t), "insecure-skip-tls-verify: true"))
	}
	workloadEventually(t, "all places are taken", func() error {
		lists := 0
		for _, s := range holding {
			lists += min(1, s.requestCount("list"))
		}
		if lists < 8 {
			return fmt.Errorf("%d of them list", lists)
		}
		return nil
	})
	first := newWorkloadServer(t, 100)
	isServed(t, r.connect("first", first.kubeconfig()), first)
	workloadEventually(t, "each of them has had a turn", func() error {
		for i, s := range holding {
			if s.requestCount("list") == 0 {
				return fmt.Errorf("%d has not", i)
			}
		}
		return nil
	})
	// From here on no attacker delays a cluster that lists as promptly as others.
	for i := range 3 {
		s := newWorkloadServer(t, 100)
		isServed(t, r.connect(fmt.Sprintf("next-%d", i), s.kubeconfig()), s)
	}
}

// TestI15ClustersOfATenantShareTheMemory: a tenant connects many clusters, each within the bounds of one. Together they
// keep no more than the memory of all. The others are told why, and a cluster of another namespace is served.
func TestI15ClustersOfATenantShareTheMemory(t *testing.T) {
	const each = 200
	r := newBoundedWorkloadConnections(t, workload.Bounds{Memory: 1 << 20})
	server := newWorkloadServer(t, each)
	var tenants []*workload.Connection
	for i := range 20 {
		tenants = append(tenants, r.connectIn("tenant", fmt.Sprintf("copy-%d", i), server.kubeconfig()))
	}
	workloadEventually(t, "the clusters beyond the memory have a reason", func() error {
		served, refused := 0, 0
		for _, c := range tenants {
			switch answers, why := c.Answers(); {
			case answers == core.Yes:
				served++
			case strings.Contains(why, "--workload-clusters-max-memory"):
				refused++
			}
		}
		if served == 0 || refused == 0 || served+refused != len(tenants) {
			return fmt.Errorf("%d are served and %d are refused, of %d", served, refused, len(tenants))
		}
		return nil
	})
	honest := newWorkloadServer(t, each)
	isServed(t, r.connectIn("honest", "good", honest.kubeconfig()), honest)
}

// TestI14RedirectionsAreNotFollowed: Fettle sends credentials of a workload cluster to no other server, by a list, a
// watch or a probe.
func TestI14RedirectionsAreNotFollowed(t *testing.T) {
	other := newWorkloadServer(t, 1)
	to := redirection(other.URL + "/api/v1/nodes")
	for sentence, arm := range map[string]func(*workloadServer){
		"probe": func(s *workloadServer) { s.ready = to },
		"list":  func(s *workloadServer) { s.list = to },
		"watch": func(s *workloadServer) { s.watch = to },
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newWorkloadServer(t, 1)
			arm(s)
			c := newWorkloadConnections(t).connect("bad", s.kubeconfig())
			workloadEventually(t, "it is told", func() error {
				if got, why := c.Answers(); got != core.Unknown || !strings.Contains(why, "redirects to another address") {
					return fmt.Errorf("%s: %s", got, why)
				}
				return nil
			})
		})
	}
	if times := other.requestCount("list") + other.requestCount("watch") + other.requestCount("node"); times > 0 {
		t.Errorf("%d redirections were followed", times)
	}
}

// TestI14NodesAreNotGoneOnAnyWord: if a node is gone, its machine may be deleted. Only a Status of an API server says
// so. A proxy in front of it may answer 404 too.
func TestI14NodesAreNotGoneOnAnyWord(t *testing.T) {
	s := newWorkloadServer(t, 1)
	s.node = http.NotFound // in plain text
	c := newWorkloadConnections(t).connect("east", s.kubeconfig())
	workloadEventually(t, "it answers", func() error { return answersYes(c) })
	if n, err := c.ReadNode(t.Context(), "node-0"); err == nil {
		t.Errorf("the node is read as %+v", n)
	}
	if s.requestCount("node") == 0 {
		t.Error("it got no request")
	}
}

// TestI14KubeconfigsOfTenants: a user who may write the Secret of a cluster reaches no address that is only for
// Fettle's machine. Nothing is sent unencrypted.
func TestI14KubeconfigsOfTenants(t *testing.T) {
	r := newWorkloadConnections(t)
	for name, tc := range map[string]struct{ url, says string }{
		"plain":     {"http://127.0.0.1:1", "another scheme than https"},
		"metadata":  {"https://169.254.169.254", "link-local"},
		"mapped":    {"https://[::ffff:169.254.169.254]:443", "link-local"},
		"link6":     {"https://[fe80::1]:443", "link-local"},
		"anywhere":  {"https://0.0.0.0:6443", "link-local"},
		"large":     {"https://127.0.0.1:1/" + strings.Repeat("x", 200<<10), "more than 128 KiB"},
		"nonsense":  {"file:///etc/passwd", "another scheme than https"},
		"link6zone": {"https://[fe80::1%25lo]:443", "link-local"},
	} {
		c := r.connect(name, kubeconfigTo(tc.url, "insecure-skip-tls-verify: true"))
		workloadEventually(t, name, func() error {
			if got, why := c.Answers(); got != core.Unknown || !strings.Contains(why, tc.says) {
				return fmt.Errorf("%s: %s", got, why)
			}
			return nil
		})
	}
}
