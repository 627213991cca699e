package peer_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/peer"
)

// TestRefusals: each refusal of a server is told, with the node of the other side.
func TestRefusals(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		hold := make(chan struct{})
		w.server.Handle("/fails", func(context.Context, string, []byte) ([]byte, error) { return nil, errNone })
		w.server.Handle("/holds", func(context.Context, string, []byte) ([]byte, error) {
			<-hold
			return nil, nil
		})
		c := w.client(w.of("a"))
		_, _ = w.ask(c, "/echo", nil)
		w.tells("a good question")
		_, _ = w.ask(c, "/other", nil)
		w.tells("an unknown question", peer.Refusal{Cause: peer.UnknownQuestion, Node: "a", Times: 1})
		w.sends("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", peer.MaxBody+1))
		w.tells("a long question", peer.Refusal{Cause: peer.LongQuestion, Node: "a", Times: 1})
		_, _ = w.ask(c, "/fails", nil)
		<-w.failures
		w.tells("a question that fails", peer.Refusal{Cause: peer.NotAnswered, Node: "a", Times: 1, Err: errNone})
		_, _ = c.Relay(w.t.Context(), serverNode)
		_, _ = w.client(w.of("b")).Relay(w.t.Context(), serverNode)
		w.tells("a stream that is not offered", peer.Refusal{Cause: peer.UnknownQuestion, Node: "b", Times: 1})
		ofNode, _ := peer.MostAsking()
		for range ofNode {
			go func() { _, _ = w.ask(c, "/holds", nil) }()
		}
		synctest.Wait()
		_, _ = w.ask(w.client(w.of("a")), "/holds", nil)
		w.tells("too many questions", peer.Refusal{Cause: peer.TooManyQuestions, Node: "a", Times: 1})
		close(hold)
		synctest.Wait()
	})
}

// sends has node a send a text that no client sends, and waits for the end of the connection.
func (w *world) sends(text string) {
	w.t.Helper()
	raw, err := w.pipes.dial()
	if err != nil {
		w.t.Fatal(err)
	}
	conn := w.shake(raw)
	defer conn.Close()
	_, _ = conn.Write([]byte(text))
	for err == nil {
		_, err = conn.Read(make([]byte, 1<<10))
	}
}

// TestStrangersAreTold: other sides that are no agents are told, each once.
func TestStrangersAreTold(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		other := newAuthority(t).of("a")
		other.Authorities = w.of("a").Authorities
		_, _ = w.ask(w.client(other), "/echo", nil)
		w.tells("a certificate of others", peer.Refusal{Cause: peer.BadCertificate, Times: 1})
		raw, err := w.pipes.dial()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Close()
		w.tells("a connection that ends", peer.Refusal{Cause: peer.NoQuestion, Times: 1})
	})
	play(t, func(w *world) {
		if _, err := w.pipes.dial(); err != nil {
			t.Fatal(err)
		}
		<-time.After(peer.HelloTime)
		w.tells("a connection that is silent", peer.Refusal{Cause: peer.NoQuestion, Times: 1})
	})
}

// TestRefusalsAgain: the same thing is told once, and later how often it has happened since.
func TestRefusalsAgain(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		a, b := w.client(w.of("a")), w.client(w.of("b"))
		refused := func(node string, times int) peer.Refusal {
			return peer.Refusal{Cause: peer.UnknownQuestion, Node: node, Times: times}
		}
		for range 4 {
			_, _ = w.ask(a, "/other", nil)
		}
		w.tells("the first one", refused("a", 1))
		_, _ = w.ask(b, "/other", nil)
		w.tells("one of another node", refused("b", 1))
		<-time.After(peer.TellEvery)
		w.tells("after a while", refused("a", 3))
		_, _ = w.ask(a, "/other", nil)
		_, _ = w.ask(b, "/other", nil)
		w.tells("again", refused("b", 1))
		<-time.After(peer.TellEvery)
		w.tells("after another while", refused("a", 1))
		<-time.After(peer.TellEvery)
		_, _ = w.ask(a, "/other", nil)
		w.tells("after a pause", refused("a", 1))
	})
}

// TestManyRefusals: many nodes are told as one.
func TestManyRefusals(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		var want []peer.Refusal
		for i := range peer.MaxTold {
			node := fmt.Sprint("n", i)
			_, _ = w.ask(w.client(w.of(node)), "/other", nil)
			want = append(want, peer.Refusal{Cause: peer.UnknownQuestion, Node: node, Times: 1})
		}
		w.tells("as many as are told apart", want...)
		for i := range 3 {
			_, _ = w.ask(w.client(w.of(fmt.Sprint("m", i))), "/other", nil)
		}
		w.tells("more", peer.Refusal{Cause: peer.UnknownQuestion, Times: 1})
		_, _ = w.ask(w.client(w.of("n0")), "/other", nil)
		<-time.After(peer.TellEvery)
		synctest.Wait()
		if len(w.refused) != 2 {
			t.Errorf("after a while the server tells %+v", w.refused)
		}
	})
}

// TestStrangersAddress: of a stranger the address is told.
func TestStrangersAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"192.0.2.1:7": "192.0.2.1", "[::ffff:192.0.2.1]:7": "192.0.2.1", "[fe80::1%eth0]:7": "fe80::1", "pipe": "invalid IP"} {
		if got := peer.StrangerAt(at(address)); got.String() != want {
			t.Errorf("of %s the address %s is told, want %s", address, got, want)
		}
	}
}

// at is the address of a connection.
type at string

func (a at) RemoteAddr() net.Addr { return addr(a) }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }
