package peer_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/peer"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key := newKey(t, elliptic.P256())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "agents"}, NotBefore: time.Unix(0, 0), NotAfter: forever,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := authority{t, template, key}
	a.cert = a.issue(template, key)
	return a
}

var forever = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

func newKey(t *testing.T, c elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a authority) issue(template *x509.Certificate, key crypto.Signer) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// of returns the identity of a node, with some changes.
func (a authority) of(node string, changes ...func(*x509.Certificate)) peer.Identity {
	return a.withKey(newKey(a.t, elliptic.P256()), node, changes...)
}

func (a authority) withKey(key crypto.Signer, node string, changes ...func(*x509.Certificate)) peer.Identity {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{peer.NameOf(node)}, NotBefore: time.Unix(0, 0), NotAfter: forever,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: peer.Usages(),
	}
	for _, change := range changes {
		change(template)
	}
	cert := a.issue(template, key)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return peer.Identity{Certificate: tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}, Authorities: pool}
}

func always(i peer.Identity) peer.Source {
	return func() (peer.Identity, error) { return i, nil }
}

// world has a server, and clients that connect to it through pipes. Its time is that of synctest.
type world struct {
	t *testing.T
	authority

	server *peer.Server
	pipes  pipes
	// failures are those of handlers.
	failures chan error

	mu sync.Mutex
	// refused is what else was told.
	refused []peer.Refusal
}

const serverNode = "server"

// longest is longer than each story.
const longest = 3 * time.Hour

func play(t *testing.T, story func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		playAs(t, a, always(a.of(serverNode)), story)
	})
}

// playAs has a server with an identity. It must be called in a bubble.
func playAs(t *testing.T, a authority, identity peer.Source, story func(*world)) {
	t.Helper()
	w := &world{t: t, authority: a, pipes: pipes{made: make(chan net.Conn), closed: make(chan struct{})}, failures: make(chan error, 1)}
	w.server = peer.NewServer(identity, w.told)
	w.server.Handle("/echo", func(_ context.Context, node string, body []byte) ([]byte, error) {
		return append([]byte(node+": "), body...), nil
	})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	start := sync.OnceFunc(func() { go func() { ended <- w.server.Serve(ctx, &w.pipes) }() })
	w.pipes.start = start // the handlers are there by then
	// The server looks now and then for refusals, so that the bubble has no deadlock. It would not end otherwise.
	defer time.AfterFunc(longest, func() { panic("the story has no end") }).Stop()
	story(w)
	start()
	w.pipes.cut()
	end()
	if err := <-ended; err != nil {
		t.Errorf("the server ends with: %v", err)
	}
	<-time.After(time.Minute) // in the bubble, so that idle connections end
}

// told takes what the server tells.
func (w *world) told(r peer.Refusal) {
	if r.Cause == peer.NotAnswered {
		w.failures <- r.Err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, r)
}

// tells requires what the server has told since the last call.
func (w *world) tells(when string, want ...peer.Refusal) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.refused, want) {
		w.t.Errorf("%s: the server tells %+v, want %+v", when, w.refused, want)
	}
	w.refused = nil
}

// client returns a client with an identity.
func (w *world) client(identity peer.Identity) *peer.Client {
	c := peer.NewClient(always(identity), func(string) (netip.AddrPort, bool) { return netip.MustParseAddrPort("192.0.2.1:9643"), true })
	c.SetDial(func(context.Context, string, string) (net.Conn, error) { return w.pipes.dial() })
	return c
}

// ask asks the server.
func (w *world) ask(c *peer.Client, path string, body []byte) (string, error) {
	answer, err := c.Ask(w.t.Context(), serverNode, path, body)
	return string(answer), err
}

// wants requires an error for a reason, or none.
func (w *world) wants(err error, reason peer.Reason) {
	w.t.Helper()
	if err == nil && reason == "" {
		return
	}
	if e, is := errors.AsType[*peer.Error](err); !is || e.Reason != reason {
		w.t.Errorf("the error is %v, want the reason %s", err, reason)
	}
}

// pipes is a listener for connections within the process.
type pipes struct {
	made   chan net.Conn
	once   sync.Once
	closed chan struct{}
	// count is how many connections were made.
	count atomic.Int32
	// start is called before a connection is made.
	start func()

	mu   sync.Mutex
	ends []net.Conn
}

func (p *pipes) dial() (net.Conn, error) {
	if p.start != nil {
		p.start()
	}
	here, near := net.Pipe()
	far, there := net.Pipe()
	p.mu.Lock()
	p.ends = append(p.ends, near, far)
	p.mu.Unlock()
	go carry(near, far)
	go carry(far, near)
	p.count.Add(1)
	select {
	case p.made <- there:
		return here, nil
	case <-p.closed:
		return nil, io.ErrClosedPipe
	}
}

// cut cuts all connections.
func (p *pipes) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.ends {
		_ = c.Close()
	}
}

// carry carries what is read from a connection to another one. So both sides can write at once, as on a network.
func carry(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = from.Close()
	_ = to.Close()
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.made:
		return c, nil
	case <-p.closed:
		return nil, io.ErrClosedPipe
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// now returns the time of the bubble.
func now() time.Time {
	return time.Now() //nolint:forbidigo // the clock of synctest
}
