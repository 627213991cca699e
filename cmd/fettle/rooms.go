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

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/nhc"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/engine"
	"github.com/fettle-io/fettle/internal/guard/clock"
	nodelease "github.com/fettle-io/fettle/internal/guard/lease"
	"github.com/fettle-io/fettle/internal/guard/quorum"
	"github.com/fettle-io/fettle/internal/guard/upgrade"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/remediator/machinedeletion"
	"github.com/fettle-io/fettle/internal/remedy/annotate"
	"github.com/fettle-io/fettle/internal/remedy/machinedelete"
	"github.com/fettle-io/fettle/internal/remedy/template"
	"github.com/fettle-io/fettle/internal/served"
	"github.com/fettle-io/fettle/internal/watching"
)

// rooms are the parts of the controller that know an API, and the loop that has them meet.
type rooms struct {
	manager  ctrl.Manager
	log      logr.Logger
	clock    *clock.Meter
	loop     *engine.Loop
	watchdog *engine.Watchdog
	waker    *served.Waker

	machines *openshift.Client
	nodes    *nhc.Client
	repairs  *ledger.Client
	asked    *template.Client
	deletion *machinedeletion.Client
	clusters *fleets
	home     *home
	leases   *nodelease.Client
	// leaseCache has leases of one namespace alone.
	leaseCache cache.Cache
	versions   *upgrade.Client
	votes      *quorum.Client
}

// wire is what stands in the way of all requests.
type wire struct {
	watched *watches
	clock   *clock.Meter
}

// furnish makes every room and shows it its neighbours.
func furnish(manager ctrl.Manager, w wire, m measures, o controllerOptions, log logr.Logger) (*rooms, error) {
	r := &rooms{
		manager: manager, log: log, clock: w.clock, watchdog: engine.NewWatchdog(time.Now), loop: engine.NewLoop(log.WithName("engine"), time.Now),
	}
	r.clock.Wake(r.loop.WakeAll)
	r.waker = &served.Waker{Informers: manager.GetCache(), API: manager.GetAPIReader(), Log: log.WithName("served"), Awake: r.loop.WakeAll, Mapper: manager.GetRESTMapper()}
	if err := r.addDialects(m, o); err != nil {
		return nil, err
	}
	r.home = &home{neighbors: r.neighbors(o)}
	r.deletion = deletionRemediator(manager, log)
	if err := errors.Join(r.addRemedies(), r.addGuards(w.watched)); err != nil {
		return nil, err
	}
	var err error
	if r.clusters, err = keepClusters(r, m, o); err != nil {
		return nil, err
	}
	r.waker.Parts = r.parts(o)
	r.keepHome(m, o)
	return r, nil
}

// keepHome has the fleet kept of the cluster that Fettle itself is in.
func (r *rooms) keepHome(m measures, o controllerOptions) {
	machineKind := v1beta1.GroupVersion.WithKind("Machine")
	repairs, asked, writer := r.repairs.Of(ledger.Fleet{}), r.asked.Of(template.Fleet{}, r.wake), r.manager.GetClient()
	fleet := engine.New(engine.Config{
		Fleet:     cluster,
		Dialects:  r.engineDialects(o),
		Ledger:    repairs,
		Witness:   repairs,
		Pruner:    repairs,
		Surveyors: []engine.Surveyor{asked, r.leases, r.versions},
		Quorum:    r.votes,
		Lock:      r.leases,
		Siblings:  r.machines.MachineOf,
		Remedies: map[string]engine.Remedy{
			openshift.DeleteMachine:   machinedelete.NewClient(machineKind, writer),
			template.NodeRemedy:       asked,
			template.MachineRemedy:    asked,
			openshift.AnnotateMachine: annotate.NewClient(machineKind, openshift.ExternalRemediationMarks(), writer),
		},
		Retention: o.retention,
		Now:       time.Now,
		Clock:     r.clock,
		Log:       r.log.WithName("engine"),
		Metrics:   m.engine,
	})
	r.loop.KeepPrompt(cluster, r.watchdog.Over(cluster, fleet.Pass))
}

// wake has the home fleet looked at soon. When its first health check begins to act, or its last one no longer does, a
// workload cluster with the same nodes is to be looked at too.
func (r *rooms) wake() {
	r.loop.Wake(cluster)
	if r.home.turned() {
		r.loop.WakeAll()
	}
}

