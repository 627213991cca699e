// Simagents runs the agent of each simulated host of a sandbox, with a stand-in for its watchdog. A watchdog that is not petted presses the
// button of its host. A host whose node has the label sandbox.fettle.io/link=cut reaches no API server. It prints what the agents tell.
//
//	simagents KUBECONFIG NODE...
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/promiselease"
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
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	var running sync.WaitGroup
	for _, name := range nodes {
		h := &host{name: name, config: config, clients: clients}
		running.Go(func() { h.run(ctx) })
	}
	running.Wait()
	return nil
}

// host is a simulated host with an agent.
type host struct {
	name    string
	config  *rest.Config
	clients kubernetes.Interface

	mu   sync.Mutex
	cut  bool
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
		h.mu.Lock()
		h.cut = n.Labels[link] == "cut"
		boots := n.Status.NodeInfo.BootID != h.boot && n.Annotations[power] == "" && ready(n)
		h.mu.Unlock()
		if boots {
			h.stop()
			h.start(n.Status.NodeInfo.BootID) //nolint:contextcheck // a boot ends by itself
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
	}
}

// start runs an agent in a boot.
func (h *host) start(boot string) {
	ctx, cancel := context.WithCancel(context.Background())
	b := &booted{host: h, boot: boot, gone: ctx}
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
		if err := b.runAgent(ctx); err != nil && !errors.Is(err, agent.ErrArmed) {
			b.say(err.Error())
		}
	}()
}

// booted is one boot of a host.
type booted struct {
	*host

	boot string
	// gone ends with the boot.
	gone context.Context //nolint:containedctx // it is the life of this value

	once sync.Once
	mu   sync.Mutex
	dog  *time.Timer
}

func (b *booted) say(text string) {
	fmt.Printf("%s %s in boot %.8s: %s\n", time.Now().Format("15:04:05.0"), b.name, b.boot, text)
}

func (b *booted) runAgent(ctx context.Context) error {
	config := rest.CopyConfig(b.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + promiselease.Namespace + ":fettle-agent",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + promiselease.Namespace, "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {b.name}},
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &wire{b, next} })
	server, err := agent.NewServer(config)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "simagent")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	begun := time.Now()
	return agent.Run(ctx, agent.Config{
		Boot: b.boot, Hardware: b, Grantor: agent.NewLeases(server, b.name, time.Now), Policies: agent.NewFencePolicies(server, b.name),
		Store: agent.Directory(folder), Boottime: func() time.Duration { return time.Since(begun) + time.Minute },
		Tell: func(n agent.Note) { b.say(fmt.Sprint(n.Reason, " ", n.Err)) }, StopWithin: time.Millisecond,
	})
}

// wire is the link of a host. A request on a link that is cut has no answer.
type wire struct {
	b    *booted
	next http.RoundTripper
}

var errGone = errors.New("the host is gone")

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.b.gone.Err() != nil {
		return nil, errGone
	}
	w.b.host.mu.Lock()
	cut := w.b.cut
	w.b.host.mu.Unlock()
	if cut {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return w.next.RoundTrip(r) //nolint:wrapcheck // the caller says which request it was
}

// Open implements agent.Hardware.
func (b *booted) Open(w agent.Watchdog, _ func() bool) (agent.Device, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dog == nil {
		b.dog = time.AfterFunc(w.Timeout, func() { b.press("its watchdog fires") })
	}
	b.dog.Reset(w.Timeout)
	return &device{b, w.Timeout}, nil
}

var errResets = errors.New("the process of a host that is reset ends with it")

// Reset implements agent.Hardware.
func (b *booted) Reset() error {
	go b.press("its agent resets it")
	return errResets
}

// press has the button of the host pressed, once in each boot.
func (b *booted) press(why string) {
	b.once.Do(func() {
		if b.gone.Err() != nil {
			return
		}
		b.say("RESET: " + why)
		go b.stop()
		for _, to := range []string{"off", "on"} {
			b.until(func() error {
				_, err := b.clients.CoreV1().Nodes().Patch(context.Background(), b.name, types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, power, to), metav1.PatchOptions{})
				return err //nolint:wrapcheck // it is tried again
			})
			b.until(func() error {
				n, err := b.clients.CoreV1().Nodes().Get(context.Background(), b.name, metav1.GetOptions{})
				if err == nil && n.Annotations[power] != "" {
					err = errResets
				}
				return err
			})
		}
	})
}

// until tries something until it succeeds.
func (*booted) until(try func() error) {
	for try() != nil {
		time.Sleep(every / 4)
	}
}

// device is the stand-in for a watchdog.
type device struct {
	b       *booted
	timeout time.Duration
}

// State implements agent.Device.
func (d *device) State() (time.Duration, string) { return d.timeout, "simulated" }

// Pet implements agent.Device.
func (d *device) Pet() error {
	d.b.mu.Lock()
	defer d.b.mu.Unlock()
	d.b.dog.Reset(d.timeout)
	return nil
}

// Disarm implements agent.Device.
func (d *device) Disarm() error {
	d.b.mu.Lock()
	defer d.b.mu.Unlock()
	d.b.dog.Stop()
	return nil
}
