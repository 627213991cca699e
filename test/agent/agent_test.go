package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
)

const (
	boot    = "0f8fad5b-d9cb-469f-a165-70867728950e"
	timeout = 2 * time.Second
)

func settings() agent.Settings {
	return agent.Settings{
		Watchdog: agent.Watchdog{Device: "/dev/watchdog", Timeout: timeout}, Renewal: time.Second, Validity: 20 * time.Second,
	}
}

// node is a node with a stand-in for its watchdog, and a directory that outlives its agents.
type node struct {
	t    *testing.T
	c    *cluster.Cluster
	name string
	dir  agent.Directory
	// dial connects to the API server. If it is nil, the agent does so directly.
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	armed bool
	// petted is when the watchdog was petted last, longest the longest time between two pets, and resets how often the node was reset.
	petted  time.Time
	longest time.Duration
	resets  int
	refuses error
}

func newNode(t *testing.T, c *cluster.Cluster, name string) *node {
	t.Helper()
	return &node{t: t, c: c, name: name, dir: agent.Directory(t.TempDir())}
}

// Find implements agent.Policies.
func (*node) Find(context.Context) (agent.Settings, bool, error) { return settings(), true, nil }

// Open implements agent.Hardware.
func (n *node) Open(agent.Watchdog, func() bool) (agent.Device, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuses != nil {
		return nil, n.refuses
	}
	n.armed, n.petted = true, time.Now()
	return stand{n}, nil
}

// Reset implements agent.Hardware.
func (n *node) Reset() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resets++
	return errors.New("this is a test")
}

// stand is a stand-in for a watchdog.
type stand struct{ n *node }

func (stand) State() (time.Duration, string) { return timeout, "stand-in" }

func (s stand) Pet() error {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	now := time.Now()
	s.n.longest, s.n.petted = max(s.n.longest, now.Sub(s.n.petted)), now
	return nil
}

func (s stand) Disarm() error {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	s.n.armed = false
	return nil
}

// start runs an agent of the node. Stop ends it by a signal and returns its error.
func (n *node) start() (stop func() error) {
	n.t.Helper()
	config := rest.CopyConfig(n.c.Config)
	config.Dial = n.dial
	server, err := agent.NewServer(config)
	if err != nil {
		n.t.Fatal(err)
	}
	reporter := agent.NewReporter(server, n.name, time.Now, logr.Discard())
	began := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { reporter.Run(ctx) })
	running.Go(func() {
		ended <- agent.Run(ctx, agent.Config{
			Boot: boot, Hardware: n, Grantor: agent.NewLeases(server, n.name, time.Now), Policies: n, Store: n.dir,
			Boottime: func() time.Duration { return time.Since(began) + time.Hour }, Tell: reporter.Tell, StopWithin: 3 * time.Second,
		})
	})
	stop = sync.OnceValue(func() error {
		cancel()
		running.Wait()
		return <-ended
	})
	n.t.Cleanup(func() { _ = stop() })
	return stop
}

// lease returns the Lease of the node, and what it says.
func (n *node) lease(ctx context.Context) (*coordinationv1.Lease, promiselease.Record, error) {
	var l coordinationv1.Lease
	if err := n.c.Get(ctx, client.ObjectKey{Namespace: promiselease.Namespace, Name: n.name}, &l); err != nil {
		return nil, promiselease.Record{}, err
	}
	r, err := promiselease.Decode(&l)
	return &l, r, err
}

// says waits until the Lease is in a state, and returns it.
func (n *node) says(want selffence.State) (lease *coordinationv1.Lease) {
	n.t.Helper()
	n.c.Eventually(n.t, fmt.Sprintf("the Lease of %s is %s", n.name, want), func(ctx context.Context) error {
		l, r, err := n.lease(ctx)
		if err == nil && r.State != want {
			err = fmt.Errorf("it is %+v", r)
		}
		lease = l
		return err
	})
	return lease
}

// condemn condemns the node as a manager does.
func (n *node) condemn() {
	n.t.Helper()
	n.c.Eventually(n.t, "condemning "+n.name, func(ctx context.Context) error {
		l, _, err := n.lease(ctx)
		if err != nil {
			return err
		}
		condemned, err := promiselease.Condemn(l, "7c9e6679-7425-40de-944b-e07fc1f90ae7")
		if err != nil {
			return err
		}
		return n.c.Update(ctx, condemned)
	})
}