// wakeFleet has the fleet looked at soon that a repair is of.
func (r *rooms) wakeFleet(of ledger.Fleet) {
	if of == (ledger.Fleet{}) {
		r.wake()
		return
	}
	r.loop.Wake(fleetName(types.NamespacedName{Namespace: of.Namespace, Name: of.Cluster}))
}

func (r *rooms) serves(kinds []string) func() core.Tri {
	return func() core.Tri { return r.waker.Served(kinds) }
}

func (r *rooms) addDialects(m measures, o controllerOptions) error {
	events := r.manager.GetEventRecorder("fettle")
	r.machines = openshift.NewClient(openshift.Config{
		Informers: r.manager.GetCache(), Live: r.manager.GetAPIReader(), Writer: r.manager.GetClient(),
		Events: events, Now: time.Now, Wake: r.wake, Served: r.serves(openshift.Kinds), MachinesServed: r.machinesServed, Metrics: m.openshift, Writers: m.writersOf(openshift.Kinds),
	})
	r.nodes = nhc.NewClient(nhc.Config{
		Informers: r.manager.GetCache(), Live: r.manager.GetAPIReader(), Writer: r.manager.GetClient(),
		Events: events, Now: time.Now, Wake: r.wake, Served: r.serves(nhc.Kinds), Metrics: m.nhc, Remediators: r.remediators,
		Writers: m.writersOf(nhc.Kinds),
	})
	r.repairs = ledger.NewClient(ledger.Config{
		Namespace: o.repairNamespace, Informers: r.manager.GetCache(), Live: r.manager.GetAPIReader(), Writer: r.manager.GetClient(),
		Events: events, Log: r.log.WithName("ledger"), Wake: r.wakeFleet, Known: func() { r.clusters.follow() },
	})
	if o.metricsAddress == off {
		return nil
	}
	if err := errors.Join(metrics.Registry.Register(r.repairs), metrics.Registry.Register(r.waker), metrics.Registry.Register(r.clock), metrics.Registry.Register(watching.Panics)); err != nil {
		return fmt.Errorf("preparing metrics of repairs, of what may be read and of the clock: %w", err)
	}
	return nil
}

func (r *rooms) addRemedies() error {
	api, err := client.NewWithWatch(r.manager.GetConfig(), client.Options{
		HTTPClient: r.manager.GetHTTPClient(), Scheme: r.manager.GetScheme(), Mapper: r.manager.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("preparing a client of remediators: %w", err)
	}
	r.asked = template.NewClient(template.Config{
		Informers: r.manager.GetCache(), API: api, Served: r.waker.Served, Changed: r.waker.Changed,
		Log: r.log.WithName("template"),
	})
	return nil
}

// addGuards gives leases a cache of their own, since they are watched in one namespace alone, and options by
// kind would ask the API server before there is anything to ask it for.
func (r *rooms) addGuards(watched *watches) error {
	var err error
	r.leaseCache, err = cache.New(r.manager.GetConfig(), cache.Options{
		HTTPClient: r.manager.GetHTTPClient(), Scheme: r.manager.GetScheme(), Mapper: r.manager.GetRESTMapper(),
		DefaultTransform: trim, DefaultWatchErrorHandler: watched.failed,
		DefaultNamespaces: map[string]cache.Config{nodelease.Namespace: {}},
	})
	if err != nil {
		return fmt.Errorf("preparing to watch leases: %w", err)
	}
	isOpenShift := r.serves(upgrade.Kinds)
	r.leases = nodelease.NewClient(nodelease.Config{
		Informers: r.leaseCache, Live: r.manager.GetAPIReader(), Writer: r.manager.GetClient(), Now: time.Now, Wake: r.wake,
	})
	r.versions = upgrade.NewClient(upgrade.Config{Informers: r.manager.GetCache(), Served: isOpenShift, Wake: r.wake})
	r.votes = quorum.NewClient(quorum.Config{Live: r.manager.GetAPIReader(), OpenShift: isOpenShift, Now: time.Now})
	return nil
}

func (r *rooms) addTo(manager ctrl.Manager) error {
	return errors.Join(
		add(manager, r.clock), add(manager, cached{r.leaseCache}), add(manager, r.asked), r.clusters.addTo(manager), add(manager, r.waker),
		addChecks(manager, r.watchdog, r.waker),
	)
}

// cached has the manager start a cache with its own, whether it leads or not.
type cached struct{ cache.Cache }

// GetCache is how the manager knows a cache.
func (c cached) GetCache() cache.Cache { return c.Cache }
