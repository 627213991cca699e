package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const stopTimeout = 5 * time.Second

// Simulation is a running simulation.
type Simulation struct {
	what   string
	cancel context.CancelFunc
	ended  chan struct{}
	died   chan error
}

// NewManager returns a manager that knows the kinds of Kubernetes and these. It serves no metrics.
func NewManager(config *rest.Config, kinds ...func(*runtime.Scheme) error) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range append(kinds, clientgoscheme.AddToScheme) {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
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

// Start runs the manager's controllers, and returns when their caches have synced. The argument what names the
// simulation in errors.
func Start(ctx context.Context, what string, mgr ctrl.Manager) (*Simulation, error) {
	s := &Simulation{what: what, ended: make(chan struct{}), died: make(chan error, 1)}
	running, cancel := context.WithCancel(context.Background()) // until Stop
	s.cancel = cancel
	go s.run(running, mgr)
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		s.Stop()
		return nil, fmt.Errorf("waiting for the simulation of %s to see what exists: %w", what, context.Cause(ctx))
	}
	return s, nil
}

// Died returns a channel with the error of a simulation that ended on its own.
func (s *Simulation) Died() <-chan error { return s.died }

// Stop stops the simulation and waits for it.
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
	s.died <- fmt.Errorf("running the simulation of %s: %w", s.what, err)
}
