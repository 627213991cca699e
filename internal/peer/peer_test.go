package peer_test

import (
	"bytes"
	"context"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/peer"
)

func TestAsk(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(strings.Repeat("a", 62)+".", 4)
	for _, node := range []string{"a", "10.0.0.1", "a.node.fettle.io", long + "a"} {
		play(t, func(w *world) {
			c := w.client(w.of(node))
			for range 3 {
				if got, err := w.ask(c, "/echo", []byte("hello")); err != nil || got != node+": hello" {
					t.Errorf("the answer is %q, %v", got, err)
				}
			}
			if n := w.pipes.count.Load(); n != 1 {
				t.Errorf("the client has made %d connections", n)
			}
		})
	}
}

// TestDates: neither side needs to know the time.
func TestDates(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) { // the clock of synctest shows the year 2000
		if _, err := w.ask(w.client(w.of("a")), "/echo", nil); err != nil {
			t.Error(err)
		}
	})
}

// TestCertificates: neither side accepts another certificate than that of an agent.
func TestCertificates(t *testing.T) {
	t.Parallel()
	uri, err := url.Parse("spiffe://a")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*x509.Certificate){
		"no name":         func(c *x509.Certificate) { c.DNSNames = nil },
		"two names":       func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, peer.NameOf("b")) },
		"a bare name":     func(c *x509.Certificate) { c.DNSNames = []string{serverNode} },
		"a wildcard":      func(c *x509.Certificate) { c.DNSNames = []string{"*.node.fettle.io"} },
		"no node":         func(c *x509.Certificate) { c.DNSNames = []string{"_a.node.fettle.io"} },
		"an address too":  func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} },
		"a URI too":       func(c *x509.Certificate) { c.URIs = []*url.URL{uri} },
		"a mailbox too":   func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example.org"} },
		"an authority":    func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true },
		"one usage":       func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] },
		"the other usage": func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] },
		"no usage":        func(c *x509.Certificate) { c.ExtKeyUsage = nil },
		"a third usage": func(c *x509.Certificate) {
			c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageCodeSigning)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, func(a authority, node string) peer.Identity { return a.of(node, change) })
		})
	}
	t.Run("RSA", func(t *testing.T) {
		t.Parallel()
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, func(a authority, node string) peer.Identity { return a.withKey(key, node) })
	})
	t.Run("another curve", func(t *testing.T) {
		t.Parallel()
		refused(t, func(a authority, node string) peer.Identity { return a.withKey(newKey(a.t, elliptic.P384()), node) })
	})
	t.Run("another authority", func(t *testing.T) {
		t.Parallel()
		refused(t, func(a authority, node string) peer.Identity {
			other := newAuthority(a.t).of(node)
			other.Authorities = a.of(node).Authorities
			return other
		})
	})
	t.Run("another one beside it", func(t *testing.T) {
		t.Parallel()
		refused(t, func(a authority, node string) peer.Identity {
			i := a.of(node)
			i.Certificate.Certificate = append(i.Certificate.Certificate, a.cert.Raw)
			return i
		})
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		refused(t, func(a authority, node string) peer.Identity {
			return peer.Identity{Authorities: a.of(node).Authorities}
		})
	})
}

// refused requires that both sides refuse an identity.
func refused(t *testing.T, bad func(a authority, node string) peer.Identity) {
	t.Helper()
	play(t, func(w *world) {
		if got, err := w.ask(w.client(bad(w.authority, "a")), "/echo", nil); err == nil {
			t.Errorf("the server answers %q", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		playAs(t, a, always(bad(a, serverNode)), func(w *world) {
			_, err := w.ask(w.client(w.of("a")), "/echo", nil)
			w.wants(err, peer.NotVerified)
		})
	})
}

// TestOtherNode: a server that another node is expected to be is not asked.
func TestOtherNode(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		_, err := w.client(w.of("a")).Ask(w.t.Context(), "other", "/echo", nil)
		w.wants(err, peer.NotVerified)
	})
}

// TestOldTLS: an older version of TLS is refused.
func TestOldTLS(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		raw, err := w.pipes.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		i := w.of("a")
		c := tls.Client(raw, &tls.Config{ServerName: peer.NameOf(serverNode), RootCAs: i.Authorities, Certificates: []tls.Certificate{i.Certificate}, MaxVersion: tls.VersionTLS12})
		if err := c.HandshakeContext(w.t.Context()); err == nil {
			t.Error("the server speaks TLS 1.2")
		}
	})
}

