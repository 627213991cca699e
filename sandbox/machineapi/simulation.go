package machineapi

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
	"github.com/fettle-io/fettle/sandbox/cloud"
	"github.com/fettle-io/fettle/sandbox/crd"
	"github.com/fettle-io/fettle/sandbox/simulation"
)

// Namespace is where machines usually are. It is created for convenience. Machines work in any namespace.
const Namespace = "openshift-machine-api"

const workers = 10

// Config configures the simulation. Every field is required.
type Config struct {
	Client *rest.Config // of an administrator
	Poll   time.Duration
	Log    logr.Logger
}

// Start installs the kinds, runs the cloud and the controllers, and returns when their caches have synced.
func Start(ctx context.Context, cfg Config) (*simulation.Simulation, error) {
	if err := crd.Install(cfg.Client, crd.MachineAPI); err != nil {
		return nil, err
	}
	ctrl.SetLogger(cfg.Log)
	mgr, err := simulation.NewManager(cfg.Client, machinev1.AddToScheme, cloudv1.AddToScheme)
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
	return simulation.Start(ctx, "the Machine API", mgr)
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
