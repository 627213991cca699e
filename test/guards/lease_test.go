package guards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/guard/lease"
	"github.com/fettle-io/fettle/test/cluster"
)

const (
	us          = "fettle.io/NodeHealthCheck-workers"
	them        = "fettle.io/NodeHealthCheck-others"
	maintenance = "node-maintenance"
)

// leaseOf reads a node's lease with a stock client. It returns nil if there is none.
func leaseOf(t *testing.T, c *cluster.Cluster, node string) *coordinationv1.Lease {
	t.Helper()
	l := &coordinationv1.Lease{}
	err := c.Get(cluster.Context(t), client.ObjectKey{Namespace: "medik8s-leases", Name: "node-" + node}, l)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("reading the lease of %s: %v", node, err)
	}
	return l
}

// says returns the text of a lease in one line.
func says(l *coordinationv1.Lease, from time.Time) string {
	if l == nil {
		return "none"
	}
	at := func(m *metav1.MicroTime) time.Duration { return m.Sub(from) }
	return fmt.Sprintf("%s for %ds, acquired %s, renewed %s, transitions %d",
		*l.Spec.HolderIdentity, *l.Spec.LeaseDurationSeconds, at(l.Spec.AcquireTime), at(l.Spec.RenewTime), *l.Spec.LeaseTransitions)
}

// maintains begins the maintenance of a node, as the node maintenance operator does.
func maintains(t *testing.T, c *cluster.Cluster, node string, at time.Time) {
	t.Helper()
	holder, seconds, transitions, now := maintenance, int32(3600), int32(0), metav1.NewMicroTime(at)
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: "node-" + node},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now, LeaseTransitions: &transitions,
		},
	}
	if err := c.Create(cluster.Context(t), l); err != nil {
		t.Fatalf("creating a lease: %v", err)
	}
}

// lets reports whether a maintenance could take a lease. It respects a lease only with a holder and a renewal that is
// neither in the future nor too old.
func lets(l *coordinationv1.Lease, now time.Time) bool {
	valid := l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != maintenance && l.Spec.RenewTime != nil && l.Spec.LeaseDurationSeconds != nil &&
		!l.Spec.RenewTime.After(now) && now.Before(l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second))
	return !valid
}

func TestLeases(t *testing.T) {
	t.Parallel()
	c := start(t)
	// In this order: at first the namespace is missing. Then the administrator creates it.
	t.Run("what creates the namespace is told", func(t *testing.T) { namespaceIsMissing(t, c) })
	t.Run("leases are seen once the namespace is there", func(t *testing.T) { namespaceComes(t, c) })
	t.Run("a lease is taken, renewed and given back", func(t *testing.T) { lifeOfALease(t, c) })
	t.Run("maintenance and Fettle exclude each other", func(t *testing.T) { besideMaintenance(t, c) })
	t.Run("a lease under the former name", func(t *testing.T) { formerHolder(t, c) })
	t.Run("of many who take a lease one has it", func(t *testing.T) { manyAtOnce(t, c) })
	t.Run("a write insists on what was read", func(t *testing.T) { inBetween(t, c) })
	t.Run("a lease goes with its node", func(t *testing.T) { goesWithItsNode(t, c) })
	t.Run("rights", func(t *testing.T) { underItsRights(t, c) })
}

// namespaceIsMissing: an error names the command. A client with the right to create namespaces creates none.
func namespaceIsMissing(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	n := node(t, c, "forbidden", corev1.ConditionTrue)
	config := account(t, c, "stranger")
	held, err := first(leases(t, config, newClock().now)).Acquire(cluster.Context(t), n, us, time.Minute)
	if !apierrors.IsForbidden(err) {
		t.Errorf("without the right it is not forbidden: %v", err)
	}
	wantComplaint(t, held, err, "Role fettle in namespace medik8s-leases", "kubectl apply -k config/rbac")
	grant(t, c, "stranger",
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update", "delete"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"create"}},
	)
	c.Eventually(t, "the namespace is missing", func(ctx context.Context) error {
		held, err = first(leases(t, config, newClock().now)).Acquire(ctx, n, us, time.Minute)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("held: %t, %w", held, err)
		}
		return nil
	})
	wantComplaint(t, held, err, "namespace medik8s-leases is missing", "kubectl apply -k config/rbac")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lease.Namespace}}
	if err := c.Get(cluster.Context(t), client.ObjectKeyFromObject(namespace), namespace); !apierrors.IsNotFound(err) {
		t.Errorf("namespace %s was created: %v", lease.Namespace, err)
	}
}