// see returns what is seen of the node.
func (n *node) see() (armed bool, petted time.Time, resets int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.armed, n.petted, n.resets
}

// stays requires that the watchdog is petted on during a time.
func (n *node) stays(d time.Duration) {
	n.t.Helper()
	n.c.Never(n.t, "the watchdog of "+n.name, d, func(context.Context) error {
		if armed, petted, _ := n.see(); !armed || time.Since(petted) > timeout {
			return fmt.Errorf("armed is %t, petted %s ago", armed, time.Since(petted))
		}
		return nil
	})
}

func TestAgent(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	c.Namespace(t, promiselease.Namespace)
	for name, story := range map[string]func(*node){
		"promises": promises, "is-condemned": isCondemned, "has-no-watchdog": hasNoWatchdog, "loses-its-lease": losesItsLease,
		"is-selected": isSelected,
	} {
		if !t.Run(name, func(t *testing.T) { story(newNode(t, c, name)) }) {
			return
		}
	}
	t.Run("goes-on", func(t *testing.T) { goesOn(newNode(t, c, "goes-on")) }) // halts the API server
}

// promises: the agent states its promise, renews it, and withdraws it before it disarms.
func promises(n *node) {
	stop := n.start()
	first := n.says(selffence.Promised)
	_, r, err := n.lease(n.t.Context())
	if want := (selffence.Promise{Boot: boot, Times: selffence.Times{Watchdog: timeout}}); err != nil || r.Promise != want || r.Device != "stand-in" {
		n.t.Errorf("the Lease says %+v (%v)", r, err)
	}
	if holder := first.Spec.HolderIdentity; holder == nil || *holder != boot {
		n.t.Errorf("the Lease is held by %v", holder)
	}
	n.c.Eventually(n.t, "the promise is renewed", func(ctx context.Context) error {
		l, _, err := n.lease(ctx)
		if err == nil && l.ResourceVersion == first.ResourceVersion {
			err = errors.New("it has the same revision")
		}
		return err
	})
	n.stays(2 * timeout)
	if err := stop(); err != nil {
		n.t.Errorf("stopping: %v", err)
	}
	if armed, _, _ := n.see(); armed {
		n.t.Error("the watchdog is armed")
	}
	n.says(selffence.Withdrawn)
}

// isCondemned: the agent resets the node once it learns that it is condemned, pets no more, and does not disarm.
func isCondemned(n *node) {
	stop := n.start()
	n.says(selffence.Promised)
	n.condemn()
	n.c.Eventually(n.t, "the node is reset", func(context.Context) error {
		if _, _, resets := n.see(); resets == 0 {
			return errors.New("nothing resets it")
		}
		return nil
	})
	_, before, _ := n.see()
	n.c.Never(n.t, "the agent", 2*timeout, func(context.Context) error {
		if _, petted, _ := n.see(); !petted.Equal(before) {
			return errors.New("it pets")
		}
		return nil
	})
	if err := stop(); !errors.Is(err, agent.ErrArmed) {
		n.t.Errorf("stopping: %v", err)
	}
	if armed, _, _ := n.see(); !armed {
		n.t.Error("the watchdog is disarmed")
	}
	n.says(selffence.Condemned)
}

// hasNoWatchdog: a node without a watchdog that will do has no promise, and an event says why.
func hasNoWatchdog(n *node) {
	n.refuses = &agent.UnavailableError{Reason: "WatchdogBusy", Err: errors.New("opened by another")}
	stop := n.start()
	n.c.Eventually(n.t, "an event says why", func(context.Context) error {
		if reasons := n.c.EventReasons(n.t, "default", n.name); !slices.Contains(reasons, "WatchdogBusy") {
			return fmt.Errorf("the reasons of events are %q", reasons)
		}
		return nil
	})
	if err := stop(); err != nil {
		n.t.Errorf("stopping: %v", err)
	}
	if _, _, err := n.lease(n.t.Context()); !apierrors.IsNotFound(err) {
		n.t.Errorf("reading the Lease: %v", err)
	}
}

