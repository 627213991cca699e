package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/capi"
	"github.com/fettle-io/fettle/internal/engine"
	"github.com/fettle-io/fettle/internal/guard/quorum"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/remedy/owner"
	"github.com/fettle-io/fettle/internal/remedy/template"
	"github.com/fettle-io/fettle/internal/servedapi"
	"github.com/fettle-io/fettle/internal/workload"
)

// workloadClusters runs passes over each workload cluster with a health check of Cluster API.
type workloadClusters struct {
	*components

	machines    *capi.Client
	owners      *owner.Client
	connections *workload.Connections
	metrics     controllerMetrics
	retention   core.Retention
	// serving is false if Fettle doesn't follow health checks of Cluster API.
	serving bool

	mu      sync.Mutex
	running map[types.NamespacedName]*runningCluster
}

// newWorkloadClusters makes the components for workload clusters, and runs passes over none yet.
func newWorkloadClusters(r *components, m controllerMetrics, o controllerOptions) (*workloadClusters, error) {
	w := &workloadClusters{components: r, metrics: m, retention: o.retention, serving: o.serves(clusterAPIName), running: map[types.NamespacedName]*runningCluster{}}
	live, writer := r.manager.GetAPIReader(), r.manager.GetClient()
	w.machines = capi.NewClient(capi.Config{
		Informers: r.manager.GetCache(), Live: live, Writer: writer, Events: r.manager.GetEventRecorder("fettle"), Now: time.Now,
		After: afterFunc,
		Wake:  w.wake, Changed: w.sync, WatchFilter: o.watchFilter, Home: r.home, Served: r.serves(capi.Kinds), Writers: m.writersOf(capi.Kinds),
	})
	w.owners = owner.NewClient(owner.Config{
		Machine: w.machines.Machine, OnWrite: w.machines.Wrote, Writer: clusterapi.Writer{Statuses: writer, Live: live, Now: time.Now},
	})
	w.connections = workload.New(workload.Config{
		Secrets: live, Now: time.Now, Wake: w.wake, Log: r.log.WithName("workload"), UserAgent: "fettle/" + version,
		Bounds: o.workloadBounds, Panicked: func(of types.NamespacedName) { m.engine.CountPanic(clusterName(of)) },
	})
	if o.metricsAddress == off {
		return w, nil
	}
	if err := metrics.Registry.Register(w.connections); err != nil {
		return nil, fmt.Errorf("preparing metrics of workload clusters: %w", err)
	}
	return w, nil
}

// part returns the part that starts once the cluster is a management cluster. It is ready whether
// or not workload clusters answer.
func (w *workloadClusters) part() servedapi.Part {
	return servedapi.Part{
		Name: "Cluster API MachineHealthCheck", Kinds: capi.Kinds, Watch: w.machines.Watch, HasSynced: w.machines.HasSynced, Optional: true,
		Reads:  servedapi.ReadsOf(clusterapi.MachineKind.GroupVersion(), "MachineHealthCheck", "Machine", "Cluster"),
		Grants: "config/cluster_api, or in the chart clusterAPI.enabled",
	}
}

func (w *workloadClusters) addTo(manager ctrl.Manager) error { return add(manager, w.connections) }

// wake queues a pass over a workload cluster.
func (w *workloadClusters) wake(cluster types.NamespacedName) { w.loop.Wake(clusterName(cluster)) }

// clusterName returns the key of a workload cluster. It contains a slash, so it differs from
// homeKey.
func clusterName(cluster types.NamespacedName) string { return cluster.String() }

// runningCluster is a workload cluster in the loop.
type runningCluster struct {
	requests *template.ClusterClient
	// connected is set while a health check needs the nodes.
	connected bool
}

