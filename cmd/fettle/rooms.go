package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/nhc"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/engine"
	nodelease "github.com/fettle-io/fettle/internal/guard/lease"
	"github.com/fettle-io/fettle/internal/guard/quorum"
	"github.com/fettle-io/fettle/internal/guard/upgrade"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/remediator/machinedeletion"
	"github.com/fettle-io/fettle/internal/remedy/annotate"
	"github.com/fettle-io/fettle/internal/remedy/machinedelete"
	"github.com/fettle-io/fettle/internal/remedy/template"
	"github.com/fettle-io/fettle/internal/served"
)

// rooms are the parts of the controller that know an API, and the loop that has them meet.
type rooms struct {
	manager  ctrl.Manager
	log      logr.Logger
	loop     *engine.Loop
	watchdog *engine.Watchdog
	waker    *served.Waker

	machines *openshift.Client
	nodes    *nhc.Client
	repairs  *ledger.Client
	asked    *template.Client
	deletion *machinedeletion.Client
	clusters *fleets
	leases   *nodelease.Client
	// leaseCache has leases of one namespace alone.
	leaseCache cache.Cache
	versions   *upgrade.Client
	votes      *quorum.Client
}

// furnish makes every room and shows it its neighbours.
func furnish(manager ctrl.Manager, watched *watches, m measures, o controllerOptions, log logr.Logger) (*rooms, error) {
	r := &rooms{
		manager: manager, log: log, watchdog: engine.NewWatchdog(time.Now), loop: engine.NewLoop(log.WithName("engine"), time.Now),
	}
	r.waker = &served.Waker{Informers: manager.GetCache(), Log: log.WithName("served"), Awake: r.loop.WakeAll}
	r.addDialects(m, o)
	var own []served.Part
	r.deletion, own = remediators(manager, log)
	if err := errors.Join(r.addRemedies(), r.addGuards(watched)); err != nil {
		return nil, err
	}
	var err error
	if r.clusters, err = keepClusters(r, m, o); err != nil {
		return nil, err
	}
	r.waker.Parts = slices.Concat(own, []served.Part{
		r.clusters.part(),
		{Name: "OpenShift MachineHealthCheck", Kinds: openshift.Kinds, Watch: r.machines.Watch, InStep: r.machines.InStep},
		{Name: "medik8s NodeHealthCheck", Kinds: nhc.Kinds, Watch: r.nodes.Watch, InStep: r.nodes.InStep},
		{Name: "the ledger of repairs", Kinds: []string{ledger.Kind}, Watch: r.repairs.Watch, InStep: r.repairs.InStep},
		{Name: "leases of nodes", Kinds: nhc.Kinds, Watch: r.leases.Watch, InStep: r.leases.InStep},
		{Name: "upgrades of the cluster", Kinds: upgrade.Kinds, Watch: r.versions.Watch, InStep: r.versions.InStep},
	})
	r.keepHome(m, o)
	return r, nil
}

// keepHome has the fleet kept of the cluster that Fettle itself is in.
func (r *rooms) keepHome(m measures, o controllerOptions) {
	machineKind := v1beta1.GroupVersion.WithKind("Machine")
	repairs, asked, writer := r.repairs.Of(ledger.Fleet{}), r.asked.Of(template.Fleet{}, r.wake), r.manager.GetClient()
	fleet := engine.New(engine.Config{
		Fleet:     cluster,
		Dialects:  []engine.Dialect{r.machines, r.nodes},
		Ledger:    repairs,
		Witness:   repairs,
		Pruner:    repairs,
		Surveyors: []engine.Surveyor{asked, r.leases, r.versions},
		Quorum:    r.votes,
		Lock:      r.leases,
		Remedies: map[string]engine.Remedy{
			openshift.DeleteMachine:   machinedelete.NewClient(machineKind, writer),
			template.NodeRemedy:       asked,
			template.MachineRemedy:    asked,
			openshift.AnnotateMachine: annotate.NewClient(machineKind, v1beta1.ExternalRemediationAnnotation, writer),
		},
		Retention: o.retention,
		Now:       time.Now,
		Log:       r.log.WithName("engine"),
		Metrics:   m.engine,
	})
	r.loop.Keep(cluster, r.watchdog.Over(cluster, fleet.Pass))
}

// wake has the home fleet looked at soon.
func (r *rooms) wake() { r.loop.Wake(cluster) }

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

func (r *rooms) addDialects(m measures, o controllerOptions) {
	events := r.manager.GetEventRecorder("fettle")
	r.machines = openshift.NewClient(openshift.Config{
		Informers: r.manager.GetCache(), Live: r.manager.GetAPIReader(), Writer: r.manager.GetClient(),
		Events: events, Now: time.Now, Wake: r.wake, Served: r.serves(openshift.Kinds), Metrics: m.openshift,
	})
	r.nodes = nhc.NewClient(nhc.Config{
		Informers: r.manager.GetCache(), Live: r.manager.GetAPIReader(), Writer: r.manager.GetClient(),
		Events: events, Now: time.Now, Wake: r.wake, Served: r.serves(nhc.Kinds), Metrics: m.nhc,
	})
	r.repairs = ledger.NewClient(ledger.Config{
		Namespace: o.repairNamespace, Informers: r.manager.GetCache(), Live: r.manager.GetAPIReader(), Writer: r.manager.GetClient(),
		Events: events, Log: r.log.WithName("ledger"), Wake: r.wakeFleet, Known: func() { r.clusters.follow() },
	})
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
		add(manager, cached{r.leaseCache}), add(manager, r.asked), r.clusters.addTo(manager), add(manager, r.waker),
		addChecks(manager, r.watchdog, r.waker),
	)
}

// cached has the manager start a cache with its own, whether it leads or not.
type cached struct{ cache.Cache }

// GetCache is how the manager knows a cache.
func (c cached) GetCache() cache.Cache { return c.Cache }
