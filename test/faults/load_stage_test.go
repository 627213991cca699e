package faults

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/test/cluster"
)

const (
	// first is the first of Fettle's pauses. slack is how much of it the test may lose in reading the clock.
	first, slack = time.Second, 50 * time.Millisecond
	// ofEach is how many machines a fixture has whose watches meet a fault.
	ofEach = 3
	// flips is how many clusters come and go. leastKept is the least number of objects in memory per connection.
	flips, leastKept = 1500, 5
)

// load is a management cluster with fixtures whose workload clusters each meet a fault, and two replicas of Fettle.
type load struct {
	*stage

	// whole is the test of which all parts are subtests.
	whole        *testing.T
	outdated     []*faulty
	ended, early *faulty
	lacking      *faulty
	// reads are the faults on reads of single nodes, by the machine that names the node.
	reads        map[string]*cluster.Injected
	leads, waits *replica
	token        string
}

// faulty is a fixture behind a proxy, with the fault there.
type faulty struct {
	*clusterFixture

	proxy *cluster.Proxy
	fault *cluster.Injected
}

// replica is a Fettle that takes part in leader election.
type replica struct {
	*cluster.Fettle

	of              *load
	metrics, probes string
}

func newLoad(t *testing.T) *load {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Args: ofClusterAPI})
	c.InstallFettle(t)
	c.AllowClusterAPI(t)
	l := &load{stage: newStage(t, c), whole: t, token: c.MetricsReader(t), reads: map[string]*cluster.Injected{}}
	for i := range 6 {
		l.outdated = append(l.outdated, l.behind(fmt.Sprintf("outdated-%d", i), ofEach, cluster.Fault{Path: nodesPath, Watch: true, Status: http.StatusGone}))
	}
	l.ended = l.behind("ended", ofEach, cluster.Fault{Path: nodesPath, Watch: true, Ends: true})
	l.early = l.behind("early", ofEach, cluster.Fault{Path: nodesPath, Watch: true, Ends: true, Brings: 300 * time.Millisecond})
	l.lacking = l.behind("lacking", 0, cluster.Fault{Path: nodesPath, Watch: true, Stall: true})
	l.holdLease()
	l.waits = l.replica()
	t.Cleanup(func() { l.plays(t) })
	return l
}

// all returns all fixtures.
func (l *load) all() []*faulty { return append([]*faulty{l.ended, l.early, l.lacking}, l.outdated...) }

// plays continues the load in a subtest.
func (l *load) plays(t *testing.T) {
	t.Helper()
	l.t = t
	for _, f := range l.all() {
		f.t = t
	}
}

// behind makes a fixture whose workload cluster meets a fault from the start.
func (l *load) behind(name string, limit int, fault cluster.Fault) *faulty {
	l.t.Helper()
	proxy, address := l.StartProxy(l.t)
	f := &faulty{clusterFixture: newClusterFixtureOn(l.t, l.Cluster, l.Cluster, address, name), proxy: proxy, fault: proxy.Inject(l.t, fault)}
	f.makeMachines(names("m", ofEach))
	f.healthCheck(limit, short)
	return f
}

// lacks makes machines name nodes that the cache lacks, since its watch stalls: a missing node, an existing one, and an
// unreadable one. From then on there are events.
func (l *load) lacks() {
	l.t.Helper()
	h := l.lacking.clusterFixture
	h.wantAllowed("True/RemediationAllowed")
	for machine, status := range map[string]int{"absent": 0, "hidden": 0, "refused": http.StatusServiceUnavailable} {
		l.reads[machine] = l.lacking.proxy.Inject(l.whole, cluster.Fault{Path: nodesPath + "/" + h.node(machine), Status: status})
	}
	h.makeMachines([]string{"absent", "hidden", "refused"})
	h.must("deleting a node", h.Delete(cluster.Context(h.t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.node("absent")}}))
}

// events changes a machine and its node again and again until the test ends.
func (f *faulty) events(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			news := merge(map[string]any{"metadata": map[string]any{"labels": map[string]any{"event": fmt.Sprint(i)}}})
			_ = f.Patch(ctx, &clusterv1.Machine{ObjectMeta: f.meta("m-00")}, news)
			_ = f.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node("m-00")}}, news)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		writing.Wait()
	})
}

