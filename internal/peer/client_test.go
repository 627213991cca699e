package peer_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/peer"
)

// TestConnectionsOfAClient: a client has as many connections to a node as the node answers questions, and keeps one of them.
func TestConnectionsOfAClient(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		hold := make(chan struct{})
		w.server.Handle("/waits", func(context.Context, string, []byte) ([]byte, error) {
			<-hold
			return nil, nil
		})
		c := w.client(w.of("a"))
		for round, want := range []int32{2, 3} {
			asked := make(chan error, 3)
			for range 3 {
				go func() {
					_, err := w.ask(c, "/waits", nil)
					asked <- err
				}()
			}
			synctest.Wait()
			if n := w.pipes.count.Load(); n != want {
				t.Errorf("in round %d, there were %d connections, want %d", round, n, want)
			}
			for range 3 {
				hold <- struct{}{}
			}
			for range 3 {
				if err := <-asked; err != nil {
					t.Error(err)
				}
			}
			synctest.Wait()
		}
	})
}

// TestIdleConnections: a client ends a connection without a question before the server does, so that no question meets the end.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		c := w.client(w.of("a"))
		for _, step := range []struct {
			after time.Duration
			want  int32
		}{{0, 1}, {19 * time.Second, 1}, {21 * time.Second, 2}} {
			<-time.After(step.after)
			if _, err := w.ask(c, "/echo", nil); err != nil || w.pipes.count.Load() != step.want {
				t.Errorf("after %s there were %d connections, want %d (%v)", step.after, w.pipes.count.Load(), step.want, err)
			}
		}
	})
}

// TestConnectionsToManyNodes: a client keeps connections to eight nodes.
func TestConnectionsToManyNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, authority: newAuthority(t), pipes: pipes{made: make(chan net.Conn), closed: make(chan struct{})}}
		var servers sync.WaitGroup
		servers.Go(func() { w.serveAll(&servers) })
		c := w.client(w.of("a"))
		asks := func(of string, want int32) {
			t.Helper()
			if _, err := c.Ask(t.Context(), of, "/echo", nil); err != nil || w.pipes.count.Load() != want {
				t.Errorf("after a question to %s there were %d connections, want %d (%v)", of, w.pipes.count.Load(), want, err)
			}
			synctest.Wait()
		}
		for i := range 9 {
			asks(fmt.Sprintf("n%d", i), int32(i)+1)
		}
		asks("n1", 9)
		asks("n0", 10)
		_ = w.pipes.Close()
		w.pipes.cut()
		servers.Wait()
	})
}

// serveAll answers all questions, as the agent of each node whose name a client expects.
func (w *world) serveAll(servers *sync.WaitGroup) {
	l := tls.NewListener(&w.pipes, &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			i := w.of(strings.TrimSuffix(hello.ServerName, peer.NameOf("")))
			return &i.Certificate, nil
		},
	})
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		servers.Go(func() {
			for err := error(nil); err == nil; {
				if _, err = conn.Read(make([]byte, 1<<10)); err == nil {
					_, err = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
				}
			}
		})
	}
}

// TestAFailureEndsIdleConnections: they may lead nowhere, as after a boot of the other node.
func TestAFailureEndsIdleConnections(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		c := w.client(w.of("a"))
		for _, node := range []string{serverNode, "other", serverNode} {
			_, err := c.Ask(w.t.Context(), node, "/echo", nil)
			if (err == nil) != (node == serverNode) {
				t.Errorf("a question to %s: %v", node, err)
			}
		}
		if n := w.pipes.count.Load(); n != 3 {
			t.Errorf("there were %d connections, want 3", n)
		}
	})
}

// TestALongQuestionIsNotSent: no connection is made for a question that is too long.
func TestALongQuestionIsNotSent(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		_, err := w.ask(w.client(w.of("a")), "/echo", make([]byte, peer.MaxBody+1))
		w.wants(err, peer.TooLong)
		if n := w.pipes.count.Load(); n != 0 {
			t.Errorf("there were %d connections", n)
		}
	})
}

// TestASilentServer: a server that says nothing, to a handshake or to a request for a stream, holds a client up for a bounded time.
func TestASilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, authority: newAuthority(t)}
		c, i := w.client(w.of("a")), w.of(serverNode)
		for shakes, want := range map[bool]time.Duration{false: peer.HelloTime, true: peer.AnswerTime} {
			here, there := net.Pipe()
			c.SetDial(func(context.Context, string, string) (net.Conn, error) { return here, nil })
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if shakes {
					s := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{i.Certificate}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13})
					for err := error(nil); err == nil; {
						_, err = s.Read(make([]byte, 1<<10))
					}
				}
			}()
			began := now()
			_, err := c.Relay(t.Context(), serverNode)
			w.wants(err, peer.Unreachable)
			if took := now().Sub(began); took != want {
				t.Errorf("with a handshake %t: it takes %s, want %s", shakes, took, want)
			}
			_ = there.Close()
			<-ended
		}
	})
}

// TestHeadersOfOthers: the header of an answer may have 4 KiB, and the API server says nothing before it was told something.
func TestHeadersOfOthers(t *testing.T) {
	t.Parallel()
	header := func(size int) string {
		text := "HTTP/1.1 200 OK\r\nX: "
		return text + strings.Repeat("x", size-len(text)-4) + "\r\n\r\n"
	}
	for answer, want := range map[string]struct{ ask, relay peer.Reason }{
		header(4096):               {"", ""},
		header(4097):               {peer.Unreachable, peer.Unreachable},
		"HTTP/1.1 200 OK\r\n\r\nx": {"", peer.Refused},
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx": {"", ""},
		"HTTP/1.1 429 Busy\r\n\r\n":                     {peer.Busy, peer.Busy},
		"HTTP/1.1 502 Broken\r\n\r\n":                   {peer.Refused, peer.Refused},
		"nonsense\r\n\r\n":                              {peer.Unreachable, peer.Unreachable},
		"":                                              {peer.Unreachable, peer.Unreachable},
	} {
		withOther(t, answer, func(w *world) {
			_, err := w.ask(w.client(w.of("a")), "/echo", nil)
			w.wants(err, want.ask)
			conn, err := w.client(w.of("a")).Relay(w.t.Context(), serverNode)
			w.wants(err, want.relay)
			if err == nil {
				_ = conn.Close()
			}
		})
	}
}

// ending is a connection on which the caller ends a request for a stream at the moment of its answer.
type ending struct {
	net.Conn

	answers *atomic.Bool
	end     context.CancelFunc
	closed  chan struct{}
}

func (c ending) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.answers.Load() {
		c.end()
		<-c.closed
	}
	return n, err
}

func (c ending) Close() error {
	close(c.closed)
	return c.Conn.Close()
}

// TestARequestThatEndsWithItsAnswer: the caller has ended it, so that its connection was closed. The answer is no stream.
func TestARequestThatEndsWithItsAnswer(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		a, answers := &api{w: w}, &atomic.Bool{}
		w.server.Relay(func(ctx context.Context) (net.Conn, error) {
			answers.Store(true)
			return a.dial(ctx)
		})
		ctx, end := context.WithCancel(w.t.Context())
		c := w.client(w.of("a"))
		c.SetDial(func(context.Context, string, string) (net.Conn, error) {
			conn, err := w.pipes.dial()
			return ending{conn, answers, end, make(chan struct{})}, err
		})
		_, err := c.Relay(ctx, serverNode)
		w.wants(err, peer.Unreachable)
	})
}
