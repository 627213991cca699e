package main

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

// listens answers connections on loopback by nothing, and returns its address.
func listens(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestWire: a link that is cut ends all connections, and lets none begin until it works again.
func TestWire(t *testing.T) {
	t.Parallel()
	l, w := listens(t), newWire()
	dial := func(ctx context.Context) (net.Conn, error) { return w.dial(ctx, "tcp", l.Addr().String()) }
	first, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil || len(w.open) != 1 {
		t.Errorf("closing a connection: %v, and %d are open", err, len(w.open))
	}
	w.set(true)
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading behind a cut: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if c, err := dial(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("connecting behind a cut: %v, %v", c, err)
	}
	ours, theirs := net.Pipe()
	w.keep(ours)
	if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection that arrives behind a cut: %v", err)
	}
	w.set(false)
	if c, err := dial(t.Context()); err != nil {
		t.Errorf("connecting once the link works: %v", err)
	} else if err := c.Close(); err != nil {
		t.Errorf("closing a connection once the link works: %v", err)
	}
	if len(w.open) != 0 {
		t.Errorf("%d connections are open", len(w.open))
	}
}

// TestDoor: the connections of a host are those of its agent until the boot ends. The host goes on to listen.
func TestDoor(t *testing.T) {
	t.Parallel()
	h := &host{wire: newWire(), arrived: make(chan net.Conn), listener: listens(t)}
	d := &door{Listener: h.listener, host: h, shut: make(chan struct{})}
	ours, theirs := net.Pipe()
	go func() { h.arrived <- ours }()
	c, err := d.Accept()
	if err != nil {
		t.Fatal(err)
	}
	h.wire.drop()
	if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("%v does not end with the boot: %v", c, err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if _, err := d.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("once the boot has ended: %v", err)
	}
	if c, err := net.Dial("tcp", h.address().String()); err != nil {
		t.Errorf("the host does not listen: %v", err)
	} else {
		_ = c.Close()
	}
}
