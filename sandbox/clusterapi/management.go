package clusterapi

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1" //nolint:staticcheck // as clusterv1beta1
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // it is served for as long as others use it
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
	"github.com/fettle-io/fettle/sandbox/pki"
	"github.com/fettle-io/fettle/sandbox/provider"
	"github.com/fettle-io/fettle/sandbox/simulation"
)

const (
	component  = "fettle-sandbox"
	loopback   = "127.0.0.1"
	syncPeriod = 10 * time.Minute

	stopTimeout = 5 * time.Second
)

// Hosts are the hosts of the certificate of the webhooks.
var Hosts = [...]string{loopback}

// Config configures the controllers. Every field is required, except HealthChecks, ControlPlanes and KindsOnly.
type Config struct {
	Client       *rest.Config // of an administrator; its CA has signed the certificate
	Certificate  pki.Pair     // for Hosts
	HealthChecks bool         // run Cluster API's own reconciler of health checks
	// ControlPlanes runs Cluster API's own reconciler and admission webhooks of KubeadmControlPlanes. Without it, any
	// client may write their status.
	ControlPlanes bool
	KindsOnly     bool // run neither reconcilers nor providers, but webhooks and, if they are asked for, health checks
	Log           logr.Logger
}

// Start installs the kinds and the webhooks, runs the reconcilers and the simulated providers, and returns when their
// caches have synced.
func Start(ctx context.Context, cfg Config) (*simulation.Simulation, error) {
	ctrl.SetLogger(cfg.Log)
	if err := setFeatures(cfg); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, fmt.Errorf("opening a port for webhooks: %w", err)
	}
	running, err := startOn(ctx, listener, cfg)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return running, nil
}

// setFeatures sets the feature gates of Cluster API, which are global to the process. Nothing here makes machine pools,
// so their kind is not installed. Health checks that run alone look at each change at once, since a test waits for
// them.
func setFeatures(cfg Config) error {
	gates := map[string]bool{string(feature.MachinePool): false}
	if cfg.KindsOnly {
		gates[string(feature.ReconcilerRateLimiting)] = false
	}
	if err := feature.MutableGates.SetFromMap(gates); err != nil {
		return fmt.Errorf("setting the features of Cluster API: %w", err)
	}
	return nil
}

func startOn(ctx context.Context, listener net.Listener, cfg Config) (*simulation.Simulation, error) {
	served := endpoint{url: "https://" + listener.Addr().String(), ca: cfg.Client.CAData}
	if err := installKinds(cfg.Client, served); err != nil {
		return nil, err
	}
	hooks, err := newWebhookServer(listener, cfg.Certificate)
	if err != nil {
		return nil, err
	}
	mgr, err := newManager(cfg.Client, hooks)
	if err != nil {
		return nil, err
	}
	clusters, err := addReconcilers(ctx, mgr, cfg)
	if err != nil {
		return nil, err
	}
	if err := addWebhooks(mgr, clusters); err != nil {
		return nil, err
	}
	if !cfg.KindsOnly {
		if err := provider.Register(mgr, clusters); err != nil {
			return nil, err
		}
	}
	if err := installWebhooks(ctx, cfg, served); err != nil {
		return nil, err
	}
	return simulation.Start(ctx, "Cluster API", mgr)
}

func newManager(client *rest.Config, hooks *webhookServer) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		clusterv1beta1.AddToScheme, clusterv1.AddToScheme, controlplanev1beta1.AddToScheme, controlplanev1.AddToScheme,
		bootstrapv1.AddToScheme, providerv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	caching := setup.ManagerCacheOptions(scheme, component, "", syncPeriod)
	// Its metrics of informers are not served, and it warns where a kind is watched in two ways.
	caching.NewInformer = nil
	mgr, err := ctrl.NewManager(client, ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: new(stopTimeout),
		Cache:                   caching,
		Client:                  setup.ManagerClientOptions(),
		WebhookServer:           hooks,
		Controller: config.Controller{
			UsePriorityQueue: new(feature.Gates.Enabled(feature.PriorityQueue)),
			// The simulated Machine API has controllers of the same names, in the same process.
			SkipNameValidation: new(true),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager of Cluster API: %w", err)
	}
	return mgr, nil
}