// TestNoIdentity: an agent without a certificate asks nothing, and answers nothing.
func TestNoIdentity(t *testing.T) {
	t.Parallel()
	none := func() (peer.Identity, error) { return peer.Identity{}, errNone }
	play(t, func(w *world) {
		c := peer.NewClient(none, nil)
		_, err := w.ask(c, "/echo", nil)
		w.wants(err, peer.NoIdentity)
		if !errors.Is(err, errNone) {
			t.Errorf("the error is %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		playAs(t, a, none, func(w *world) {
			if _, err := w.ask(w.client(w.of("a")), "/echo", nil); err == nil {
				t.Error("a server without a certificate answers")
			}
		})
	})
}

var errNone = errors.New("there is none")

// TestNewIdentity: both sides use a new identity at the next connection.
func TestNewIdentity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := newAuthority(t), newAuthority(t)
		now := a.of(serverNode)
		playAs(t, a, func() (peer.Identity, error) { return now, nil }, func(w *world) {
			if _, err := w.ask(w.client(a.of("a")), "/echo", nil); err != nil {
				t.Error(err)
			}
			now = b.of(serverNode)
			if _, err := w.ask(w.client(b.of("a")), "/echo", nil); err != nil {
				t.Error(err)
			}
			if got, err := w.ask(w.client(a.of("a")), "/echo", nil); err == nil {
				t.Errorf("the answer is %q", got)
			}
		})
	})
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]peer.Reason{
		"":                       peer.NoAddress,
		"192.0.2.1:0":            peer.NoAddress,
		"0.0.0.0:1":              peer.NoAddress,
		"[::]:1":                 peer.NoAddress,
		"224.0.0.1:1":            peer.NoAddress,
		"169.254.169.254:80":     peer.NoAddress,
		"[::ffff:169.254.1.1]:1": peer.NoAddress,
		"[fe80::1%eth0]:1":       peer.NoAddress,
		"[2001:db8::1%eth0]:1":   peer.NoAddress,
		"192.0.2.1:1":            peer.Unreachable,
		"127.0.0.1:65535":        peer.Unreachable,
		"[2001:db8::1]:1":        peer.Unreachable,
	} {
		play(t, func(w *world) {
			at, _ := netip.ParseAddrPort(address)
			c := peer.NewClient(always(w.of("a")), func(node string) (netip.AddrPort, bool) {
				return at, node == serverNode && address != ""
			})
			c.SetDial(func(_ context.Context, network, to string) (net.Conn, error) {
				if network != "tcp" || to != address {
					t.Errorf("the client connects to %s by %s", to, network)
				}
				return nil, errNone
			})
			_, err := w.ask(c, "/echo", nil)
			w.wants(err, want)
			_, err = c.Ask(w.t.Context(), "other", "/echo", nil) // its address is not known
			w.wants(err, peer.NoAddress)
		})
	}
	play(t, func(w *world) {
		for _, node := range []string{"", "a:1", "A", "a/b", "a@b", "*"} {
			_, err := w.client(w.of("a")).Ask(w.t.Context(), node, "/echo", nil)
			w.wants(err, peer.NoAddress)
		}
	})
}

func TestPaths(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		c := w.client(w.of("a"))
		for _, path := range []string{"", "/", "/other", "/echo/", "//echo", "/./echo"} {
			_, err := w.ask(c, path, nil)
			w.wants(err, peer.Refused)
		}
	})
}

func TestLengths(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		c := w.client(w.of("a"))
		w.server.Handle("/length", func(_ context.Context, _ string, body []byte) ([]byte, error) {
			return bytes.Repeat(body[:1], len(body)-1+int(body[0])), nil
		})
		longest := make([]byte, peer.MaxBody)
		longest[0] = 1
		if got, err := w.ask(c, "/length", longest); err != nil || len(got) != peer.MaxBody {
			t.Errorf("the answer has %d bytes: %v", len(got), err)
		}
		longest[0] = 2
		_, err := w.ask(c, "/length", longest)
		w.wants(err, peer.Refused)
		if err := <-w.failures; err == nil {
			t.Error("the server doesn't report an answer that is too long")
		}
		_, err = w.ask(c, "/length", make([]byte, peer.MaxBody+1))
		w.wants(err, peer.TooLong)
	})
}