func first[A, B any](a A, _ B) A { return a }

func wantComplaint(t *testing.T, held bool, err error, words ...string) {
	t.Helper()
	if held || err == nil {
		t.Fatalf("held: %t, %v", held, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

// grant grants a service account of the namespace default a right in all namespaces.
func grant(t *testing.T, c *cluster.Cluster, name string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}
	for _, o := range []client.Object{role, binding} {
		if err := c.Create(cluster.Context(t), o); err != nil {
			t.Fatalf("granting a right: %v", err)
		}
	}
}

// namespaceComes: a watch of a missing namespace causes no errors, and leases are seen as soon as the namespace exists.
func namespaceComes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	time := newClock()
	guard, woken := leases(t, c.Config, time.now)
	if err := guard.Watch(cluster.Context(t)); err != nil {
		t.Fatalf("watching: %v", err)
	}
	is(t, c, "it is in step with nothing", true, guard.HasSynced)
	n := node(t, c, "first", corev1.ConditionTrue)
	if got := surveyed(guard, n); got != (core.Lease{}) || woken.count() > 0 {
		t.Errorf("there is no lease, yet it sees %+v and woke the engine %d times", got, woken.count())
	}
	c.Namespace(t, lease.Namespace)
	hold(t, guard, n, us, true)
	is(t, c, "it sees its lease", core.Lease{Holder: us, Until: time.now().Add(660e9).Local()}, func() core.Lease { return surveyed(guard, n) })
	is(t, c, "the engine was woken", 1, woken.count)
	if diff := cmp.Diff([]core.NodeLease{{Node: "first", Holder: us, Renewed: time.now().Truncate(1e3)}}, found(guard)); diff != "" {
		t.Errorf("leases that are there (-want +got):\n%s", diff)
	}
	release(t, guard, n, us)
	is(t, c, "it sees it go", core.Lease{}, func() core.Lease { return surveyed(guard, n) })
	is(t, c, "the engine was woken again", 2, woken.count)
}

// surveyed returns what the guard says of a target's lease. The guard must say nothing of a machine without a node.
func surveyed(guard *lease.Client, n core.Target) core.Lease {
	bare := core.Target{ID: core.ID{Kind: "Machine", Name: "without-a-node"}}
	cluster := core.Cluster{Targets: []core.Target{bare, n}}
	guard.AddFacts(nil, &cluster)
	if cluster.Targets[0].Lease != (core.Lease{}) {
		return core.Lease{Holder: "a machine without a node has a lease"}
	}
	l := cluster.Targets[1].Lease
	if !l.Until.IsZero() {
		l.Until = l.Until.Local()
	}
	return l
}

// found returns the leases that the guard adds to a snapshot, whether or not their nodes are targets.
func found(guard *lease.Client) []core.NodeLease {
	var cluster core.Cluster
	guard.AddFacts(nil, &cluster)
	return cluster.Leases
}

// hold takes a lease for 11 minutes. It fails the test unless the result is the wanted one.
func hold(t *testing.T, guard *lease.Client, n core.Target, holder string, want bool) {
	t.Helper()
	if held, err := guard.Acquire(cluster.Context(t), n, holder, 660e9); err != nil || held != want {
		t.Fatalf("%s holds the lease of %s: %t, want %t (%v)", holder, n.Node.Name, held, want, err)
	}
}

func release(t *testing.T, guard *lease.Client, n core.Target, holder string) {
	t.Helper()
	if _, err := guard.Release(cluster.Context(t), n.Node.Name, holder, time.Time{}); err != nil {
		t.Fatalf("giving the lease of %s back: %v", n.Node.Name, err)
	}
}

func lifeOfALease(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	clock := newClock()
	from := clock.now()
	guard, _ := leases(t, c.Config, clock.now)
	n := node(t, c, "life", corev1.ConditionTrue)
	wantSays := func(sentence, want string) {
		t.Helper()
		if got := says(leaseOf(t, c, "life"), from); got != want {
			t.Errorf("%s: %s; want %s", sentence, got, want)
		}
	}
	hold(t, guard, n, us, true)
	wantSays("taken", us+" for 660s, acquired 0s, renewed 0s, transitions 0")
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "life", UID: leaseOf(t, c, "life").OwnerReferences[0].UID}}
	if diff := cmp.Diff(owner, leaseOf(t, c, "life").OwnerReferences); diff != "" || string(owner[0].UID) != n.Node.UID {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	clock.pass(10 * time.Minute)
	hold(t, guard, n, them, false)
	hold(t, guard, n, us, true)
	wantSays("renewed", us+" for 660s, acquired 0s, renewed 10m0s, transitions 0")
	clock.pass(11 * time.Minute)
	hold(t, guard, n, them, true)
	wantSays("taken over when its time was over", them+" for 660s, acquired 21m0s, renewed 21m0s, transitions 1")
	release(t, guard, n, us)
	wantSays("of others, so not ours to give back", them+" for 660s, acquired 21m0s, renewed 21m0s, transitions 1")
	release(t, guard, n, them)
	wantSays("given back", "none")
	release(t, guard, n, them)

	noNode := core.Target{ID: core.ID{Kind: "Machine", Namespace: "machines", Name: "m"}}
	hold(t, guard, noNode, us, true)
}

