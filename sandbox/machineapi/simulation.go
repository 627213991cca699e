package machineapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
	"github.com/fettle-io/fettle/sandbox/cloud"
	"github.com/fettle-io/fettle/sandbox/crd"
)

// Namespace is where machines normally live. It is made for convenience; machines work in any.
const Namespace = "openshift-machine-api"

const (
	workers     = 10
	stopTimeout = 5 * time.Second
)

// Config says how to run the simulation. Every field is required.
type Config struct {
	Client *rest.Config // of an administrator
	Poll   time.Duration
	Log    logr.Logger
}

// Simulation is a running one.
type Simulation struct {
	cancel context.CancelFunc
	ended  chan struct{}
	died   chan error
}

// Start installs the kinds, runs the cloud and the controllers, and returns when they have seen what exists.
func Start(ctx context.Context, cfg Config) (*Simulation, error) {
	if err := crd.Install(ctx, cfg.Client); err != nil {
		return nil, err
	}
	ctrl.SetLogger(cfg.Log)
	mgr, err := newManager(cfg)
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(cfg.Client)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if err := ensureNamespace(ctx, clients); err != nil {
		return nil, err
	}
	if err := register(ctx, mgr, clients, cfg); err != nil {
		return nil, err
	}
	s := &Simulation{ended: make(chan struct{}), died: make(chan error, 1)}
	running, cancel := context.WithCancel(context.Background()) // until Stop
	s.cancel = cancel
	go s.run(running, mgr)
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		s.Stop()
		return nil, fmt.Errorf("waiting for the simulation to see what exists: %w", context.Cause(ctx))
	}
	return s, nil
}

// Died gives an error if the simulation ends although nobody stopped it.
func (s *Simulation) Died() <-chan error { return s.died }

// Stop ends it and waits for it.
func (s *Simulation) Stop() {
	s.cancel()
	<-s.ended
}

func (s *Simulation) run(ctx context.Context, mgr ctrl.Manager) {
	defer close(s.ended)
	err := mgr.Start(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errors.New("it ended by itself")
	}
	s.died <- fmt.Errorf("running the Machine API simulation: %w", err)
}

func newManager(cfg Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1.AddToScheme, cloudv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(cfg.Client, ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: new(stopTimeout),
		Cache:                   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
	})
	if err != nil {
		return nil, fmt.Errorf("making the simulation's manager: %w", err)
	}
	return mgr, nil
}

func register(ctx context.Context, mgr ctrl.Manager, clients kubernetes.Interface, cfg Config) error {
	simulated := cloud.New(mgr.GetClient())
	status := statusWriter{client: mgr.GetClient(), now: time.Now}
	controllers := []interface {
		register(ctx context.Context, mgr ctrl.Manager) error
	}{
		newMachineController(mgr, simulated, status, cfg.Poll),
		newDrainController(mgr, clients, status, cfg.Poll),
		newNodeLinkController(mgr, status),
		newMachineSetController(mgr, time.Now),
	}
	for _, c := range controllers {
		if err := c.register(ctx, mgr); err != nil {
			return fmt.Errorf("registering a controller: %w", err)
		}
	}
	if err := cloud.NewController(mgr.GetClient(), time.Now).Register(mgr); err != nil {
		return fmt.Errorf("registering the cloud: %w", err)
	}
	return nil
}

func ensureNamespace(ctx context.Context, clients kubernetes.Interface) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	_, err := clients.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the namespace %s: %w", Namespace, err)
	}
	return nil
}
