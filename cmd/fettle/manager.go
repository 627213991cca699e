package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/engine"
	"github.com/fettle-io/fettle/internal/guard/clock"
	nodelease "github.com/fettle-io/fettle/internal/guard/lease"
	"github.com/fettle-io/fettle/internal/guard/upgrade"
	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/servedapi"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/internal/writers"
)

// homeKey is the key of the cluster that Fettle runs in.
const homeKey = "cluster"

// endsWithin bounds the shutdown. Calls under way have a few seconds, and the kubelet waits for
// half a minute.
const endsWithin = 15 * time.Second

// newManager returns the manager with all components.
func newManager(config *rest.Config, o controllerOptions, log logr.Logger) (ctrl.Manager, error) {
	start := time.Now()
	compared := clock.NewMeter(clock.Config{
		Now: time.Now, Elapsed: func() time.Duration { return time.Since(start) }, Log: log.WithName("clock"),
	})
	config.Wrap(compared.Wrap)
	watched := newWatchLogger(log.WithName("watch"))
	config.Wrap(endIdleWatches(watchIdleTimeout))
	config.Wrap(watched.wrap)
	options, held, err := managerOptions(config, o, log)
	if err != nil {
		return nil, err
	}
	options.Cache.DefaultWatchErrorHandler = watched.handleError
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("preparing the controller: %w", err)
	}
	m, err := newControllerMetrics(o)
	if err != nil {
		return nil, err
	}
	parts, err := wireComponents(manager, transports{watched, compared}, m, o, log)
	if err != nil {
		return nil, err
	}
	acting := &leader{loop: parts.loop, metrics: m.engine, log: log.WithName("leader"), lease: held}
	return manager, errors.Join(add(manager, acting), add(manager, leaderOnly{parts.deletion, held}), add(manager, leaderOnly{parts.power, held}), add(manager, leaderOnly{parts.selfFence, held}), add(manager, leaderOnly{parts.fenceStatus, held}), add(manager, leaderOnly{parts.signer, held}), parts.addTo(manager))
}

// newInformer returns the informers of the cache. That of nodes calls its handlers at once.
func newInformer(watched toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if _, isNode := example.(*slim.Node); isNode {
		return informer.NewSynchronous(watched, example, indexers)
	}
	return toolscache.NewSharedIndexInformer(watched, example, resync, indexers)
}

func add(manager ctrl.Manager, part interface{ Start(context.Context) error }) error {
	if err := manager.Add(part); err != nil {
		return fmt.Errorf("preparing the controller: %w", err)
	}
	return nil
}

// addChecks adds the liveness and readiness checks. The process is alive unless a pass hangs. It is
// ready when its watches have synced, leader or not.
func addChecks(manager ctrl.Manager, watchdog *engine.Watchdog, waker *servedapi.Starter) error {
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

// controllerMetrics has the metrics of the components. They are nil if metrics aren't served.
type controllerMetrics struct {
	engine  *engine.Metrics
	writers *writers.Metrics
}

// writersOf returns the registry of foreign writers for the health checks of a dialect. Their kind
// is the first.
func (m controllerMetrics) writersOf(kinds []string) *writers.Registry {
	return writers.NewRegistry(kinds[0], m.writers, time.Now, afterFunc)
}

// afterFunc calls a function after a duration.
func afterFunc(d time.Duration, do func()) { time.AfterFunc(d, do) }

func newControllerMetrics(o controllerOptions) (controllerMetrics, error) {
	ofEngine, err := registered(o, engine.NewMetrics)
	ofWriters, wrong := registered(o, writers.NewMetrics)
	return controllerMetrics{engine: ofEngine, writers: ofWriters}, errors.Join(err, wrong)
}

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=fettle-system,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=fettle,namespace=fettle-system,verbs=get;update

// managerOptions returns the options of the manager, and the lease, which is nil without leader
// election. Clients that are made from the config afterwards send nothing once the lease is lost.
func managerOptions(config *rest.Config, o controllerOptions, log logr.Logger) (ctrl.Options, *leaderLease, error) {
	ending := endsWithin
	serving, err := metricsOptions(o)
	if err != nil {
		return ctrl.Options{}, nil, err
	}
	options := ctrl.Options{
		Scheme: newScheme(),
		Logger: log,
		// Options by kind would need the kinds to be served already, so one transform serves all.
		Cache:                         cache.Options{DefaultTransform: trimmer(o.repairNamespace), NewInformer: newInformer},
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
	config.Dial = held.dial // the lease has connections of its own
	return options, held, nil
}

// trimmer returns a transform that removes the fields of watched objects that Fettle doesn't read.
// The slim types have no others. Fields of unknown size are cut.
func trimmer(repairNamespace string) toolscache.TransformFunc {
	others := trim()
	return func(obj any) (any, error) {
		if page, isRepair := ledger.Trim(obj, repairNamespace); isRepair {
			return page, nil
		}
		return others(obj)
	}
}

// trim returns the transform of all objects but Repairs.
func trim() toolscache.TransformFunc {
	known := dialects()
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *slim.Node:
			return obj, nil
		case *metav1.PartialObjectMetadata: // a definition, of which the name is read
			return &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{
				Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
			}}, nil
		case *v1alpha1.MachineDeletionRemediation:
			lenient.BoundAnnotations(o.Annotations)
		case *v1alpha1.PowerRemediation:
			lenient.BoundAnnotations(o.Annotations)
		case *v1alpha1.SelfFenceRemediation:
			lenient.BoundAnnotations(o.Annotations)
		case *v1alpha1.FencePolicy:
			lenient.BoundAnnotations(o.Annotations)
		case *v1alpha1.BMC:
			lenient.BoundAnnotations(o.Annotations)
		case *unstructured.Unstructured:
			upgrade.Trim(o)
			lenient.Bound(o)
			if slices.ContainsFunc(known, func(d dialect) bool { return d.isHealthCheck(o) }) {
				writers.Trim(o)
				return o, nil
			}
			nodelease.Trim(o)
		default:
			if slices.ContainsFunc(known, func(d dialect) bool { return d.isSlim != nil && d.isSlim(obj) }) {
				return obj, nil
			}
		}
		return cache.TransformStripManagedFields()(obj)
	}
}

// newScheme returns the kinds that Fettle reads and writes as Go types. Of core/v1 it has only the
// slim types, since leader election and events have clients of their own. A LeaderElectionConfig of
// the manager would add the full types, and panic.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(metav1.AddMetaToScheme(s))
	utilruntime.Must(slim.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	for _, d := range dialects() {
		if d.addToScheme != nil {
			utilruntime.Must(d.addToScheme(s))
		}
	}
	return s
}
