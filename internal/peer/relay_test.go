package peer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/peer"
)

// api is a stand-in for the API server, which says what it is told again.
type api struct {
	w *world
	// fails is the error of a connection to it.
	fails error
	ends  atomic.Int32
}

func (w *world) api() *api {
	a := &api{w: w}
	w.server.Relay(a.dial)
	return a
}

func (a *api) dial(context.Context) (net.Conn, error) {
	if a.fails != nil {
		return nil, a.fails
	}
	here, near := net.Pipe()
	far, there := net.Pipe()
	go carry(near, far)
	go carry(far, near)
	go func() {
		_, _ = io.Copy(there, there)
		_ = there.Close()
		a.ends.Add(1)
	}()
	return here, nil
}

// says requires that the API server says a text again.
func says(t *testing.T, c net.Conn, text []byte) {
	t.Helper()
	go func() { _, _ = c.Write(text) }()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, text) {
		t.Errorf("the API server says %d bytes again: %v", len(got), err)
	}
}

func TestRelay(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		a := w.api()
		c, err := w.client(w.of("a")).Relay(w.t.Context(), serverNode)
		if err != nil {
			t.Fatal(err)
		}
		says(t, c, []byte("hello"))
		says(t, c, []byte("again"))
		_ = c.Close()
		<-time.After(time.Second) // in the bubble: a stream reads at its rate
		if a.ends.Load() != 1 {
			t.Error("the connection to the API server is open")
		}
		w.tells("a stream")
	})
}

// TestRelayEnds: a stream has an end, be it idle or not.
func TestRelayEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says        int
		every, want time.Duration
	}{
		"idle": {0, 0, peer.RelayIdle}, "idle after a while": {1, time.Minute, time.Minute + peer.RelayIdle}, "busy": {1000, peer.RelayIdle / 2, peer.RelayTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.api()
				conn, err := w.client(w.of("a")).Relay(w.t.Context(), serverNode)
				if err != nil {
					t.Fatal(err)
				}
				began := now()
				for i := 0; err == nil; i++ {
					if i < c.says {
						<-time.After(c.every)
						_, _ = conn.Write([]byte("x"))
					}
					_, err = conn.Read(make([]byte, 1))
				}
				if took := now().Sub(began); took < c.want || took > c.want+c.every {
					t.Errorf("the stream ends after %s, want %s", took, c.want)
				}
			})
		})
	}
}

// TestRelayRate: a stream carries a bounded number of bytes in a time.
func TestRelayRate(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.api()
		conn, err := w.client(w.of("a")).Relay(w.t.Context(), serverNode)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		began := now()
		says(t, conn, make([]byte, 4*peer.RelayRate))
		if took := now().Sub(began); took < 4*time.Second || took > 7*time.Second { // the first records of TLS are short
			t.Errorf("four seconds' worth takes %s", took)
		}
	})
}

// TestRelayRefused: a server connects others to the API server alone, and a bounded number of them.
func TestRelayRefused(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		_, err := w.client(w.of("a")).Relay(w.t.Context(), serverNode)
		w.wants(err, peer.Refused)
	})
	play(t, func(w *world) {
		w.api().fails = errNone
		_, err := w.client(w.of("a")).Relay(w.t.Context(), serverNode)
		w.wants(err, peer.Refused)
	})
	play(t, func(w *world) {
		w.api()
		for _, target := range []string{"192.0.2.1:443", "api-server:80", "kubernetes.default:443"} {
			raw, err := w.pipes.dial()
			if err != nil {
				t.Fatal(err)
			}
			c := w.shake(raw)
			_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
			answer := make([]byte, 12)
			if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "HTTP/1.1 404" {
				t.Errorf("the answer for %s is %q, %v", target, answer, err)
			}
			_ = raw.Close()
		}
	})
}

// TestAnAPIServerThatDoesNotConnect holds a server up for a bounded time.
func TestAnAPIServerThatDoesNotConnect(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.server.Relay(func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		began := now()
		_, err := w.client(w.of("a")).Relay(w.t.Context(), serverNode)
		w.wants(err, peer.Refused)
		if took := now().Sub(began); took != 2*time.Second {
			t.Errorf("it takes %s", took)
		}
	})
}

// TestBytesBeforeAStream: an agent that says something before it is connected gets no stream.
func TestBytesBeforeAStream(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		a := w.api()
		raw, err := w.pipes.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		c := w.shake(raw)
		_, _ = c.Write([]byte("CONNECT api-server:443 HTTP/1.1\r\nHost: x\r\n\r\nx"))
		if text, _ := io.ReadAll(c); len(text) > 0 {
			t.Errorf("the answer is %q", text)
		}
		<-time.After(time.Second) // in the bubble
		if a.ends.Load() != 1 {
			t.Error("the connection to the API server is open")
		}
	})
}

// TestRelayBusy: a node has a bounded number of streams, and so have all. A stream that has ended makes room.
func TestRelayBusy(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.api()
		ofNode, all := peer.MostRelaying()
		var open []net.Conn
		for i := range all / ofNode {
			c := w.client(w.of(fmt.Sprintf("n%d", i)))
			for range ofNode {
				conn, err := c.Relay(w.t.Context(), serverNode)
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, conn)
			}
			if i == 0 {
				_, err := c.Relay(w.t.Context(), serverNode)
				w.wants(err, peer.Busy)
			}
		}
		other := w.client(w.of("other"))
		_, err := other.Relay(w.t.Context(), serverNode)
		w.wants(err, peer.Busy)
		if _, err := w.ask(other, "/echo", nil); err != nil {
			t.Errorf("streams keep a question from being answered: %v", err)
		}
		for _, c := range open {
			_ = c.Close()
		}
		<-time.After(time.Second) // in the bubble: a stream reads at its rate
		c, err := other.Relay(w.t.Context(), serverNode)
		if err != nil {
			t.Fatal(err)
		}
		says(t, c, []byte("hello"))
		_ = c.Close()
	})
}