// TestHandlerFails: the error, or the panic, of a handler ends its question alone, and is reported here alone.
func TestHandlerFails(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.server.Handle("/fails", func(context.Context, string, []byte) ([]byte, error) { return make([]byte, peer.MaxBody+1), errNone })
		w.server.Handle("/panics", func(context.Context, string, []byte) ([]byte, error) { panic("oh") })
		c := w.client(w.of("a"))
		for path, want := range map[string]string{"/fails": errNone.Error(), "/panics": "panic: oh"} {
			got, err := w.ask(w.client(w.of(path[1:])), path, nil)
			w.wants(err, peer.Refused)
			if reported := <-w.failures; got != "" || !strings.HasPrefix(reported.Error(), want) {
				t.Errorf("the answer is %q, and %v is reported", got, reported)
			}
		}
		if _, err := w.ask(c, "/echo", nil); err != nil {
			t.Error(err)
		}
	})
}

// TestServerOfOthers: a client survives a server that answers as no agent does.
func TestServerOfOthers(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]peer.Reason{
		"HTTP/1.1 302 Found\r\nLocation: https://other.node.fettle.io/echo\r\nContent-Length: 0\r\n\r\n": peer.Refused,
		"HTTP/1.1 307 Found\r\nLocation: /echo\r\nContent-Length: 0\r\n\r\n":                             peer.Refused,
		"HTTP/1.1 204 No Content\r\n\r\n":                                                                peer.Refused,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n":                  peer.Refused,
		"HTTP/1.1 413 Long\r\nContent-Length: 0\r\n\r\n":                                                 peer.TooLong,
		"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", peer.MaxBody+1):                                  peer.TooLong,
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 5<<10) + "\r\nContent-Length: 0\r\n\r\n":          peer.Unreachable,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx":                                                  peer.Unreachable,
		"nonsense\r\n\r\n": peer.Unreachable,
		"":                 peer.Unreachable,
	} {
		withOther(t, answer, func(w *world) {
			_, err := w.ask(w.client(w.of("a")), "/echo", nil)
			w.wants(err, want)
		})
	}
}

// withOther plays a story with a server that is no agent, and answers each question with a text.
func withOther(t *testing.T, answer string, story func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, authority: newAuthority(t), pipes: pipes{made: make(chan net.Conn), closed: make(chan struct{})}}
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.answers(answer)
		}()
		story(w)
		_ = w.pipes.Close()
		<-done
	})
}

// answers accepts connections, and answers the first question of each with a text.
func (w *world) answers(text string) {
	i := w.of(serverNode)
	l := tls.NewListener(&w.pipes, &tls.Config{Certificates: []tls.Certificate{i.Certificate}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13})
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if _, err := c.Read(make([]byte, 1<<10)); err == nil {
			_, _ = c.Write([]byte(text))
		}
		_ = c.Close()
	}
}

// TestTime: a question that is not answered in time ends, on both sides.
func TestTime(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		ended := make(chan error, 1)
		w.server.Handle("/hangs", func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		})
		began := now()
		_, err := w.ask(w.client(w.of("a")), "/hangs", nil)
		if err == nil {
			t.Error("a question has no end")
		}
		<-ended
		<-w.failures
		if took := now().Sub(began); took != peer.AnswerTime {
			t.Errorf("the question has ended after %s", took)
		}
	})
}

// TestTimeOfAHandler: a question ends in time also where the other side waits for longer.
func TestTimeOfAHandler(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		ended := make(chan struct{})
		w.server.Handle("/hangs", func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		})
		raw, err := w.pipes.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		c, began := w.shake(raw), now()
		_, _ = c.Write([]byte("POST /hangs HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"))
		<-ended
		<-w.failures
		if took := now().Sub(began); took != peer.AnswerTime {
			t.Errorf("the question has ended after %s", took)
		}
	})
}

// TestAnAnswerThatIsNotRead is given up after a while.
func TestAnAnswerThatIsNotRead(t *testing.T) {
	t.Parallel()
	for after, whole := range map[time.Duration]bool{9 * time.Second: true, 11 * time.Second: false} {
		play(t, func(w *world) {
			w.server.Handle("/long", func(context.Context, string, []byte) ([]byte, error) { return make([]byte, peer.MaxBody), nil })
			raw, err := w.pipes.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			c := w.shake(raw)
			_, _ = c.Write([]byte("POST /long HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"))
			<-time.After(after)
			got := 0
			_ = c.SetReadDeadline(now().Add(time.Second))
			for err == nil {
				var n int
				n, err = c.Read(make([]byte, 1<<10))
				got += n
			}
			if got >= peer.MaxBody != whole {
				t.Errorf("after %s, %d bytes are read: %v", after, got, err)
			}
		})
	}
}

