package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/klog/v2"

	"github.com/fettle-io/fettle/sandbox/access"
	"github.com/fettle-io/fettle/sandbox/clusterapi"
	"github.com/fettle-io/fettle/sandbox/controlplane"
	"github.com/fettle-io/fettle/sandbox/kubelets"
	"github.com/fettle-io/fettle/sandbox/machineapi"
	"github.com/fettle-io/fettle/sandbox/metal"
	"github.com/fettle-io/fettle/sandbox/remediator"
	"github.com/fettle-io/fettle/sandbox/simulation"
	"github.com/fettle-io/fettle/sandbox/statedir"
)

// serve runs the sandbox until ctx ends, which is a success, or until a part of it dies.
func serve(ctx context.Context, opts options, terminal terminal) error {
	dir, err := statedir.Open(opts.dir)
	if _, ok := errors.AsType[*statedir.InUseError](err); ok {
		return fmt.Errorf("%w; stop it first, or use another --dir", err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()

	logFile, err := redirectLogs(dir.Path(statedir.Log), terminal)
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }()

	if err := run(ctx, opts, dir, logFile, terminal.out); err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "The sandbox ends")
		return fmt.Errorf("%w; the log is %s", err, dir.Path(statedir.Log))
	}
	return nil
}

// part is a component that runs until it is stopped, and reports it if it ends before.
type part interface {
	Died() <-chan error
	Stop()
}

func run(ctx context.Context, opts options, dir *statedir.Dir, logFile *os.File, stdout io.Writer) error {
	kwok := ""
	if opts.kubelets {
		var err error
		if kwok, err = kubelets.Find(opts.kwok); err != nil {
			return err
		}
	}
	plane, err := startPlane(ctx, opts, dir, logFile)
	if err != nil {
		return err
	}
	defer plane.Stop()
	if err := access.Write(dir.Path(statedir.Kubeconfig), plane.Admin()); err != nil {
		return err
	}
	parts := []part{plane}
	if opts.kubelets {
		played, err := startKubelets(opts, plane, dir, kwok, logFile)
		if err != nil {
			return err
		}
		defer played.Stop()
		parts = append(parts, played)
	}
	simulations, err := startSimulations(ctx, opts, plane)
	defer func() {
		for _, s := range slices.Backward(simulations) {
			s.Stop()
		}
	}()
	if err != nil {
		return err
	}
	for _, s := range simulations {
		parts = append(parts, s)
	}
	if _, err := fmt.Fprintf(stdout, "fettle-sandbox is ready: KUBECONFIG=%s (%s)\n", dir.Path(statedir.Kubeconfig), plane.Server()); err != nil {
		return fmt.Errorf("saying that the sandbox is ready: %w", err)
	}
	return wait(ctx, parts)
}

// wait returns nil when ctx ends, or the error of the first part that dies before.
func wait(ctx context.Context, parts []part) error {
	died := make(chan error, len(parts))
	for _, p := range parts {
		go func() {
			select {
			case err := <-p.Died():
				died <- err
			case <-ctx.Done():
			}
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-died:
		return err
	}
}

func startPlane(ctx context.Context, opts options, dir *statedir.Dir, logFile io.Writer) (*controlplane.ControlPlane, error) {
	listener, err := listen(ctx, opts.port, dir.Path(statedir.Kubeconfig))
	if err != nil {
		return nil, err
	}
	cfg := controlplane.Config{
		Dir:                    dir.Path(),
		Listener:               listener,
		Log:                    logFile,
		APIServer:              opts.apiServer,
		NodeMonitorGracePeriod: opts.nodeMonitorGracePeriod,
		NodeMonitorPeriod:      opts.nodeMonitorPeriod,
		Controllers:            opts.controllers,
	}
	if opts.auditLog != "" {
		if cfg.AuditLog, err = filepath.Abs(opts.auditLog); err != nil {
			return nil, fmt.Errorf("finding the audit log: %w", err)
		}
	}
	return controlplane.Start(ctx, cfg)
}

func startKubelets(opts options, plane *controlplane.ControlPlane, dir *statedir.Dir, kwok string, logFile *os.File) (*kubelets.Kubelets, error) {
	identity, err := plane.Simulator("kubelets")
	if err != nil {
		return nil, err
	}
	cfg := kubelets.Config{
		Binary:                 kwok,
		Kubeconfig:             dir.Path("pki", "kubelets.kubeconfig"),
		Dir:                    dir.Path("kwok"),
		Log:                    logFile,
		NodeMonitorGracePeriod: opts.nodeMonitorGracePeriod,
	}
	if err := access.Write(cfg.Kubeconfig, identity); err != nil {
		return nil, err
	}
	return kubelets.Start(cfg)
}

// startSimulations starts the configured simulations. It also returns the running ones if one of them can't start.
func startSimulations(ctx context.Context, opts options, plane *controlplane.ControlPlane) ([]*simulation.Simulation, error) {
	starts := []struct {
		wanted bool
		start  func(ctx context.Context, opts options, plane *controlplane.ControlPlane) (*simulation.Simulation, error)
	}{
		{opts.machineAPI, startMachineAPI},
		{opts.remediators, startRemediators},
		{opts.metal, startMetal},
		{opts.clusterAPI, startClusterAPI},
	}
	var running []*simulation.Simulation
	for _, s := range starts {
		if !s.wanted {
			continue
		}
		started, err := s.start(ctx, opts, plane)
		if err != nil {
			return running, err
		}
		running = append(running, started)
	}
	return running, nil
}

func startMachineAPI(ctx context.Context, opts options, plane *controlplane.ControlPlane) (*simulation.Simulation, error) {
	identity, err := plane.Simulator("machine-api")
	if err != nil {
		return nil, err
	}
	return machineapi.Start(ctx, machineapi.Config{
		Client: identity.ClientConfig(),
		Poll:   opts.machineAPIPoll,
		Log:    klog.Background(),
	})
}

func startRemediators(ctx context.Context, _ options, plane *controlplane.ControlPlane) (*simulation.Simulation, error) {
	identity, err := plane.Simulator("remediators")
	if err != nil {
		return nil, err
	}
	return remediator.Start(ctx, identity.ClientConfig(), klog.Background())
}

func startMetal(ctx context.Context, opts options, plane *controlplane.ControlPlane) (*simulation.Simulation, error) {
	identity, err := plane.Simulator("metal")
	if err != nil {
		return nil, err
	}
	return metal.Start(ctx, metal.Config{Client: identity.ClientConfig(), Log: klog.Background(), RunningPods: opts.metalLog, Requests: opts.bmcLog})
}

func startClusterAPI(ctx context.Context, opts options, plane *controlplane.ControlPlane) (*simulation.Simulation, error) {
	identity, err := plane.Simulator("cluster-api")
	if err != nil {
		return nil, err
	}
	certificate, err := plane.Serving("cluster-api-webhooks", clusterapi.Hosts[:])
	if err != nil {
		return nil, err
	}
	return clusterapi.Start(ctx, clusterapi.Config{
		Client:       identity.ClientConfig(),
		Certificate:  certificate,
		HealthChecks: opts.clusterAPIHealthChecks, ControlPlanes: opts.clusterAPIControlPlanes, KindsOnly: opts.clusterAPIKindsOnly,
		Log: klog.Background(),
	})
}
