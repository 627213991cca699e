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
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/remedy/owner"
	"github.com/fettle-io/fettle/internal/remedy/template"
	"github.com/fettle-io/fettle/internal/served"
	"github.com/fettle-io/fettle/internal/workload"
)

// fleets keep a fleet for each workload cluster that has a health check of Cluster API.
type fleets struct {
	*rooms

	machines    *capi.Client
	owners      *owner.Client
	connections *workload.Connections
	measures    measures
	retention   core.Retention
	// serving is false where health checks of Cluster API are left to others.
	serving bool

	mu   sync.Mutex
	kept map[types.NamespacedName]*kept
}

// keepClusters makes what workload clusters need, and keeps none yet.
func keepClusters(r *rooms, m measures, o controllerOptions) (*fleets, error) {
	f := &fleets{rooms: r, measures: m, retention: o.retention, serving: o.serves(clusterAPIDialect), kept: map[types.NamespacedName]*kept{}}
	live, writer := r.manager.GetAPIReader(), r.manager.GetClient()
	f.machines = capi.NewClient(capi.Config{
		Informers: r.manager.GetCache(), Live: live, Writer: writer, Events: r.manager.GetEventRecorder("fettle"), Now: time.Now,
		After: after,
		Wake:  f.wake, Changed: f.follow, WatchFilter: o.watchFilter, Home: r.home, Served: r.serves(capi.Kinds), Writers: m.writersOf(capi.Kinds),
	})
	f.owners = owner.NewClient(owner.Config{
		Machine: f.machines.Machine, Wrote: f.machines.Wrote, Writer: clusterapi.Writer{Statuses: writer, Live: live, Now: time.Now},
	})
	f.connections = workload.New(workload.Config{
		Secrets: live, Now: time.Now, Wake: f.wake, Log: r.log.WithName("workload"), UserAgent: "fettle/" + version,
		Bounds: o.workloadBounds, Panicked: func(of types.NamespacedName) { m.engine.HasPanicked(fleetName(of)) },
	})
	if o.metricsAddress == off {
		return f, nil
	}
	if err := metrics.Registry.Register(f.connections); err != nil {
		return nil, fmt.Errorf("preparing metrics of workload clusters: %w", err)
	}
	return f, nil
}

// part is what wakes when the cluster becomes a management cluster. It is ready whether workload clusters answer or not.
func (f *fleets) part() served.Part {
	return served.Part{
		Name: "Cluster API MachineHealthCheck", Kinds: capi.Kinds, Watch: f.machines.Watch, InStep: f.machines.InStep, Optional: true,
		Reads:  served.ReadsOf(clusterapi.MachineKind.GroupVersion(), "MachineHealthCheck", "Machine", "Cluster"),
		Grants: "config/cluster_api, or in the chart clusterAPI.enabled",
	}
}

func (f *fleets) addTo(manager ctrl.Manager) error { return add(manager, f.connections) }

// wake has the fleet of a workload cluster looked at soon.
func (f *fleets) wake(cluster types.NamespacedName) { f.loop.Wake(fleetName(cluster)) }

// fleetName is not that of the home fleet, since it has a slash.
func fleetName(cluster types.NamespacedName) string { return cluster.String() }

// kept is a fleet that is kept.
type kept struct {
	docket *template.Docket
	// connected is set while a health check needs the nodes.
	connected bool
}

// follow keeps the clusters that have a health check, and those that only have repairs from when they had one: these
// come to their end, and go when their time is over.
func (f *fleets) follow() {
	if !f.serving {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := map[types.NamespacedName]bool{}
	for _, of := range f.repairs.Fleets() {
		wanted[types.NamespacedName{Namespace: of.Namespace, Name: of.Cluster}] = false
	}
	for _, cluster := range f.machines.Clusters() {
		wanted[cluster] = true
	}
	for cluster, k := range f.kept {
		if connected, wants := wanted[cluster]; !wants || connected != k.connected {
			f.drop(cluster)
		}
	}
	for cluster, connected := range wanted {
		if f.kept[cluster] == nil {
			f.keep(cluster, connected)
		}
	}
}

func (f *fleets) keep(cluster types.NamespacedName, connected bool) {
	name := fleetName(cluster)
	docket := f.asked.Of(template.Fleet{Namespace: cluster.Namespace, Cluster: cluster.Name}, func() { f.wake(cluster) })
	repairs := f.repairs.Of(ledger.Fleet{Namespace: cluster.Namespace, Cluster: cluster.Name})
	config := engine.Config{
		Fleet:     name,
		Ledger:    repairs,
		Witness:   repairs,
		Pruner:    repairs,
		Surveyors: []engine.Surveyor{docket},
		Remedies: map[string]engine.Remedy{
			capi.MarkOwner:                 f.owners,
			capi.RequestMachineRemediation: docket,
		},
		Retention: f.retention,
		Now:       time.Now,
		Clock:     f.clock,
		Log:       f.log.WithName("engine").WithValues("cluster", name),
		Metrics:   f.measures.engine,
	}
	f.kept[cluster] = &kept{docket, connected}
	f.loop.Keep(name, f.watchdog.Over(name, f.passOver(cluster, config, connected)))
}

func (f *fleets) passOver(cluster types.NamespacedName, config engine.Config, connected bool) engine.Pass {
	if !connected {
		config.Dialects = []engine.Dialect{f.machines.Fleet(cluster, noNodes{})}
		return f.whileUnchecked(cluster, engine.New(config).Pass)
	}
	nodes := f.connections.Keep(cluster)
	config.Dialects = []engine.Dialect{f.machines.Fleet(cluster, nodes)}
	config.Quorum = quorum.NewClient(quorum.Config{Live: nodes.Live(), OpenShift: notByDefinition, Now: time.Now})
	return onceConnected(nodes, engine.New(config).Pass)
}

func (f *fleets) drop(cluster types.NamespacedName) {
	name := fleetName(cluster)
	f.loop.Drop(name)
	f.connections.Drop(cluster)
	f.kept[cluster].docket.Close()
	delete(f.kept, cluster)
	f.measures.engine.Drop(name)
}

// whileUnchecked has nothing decided once the cluster has a health check, and is about to be connected.
func (f *fleets) whileUnchecked(cluster types.NamespacedName, pass engine.Pass) engine.Pass {
	return func(ctx context.Context) (time.Time, error) {
		if slices.Contains(f.machines.Clusters(), cluster) {
			return time.Time{}, nil
		}
		return pass(ctx)
	}
}

// noNodes are those of a cluster that nobody looks at.
type noNodes struct{}

func (noNodes) Answers() (core.Tri, string) { return core.Unknown, "no health check needs them" }

func (noNodes) Lookup(yield func(find func(string) (node.Facts, bool))) {
	yield(func(string) (node.Facts, bool) { return node.Facts{}, false })
}

func (noNodes) ReadNode(context.Context, string) (core.Node, error) {
	return core.Node{}, errors.New("no health check needs it")
}

// notByDefinition: which kinds a workload cluster serves is not watched. Whether it is an OpenShift, its namespaces tell.
func notByDefinition() core.Tri { return core.No }

// onceConnected spares health checks the news that their cluster is not connected yet, each time that a leader begins.
// The connection wakes the fleet as soon as there is something to tell.
func onceConnected(nodes *workload.Connection, pass engine.Pass) engine.Pass {
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
