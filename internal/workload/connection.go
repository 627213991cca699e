package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lean"
	"github.com/fettle-io/fettle/internal/node"
)

// Connection is what is known of one workload cluster. It is safe for concurrent use.
type Connection struct {
	*Connections

	cluster types.NamespacedName
	nodes   *node.Store

	mu    sync.Mutex
	state state
	// line is nil while there is none.
	line *line
	// connected and failed count the attempts, by how they went.
	connected, failed uint64
	// end ends the connection, nil before it has begun, and dropped is set once nobody wants it.
	end     context.CancelFunc
	dropped bool
}

// Answers tells whether the cluster's nodes are known as they are, and if not, why and what to do. There are no words
// until the first attempt to connect has failed.
func (c *Connection) Answers() (core.Tri, string) { return c.look().answers(c.Now()) }

// Lookup finds nodes by their name. It calls yield with a function that does, and holds all still until that returns.
func (c *Connection) Lookup(yield func(find func(name string) (node.Facts, bool))) {
	c.nodes.Lookup(yield)
}

var errNoLine = errors.New("there is no connection to the workload cluster")

// ReadNode reads a node from the cluster's API server itself.
func (c *Connection) ReadNode(ctx context.Context, name string) (core.Node, error) {
	l := c.openLine()
	if l == nil {
		return core.Node{}, fmt.Errorf("getting node %s: %w", name, errNoLine)
	}
	n := &lean.Node{}
	err := l.Get().Resource("nodes").Name(name).MaxRetries(0).Do(ctx).Into(n)
	switch {
	case apierrors.IsNotFound(err):
		return core.Node{State: core.NodeGone, Name: name}, nil
	case err != nil:
		return core.Node{}, fmt.Errorf("getting node %s: %w", name, err)
	}
	return node.FactsOf(n).Node, nil
}

func (c *Connection) openLine() *line {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line
}

func (c *Connection) look() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// note notes what becomes of the state.
func (c *Connection) note(change func(state, time.Time) state) { c.take(change, false) }

// take notes what becomes of the state, and wakes whoever decides when something is different for it: a node, or
// whether the cluster answers. One that was silent for too long answers again with its next word.
func (c *Connection) take(change func(state, time.Time) state, news bool) {
	now := c.Now()
	c.mu.Lock()
	before := c.state
	c.state = change(before, now)
	begins := c.state.inStep && !before.inStep
	if begins {
		c.connected++
	}
	did, _ := before.answers(now)
	does, _ := c.state.answers(now)
	news = news || does != did || c.state.problem != before.problem
	c.mu.Unlock()
	if begins {
		c.Log.Info("connected to a workload cluster", "cluster", c.cluster.String())
	}
	if news {
		c.Wake(c.cluster)
	}
}

// lose notes why the cluster is not known any more.
func (c *Connection) lose(problem string) {
	c.mu.Lock()
	c.failed++
	told := c.state.problem == problem && !c.state.inStep
	c.mu.Unlock()
	if !told {
		c.Log.Info("no connection to a workload cluster; nothing is done there until there is one, and it is tried again",
			"cluster", c.cluster.String(), "why", problem)
	}
	c.note(func(s state, _ time.Time) state { return s.lost(problem) })
}

// run keeps the connection until the context ends.
func (c *Connection) run(ctx context.Context) {
	defer func() { c.note(func(s state, _ time.Time) state { return s.lost("") }) }()
	failures := 0
	for ctx.Err() == nil {
		began := c.Now()
		err := c.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errChanged) {
			c.Log.Info("the kubeconfig of a workload cluster has changed; connecting anew", "cluster", c.cluster.String())
			continue
		}
		lasted := c.Now().Sub(began) >= c.Pace.Last
		failures++
		if lasted {
			failures = 1
		}
		if lasted && apierrors.IsUnauthorized(err) {
			continue // its credentials may have been replaced
		}
		pause := time.NewTimer(c.Pace.pause(failures, rand.Float64())) //nolint:gosec // it spreads load, and keeps no secret
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// attempt is one session, and tells why it ended.
func (c *Connection) attempt(ctx context.Context) error {
	s, err := c.begin(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.lose(err.Error())
		}
		return err
	}
	c.use(s.line)
	defer c.use(nil)
	err = s.run(ctx)
	if ctx.Err() == nil && !errors.Is(err, errChanged) {
		c.lose(s.cause(err))
	}
	return err
}

func (c *Connection) use(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line = l
}