// sync runs passes over the clusters that have a health check or repairs. The repairs of a cluster
// without a health check end, and are deleted when retention allows it.
func (w *workloadClusters) sync() {
	if !w.serving {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := map[types.NamespacedName]bool{}
	for _, key := range w.repairs.Clusters() {
		wanted[types.NamespacedName{Namespace: key.Namespace, Name: key.Name}] = false
	}
	for _, cluster := range w.machines.Clusters() {
		wanted[cluster] = true
	}
	for cluster, k := range w.running {
		if connected, wants := wanted[cluster]; !wants || connected != k.connected {
			w.stop(cluster)
		}
	}
	for cluster, connected := range wanted {
		if w.running[cluster] == nil {
			w.start(cluster, connected)
		}
	}
}

func (w *workloadClusters) start(cluster types.NamespacedName, connected bool) {
	name := clusterName(cluster)
	requests := w.templates.ForCluster(core.ClusterKey{Namespace: cluster.Namespace, Name: cluster.Name}, func() { w.wake(cluster) })
	repairs := w.repairs.Store(core.ClusterKey{Namespace: cluster.Namespace, Name: cluster.Name})
	config := engine.Config{
		ClusterKey:    name,
		Ledger:        repairs,
		LiveRepairs:   repairs,
		RepairDeleter: repairs,
		FactSources:   []engine.FactSource{requests},
		Remedies: map[string]engine.Remedy{
			capi.MarkOwner:                 w.owners,
			capi.RequestMachineRemediation: requests,
		},
		Retention: w.retention,
		Now:       time.Now,
		Clock:     w.clock,
		Log:       w.log.WithName("engine").WithValues("cluster", name),
		Metrics:   w.metrics.engine,
	}
	w.running[cluster] = &runningCluster{requests, connected}
	w.loop.Add(name, w.watchdog.Watch(name, w.newPass(cluster, config, connected)))
}

func (w *workloadClusters) newPass(cluster types.NamespacedName, config engine.Config, connected bool) engine.Pass {
	if !connected {
		config.Dialects = []engine.Dialect{w.machines.Dialect(cluster, noNodes{})}
		return w.skipOnceChecked(cluster, engine.New(config).Pass)
	}
	nodes := w.connections.Keep(cluster)
	config.Dialects = []engine.Dialect{w.machines.Dialect(cluster, nodes)}
	config.Quorum = quorum.NewClient(quorum.Config{Live: nodes.Live(), OpenShift: neverServed, Now: time.Now})
	return skipUntilConnected(nodes, engine.New(config).Pass)
}

func (w *workloadClusters) stop(cluster types.NamespacedName) {
	name := clusterName(cluster)
	w.loop.Remove(name)
	w.connections.Drop(cluster)
	w.running[cluster].requests.Close()
	delete(w.running, cluster)
	w.metrics.engine.DeleteCluster(name)
}

// skipOnceChecked skips the pass once the cluster has a health check, until sync connects it.
func (w *workloadClusters) skipOnceChecked(cluster types.NamespacedName, pass engine.Pass) engine.Pass {
	return func(ctx context.Context) (time.Time, error) {
		if slices.Contains(w.machines.Clusters(), cluster) {
			return time.Time{}, nil
		}
		return pass(ctx)
	}
}

// noNodes has the nodes of a cluster that Fettle doesn't connect to.
type noNodes struct{}

func (noNodes) Answers() (core.Tri, string) { return core.Unknown, "no health check needs them" }

func (noNodes) Lookup(yield func(find func(string) (node.Facts, bool))) {
	yield(func(string) (node.Facts, bool) { return node.Facts{}, false })
}

func (noNodes) ReadNode(context.Context, string) (core.Node, error) {
	return core.Node{}, errors.New("no health check needs it")
}

// neverServed reports that a workload cluster doesn't serve ClusterVersion, since Fettle doesn't
// watch its definitions. The quorum guard then recognises OpenShift by its namespaces.
func neverServed() core.Tri { return core.No }

// skipUntilConnected skips passes until the first attempt to connect has ended. Otherwise each new
// leader would report that the cluster isn't connected. The connection wakes the cluster when its
// state is known.
func skipUntilConnected(nodes *workload.Connection, pass engine.Pass) engine.Pass {
	return func(ctx context.Context) (time.Time, error) {
		if answers, why := nodes.Answers(); answers != core.Yes && why == "" {
			return time.Time{}, nil
		}
		return pass(ctx)
	}
}

func (o *controllerOptions) checkWatchFilter() error {
	var problems []error
	for _, wrong := range validation.IsValidLabelValue(o.watchFilter) {
		problems = append(problems, fmt.Errorf("--watch-filter is %q, which no label cluster.x-k8s.io/watch-filter can have: %s", o.watchFilter, wrong))
	}
	return errors.Join(problems...)
}