// TestAnswers: a server answers a good question, and refuses any other and ends its connection at once.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]string{
		"POST /echo":  "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n",
		"GET /echo":   "HTTP/1.1 404 Not Found\r\nConnection: close\r\n",
		"POST /other": "HTTP/1.1 404 Not Found\r\nConnection: close\r\n",
	} {
		play(t, func(w *world) {
			raw, err := w.pipes.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			c, began := w.shake(raw), now()
			_, _ = c.Write([]byte(question + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"))
			text, err := io.ReadAll(c)
			refused := strings.Contains(want, "close")
			if took := now().Sub(began); !strings.HasPrefix(string(text), want) || (took == 0) != refused || err != nil && refused {
				t.Errorf("the answer to %s is %q after %s: %v", question, text, took, err)
			}
		})
	}
}

// TestEndOfAServer: it closes all connections, and waits for nothing.
func TestEndOfAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, authority: newAuthority(t), pipes: pipes{made: make(chan net.Conn), closed: make(chan struct{})}}
		w.server = peer.NewServer(always(w.of(serverNode)), w.told)
		w.server.Handle("/echo", func(context.Context, string, []byte) ([]byte, error) { return nil, nil }) // a refusal would end the connection
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.server.Serve(ctx, &w.pipes) }()
		c := w.idle("a")
		end()
		if err := <-ended; err != nil {
			t.Errorf("the server ends with: %v", err)
		}
		_ = c.SetReadDeadline(now().Add(time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("a connection is open: %v", err)
		}
		if err := w.server.Serve(context.WithoutCancel(t.Context()), &w.pipes); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("without a listener the server ends with: %v", err)
		}
	})
}

// TestSilence: a connection that says nothing, or too little, is closed.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says  string
		after time.Duration
		want  time.Duration
	}{
		"no handshake":  {"", 0, peer.HelloTime},
		"no header":     {"-", 0, peer.HelloTime},
		"half a header": {"POST /echo HTTP/1.1\r\n", 0, peer.HelloTime},
		"half a body":   {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nx", 0, peer.AnswerTime},
		"idle":          {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 0, peer.IdleTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				conn, err := w.pipes.dial()
				if err != nil {
					t.Fatal(err)
				}
				began := now()
				if c.says != "" {
					conn = w.shake(conn)
					_, _ = conn.Write([]byte(strings.TrimPrefix(c.says, "-")))
				}
				for err == nil {
					_, err = conn.Read(make([]byte, 1<<10))
				}
				if took := now().Sub(began); took != c.want {
					t.Errorf("the connection ends after %s, want %s: %v", took, c.want, err)
				}
				_ = conn.Close()
			})
		})
	}
}

// shake makes a connection of node "a".
func (w *world) shake(raw net.Conn) *tls.Conn {
	w.t.Helper()
	return w.shakeAs("a", raw)
}

func (w *world) shakeAs(node string, raw net.Conn) *tls.Conn {
	w.t.Helper()
	return w.shakeWith(w.of(node), raw)
}

// shakeWith makes a connection with an identity.
func (w *world) shakeWith(i peer.Identity, raw net.Conn) *tls.Conn {
	w.t.Helper()
	c := tls.Client(raw, &tls.Config{ServerName: peer.NameOf(serverNode), RootCAs: i.Authorities, Certificates: []tls.Certificate{i.Certificate}, MinVersion: tls.VersionTLS13})
	if err := c.HandshakeContext(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestLongHeader: a header that is too long is refused. Package http reads 4 KiB more than it is told.
func TestLongHeader(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]string{8 << 10: "HTTP/1.1 200", 8<<10 + 1: "HTTP/1.1 431", 16 << 10: "HTTP/1.1 431"} {
		play(t, func(w *world) {
			raw, err := w.pipes.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			c := w.shake(raw)
			text := "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nX: "
			go func() { _, _ = c.Write([]byte(text + strings.Repeat("x", size-len(text)-4) + "\r\n\r\n")) }()
			answer := make([]byte, 12)
			if _, err := c.Read(answer); err != nil || string(answer) != want {
				t.Errorf("to a header of %d bytes the server answers %q, %v", size, answer, err)
			}
		})
	}
}

// TestBusy: a node has a bounded number of questions at a time, and so have all.
func TestBusy(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		release := make(chan struct{})
		w.server.Handle("/waits", func(context.Context, string, []byte) ([]byte, error) {
			<-release
			return nil, nil
		})
		var questions []chan error
		asks := func(node string, n int) {
			for range n {
				asked := make(chan error, 1)
				c := w.client(w.of(node))
				go func() {
					_, err := w.ask(c, "/waits", nil)
					asked <- err
				}()
				questions = append(questions, asked)
			}
			synctest.Wait()
		}
		ofNode, all := peer.MostAsking()
		for i := range all / ofNode {
			node := fmt.Sprintf("n%d", i)
			asks(node, ofNode)
			if i == 0 {
				_, err := w.ask(w.client(w.of(node)), "/echo", nil)
				w.wants(err, peer.Busy)
			}
		}
		_, err := w.ask(w.client(w.of("other")), "/echo", nil)
		w.wants(err, peer.Busy)
		close(release)
		for _, q := range questions {
			if err := <-q; err != nil {
				t.Error(err)
			}
		}
		if _, err := w.ask(w.client(w.of("other")), "/echo", nil); err != nil {
			t.Error(err)
		}
	})
}

