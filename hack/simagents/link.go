package main

import (
	"context"
	"net"
	"sync"

	"github.com/fettle-io/fettle/internal/agent"
)

// wire is the link of a host. While it is cut, nothing passes in either direction.
type wire struct {
	mu   sync.Mutex
	cut  bool
	open map[*connection]struct{}
}

func newWire() *wire { return &wire{open: map[*connection]struct{}{}} }

// connection ends when the link is cut.
type connection struct {
	net.Conn

	wire *wire
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.wire.mu.Lock()
	delete(c.wire.open, c)
	c.wire.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // this is that connection
}

// set cuts the link, or mends it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	w.cut = cut
	w.mu.Unlock()
	if cut {
		w.drop()
	}
}

func (w *wire) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

// drop ends all connections.
func (w *wire) drop() {
	w.mu.Lock()
	open := make([]*connection, 0, len(w.open))
	for c := range w.open {
		open = append(open, c)
	}
	w.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

// keep has a connection end when the link is cut.
func (w *wire) keep(c net.Conn) net.Conn {
	kept := &connection{c, w}
	w.mu.Lock()
	w.open[kept] = struct{}{}
	w.mu.Unlock()
	if w.isCut() {
		_ = kept.Close()
	}
	return kept
}

// passes waits until the context ends if the link is cut, as an answer that never comes.
func (w *wire) passes(ctx context.Context) error {
	if w.isCut() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// dial connects to an address.
func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := w.passes(ctx); err != nil {
		return nil, err
	}
	c, err := agent.Direct(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return w.keep(c), nil
}

// door is where the agent of one boot takes the connections that arrive at its host.
type door struct {
	net.Listener

	host *host
	once sync.Once
	shut chan struct{}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.host.arrived:
		return d.host.wire.keep(c), nil
	case <-d.shut:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. The host goes on to listen, so that its agent has the same port in each boot.
func (d *door) Close() error {
	d.once.Do(func() { close(d.shut) })
	return nil
}
