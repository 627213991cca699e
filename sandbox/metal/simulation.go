package metal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fettle-io/fettle/sandbox/crd"
	"github.com/fettle-io/fettle/sandbox/simulation"
)

// Config configures the simulation. Client and Log are required.
type Config struct {
	Client *rest.Config // of an administrator
	Log    logr.Logger
	// RunningPods is the file to which a line is added for each running pod, ten times a second. Default: none.
	RunningPods string
	// Requests is the file to which a line is added for each request that reaches a BMC by Redfish. It has the tokens of sessions. Default: none.
	Requests string
}

// Start runs the hosts, and returns when the caches have synced.
func Start(ctx context.Context, cfg Config) (*simulation.Simulation, error) {
	ctrl.SetLogger(cfg.Log)
	if err := crd.Install(cfg.Client, crd.Metal3); err != nil {
		return nil, fmt.Errorf("installing Metal3's kind: %w", err)
	}
	mgr, err := simulation.NewManager(cfg.Client)
	if err != nil {
		return nil, err
	}
	requests, err := openRequests(cfg.Requests)
	if err != nil {
		return nil, err
	}
	f := newFleet(time.Now)
	f.requests = requests
	metal3 := newOperator(mgr.GetClient(), f)
	c := &keeper{client: mgr.GetClient(), live: mgr.GetAPIReader(), fleet: f, metal3: metal3}
	if err := errors.Join(c.register(mgr), metal3.register(mgr)); err != nil {
		return nil, err
	}
	if err := errors.Join(mgr.Add(untilStopped(f.close)), mgr.Add(metal3.ironic)); err != nil {
		return nil, fmt.Errorf("registering the BMCs: %w", err)
	}
	if cfg.RunningPods != "" {
		if err := watchPods(ctx, mgr, f, cfg.RunningPods); err != nil {
			return nil, err
		}
	}
	return simulation.Start(ctx, "hosts", mgr)
}

func watchPods(ctx context.Context, mgr ctrl.Manager, f *fleet, file string) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	if _, err := informer.AddEventHandler(podHandler(f)); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	log, err := openLog(file, f)
	if err != nil {
		return err
	}
	if err := mgr.Add(log); err != nil {
		return fmt.Errorf("registering the log of running pods: %w", err)
	}
	return nil
}

func podHandler(f *fleet) cache.ResourceEventHandler {
	set := func(o any) {
		if p, ok := o.(*corev1.Pod); ok {
			f.setPod(p)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, o any) { set(o) },
		DeleteFunc: func(o any) {
			if last, missed := o.(cache.DeletedFinalStateUnknown); missed {
				o = last.Obj
			}
			if p, ok := o.(*corev1.Pod); ok {
				f.removePod(p)
			}
		},
	}
}

// untilStopped does something when the manager stops.
func untilStopped(do func()) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		do()
		return nil
	})
}
