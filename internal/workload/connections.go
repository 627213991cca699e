package workload

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/slim"
)

// Config is the configuration of Connections. All fields are required but Panicked, Timing and Bounds.
type Config struct {
	// Secrets reads Secrets from the management cluster's API server.
	Secrets Reader
	Now     func() time.Time
	// Wake is called with a cluster when decisions about it may change. It must not block.
	Wake func(types.NamespacedName)
	// Panicked is called with a cluster when the connection to it has panicked. Other connections go on.
	Panicked  func(types.NamespacedName)
	Log       logr.Logger
	UserAgent string
	Timing    Timing
	Bounds    Bounds
	codecs    runtime.NegotiatedSerializer
	// dial connects to an API server.
	dial dialFunc
}

// Connections keeps a connection to each workload cluster that Keep was called for. It is safe for concurrent use.
type Connections struct {
	Config

	turns  *listTurns
	budget *memoryBudget
	// added has one element while pending may have some.
	added chan struct{}

	mu   sync.Mutex
	kept map[types.NamespacedName]*Connection
	// pending are the connections that have not begun.
	pending []*Connection
}

// complete returns a configuration with its defaults.
func complete(c Config) Config {
	scheme := runtime.NewScheme()
	utilruntime.Must(slim.AddToScheme(scheme))
	c.codecs = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.Timing, c.Bounds = c.Timing.orDefault(), c.Bounds.orDefault()
	if c.Panicked == nil {
		c.Panicked = func(types.NamespacedName) {}
	}
	if c.dial == nil {
		c.dial = dialer().DialContext
	}
	return c
}

// New returns Connections without a connection.
func New(c Config) *Connections {
	c = complete(c)
	return &Connections{
		Config: c, turns: newListTurns(), budget: newMemoryBudget(c.Bounds.Memory), added: make(chan struct{}, 1),
		kept: map[types.NamespacedName]*Connection{},
	}
}

// Keep returns the connection to a cluster, and adds it if there is none. It is kept from when Start runs until
// Drop.
func (c *Connections) Keep(cluster types.NamespacedName) *Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept := c.kept[cluster]; kept != nil {
		return kept
	}
	fresh := &Connection{
		Connections: c, cluster: cluster, nodes: node.NewStore(), exceeded: map[string]uint64{},
		events: rate.NewLimiter(eventRate, eventBurst),
	}
	c.kept[cluster] = fresh
	c.pending = append(c.pending, fresh)
	select {
	case c.added <- struct{}{}:
	default: // Start will look in any case
	}
	return fresh
}

// Drop ends a connection. It does not wait for the end.
func (c *Connections) Drop(cluster types.NamespacedName) {
	c.mu.Lock()
	kept := c.kept[cluster]
	delete(c.kept, cluster)
	// Where Start does not run, nothing else would remove it.
	c.pending = slices.DeleteFunc(c.pending, func(fresh *Connection) bool { return fresh == kept })
	c.mu.Unlock()
	if kept != nil {
		kept.drop()
	}
}

// Start keeps the connections until the context ends, and returns when all of them have ended.
func (c *Connections) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		for _, fresh := range c.takePending() {
			if ctx, begun := fresh.start(ctx); begun {
				running.Go(func() { fresh.run(ctx) })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.added:
		}
	}
}

// NeedLeaderElection keeps replicas that don't lead from connecting. docs/adr/0013-connections-to-workload-clusters.md
// has the reasons.
func (*Connections) NeedLeaderElection() bool { return true }

func (c *Connections) takePending() []*Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.pending
	c.pending = nil
	return fresh
}

// all returns the connections.
func (c *Connections) all() []*Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.kept))
}

// start returns the context of a connection. It returns false if the connection was dropped before it began.
func (c *Connection) start(ctx context.Context) (context.Context, bool) {
	ctx, end := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = end
	if c.dropped {
		end()
	}
	return ctx, !c.dropped
}

func (c *Connection) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped = true; c.end != nil {
		c.end()
	}
}
