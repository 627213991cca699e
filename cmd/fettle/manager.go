package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/engine"
	"github.com/fettle-io/fettle/internal/lean"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/remedy/machinedelete"
	"github.com/fettle-io/fettle/internal/served"
)

// cluster is the name of the one fleet that this process keeps.
const cluster = "cluster"

// newManager wires every room to its neighbours.
func newManager(config *rest.Config, o controllerOptions, log logr.Logger) (ctrl.Manager, error) {
	manager, err := ctrl.NewManager(config, managerOptions(o, log))
	if err != nil {
		return nil, fmt.Errorf("preparing the controller: %w", err)
	}
	var loop *engine.Loop
	wake := func() { loop.Wake(cluster) }
	repairs := ledger.NewClient(ledger.Config{
		Informers: manager.GetCache(), Live: manager.GetAPIReader(), Writer: manager.GetClient(), Wake: wake,
	})
	machines := openshift.NewClient(openshift.Config{
		Informers: manager.GetCache(), Live: manager.GetAPIReader(), Writer: manager.GetClient(),
		Events: manager.GetEventRecorder("fettle"), Now: time.Now, Wake: wake,
	})
	fleet := engine.New(engine.Config{
		Dialects: []engine.Dialect{machines},
		Ledger:   repairs,
		Witness:  repairs,
		Pruner:   repairs,
		Remedies: map[string]engine.Remedy{
			openshift.DeleteMachine: machinedelete.NewClient(v1beta1.GroupVersion.WithKind("Machine"), manager.GetClient()),
		},
		Retention: o.retention,
		Now:       time.Now,
		Log:       log.WithName("engine"),
	})
	loop = engine.NewLoop(log.WithName("engine"), time.Now, map[string]func(context.Context) (time.Time, error){cluster: fleet.Pass})
	waker := &served.Waker{
		Informers: manager.GetCache(), Log: log.WithName("served"), Awake: wake,
		Parts: []served.Part{
			{Name: "OpenShift MachineHealthCheck", Kinds: openshift.Kinds, Watch: machines.Watch, InStep: machines.InStep},
			{Name: "the ledger of repairs", Kinds: []string{ledger.Kind}, Watch: repairs.Watch, InStep: repairs.InStep},
		},
	}
	return manager, addAll(manager, loop, waker)
}

func addAll(manager ctrl.Manager, loop *engine.Loop, waker *served.Waker) error {
	for _, runnable := range []interface{ Start(context.Context) error }{loop, waker} {
		if err := manager.Add(runnable); err != nil {
			return fmt.Errorf("preparing the controller: %w", err)
		}
	}
	if err := manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("preparing the health endpoint: %w", err)
	}
	if err := manager.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("preparing the readiness endpoint: %w", err)
	}
	return nil
}

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=fettle-system,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=events,namespace=fettle-system,verbs=create;patch

func managerOptions(o controllerOptions, log logr.Logger) ctrl.Options {
	return ctrl.Options{
		Scheme: newScheme(),
		Logger: log,
		// Options by kind would need the kinds to be served already, so one transform serves all.
		Cache:                         cache.Options{DefaultTransform: trim},
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.healthAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "fettle",
		LeaderElectionNamespace:       o.leaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
	}
}

// trim reduces what is watched to what is read, before a cache keeps it. What decodes lean comes so.
func trim(obj any) (any, error) {
	switch obj.(type) {
	case *lean.Node, *openshift.Machine:
		return obj, nil
	case *v1alpha1.Repair:
		return ledger.Trim(obj)
	}
	return cache.TransformStripManagedFields()(obj)
}

// newScheme has the kinds that are read and written as Go types. Of core/v1 it has the lean ones alone:
// leader election and events bring clients of their own.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(metav1.AddMetaToScheme(s))
	utilruntime.Must(lean.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	utilruntime.Must(openshift.AddToScheme(s))
	return s
}
