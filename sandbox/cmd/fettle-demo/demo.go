package main

import (
	"context"
	"fmt"

	"github.com/fettle-io/fettle/sandbox/stage"
)

// demo is the stage that the story is played on.
type demo struct {
	*stage.Stage
}

// raise starts the sandbox, installs Fettle's manifests and runs it as its own service account.
func (s *demo) raise(ctx context.Context) error {
	say("starting a control plane: API server, etcd, controller manager, and a simulated cloud with kubelets")
	_, err := s.StartSandbox(ctx, "--kubelets", "--machine-api", "--node-monitor-grace-period", "4s", "--node-monitor-period", "1s")
	if err != nil {
		return err
	}
	say("installing Fettle: definitions, a service account and the few rights that it needs")
	if err := s.InstallFettle(ctx); err != nil {
		return err
	}
	_, err = s.StartFettle(ctx, "--leader-elect=false")
	return err
}

func (s *demo) strike(announce bool) {
	if announce {
		fmt.Println("\nstopping Fettle and the sandbox")
	}
	s.Strike()
}

func (s *demo) sayHowToLookAround() {
	fmt.Printf(`
Everything is still running. In another terminal:

  export KUBECONFIG=%s
  kubectl get machines,machinehealthchecks,repairs -n %s
  kubectl get nodes,instances
  kubectl describe machinehealthcheck example -n %s
  kubectl events -n %s

Break something, and watch what happens:

  kubectl patch instance NAME --type=merge -p '{"spec":{"fault":"Unresponsive"}}'   # its node falls silent
  kubectl patch instance NAME --type=merge -p '{"spec":{"fault":"Terminated"}}'     # its machine becomes Failed

Fettle's log is %s/fettle.log. Press Ctrl-C to stop.
`, s.Kubeconfig(), namespace, namespace, namespace, s.Dir)
}
