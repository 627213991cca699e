package guards

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/guard/lease"
	"github.com/fettle-io/fettle/test/cluster"
)

// former is the name prefix under which earlier versions of Fettle held leases. medik8s' operator still uses it.
const former = "NodeHealthCheck-workers"

// takes makes a field manager create the lease of a node under the former name.
func takes(t *testing.T, c *cluster.Cluster, node, manager string, at time.Time) *coordinationv1.Lease {
	t.Helper()
	now := metav1.NewMicroTime(at)
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: "node-" + node},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(former), LeaseDurationSeconds: new(int32(660)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: new(int32(0)),
		},
	}
	if err := c.Create(cluster.Context(t), l, client.FieldOwner(manager)); err != nil {
		t.Fatalf("creating a lease: %v", err)
	}
	return l
}

// renews makes medik8s' operator renew a lease that it takes for its own.
func renews(t *testing.T, c *cluster.Cluster, l *coordinationv1.Lease, at time.Time) {
	t.Helper()
	l.Spec.RenewTime = new(metav1.NewMicroTime(at))
	if err := c.Update(cluster.Context(t), l, client.FieldOwner("manager")); err != nil {
		t.Fatalf("renewing a lease: %v", err)
	}
}

// formerHolder: under the former name, a lease is Fettle's if the API server says that Fettle wrote it last.
func formerHolder(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	clock := newClock()
	guard, _ := leases(t, c.Config, clock.now)
	if err := guard.Watch(cluster.Context(t)); err != nil {
		t.Fatalf("watching: %v", err)
	}
	ours, theirs, taken := node(t, c, "of-fettle", corev1.ConditionTrue), node(t, c, "of-medik8s", corev1.ConditionTrue), node(t, c, "of-both", corev1.ConditionTrue)
	takes(t, c, "of-fettle", "fettle", clock.now())
	takes(t, c, "of-medik8s", "manager", clock.now())
	both := takes(t, c, "of-both", "fettle", clock.now())
	clock.pass(time.Minute)
	renews(t, c, both, clock.now())

	for _, n := range []core.Target{theirs, taken} {
		release(t, guard, n, us)
		if l := leaseOf(t, c, n.ID.Name); l == nil || *l.Spec.HolderIdentity != former {
			t.Errorf("the lease of %s was released", n.ID.Name)
		}
	}
	hold(t, guard, theirs, us, false)
	hold(t, guard, taken, us, false)
	hold(t, guard, ours, us, true)
	if got := *leaseOf(t, c, "of-fettle").Spec.HolderIdentity; got != us {
		t.Errorf("the lease of an earlier version is held by %q, want %q", got, us)
	}
	release(t, guard, ours, us)
	if l := leaseOf(t, c, "of-fettle"); l != nil {
		t.Errorf("it is not released: %v", l)
	}
	clock.pass(11 * time.Minute)
	hold(t, guard, theirs, us, true)
	hold(t, guard, taken, us, true)
}
