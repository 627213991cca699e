package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/agent"
)

// host is a simulated host with an agent.
type host struct {
	name    string
	config  *rest.Config
	clients kubernetes.Interface

	wire *wire
	// listener is where other agents connect to, and arrived are their connections.
	listener net.Listener
	arrived  chan net.Conn

	mu   sync.Mutex
	boot string
	end  func()
}

// run runs an agent in each boot of the host, until the context ends.
func (h *host) run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			h.stop()
			return
		case <-tick.C:
		}
		n, err := h.clients.CoreV1().Nodes().Get(ctx, h.name, metav1.GetOptions{})
		if err != nil {
			continue // it is tried again
		}
		if cut := n.Labels[link] == "cut"; cut != h.wire.isCut() {
			h.wire.set(cut)
		}
		h.mu.Lock()
		boots := n.Status.NodeInfo.BootID != h.boot && n.Annotations[power] == "" && ready(n)
		h.mu.Unlock()
		if boots {
			h.stop()
			h.start(n.Status.NodeInfo.BootID) //nolint:contextcheck // a boot ends by itself
		}
	}
}

// accept takes connections until the context ends. While the host is off, they wait for its next boot.
func (h *host) accept(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = h.listener.Close() })
	defer stop()
	for {
		c, err := h.listener.Accept()
		if err != nil {
			return
		}
		select {
		case h.arrived <- c:
		case <-ctx.Done():
			_ = c.Close()
			return
		}
	}
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// stop ends the agent of the boot, as a reset does: nothing that it sends arrives any more.
func (h *host) stop() {
	h.mu.Lock()
	end := h.end
	h.end = nil
	h.mu.Unlock()
	if end != nil {
		end()
		h.wire.drop()
	}
}

// start runs an agent in a boot.
func (h *host) start(boot string) {
	ctx, cancel := context.WithCancel(context.Background())
	b := &booted{host: h, boot: boot, begun: time.Now(), gone: ctx}
	ended := make(chan struct{})
	h.mu.Lock()
	h.boot = boot
	h.end = func() {
		cancel()
		<-ended
	}
	h.mu.Unlock()
	go func() {
		defer close(ended)
		if err := b.run(ctx); err != nil && !errors.Is(err, agent.ErrArmed) {
			b.say(err.Error())
		}
	}()
}
