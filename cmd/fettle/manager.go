package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/dialect/capi"
	"github.com/fettle-io/fettle/internal/dialect/nhc"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/engine"
	"github.com/fettle-io/fettle/internal/lean"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/served"
)

// cluster is the name of the fleet of the cluster that this process is in.
const cluster = "cluster"

// endsWithin is how long parts may take to end: calls under way have a few seconds, and the kubelet has
// half a minute.
const endsWithin = 15 * time.Second

// newManager wires every room to its neighbours.
func newManager(config *rest.Config, o controllerOptions, log logr.Logger) (ctrl.Manager, error) {
	watched := newWatches(log.WithName("watch"))
	config.Wrap(endSilentWatches(longestSilence))
	config.Wrap(watched.wrap)
	options, held, err := managerOptions(config, o, log)
	if err != nil {
		return nil, err
	}
	options.Cache.DefaultWatchErrorHandler = watched.failed
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("preparing the controller: %w", err)
	}
	measures, err := newMeasures(o)
	if err != nil {
		return nil, err
	}
	rooms, err := furnish(manager, watched, measures, o, log)
	if err != nil {
		return nil, err
	}
	acting := &leader{loop: rooms.loop, metrics: measures.engine, log: log.WithName("leader"), lease: held}
	return manager, errors.Join(add(manager, acting), add(manager, whileHeld{rooms.deletion, held}), rooms.addTo(manager))
}

func add(manager ctrl.Manager, part interface{ Start(context.Context) error }) error {
	if err := manager.Add(part); err != nil {
		return fmt.Errorf("preparing the controller: %w", err)
	}
	return nil
}

// addChecks has Fettle say that it is alive unless a pass hangs, and that it is ready when what it
// watches has been taken in, whether it leads or not.
func addChecks(manager ctrl.Manager, watchdog *engine.Watchdog, waker *served.Waker) error {
	if err := manager.AddHealthzCheck("passes", watchdog.Alive); err != nil {
		return fmt.Errorf("preparing the health endpoint: %w", err)
	}
	for name, check := range waker.Checks() {
		if err := manager.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("preparing the readiness endpoint: %w", err)
		}
	}
	return nil
}

// measures are what is counted; nothing is where nothing is served.
type measures struct {
	engine    *engine.Metrics
	openshift *openshift.Metrics
	nhc       *nhc.Metrics
	capi      *capi.Metrics
}

func newMeasures(o controllerOptions) (measures, error) {
	if o.metricsAddress == off {
		return measures{}, nil
	}
	m := measures{engine: engine.NewMetrics(), openshift: openshift.NewMetrics(), nhc: nhc.NewMetrics(), capi: capi.NewMetrics()}
	for _, c := range []prometheus.Collector{m.engine, m.openshift, m.nhc, m.capi} {
		if err := metrics.Registry.Register(c); err != nil {
			return measures{}, fmt.Errorf("preparing metrics: %w", err)
		}
	}
	return m, nil
}

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=fettle-system,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=fettle,namespace=fettle-system,verbs=get;update

// managerOptions also give the lease, which is nil when there is no election.
func managerOptions(config *rest.Config, o controllerOptions, log logr.Logger) (ctrl.Options, *lease, error) {
	ending := endsWithin
	serving, err := metricsOptions(o)
	if err != nil {
		return ctrl.Options{}, nil, err
	}
	options := ctrl.Options{
		Scheme: newScheme(),
		Logger: log,
		// Options by kind would need the kinds to be served already, so one transform serves all.
		Cache:                         cache.Options{DefaultTransform: trim},
		Metrics:                       serving,
		HealthProbeBindAddress:        o.healthAddress,
		GracefulShutdownTimeout:       &ending,
		LeaderElection:                o.leaderElect,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.leaseDuration,
		RenewDeadline:                 &o.renewDeadline,
		RetryPeriod:                   &o.retryPeriod,
	}
	if !o.leaderElect {
		return options, nil, nil
	}
	held, err := newLease(config, o)
	if err != nil {
		return options, nil, err
	}
	options.LeaderElectionID, options.LeaderElectionResourceLockInterface = leaseName, held
	return options, held, nil
}

// trim reduces what is watched to what is read, before a cache keeps it. What decodes lean comes so.
func trim(obj any) (any, error) {
	switch obj.(type) {
	case *lean.Node, *openshift.Machine, *clusterapi.Machine, *clusterapi.Cluster:
		return obj, nil
	}
	if page, isRepair := ledger.Trim(obj); isRepair {
		return page, nil
	}
	if check, isCheck := capi.Trim(obj); isCheck {
		return check, nil
	}
	return cache.TransformStripManagedFields()(obj)
}

// newScheme has the kinds that are read and written as Go types. Of core/v1 it has the lean ones alone:
// leader election and events bring clients of their own. A manager that is given a LeaderElectionConfig
// would add the stock ones, and panic.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(metav1.AddMetaToScheme(s))
	utilruntime.Must(lean.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	utilruntime.Must(openshift.AddToScheme(s))
	utilruntime.Must(clusterapi.AddToScheme(s))
	return s
}