// besideMaintenance: the first to take the lease has the node.
func besideMaintenance(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	clock := newClock()
	guard, _ := leases(t, c.Config, clock.now)
	if err := guard.Watch(cluster.Context(t)); err != nil {
		t.Fatalf("watching: %v", err)
	}
	n := node(t, c, "maintained", corev1.ConditionTrue)
	maintains(t, c, "maintained", clock.now())
	is(t, c, "the maintenance is seen", core.Lease{Holder: maintenance, Until: clock.now().Add(time.Hour).Local()}, func() core.Lease { return surveyed(guard, n) })
	hold(t, guard, n, us, false)
	clock.pass(time.Hour - time.Second)
	hold(t, guard, n, us, false)
	clock.pass(time.Second)
	if got := surveyed(guard, n); got != (core.Lease{}) {
		t.Errorf("its time is over, yet it has the lease: %+v", got)
	}
	hold(t, guard, n, us, true)

	l := leaseOf(t, c, "maintained")
	for after, want := range map[time.Duration]bool{0: false, 11*time.Minute - time.Second: false, 11 * time.Minute: true} {
		if got := lets(l, clock.now().Add(after)); got != want {
			t.Errorf("%s after Fettle took the lease a maintenance may take it: %t, want %t", after, got, want)
		}
	}
	release(t, guard, n, us)
	maintains(t, c, "maintained", clock.now())
}

// manyAtOnce: for a missing lease, and for an expired one.
func manyAtOnce(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	clock := newClock()
	guard, _ := leases(t, c.Config, clock.now)
	n := node(t, c, "contested", corev1.ConditionTrue)
	for _, sentence := range []string{"missing", "over"} {
		var mu sync.Mutex
		var holders []string
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				holder := fmt.Sprintf("fettle.io/NodeHealthCheck-%d", i)
				held, err := guard.Acquire(cluster.Context(t), n, holder, time.Minute)
				if err != nil {
					t.Errorf("%s: %v", holder, err)
				}
				if held {
					mu.Lock()
					defer mu.Unlock()
					holders = append(holders, holder)
				}
			})
		}
		all.Wait()
		if len(holders) != 1 || *leaseOf(t, c, "contested").Spec.HolderIdentity != holders[0] {
			t.Errorf("a lease that was %s is held by %v", sentence, holders)
		}
		clock.pass(time.Hour)
	}
}