// lists returns the requests that listed all nodes of the cluster.
func (f *faulty) lists() (lists []*http.Request) {
	for _, r := range f.proxy.Requests(nodesPath) {
		if r.URL.Query().Get("watch") != "true" {
			lists = append(lists, r)
		}
	}
	return lists
}

// repairs breaks the node of a machine, and waits until the machine is marked.
func (f *faulty) repairs(machine string) {
	f.t.Helper()
	made, _ := f.marked()
	f.longBroken([]string{machine})
	f.wantMarked(made + 1)
}

func (f *faulty) wantConnections(exactly int) {
	f.t.Helper()
	f.Eventually(f.t, fmt.Sprintf("%s has %d connections", f.name, exactly), func(context.Context) error {
		if open := f.proxy.Connections(); open != exactly {
			return fmt.Errorf("it has %d", open)
		}
		return nil
	})
}

var leaderKey = types.NamespacedName{Namespace: "fettle-system", Name: "fettle"}

// holdLease holds the lease in the name of another leader, until resign.
func (l *load) holdLease() {
	l.t.Helper()
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaderKey.Namespace, Name: leaderKey.Name}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("another"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now}
	l.must("taking the lease", l.Create(cluster.Context(l.t), lease))
}

func (l *load) resign() {
	l.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaderKey.Namespace, Name: leaderKey.Name}}
	l.must("giving up the lease", l.Patch(cluster.Context(l.t), lease, merge(map[string]any{"spec": map[string]any{"holderIdentity": ""}})))
	l.leaderIs("another")
}

// replica starts a replica, and waits until its caches have synced.
func (l *load) replica() *replica {
	l.t.Helper()
	return l.starts(func(flags ...string) *cluster.Fettle { return l.StartFettle(l.whole, flags...) })
}

// starts is replica, with a function that starts the process.
func (l *load) starts(start func(flags ...string) *cluster.Fettle) *replica {
	l.t.Helper()
	r := &replica{of: l, metrics: cluster.FreeAddress(l.t), probes: cluster.FreeAddress(l.t)}
	r.Fettle = start(append(leaderFlags(), "--metrics-bind-address="+r.metrics, "--health-probe-bind-address="+r.probes)...)
	l.Eventually(l.t, "the replica is ready", func(context.Context) error {
		answer, err := cluster.Get(l.t, "http://"+r.probes+"/readyz", "", nil)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("it answers %d: %s", answer.Status, answer.Body)
		}
		return err
	})
	return r
}

func (r *replica) series() map[string]float64 {
	r.of.t.Helper()
	answer, err := cluster.Get(r.of.t, "https://"+r.metrics+"/metrics", r.of.token, nil)
	if err != nil || answer.Status != http.StatusOK {
		r.of.t.Fatalf("reading the metrics: %d (%v)", answer.Status, err)
	}
	return cluster.Series(r.of.t, answer.Body)
}

// objects returns how many objects the replica has in memory: the fewest from now until a few garbage collections have
// passed. Their number varies less than their size, since buffers are large.
func (r *replica) objects() int {
	r.of.t.Helper()
	series := r.series()
	least, until := series["go_memstats_heap_objects"], series["go_gc_duration_seconds_count"]+4
	for series["go_gc_duration_seconds_count"] < until {
		series = r.series()
		least = min(least, series["go_memstats_heap_objects"])
	}
	return int(least)
}

// flips makes health checks of clusters come and go, each of another cluster.
func (l *load) flips(namespace string, times int) {
	l.t.Helper()
	l.Namespace(l.t, namespace)
	clusters := make([]string, times)
	for i := range clusters {
		clusters[i] = fmt.Sprintf("cluster-%d", i)
	}
	l.each(clusters, func(ctx context.Context, name string) error {
		check := object("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", namespace, name)
		check.Object["spec"] = map[string]any{
			"clusterName": name, "selector": map[string]any{"matchLabels": map[string]any{"fixture": name}},
			"checks": map[string]any{"unhealthyNodeConditions": []any{map[string]any{"type": "Ready", "status": "Unknown", "timeoutSeconds": int64(300)}}},
		}
		if err := l.Create(ctx, check); err != nil {
			return err
		}
		return l.Delete(ctx, check)
	})
}