// losesItsLease: a write that comes after the Lease was deleted doesn't create it again. The agent then makes a new one.
func losesItsLease(n *node) {
	server, err := agent.NewServer(n.c.Config)
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, leases := n.t.Context(), agent.NewLeases(server, n.name, time.Now)
	wanted := selffence.Lease{State: selffence.Promised, Promise: selffence.Promise{Boot: boot, Times: selffence.Times{Watchdog: timeout}}}
	if wanted.Revision, err = leases.Write(ctx, promiselease.Record{Lease: wanted, Device: "stand-in"}); err != nil || wanted.Revision == 0 {
		n.t.Fatalf("creating the Lease: revision %d (%v)", wanted.Revision, err)
	}
	l, _, err := n.lease(ctx)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.c.Delete(ctx, l); err != nil {
		n.t.Fatal(err)
	}
	if revision, err := leases.Write(ctx, promiselease.Record{Lease: wanted, Device: "stand-in"}); err != nil || revision != 0 {
		n.t.Errorf("writing a deleted Lease: revision %d (%v)", revision, err)
	}
	if _, _, err := n.lease(ctx); !apierrors.IsNotFound(err) {
		n.t.Errorf("reading the Lease: %v", err)
	}
	if got, err := leases.Read(ctx); err != nil || got != (selffence.Lease{}) {
		n.t.Errorf("the agent reads %+v (%v)", got, err)
	}
	wanted.Revision = 0
	if revision, err := leases.Write(ctx, promiselease.Record{Lease: wanted, Device: "stand-in"}); err != nil || revision == 0 {
		n.t.Errorf("creating the Lease again: revision %d (%v)", revision, err)
	}
	if revision, err := leases.Write(ctx, promiselease.Record{Lease: wanted, Device: "stand-in"}); err != nil || revision != 0 {
		n.t.Errorf("creating the Lease twice: revision %d (%v)", revision, err)
	}
}

// isSelected: the agent finds the policy that selects its node, with the defaults of its fields.
func isSelected(n *node) {
	crd, err := os.ReadFile(filepath.Join(cluster.Root(), "config", "crd", "fettle.io_fencepolicies.yaml"))
	if err != nil {
		n.t.Fatal(err)
	}
	server, err := agent.NewServer(n.c.Config)
	if err != nil {
		n.t.Fatal(err)
	}
	policies := agent.NewFencePolicies(server, n.name)
	if s, is, err := policies.Find(n.t.Context()); err == nil {
		n.t.Errorf("before the kind is there, the agent finds %+v (%t)", s, is)
	}
	n.c.Apply(n.t, string(crd))
	finds := func(want agent.Settings) {
		n.t.Helper()
		n.c.Eventually(n.t, fmt.Sprintf("the agent finds %+v", want), func(ctx context.Context) error {
			s, is, err := policies.Find(ctx)
			if err == nil && (s != want || is != (want != agent.Settings{})) {
				err = fmt.Errorf("it finds %+v (%t)", s, is)
			}
			return err
		})
	}
	finds(agent.Settings{})
	n.c.Eventually(n.t, "a policy is created", func(ctx context.Context) error {
		p := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "fettle.io/v1alpha1", "kind": "FencePolicy", "metadata": map[string]any{"name": "all"},
			"spec": map[string]any{"nodeSelector": map[string]any{"matchLabels": map[string]any{"rack": "7"}}},
		}}
		return client.IgnoreAlreadyExists(n.c.Create(ctx, p))
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
	if err := n.c.Create(n.t.Context(), node); err != nil {
		n.t.Fatal(err)
	}
	finds(agent.Settings{})
	if err := n.c.Patch(n.t.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"rack":"7"}}}`))); err != nil {
		n.t.Fatal(err)
	}
	finds(agent.Settings{
		Watchdog: agent.Watchdog{Device: "/dev/watchdog", Timeout: 10 * time.Second}, Renewal: 5 * time.Second, Validity: 20 * time.Second, Reset: true,
	})
}

// goesOn: an agent that starts again goes on without the API server. It learns of a condemnation later.
func goesOn(n *node) {
	stop := n.start()
	n.says(selffence.Promised)
	n.c.Halt(n.t)
	n.stays(4 * timeout)
	if err := stop(); !errors.Is(err, agent.ErrArmed) || !strings.Contains(err.Error(), "armed") {
		n.t.Errorf("stopping: %v", err)
	}
	n.start()
	n.stays(4 * timeout)
	n.c.Resume(n.t)
	n.condemn()
	n.c.Eventually(n.t, "the node is reset", func(context.Context) error {
		if _, _, resets := n.see(); resets == 0 {
			return errors.New("nothing resets it")
		}
		return nil
	})
}
