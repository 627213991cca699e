// Simagents runs the agent of each simulated host of a sandbox, with a stand-in for its watchdog. A watchdog that is not petted presses the
// button of its host. The agents ask each other over loopback, with the certificates that Fettle signs. A host whose node has the label
// sandbox.fettle.io/link=cut reaches neither the API server nor another agent. It prints what the agents tell, and each reset.
//
//	simagents KUBECONFIG NODE...
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// The annotation and the labels of a node by which its host is driven.
const (
	power = "sandbox.fettle.io/power"
	link  = "sandbox.fettle.io/link"
)

// every is how often each host is looked at.
const every = 200 * time.Millisecond

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: simagents KUBECONFIG NODE...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "simagents:", err)
		os.Exit(1) //nolint:gocritic // the signals matter no more
	}
}

func run(ctx context.Context, kubeconfig string, nodes []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	for _, name := range nodes {
		h := &host{name: name, config: config, clients: clients, wire: newWire(), arrived: make(chan net.Conn)}
		if h.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return fmt.Errorf("listening for other agents: %w", err)
		}
		running.Go(func() { h.run(ctx) })
		running.Go(func() { h.accept(ctx) })
	}
	<-ctx.Done()
	return nil
}
