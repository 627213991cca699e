// Package simulation runs the controllers of a simulated part of the world, until they are stopped.
//
//	mgr, err := simulation.NewManager(cfg.Client, machinev1.AddToScheme)
//	…
//	running, err := simulation.Start(ctx, "the Machine API", mgr)
//	defer running.Stop()
package simulation
