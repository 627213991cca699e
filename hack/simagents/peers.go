package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/peer"
	"github.com/fettle-io/fettle/internal/promiselease"
)

// asAgent returns the configuration of the agent of a host, whose connections use the link of the host.
func (b *booted) asAgent(paths *agent.Dialer) *rest.Config {
	config := rest.CopyConfig(b.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + promiselease.Namespace + ":fettle-agent",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + promiselease.Namespace, "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {b.name}},
	}
	config.Dial = paths.DialContext
	return config
}

// runAgent runs the agent until the boot ends. All that it does without the API server is as in fettle agent.
func (b *booted) runAgent(ctx context.Context, dir agent.Directory) error {
	paths := &agent.Dialer{Direct: b.wire.dial, Neighbours: func() []string { return nil }}
	config := b.asAgent(paths)
	var servers [4]*agent.Server // requests that hang must not delay others
	for i := range servers {
		var err error
		if servers[i], err = agent.NewServer(config); err != nil {
			return fmt.Errorf("connecting an agent: %w", err)
		}
	}
	leases := agent.NewLeases(servers[0], b.name, time.Now)
	c := agent.Config{
		Node: b.name, Boot: b.boot, Hardware: b, Grantor: leases, Explainer: leases, Policies: agent.NewFencePolicies(servers[1], b.name),
		Store: dir, Boottime: b.boottime, Tell: b.tell, StopWithin: time.Millisecond,
	}
	leases.Address = b.address()
	certificates := agent.NewCertificates(servers[2], b.name, dir, b.boottime, b.tell)
	server := peer.NewServer(certificates.Identity, func(r peer.Refusal) { b.say(fmt.Sprint("refused: ", r.Cause, " ", r.Err)) })
	server.Relay(func(ctx context.Context) (net.Conn, error) { return b.wire.dial(ctx, "tcp", servers[0].Address()) })
	c.Witness, c.Addresses, c.Others = agent.NewWitness(), agent.NewAddresses(dir), agent.NewAllLeases(servers[3])
	c.Peers = &asking{b.wire, peer.NewClient(certificates.Identity, c.Addresses.Of)}
	server.Handle(agent.WitnessPath, c.Witness.Answer)
	neighbours := agent.NewNeighbours(servers[2], b.name, dir)
	relays := peer.NewClient(certificates.Identity, neighbours.Address)
	paths.Neighbours, paths.Relay = neighbours.Names, func(ctx context.Context, node string) (net.Conn, error) {
		return b.wire.relay(ctx, relays, node)
	}
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	running.Go(func() { neighbours.Run(ctx) })
	running.Go(func() { certificates.Run(ctx) })
	running.Go(func() { _ = server.Serve(ctx, &door{Listener: b.listener, host: b.host, shut: make(chan struct{})}) })
	return agent.Run(ctx, c)
}

// address returns where the agent listens.
func (h *host) address() netip.AddrPort { return netip.MustParseAddrPort(h.listener.Addr().String()) }

// asking asks other agents over the link of a host.
type asking struct {
	wire *wire
	next agent.Peers
}

// Ask implements agent.Peers.
func (a *asking) Ask(ctx context.Context, node, path string, body []byte) ([]byte, error) {
	if err := a.wire.passes(ctx); err != nil {
		return nil, err
	}
	return a.next.Ask(ctx, node, path, body)
}

// relay connects to the API server through the agent of another node.
func (w *wire) relay(ctx context.Context, through *peer.Client, node string) (net.Conn, error) {
	if err := w.passes(ctx); err != nil {
		return nil, err
	}
	c, err := through.Relay(ctx, node)
	if err != nil {
		return nil, err
	}
	return w.keep(c), nil
}
