package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fettle-io/fettle/internal/agentsigner"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/nhc"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/engine"
	"github.com/fettle-io/fettle/internal/fencestatus"
	"github.com/fettle-io/fettle/internal/guard/clock"
	nodelease "github.com/fettle-io/fettle/internal/guard/lease"
	"github.com/fettle-io/fettle/internal/guard/quorum"
	"github.com/fettle-io/fettle/internal/guard/upgrade"
	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/remediator/machinedeletion"
	"github.com/fettle-io/fettle/internal/remediator/powercycle"
	"github.com/fettle-io/fettle/internal/remediator/selffencing"
	"github.com/fettle-io/fettle/internal/remedy/template"
	"github.com/fettle-io/fettle/internal/servedapi"
)

// components has the parts of the controller, which call each other through callbacks and ports.
type components struct {
	manager  ctrl.Manager
	log      logr.Logger
	clock    *clock.Meter
	loop     *engine.Loop
	watchdog *engine.Watchdog
	waker    *servedapi.Starter

	machines  *openshift.Client
	nodes     *nhc.Client
	repairs   *ledger.Client
	templates *template.Client
	deletion  *machinedeletion.Client
	power     *powercycle.Client
	// powerAccess reports whether power has the rights that its work needs.
	powerAccess *powercycle.Access
	selfFence   *selffencing.Client
	fenceStatus *fencestatus.Client
	// signer issues the certificates of agents. requestCache caches their requests.
	signer       *agentsigner.Client
	requestCache cache.Cache
	clusters     *workloadClusters
	home         *homeCluster
	leases       *nodelease.Client
	// leaseCache caches the leases of one namespace.
	leaseCache cache.Cache
	upgrades   *upgrade.Client
	quorum     *quorum.Client
}

// transports has the wrappers of the HTTP transport that components read.
type transports struct {
	watched *watchLogger
	clock   *clock.Meter
}

// wireComponents makes all components and connects them.
func wireComponents(manager ctrl.Manager, w transports, m controllerMetrics, o controllerOptions, log logr.Logger) (*components, error) {
	r := &components{
		manager: manager, log: log, clock: w.clock, watchdog: engine.NewWatchdog(time.Now), loop: engine.NewLoop(log.WithName("engine"), time.Now),
	}
	r.clock.Wake(r.loop.WakeAll)
	r.waker = &servedapi.Starter{Informers: manager.GetCache(), API: manager.GetAPIReader(), Log: log.WithName("served"), OnChange: r.loop.WakeAll, Mapper: manager.GetRESTMapper()}
	if err := errors.Join(r.wireDialects(m, o), r.addLedger(o)); err != nil {
		return nil, err
	}
	r.home = &homeCluster{}
	for _, client := range r.homeClients(o) {
		r.home.dialects = append(r.home.dialects, client)
	}
	r.deletion = deletionRemediator(manager, log)
	if err := r.wireFencing(o); err != nil {
		return nil, err
	}
	if err := errors.Join(r.addRemedies(o), r.addGuards(w.watched), r.addSigner(w.watched, o)); err != nil {
		return nil, err
	}
	var err error
	if r.clusters, err = newWorkloadClusters(r, m, o); err != nil {
		return nil, err
	}
	r.waker.Parts = r.parts(o)
	r.addHomeCluster(m, o)
	return r, nil
}

// addHomeCluster adds the cluster that Fettle runs in to the loop.
func (r *components) addHomeCluster(m controllerMetrics, o controllerOptions) {
	repairs, requests := r.repairs.Store(core.ClusterKey{}), r.templates.ForCluster(core.ClusterKey{}, r.wake)
	remedies := r.remediesOfDialects()
	remedies[template.NodeRemedy], remedies[template.MachineRemedy] = requests, requests
	config := engine.Config{
		ClusterKey:    homeKey,
		Ledger:        repairs,
		LiveRepairs:   repairs,
		RepairDeleter: repairs,
		FactSources:   []engine.FactSource{requests, r.leases, r.upgrades},
		Quorum:        r.quorum,
		NodeLeases:    r.leases,
		Siblings:      r.machines.MachineOf,
		Remedies:      remedies,
		Retention:     o.retention,
		Now:           time.Now,
		Clock:         r.clock,
		Log:           r.log.WithName("engine"),
		Metrics:       m.engine,
	}
	for _, client := range r.homeClients(o) {
		config.Dialects = append(config.Dialects, client)
	}
	r.loop.AddHome(homeKey, r.watchdog.Watch(homeKey, engine.New(config).Pass))
}

