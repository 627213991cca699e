package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// Connection stores what is known of one workload cluster. It is safe for concurrent use.
type Connection struct {
	*Connections

	cluster types.NamespacedName
	nodes   *node.Store
	// events limits the rate at which events are read.
	events *rate.Limiter
	// nodeCount is the number of stored nodes, and weight is the memory that they take. A running session owns
	// them. Between sessions run does.
	nodeCount, weight int
	// listsSlowly is set once a list has needed more than a prompt turn. The next lists then begin with slow turns.
	listsSlowly atomic.Bool

	mu    sync.Mutex
	state state
	// api is nil while there is no session.
	api *apiClient
	// connected counts the attempts that listed all nodes. failed counts the attempts that failed, then or later.
	connected, failed uint64
	// exceeded counts the attempts that ended at a bound, by the bound's name.
	exceeded map[string]uint64
	// end ends the connection, and is nil before it has begun. dropped is set by drop.
	end     context.CancelFunc
	dropped bool
}

// Answers reports whether the cluster's nodes are known and up to date. If not, it returns the reason and the
// advice as a text. The text is empty until the first attempt to connect has failed.
func (c *Connection) Answers() (core.Tri, string) { return c.currentState().answers(c.Now()) }

// Lookup calls yield with a function that finds nodes by their names. The nodes don't change until yield returns.
func (c *Connection) Lookup(yield func(find func(name string) (node.Facts, bool))) {
	c.nodes.Lookup(yield)
}

var errNotConnected = errors.New("there is no connection to the workload cluster")

// ReadNode reads a node from the cluster's API server.
func (c *Connection) ReadNode(ctx context.Context, name string) (core.Node, error) {
	api := c.currentAPI()
	if api == nil {
		return core.Node{}, fmt.Errorf("getting node %s: %w", name, errNotConnected)
	}
	n, err := api.readNode(ctx, name)
	switch {
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err): // a 404 without a Status may come from any host
		return core.Node{State: core.NodeGone, Name: name}, nil
	case err != nil:
		return core.Node{}, fmt.Errorf("getting node %s: %w", name, sanitize.Reword(err, causeOf(err)))
	}
	return node.FactsOf(n).Node, nil
}

func (c *Connection) currentAPI() *apiClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.api
}

func (c *Connection) currentState() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// update changes the state.
func (c *Connection) update(change func(state, time.Time) state) { c.updateAndWake(change, false) }

// updateAndWake changes the state. It wakes the cluster's passes if news is set, or if the change itself is news:
// whether the cluster answers, or why it does not. After a silence that was too long, the next message of the
// cluster is such a change.
func (c *Connection) updateAndWake(change func(state, time.Time) state, news bool) {
	now := c.Now()
	c.mu.Lock()
	before := c.state
	c.state = change(before, now)
	begins := c.state.synced && !before.synced
	if begins {
		c.connected++
	}
	did, _ := before.answers(now)
	does, _ := c.state.answers(now)
	news = news || does != did || c.state.problem != before.problem // a text of texts
	c.mu.Unlock()
	if begins {
		c.Log.Info("connected to a workload cluster", "cluster", c.cluster.String())
	}
	if news {
		c.Wake(c.cluster)
	}
}

// recordLoss counts a failed attempt and makes the cluster unknown, with the problem as the reason.
func (c *Connection) recordLoss(err error, problem string) {
	c.mu.Lock()
	c.failed++
	if bound, is := errors.AsType[*boundError](err); is {
		c.exceeded[bound.name]++
	}
	// The problem is empty while the cluster is known.
	logged := c.state.problem == problem // a text of texts
	c.mu.Unlock()
	if !logged {
		c.Log.Info("no connection to a workload cluster; nothing is done there until there is one, and it is tried again",
			"cluster", c.cluster.String(), "why", problem)
	}
	c.update(func(s state, _ time.Time) state { return s.lost(problem) })
}

// run keeps the connection until the context ends.
func (c *Connection) run(ctx context.Context) {
	defer c.forgetNodes()
	defer func() { c.update(func(s state, _ time.Time) state { return s.lost("") }) }()
	failures := 0
	for ctx.Err() == nil {
		inStep, err := c.attempt(ctx)
		if errors.Is(err, errChanged) {
			if errors.Is(err, errMoved) { // the listed nodes may be those of another cluster
				c.update(func(s state, _ time.Time) state { return s.lost(movedProblem) })
			}
			c.Log.Info("the kubeconfig of a workload cluster has changed; connecting anew", "cluster", c.cluster.String())
			continue
		}
		if inStep >= c.Timing.WatchSilence {
			c.listsSlowly.Store(false)
		}
		lasted, longest := inStep >= c.Timing.MaxPause, c.Timing.MaxPause
		if errors.Is(err, errBound) {
			lasted, longest = inStep >= c.Timing.WatchSilence, 10*c.Timing.MaxPause
		}
		failures++
		if lasted {
			failures = 1
		}
		if lasted && apierrors.IsUnauthorized(err) {
			continue // the Secret may have new credentials
		}
		sleep(ctx, c.Timing.pause(failures, longest, rand.Float64())) //nolint:gosec // it spreads load, and keeps no secret
	}
}

// attempt runs one session. It returns how long the session was synced, and the error that ended it. A panic ends
// the session as an error does.
func (c *Connection) attempt(ctx context.Context) (inStep time.Duration, err error) {
	err = contain.Run(func() (err error) {
		inStep, err = c.connect(ctx)
		return err
	})
	if _, panicked := errors.AsType[*contain.PanicError](err); panicked {
		c.recordLoss(err, panicProblem)
		c.Log.Error(err, "a connection to a workload cluster panicked, which is a fault of Fettle; it is made again after a pause; report it with this line", "cluster", c.cluster.String())
		c.Panicked(c.cluster)
	}
	return inStep, err
}

// panicProblem is why a cluster is unknown after its connection has panicked.
const panicProblem = "the connection to it has failed by a fault of Fettle, and is made again; report it with the line of the log that says where it panicked"

// movedProblem is why a cluster is unknown after its kubeconfig has changed to another API server.
const movedProblem = "its kubeconfig names another API server now, whose nodes are not listed yet; if that is not intended, correct the Secret with the kubeconfig"

// connect begins a session and runs it.
func (c *Connection) connect(ctx context.Context) (time.Duration, error) {
	s, err := c.begin(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.recordLoss(err, err.Error())
		}
		return 0, err
	}
	c.setAPI(s.apiClient)
	defer c.setAPI(nil)
	err = s.run(ctx)
	_, panicked := errors.AsType[*contain.PanicError](err)
	if ctx.Err() == nil && !panicked && !errors.Is(err, errChanged) {
		c.recordLoss(err, s.cause(err))
	}
	if errors.Is(err, errBound) {
		c.forgetNodes()
	}
	return s.syncedFor(), err
}

// forgetNodes releases the memory of a cluster that is no longer known. Its nodes are then unknown and not gone,
// since the cluster does not answer.
func (c *Connection) forgetNodes() {
	c.budget.release(c.cluster.Namespace, c.weight)
	c.nodeCount, c.weight = 0, 0
	c.nodes.Replace(nil)
}

func (c *Connection) setAPI(api *apiClient) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.api = api
}
