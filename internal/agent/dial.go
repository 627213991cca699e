package agent

import (
	"cmp"
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// Dialer connects to the API server: directly, or through the agents of other nodes if that fails. TLS and identity stay end to end in both cases.
type Dialer struct {
	// Direct connects to an address.
	Direct func(ctx context.Context, network, address string) (net.Conn, error)
	// Relay connects to the API server through the agent of a node.
	Relay func(ctx context.Context, node string) (net.Conn, error)
	// Neighbours returns the nodes through which to try, the best first.
	Neighbours func() []string

	mu sync.Mutex
	// last is the node through which was tried last. The next connection begins with the one behind it: the agent of a node that an attacker
	// controls may connect at once, and carry nothing.
	last string
	// cut is set from when the direct way has failed, or has not connected in time, until it connects.
	cut bool
}

const (
	// dialNext is when the next way is tried beside the ones before it. A renewal through the last one still ends in time: it may take half of the
	// time between two renewals, which is 5s by default.
	dialNext = 600 * time.Millisecond
	// mostRelays is through how many other agents a connection is tried.
	mostRelays = 3
	// headStart is how long the direct way has while it led nowhere the last time. It is longer than a direct connection takes, so that no relay is
	// used for longer than it has to be.
	headStart = 100 * time.Millisecond
)

// dialed is the result of one way.
type dialed struct {
	conn   net.Conn
	err    error
	direct bool
}

// DialContext connects to the API server. The direct way is tried first, and a way that fails makes room for the next one at once. Where the
// direct way led nowhere the last time, the next one follows after a short head start. The first connection counts. A direct way that is slower
// goes on until its time is over, and so shows whether it leads to the API server again.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	ways := d.ways(context.WithoutCancel(ctx), network, address)
	results := make(chan dialed, len(ways))
	pause, waits := d.firstPause(), true // for the direct way
	timer := time.NewTimer(0)
	defer timer.Stop()
	var failed error
	for started, ended := 0, 0; ; {
		select {
		case <-timer.C:
			if started > 0 && waits {
				d.learn(false)
			}
			if started < len(ways) {
				go func(number int) {
					conn, err := ways[number](ctx)
					results <- dialed{conn, err, number == 0}
				}(started)
				started++
				timer.Reset(pause)
				pause = dialNext
			}
		case r := <-results:
			ended++
			if r.direct {
				waits = false
				d.learn(r.err == nil)
			}
			if r.err == nil {
				go d.closeAll(results, started-ended)
				return r.conn, nil
			}
			if failed == nil {
				failed = r.err // the one of the direct way says most
			}
			if ended == len(ways) {
				return nil, failed
			}
			timer.Reset(0)
		case <-ctx.Done():
			go d.closeAll(results, started-ended)
			return nil, cmp.Or(failed, ctx.Err()) //nolint:wrapcheck // net/http names the request
		}
	}
}

// firstPause returns when a way is tried beside the direct one.
func (d *Dialer) firstPause() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return headStart
	}
	return dialNext
}

// learn keeps whether the direct way leads to the API server.
func (d *Dialer) learn(leads bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = !leads
}

// ways returns the ways to the API server, the best first. The direct one ends with direct, and each other one with the context of its call.
func (d *Dialer) ways(direct context.Context, network, address string) []func(context.Context) (net.Conn, error) {
	ways := []func(context.Context) (net.Conn, error){
		func(context.Context) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(direct, dialTime)
			defer cancel()
			return d.Direct(ctx, network, address)
		},
	}
	nodes := d.inTurn()
	for _, node := range nodes[:min(mostRelays, len(nodes))] {
		ways = append(ways, func(ctx context.Context) (net.Conn, error) {
			d.mu.Lock()
			d.last = node
			d.mu.Unlock()
			return d.Relay(ctx, node)
		})
	}
	return ways
}

// inTurn returns the nodes through which to try, from the one behind the last one.
func (d *Dialer) inTurn() []string {
	nodes := d.Neighbours()
	d.mu.Lock()
	defer d.mu.Unlock()
	behind := slices.Index(nodes, d.last) + 1
	return slices.Concat(nodes[behind:], nodes[:behind])
}

// closeAll closes the connections that come too late, and learns from them.
func (d *Dialer) closeAll(results <-chan dialed, count int) {
	for range count {
		r := <-results
		if r.direct {
			d.learn(r.err == nil)
		}
		if r.err == nil {
			_ = r.conn.Close()
		}
	}
}
