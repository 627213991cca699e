package faults

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// stage is what all tests have: a cluster for themselves while they run.
type stage struct {
	*cluster.Cluster

	t *testing.T
	// before is how many requests Fettle had made on this cluster before the test.
	before int
}

func newStage(t *testing.T, c *cluster.Cluster) *stage {
	t.Helper()
	return &stage{Cluster: c, t: t, before: len(c.Requests(t))}
}

func (s *stage) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// each calls a function for each name, some at a time.
func (s *stage) each(names []string, do func(ctx context.Context, name string) error) {
	s.t.Helper()
	group, ctx := errgroup.WithContext(cluster.Context(s.t))
	group.SetLimit(8)
	for _, name := range names {
		group.Go(func() error { return do(ctx, name) })
	}
	s.must("preparing the fixture", group.Wait())
}

// throughProxy returns a proxy, and a kubeconfig of Fettle's own that leads through it.
func (s *stage) throughProxy() (*cluster.Proxy, string) {
	s.t.Helper()
	proxy, address := s.StartProxy(s.t)
	kubeconfig := s.FettleKubeconfig(s.t)
	cluster.Redirect(s.t, kubeconfig, address)
	return proxy, kubeconfig
}

// report writes a condition of a node, and leaves its other conditions alone.
func (s *stage) report(ctx context.Context, node string, kind corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) error {
	body := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"reason":"Test","message":"set by a test","lastTransitionTime":%q,"lastHeartbeatTime":%q}]}}`,
		kind, status, since.UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	return s.Status().Patch(ctx, n, client.RawPatch(types.StrategicMergePatchType, []byte(body)))
}

// leaderIs waits until a replica other than this one holds the lease, and returns its name.
func (s *stage) leaderIs(notThis string) string {
	s.t.Helper()
	var holder string
	s.Eventually(s.t, "a leader", func(ctx context.Context) error {
		var lease coordinationv1.Lease
		err := s.Get(ctx, types.NamespacedName{Namespace: "fettle-system", Name: "fettle"}, &lease)
		if apierrors.IsNotFound(err) || (err == nil && lease.Spec.HolderIdentity == nil) {
			return fmt.Errorf("the lease has no holder (%w)", err)
		}
		if err != nil {
			return err
		}
		holder = *lease.Spec.HolderIdentity
		if holder == "" || holder == notThis {
			return fmt.Errorf("the lease is held by %q", holder)
		}
		return nil
	})
	return holder
}

// leaderFlags make a replica take part in leader election. A leader that waits some seconds for a busy processor keeps its lease.
func leaderFlags() []string {
	return []string{"--leader-elect", "--leader-elect-lease-duration=12s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=1s"}
}

// twoReplicas starts a leader and a waiting replica, each through its own proxy.
func (s *stage) twoReplicas() (leads, waits *cluster.Fettle, leader *cluster.Proxy, holder string) {
	s.t.Helper()
	leader, kubeconfig := s.throughProxy()
	leads = s.StartFettleWith(s.t, kubeconfig, leaderFlags()...)
	holder = s.leaderIs("")
	waits = s.StartFettle(s.t, leaderFlags()...)
	return leads, waits, leader, holder
}

func (s *stage) wantHits(what string, fault *cluster.Injected, n int) {
	s.t.Helper()
	s.Eventually(s.t, fmt.Sprintf("%s is requested %d times", what, n), func(context.Context) error {
		if have := len(fault.Hits()); have < n {
			return fmt.Errorf("%d times", have)
		}
		return nil
	})
}

// wantFew: failing calls are repeated after pauses, so there are few of them in a time.
func (s *stage) wantFew(what string, hits []time.Time) {
	s.t.Helper()
	within := time.Since(hits[0])
	s.t.Logf("%s: %d refused within %s", what, len(hits), within.Round(time.Second))
	if most := 30 + 4*int(within.Seconds()); len(hits) > most {
		s.t.Errorf("%s was requested %d times within %s, want at most %d", what, len(hits), within, most)
	}
}
