package cluster

import (
	"context"
	"net"
	"sync"
	"testing"
)

// listener is a listener that can be closed and opened again at its address.
type listener struct {
	address net.Addr

	mu     sync.Mutex
	inner  net.Listener // nil while it is closed
	opened chan struct{}
	over   chan struct{}
	end    func()
	conns  map[net.Conn]bool
}

func newListener(t testing.TB) *listener {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listening: %v", err)
	}
	l := &listener{address: inner.Addr(), inner: inner, opened: make(chan struct{}), over: make(chan struct{}), conns: map[net.Conn]bool{}}
	l.end = sync.OnceFunc(func() { close(l.over) })
	return l
}

// Accept returns the next connection. While the listener is closed, there is none.
func (l *listener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		inner, opened := l.inner, l.opened
		l.mu.Unlock()
		if inner == nil {
			select {
			case <-opened:
				continue
			case <-l.over:
				return nil, net.ErrClosed
			}
		}
		conn, err := inner.Accept()
		if err == nil && l.keep(inner, conn) {
			return conn, nil
		}
		if err != nil && l.now() == inner {
			return nil, err
		}
	}
}

func (l *listener) now() net.Listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inner
}

// keep remembers a connection, or closes it if the listener was closed meanwhile.
func (l *listener) keep(inner net.Listener, conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner != inner {
		_ = conn.Close()
		return false
	}
	l.conns[conn] = true
	return true
}

// Close ends the listener for good.
func (l *listener) Close() error {
	l.end()
	if inner := l.now(); inner != nil {
		return inner.Close()
	}
	return nil
}

// Addr is the address, also while it is closed.
func (l *listener) Addr() net.Addr { return l.address }

// shut refuses new connections, and ends the others.
func (l *listener) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.inner.Close()
	l.inner, l.opened = nil, make(chan struct{})
	for conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = map[net.Conn]bool{}
}

func (l *listener) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	inner, err := net.Listen("tcp", l.address.String())
	if err != nil {
		return err
	}
	l.inner = inner
	close(l.opened)
	return nil
}

// CutOff ends all connections to the proxy, and has new ones refused, until Reconnect.
func (p *Proxy) CutOff(t testing.TB) {
	t.Helper()
	p.listener.shut()
	if conn, err := net.Dial("tcp", p.listener.address.String()); err == nil {
		_ = conn.Close()
		t.Fatal("the proxy accepts connections")
	}
}

// Reconnect ends CutOff.
func (p *Proxy) Reconnect(t testing.TB, c *Cluster) {
	t.Helper()
	c.Eventually(t, "port of a proxy", func(context.Context) error { return p.listener.open() })
}