// TestStrangers: strangers that leave connections open keep no agent out.
func TestStrangers(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		var all []net.Conn
		for range 2 * peer.MaxFresh {
			raw, err := w.pipes.dial()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, raw)
		}
		if got, open := w.ask(w.client(w.of("a")), "/echo", nil); open != nil {
			t.Errorf("the answer is %q, %v", got, open)
		}
		open := 0
		for _, c := range all {
			_ = c.SetReadDeadline(now().Add(time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); isTimeout(err) {
				open++
			}
			_ = c.Close()
		}
		if open != peer.MaxFresh-1 {
			t.Errorf("%d connections of strangers are open", open)
		}
	})
}

func isTimeout(err error) bool {
	e, is := errors.AsType[net.Error](err)
	return is && e.Timeout()
}

// TestConnectionsOfNode: a node has a bounded number of connections. A new one replaces the oldest.
func TestConnectionsOfNode(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		var all []*tls.Conn
		for range peer.MaxOfNode + 1 {
			all = append(all, w.idle("a"))
		}
		for i, c := range all {
			_ = c.SetReadDeadline(now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			if open := isTimeout(err); open != (i > 0) {
				t.Errorf("connection %d is open: %t", i, open)
			}
		}
	})
}

// TestCertificateWithoutKey: each agent shows its certificate to all who connect. A stranger who shows it too, without the key, closes no
// connection of the node.
func TestCertificateWithoutKey(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		own := w.of("a")
		agent := w.idleAs(own)
		for range peer.MaxOfNode {
			raw, err := w.pipes.dial()
			if err != nil {
				t.Fatal(err)
			}
			w.shakeWith(own, withoutProof{raw})
			synctest.Wait()
		}
		_ = agent.SetReadDeadline(now().Add(time.Millisecond))
		if _, err := agent.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("a stranger has closed the connection of the agent: %v", err)
		}
	})
}

// withoutProof keeps back what proves that a client has the key of its certificate: the last two records that it writes in its handshake.
type withoutProof struct{ net.Conn }

func (c withoutProof) Write(b []byte) (int, error) {
	var ends []int
	for at := 0; at+5 <= len(b); {
		at += 5 + int(b[at+3])<<8 + int(b[at+4])
		ends = append(ends, at)
	}
	if len(ends) < 3 {
		return c.Conn.Write(b)
	}
	_, err := c.Conn.Write(b[:ends[len(ends)-3]])
	return len(b), err
}

// TestConnectionsOfAll: all nodes have a bounded number of connections. A new one replaces an idle one.
func TestConnectionsOfAll(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		first := w.idle("first")
		for i := range peer.MaxKnown {
			w.idle(fmt.Sprintf("n%d", i))
		}
		_ = first.SetReadDeadline(now().Add(time.Millisecond))
		if _, err := first.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Error("the oldest connection is open")
		}
	})
}

// idle makes a connection of a node that has asked one question.
func (w *world) idle(node string) *tls.Conn {
	w.t.Helper()
	return w.idleAs(w.of(node))
}

// idleAs does so with an identity. A server that doesn't accept it ends the connection.
func (w *world) idleAs(i peer.Identity) *tls.Conn {
	w.t.Helper()
	raw, err := w.pipes.dial()
	if err != nil {
		w.t.Fatal(err)
	}
	c := w.shakeWith(i, raw)
	_, _ = c.Write([]byte("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"))
	_, _ = c.Read(make([]byte, 1<<10))
	return c
}