// racingClient runs a function between a read and the write that follows.
type racingClient struct {
	client.Client

	afterGet func()
}

func (m *racingClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	err := m.Client.Get(ctx, key, into, opts...)
	m.afterGet()
	return err
}

func inBetween(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	clock := newClock()
	guard, _ := leases(t, c.Config, clock.now)
	n := node(t, c, "between", corev1.ConditionTrue)
	meddled := func(what func()) *lease.Client {
		return lease.NewClient(lease.Config{Live: &racingClient{as(t, c.Config), what}, Writer: as(t, c.Config), Now: clock.now})
	}
	hold(t, meddled(sync.OnceFunc(func() { hold(t, guard, n, them, true) })), n, us, false)
	clock.pass(time.Hour)
	hold(t, meddled(sync.OnceFunc(func() { hold(t, guard, n, maintenance, true) })), n, us, false)
	hold(t, meddled(sync.OnceFunc(func() { release(t, guard, n, maintenance) })), n, maintenance, true)
	hold(t, meddled(sync.OnceFunc(func() { hold(t, guard, n, maintenance, true) })), n, maintenance, true)

	release(t, meddled(sync.OnceFunc(func() { release(t, guard, n, maintenance) })), n, maintenance)
	hold(t, guard, n, us, true)
	release(t, meddled(sync.OnceFunc(func() { release(t, guard, n, us); hold(t, guard, n, them, true) })), n, us)
	if l := leaseOf(t, c, "between"); l == nil || *l.Spec.HolderIdentity != them {
		t.Errorf("the lease of another holder was released: %v", l)
	}
	busy := meddled(func() { clock.pass(time.Second); hold(t, guard, n, them, true) })
	if _, err := busy.Release(cluster.Context(t), "between", them, time.Time{}); err == nil || !strings.Contains(err.Error(), "changed between") {
		t.Errorf("a lease that changes all the time gives %v", err)
	}
	clock.pass(time.Hour)
	if held, err := meddled(func() {
		clock.pass(time.Hour)
		hold(t, guard, n, them, true)
		clock.pass(time.Hour)
	}).Acquire(cluster.Context(t), n, us, time.Minute); held || err == nil {
		t.Errorf("a lease that changes all the time is held: %t, %v", held, err)
	}
}

func goesWithItsNode(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	guard, _ := leases(t, c.Config, newClock().now)
	n := node(t, c, "leaver", corev1.ConditionTrue)
	hold(t, guard, n, us, true)
	if err := c.Delete(cluster.Context(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "leaver"}}); err != nil {
		t.Fatalf("deleting a node: %v", err)
	}
	c.Eventually(t, "its lease goes", func(context.Context) error {
		if leaseOf(t, c, "leaver") != nil {
			return errors.New("it is still there")
		}
		return nil
	})
}

// underItsRights: the rights in config/ suffice.
func underItsRights(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.InstallFettle(t)
	clock := newClock()
	guard, _ := leases(t, identity(t, c.FettleKubeconfig(t)), clock.now)
	n := node(t, c, "granted", corev1.ConditionTrue)
	c.Eventually(t, "Fettle may take a lease", func(ctx context.Context) error {
		_, err := guard.Acquire(ctx, n, us, time.Minute)
		return err
	})
	if err := guard.Watch(cluster.Context(t)); err != nil {
		t.Fatalf("watching: %v", err)
	}
	is(t, c, "it sees its lease", us, func() string { return surveyed(guard, n).Holder })
	hold(t, guard, n, us, true)
	release(t, guard, n, us)
	is(t, c, "it sees it go", "", func() string { return surveyed(guard, n).Holder })
}
