package metal

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fettle-io/fettle/sandbox/simulation"
)

// Config configures the simulation. Every field is required.
type Config struct {
	Client *rest.Config // of an administrator
	Log    logr.Logger
}

// Start runs the hosts, and returns when the caches have synced.
func Start(ctx context.Context, cfg Config) (*simulation.Simulation, error) {
	ctrl.SetLogger(cfg.Log)
	mgr, err := simulation.NewManager(cfg.Client)
	if err != nil {
		return nil, err
	}
	f := newFleet(time.Now)
	c := &keeper{client: mgr.GetClient(), live: mgr.GetAPIReader(), fleet: f}
	if err := c.register(mgr); err != nil {
		return nil, err
	}
	if err := mgr.Add(untilStopped(f.close)); err != nil {
		return nil, fmt.Errorf("registering the BMCs: %w", err)
	}
	return simulation.Start(ctx, "hosts", mgr)
}

// untilStopped does something when the manager stops.
func untilStopped(do func()) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		do()
		return nil
	})
}
