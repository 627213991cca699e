package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/logging"
	"github.com/fettle-io/fettle/internal/peer"
	"github.com/fettle-io/fettle/internal/watchdog"
)

// run runs the agent until the context ends.
func (o options) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	handler, err := logging.New(os.Stderr, o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	log := logr.FromSlogHandler(handler)
	klog.SetLogger(log)
	machine := agent.NewMachine() // before anything that may fail later
	if err := watchdog.LockMemory(); err != nil {
		return fmt.Errorf("preparing for a node that can't read its disk (run as root): %w", err)
	}
	boot, err := watchdog.BootID()
	if err != nil {
		return fmt.Errorf("reading the boot ID: %w", err)
	}
	config, err := connection(o.kubeconfig)
	if err != nil {
		return err
	}
	paths := &agent.Dialer{Direct: agent.Direct, Neighbours: func() []string { return nil }}
	config.Dial = paths.DialContext
	grantor, err := agent.NewServer(config)
	if err != nil {
		return err
	}
	server, err := agent.NewServer(config)
	if err != nil {
		return err
	}
	dir := agent.Directory(o.stateDir)
	unlock, err := lockDirectory(ctx, dir, log)
	if err != nil {
		return err
	}
	defer unlock()
	reporter := agent.NewReporter(server, o.node, time.Now, log)
	leases := agent.NewLeases(grantor, o.node, time.Now)
	c := agent.Config{
		Node: o.node, Boot: boot, Hardware: machine, Grantor: leases, Explainer: leases, Policies: agent.NewFencePolicies(server, o.node),
		Store: dir, Boottime: bootTime, EachSecond: eachSecond, Tell: reporter.Tell, StopWithin: o.stopWithin,
	}
	endPeers, err := o.startPeers(config, leases, paths, &c, log) //nolint:contextcheck // other agents are answered until this one has ended
	if err != nil {
		return err
	}
	defer endPeers()
	stopReports := report(reporter) //nolint:contextcheck // reports go on until the agent has ended
	defer stopReports()
	log.Info("starting", "version", version, "node", o.node, "boot", boot)
	return agent.Run(ctx, c)
}

// connection returns how to reach the API server of this node's cluster. There is no limit of requests in a second, since each of them has its own
// time.
func connection(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster (give --kubeconfig): %w", err)
	}
	config.QPS = -1
	config.UserAgent = "fettle-agent/" + version
	return config, nil
}

// startPeers has the agent get its certificate, answer other agents, reach the API server through them, and ask them as witnesses. It returns the
// function that ends that. Nothing connects to the API server before it is called. Without an address the agent does none of it.
func (o options) startPeers(config *rest.Config, leases *agent.Leases, paths *agent.Dialer, c *agent.Config, log logr.Logger) (func(), error) {
	if o.address == "" {
		return func() {}, nil
	}
	address, err := netip.ParseAddr(o.address)
	if err != nil {
		return nil, fmt.Errorf("reading --address: %w", err)
	}
	server, err := agent.NewServer(config)
	if err != nil {
		return nil, err
	}
	witnessed, err := agent.NewServer(config)
	if err != nil {
		return nil, err
	}
	leases.Address = netip.AddrPortFrom(address.Unmap(), o.port)
	dir := agent.Directory(o.stateDir)
	certificates := agent.NewCertificates(server, o.node, dir, bootTime, c.Tell)
	peers := peer.NewServer(certificates.Identity, func(r peer.Refusal) { logRefusal(log, r) })
	peers.Relay(func(ctx context.Context) (net.Conn, error) { return agent.Direct(ctx, "tcp", server.Address()) })
	c.Witness, c.Addresses, c.Others = agent.NewWitness(), agent.NewAddresses(dir), agent.NewAllLeases(witnessed)
	c.Peers = peer.NewClient(certificates.Identity, c.Addresses.Of)
	peers.Handle(agent.WitnessPath, c.Witness.Answer)
	neighbours := agent.NewNeighbours(server, o.node, dir)
	paths.Relay, paths.Neighbours = peer.NewClient(certificates.Identity, neighbours.Address).Relay, neighbours.Names
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { neighbours.Run(ctx) })
	running.Go(func() { certificates.Run(ctx) })
	running.Go(func() { agent.Listen(ctx, peers, o.port, c.Tell) })
	return func() {
		end()
		running.Wait()
	}, nil
}

// logRefusal logs requests of others that this agent has refused. Of another program than an agent, the node is empty and the address is not.
func logRefusal(log logr.Logger, r peer.Refusal) {
	log = log.WithValues("cause", r.Cause, "times", r.Times)
	if r.Node != "" {
		log = log.WithValues("node", r.Node)
	}
	if r.From.IsValid() {
		log = log.WithValues("address", r.From)
	}
	if r.Err != nil {
		log.Error(r.Err, "another agent was not answered")
		return
	}
	log.Info("a request to this agent was refused")
}

// bootTime reads CLOCK_BOOTTIME.
func bootTime() time.Duration {
	t, err := watchdog.BootTime()
	if err != nil {
		panic(err) // Linux has that clock; without it the watchdog resets the node
	}
	return t
}

// lockDirectory waits until no other agent uses the directory.
func lockDirectory(ctx context.Context, dir agent.Directory, log logr.Logger) (unlock func(), err error) {
	for first := true; ; first = false {
		unlock, err := dir.Lock()
		if !errors.Is(err, agent.ErrLocked) {
			return unlock, err
		}
		if first {
			log.Info("waiting for another agent of this node to end", "directory", string(dir))
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// reportWithin is how long an agent that has ended waits for its log.
const reportWithin = time.Second

// report has a reporter run, and returns the function that ends it.
func report(r *agent.Reporter) func() {
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() {
		end()
		select {
		case <-done:
		case <-time.After(reportWithin):
		}
	}
}
