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
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/peer"
	"github.com/fettle-io/fettle/internal/watchdog"
)

// agentOptions has the flags of fettle agent.
type agentOptions struct {
	kubeconfig string
	node       string
	stateDir   string
	address    string
	port       uint16
	stopWithin time.Duration
	logLevel   string
	logFormat  string
}

// nodeNameVariable is the environment variable with the name of the node, which a pod gets from its own spec.
const nodeNameVariable = "NODE_NAME"

// nodeAddressVariable is that with the IP address of the node.
const nodeAddressVariable = "NODE_ADDRESS"

func agentCommand() *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Keep the watchdog of this node from firing until the node is condemned, and promise that in its Lease",
		Long: "Keep the watchdog of this node from firing until the node is condemned, and promise that in its Lease,\n" +
			"until a signal ends it. It then withdraws the promise, and disarms the watchdog once that is confirmed.\n\n" +
			"It does nothing on a node that no FencePolicy selects. It runs as root on each node, as a pod of a DaemonSet.",
		Example: "  fettle agent --node-name worker-7",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runAgent(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster of this node (default: $KUBECONFIG, then ~/.kube/config, then the pod's service account)")
	f.StringVar(&o.node, "node-name", os.Getenv(nodeNameVariable), "name of this node (default: $"+nodeNameVariable+")")
	f.StringVar(&o.stateDir, "state-dir", "/run/fettle", "directory of what must outlive this process, but not the boot; it must be on a file system in memory")
	f.StringVar(&o.address, "address", os.Getenv(nodeAddressVariable), "IP address at which other agents reach this one; if it is empty, the agent answers none (default: $"+nodeAddressVariable+")")
	f.Uint16Var(&o.port, "port", peer.DefaultPort, "port at which other agents reach this one, on all addresses of the node")
	f.DurationVar(&o.stopWithin, "stop-within", 45*time.Second, "how long to try to withdraw the promise after a signal; the watchdog stays armed if that fails")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "json, or text for people")
	return cmd
}

func (o agentOptions) validate() error {
	var problems []error
	if wrong := validation.IsDNS1123Subdomain(o.node); len(wrong) > 0 {
		problems = append(problems, fmt.Errorf("--node-name is %q, which no node can be called", o.node))
	}
	if a, err := netip.ParseAddr(o.address); o.address != "" && (err != nil || a.Zone() != "") {
		problems = append(problems, fmt.Errorf("--address is %q; it must be an IP address, such as 192.0.2.1", o.address))
	}
	if o.address != "" && o.port == 0 {
		problems = append(problems, errors.New("--port is 0; it must be a port, such as 9643"))
	}
	if o.stopWithin <= 0 {
		problems = append(problems, fmt.Errorf("--stop-within is %s; it must be above zero, such as 45s", o.stopWithin))
	}
	return errors.Join(problems...)
}

func runAgent(ctx context.Context, o agentOptions) error {
	log, err := newLogger(ctx, o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	machine := agent.NewMachine() // before anything that may fail later
	if err := watchdog.LockMemory(); err != nil {
		return fmt.Errorf("preparing for a node that can't read its disk (run as root): %w", err)
	}
	boot, err := watchdog.BootID()
	if err != nil {
		return fmt.Errorf("reading the boot ID: %w", err)
	}
	config, err := restConfig(o.kubeconfig)
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
		Store: dir, Boottime: bootTime, Tell: reporter.Tell, StopWithin: o.stopWithin,
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

// startPeers has the agent get its certificate, answer other agents, reach the API server through them, and ask them as witnesses. It returns the
// function that ends that. Nothing connects to the API server before it is called. Without an address the agent does none of it.
func (o agentOptions) startPeers(config *rest.Config, leases *agent.Leases, paths *agent.Dialer, c *agent.Config, log logr.Logger) (func(), error) {
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
	peers := peer.NewServer(certificates.Identity, func(path string, err error) {
		log.Error(err, "another agent was not answered", "path", path)
	})
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
