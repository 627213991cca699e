package agent

import (
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
	// cut is set while the direct way did not lead to the API server the last time.
	cut bool
}

const (
	// dialNext is when the next way is tried beside the ones before it. A renewal through the last one still ends in time: it may take half of the
	// time between two renewals, which is 5s by default.
	dialNext = 600 * time.Millisecond
	// mostRelays is through how many other agents a connection is tried.
	mostRelays = 3
)

// dialed is the result of one way.
type dialed struct {
	conn   net.Conn
	err    error
	direct bool
}

// DialContext connects to the API server. The direct way is tried first, and a way that fails makes room for the next one at once. Where the
// direct way led nowhere the last time, the next one is tried beside it from the beginning. The first connection counts.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	ways := d.ways(network, address)
	results := make(chan dialed, len(ways))
	pause := d.firstPause()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var failed error
	for started, ended := 0, 0; ; {
		select {
		case <-timer.C:
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
			d.learn(r)
			if r.err == nil {
				go closeAll(results, started-ended)
				return r.conn, nil
			}
			if failed == nil {
				failed = r.err // the one of the direct way says most
			}
			if ended == len(ways) {
				return nil, failed
			}
			timer.Reset(0)
		}
	}
}

// firstPause returns when a way is tried beside the direct one.
func (d *Dialer) firstPause() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return 0
	}
	return dialNext
}

// learn keeps whether the direct way leads to the API server.
func (d *Dialer) learn(r dialed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case r.direct:
		d.cut = r.err != nil
	case r.err == nil:
		d.cut = true
	}
}

// ways returns the ways to the API server, the best first.
func (d *Dialer) ways(network, address string) []func(context.Context) (net.Conn, error) {
	ways := []func(context.Context) (net.Conn, error){
		func(ctx context.Context) (net.Conn, error) { return d.Direct(ctx, network, address) },
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

// closeAll closes the connections that come too late.
func closeAll(results <-chan dialed, count int) {
	for range count {
		if r := <-results; r.err == nil {
			_ = r.conn.Close()
		}
	}
}