// wake queues a pass over the home cluster. It queues all clusters when the first health check of
// the home cluster begins to act, and when the last one ceases to. The reason is that a workload
// cluster may have the same nodes.
func (r *components) wake() {
	r.loop.Wake(homeKey)
	if r.home.actsChanged() {
		r.loop.WakeAll()
	}
}

// wakeCluster queues a pass over the cluster of a repair.
func (r *components) wakeCluster(key core.ClusterKey) {
	if key == (core.ClusterKey{}) {
		r.wake()
		return
	}
	r.loop.Wake(clusterName(types.NamespacedName{Namespace: key.Namespace, Name: key.Name}))
}

func (r *components) serves(kinds []string) func() core.Tri {
	return func() core.Tri { return r.waker.Served(kinds) }
}

func (r *components) addLedger(o controllerOptions) error {
	r.repairs = ledger.NewClient(ledger.Config{
		Namespace: o.repairNamespace, Informers: r.manager.GetCache(), Live: r.manager.GetAPIReader(), Writer: r.manager.GetClient(),
		Events: r.manager.GetEventRecorder("fettle"), Log: r.log.WithName("ledger"), Wake: r.wakeCluster, ClusterChanged: func() { r.clusters.sync() },
	})
	if o.metricsAddress == off {
		return nil
	}
	if err := errors.Join(metrics.Registry.Register(r.repairs), metrics.Registry.Register(r.waker), metrics.Registry.Register(r.clock), metrics.Registry.Register(informer.Panics)); err != nil {
		return fmt.Errorf("preparing metrics of repairs, of what may be read and of the clock: %w", err)
	}
	return nil
}

func (r *components) addRemedies(o controllerOptions) error {
	api, err := client.NewWithWatch(r.manager.GetConfig(), client.Options{
		HTTPClient: r.manager.GetHTTPClient(), Scheme: r.manager.GetScheme(), Mapper: r.manager.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("preparing a client of remediators: %w", err)
	}
	r.templates = template.NewClient(template.Config{
		Informers: r.manager.GetCache(), API: api, Served: r.waker.Served, Changed: r.waker.Changed,
		Log: r.log.WithName("template"), BuiltIn: r.builtInTemplates(o), Finalizers: finalizersOf(r.power.HasSynced),
	})
	return nil
}

// addGuards makes the guards. Leases have their own cache, since it is limited to one namespace.
// Options by kind in a shared cache would need the API server before the manager starts.
func (r *components) addGuards(watched *watchLogger) error {
	var err error
	r.leaseCache, err = cache.New(r.manager.GetConfig(), cache.Options{
		HTTPClient: r.manager.GetHTTPClient(), Scheme: r.manager.GetScheme(), Mapper: r.manager.GetRESTMapper(),
		DefaultTransform: trim(), DefaultWatchErrorHandler: watched.handleError,
		DefaultNamespaces: map[string]cache.Config{nodelease.Namespace: {}},
	})
	if err != nil {
		return fmt.Errorf("preparing to watch leases: %w", err)
	}
	isOpenShift := r.serves(upgrade.Kinds)
	r.leases = nodelease.NewClient(nodelease.Config{
		Informers: r.leaseCache, Live: r.manager.GetAPIReader(), Writer: r.manager.GetClient(), Now: time.Now, Wake: r.wake,
	})
	r.upgrades = upgrade.NewClient(upgrade.Config{Informers: r.manager.GetCache(), Served: isOpenShift, Wake: r.wake})
	r.quorum = quorum.NewClient(quorum.Config{Live: r.manager.GetAPIReader(), OpenShift: isOpenShift, Now: time.Now})
	return nil
}

func (r *components) addTo(manager ctrl.Manager) error {
	return errors.Join(
		add(manager, r.clock), add(manager, cached{r.leaseCache}), add(manager, cached{r.requestCache}), add(manager, r.templates), add(manager, r.powerAccess), r.clusters.addTo(manager), add(manager, r.waker),
		addChecks(manager, r.watchdog, r.waker),
	)
}

// cached makes the manager start a cache in each replica, leader or not.
type cached struct{ cache.Cache }

// GetCache returns the cache. The manager recognises a cache by this method.
func (c cached) GetCache() cache.Cache { return c.Cache }
