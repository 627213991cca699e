package fencestatus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/slim"
)

// Kinds are the definitions without which no status is written, by name.
var Kinds = []string{"fencepolicies.fettle.io"} //nolint:gochecknoglobals // a constant list

// Config is what a Client needs. Every field is required but Metrics.
type Config struct {
	// Informers watch policies and nodes, and Cache reads them.
	Informers cache.Informers
	Cache     client.Reader
	// Leases lists Leases at the API server, never from a cache.
	Leases client.Reader
	// Writer writes statuses.
	Writer  client.StatusClient
	Metrics *Metrics
	Log     logr.Logger
	Now     func() time.Time
}

// Client writes the statuses of FencePolicies.
type Client struct {
	Config

	// woken has a value if a policy has changed.
	woken   chan struct{}
	watched informer.Kinds
	// watching is closed by markWatching, once all kinds are watched.
	watching     chan struct{}
	markWatching func()
	// told is the failure that was logged last.
	told string
}

// NewClient returns a client that watches nothing yet.
func NewClient(c Config) *Client {
	watches := make(chan struct{})
	return &Client{
		Config: c, woken: make(chan struct{}, 1), watching: watches, markWatching: sync.OnceFunc(func() { close(watches) }),
	}
}

// +kubebuilder:rbac:groups=fettle.io,resources=fencepolicies,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// Watch begins to watch. It returns a NoMatch error while the kinds are not served, and may be called again. After it has succeeded, it does
// nothing.
func (c *Client) Watch(ctx context.Context) error {
	err := c.watched.Watch(ctx, c.Informers,
		informer.Kind{Plural: "policies", Object: &v1alpha1.FencePolicy{}, Handler: c.policyEvents()},
		informer.Kind{Plural: "nodes", Object: &slim.Node{}, Handler: toolscache.ResourceEventHandlerFuncs{}},
	)
	if err == nil {
		c.markWatching()
	}
	return err
}

// policyEvents wakes the client for each change of a policy but that of its status.
func (c *Client) policyEvents() toolscache.ResourceEventHandler {
	wake := func() {
		select {
		case c.woken <- struct{}{}:
		default:
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() },
		UpdateFunc: func(old, obj any) {
			before, ok := old.(*v1alpha1.FencePolicy)
			after, is := obj.(*v1alpha1.FencePolicy)
			if !ok || !is || before.UID != after.UID || before.Generation != after.Generation {
				wake()
			}
		},
		DeleteFunc: func(any) { wake() },
	}
}

// HasSynced reports whether the initial lists were handled.
func (c *Client) HasSynced() bool { return c.watched.HasSynced() }

// NeedLeaderElection keeps replicas that don't lead from working.
func (*Client) NeedLeaderElection() bool { return true }

const (
	// betweenPasses is the least time between two passes, however often policies change.
	betweenPasses = 2 * time.Second
	// shortest and afterFailure are the times from a pass to the next one.
	shortest     = 10 * time.Second
	afterFailure = time.Minute
	// leasesPerSecond is how many Leases are listed in a second, on average.
	leasesPerSecond = 100
	// passTimeout bounds a pass.
	passTimeout = time.Minute
)

// pause returns the time from a pass that has listed so many Leases to the next one.
func pause(leases int) time.Duration {
	return max(shortest, time.Duration(leases)*time.Second/leasesPerSecond)
}

// Start works until the context ends. It must run only in the replica that leads.
func (c *Client) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.watching:
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), c.HasSynced) {
		return nil
	}
	defer c.Metrics.report(nil, nil)
	for {
		next := c.try(ctx)
		if !wait(ctx, betweenPasses, nil) || !wait(ctx, next-betweenPasses, c.woken) {
			return nil
		}
	}
}

// wait waits for a time, or until something wakes it. It reports false if the context ends before.
func wait(ctx context.Context, d time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-woken:
	}
	return true
}

// try makes a pass, and returns the time until the next one. It logs a failure once.
func (c *Client) try(ctx context.Context) time.Duration {
	limited, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	var next time.Duration
	err := contain.Run(func() (err error) {
		next, err = c.pass(limited)
		return err
	})
	told := fmt.Sprint(err)
	if err != nil && told != c.told && ctx.Err() == nil {
		c.Log.Error(err, "could not write the statuses of FencePolicies; it is tried again after a pause")
	}
	c.told = told
	if err != nil {
		return afterFailure
	}
	return next
}
