package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/peer"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
)

// link is the direct path of a node to the API server, which can be cut.
type link struct {
	mu   sync.Mutex
	cut  bool
	open []net.Conn
}

// dial connects directly. A path that is cut answers nothing.
func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	if cut {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c, err := agent.Direct(ctx, network, address)
	if err == nil {
		l.mu.Lock()
		l.open = append(l.open, c)
		l.mu.Unlock()
	}
	return c, err
}

// end cuts the path.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, c := range l.open {
		_ = c.Close()
	}
}

// identities returns the identities of nodes, by one authority.
func identities(t *testing.T, nodes ...string) map[string]peer.Source {
	t.Helper()
	never := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "agents"}, NotAfter: never, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	issue := func(template *x509.Certificate, public any) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, template, authority, public, key)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	authority = issue(authority, key.Public())
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	all := map[string]peer.Source{}
	for _, node := range nodes {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		leaf := issue(&x509.Certificate{
			SerialNumber: big.NewInt(2), DNSNames: []string{peer.NameOf(node)}, NotAfter: never, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: peer.Usages(),
		}, own.Public())
		i := peer.Identity{Certificate: tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: own, Leaf: leaf}, Authorities: pool}
		all[node] = func() (peer.Identity, error) { return i, nil }
	}
	return all
}

// relays has another agent answer that connects to the API server, and returns its address.
func relays(t *testing.T, c *cluster.Cluster, own peer.Source) netip.AddrPort {
	t.Helper()
	server, err := agent.NewServer(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	s := peer.NewServer(own, func(r peer.Refusal) { t.Errorf("it refuses: %+v", r) })
	s.Relay(func(ctx context.Context) (net.Conn, error) { return agent.Direct(ctx, "tcp", server.Address()) })
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(ctx, l) })
	t.Cleanup(func() { end(); running.Wait() })
	return netip.MustParseAddrPort(l.Addr().String())
}

// TestCutOff: an agent whose own path to the API server is cut renews its promise through another one, and learns that it is condemned.
func TestCutOff(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	c.Namespace(t, promiselease.Namespace)
	n, known, path := newNode(t, c, "cut-off"), identities(t, "cut-off", "neighbour"), &link{}
	at := relays(t, c, known["neighbour"])
	others := peer.NewClient(known["cut-off"], func(node string) (netip.AddrPort, bool) { return at, node == "neighbour" })
	paths := &agent.Dialer{Direct: path.dial, Relay: others.Relay, Neighbours: func() []string { return []string{"gone", "neighbour"} }}
	n.dial = paths.DialContext
	n.start()
	first := n.says(selffence.Promised)
	path.end()
	last := first.ResourceVersion
	for range 3 {
		c.Eventually(t, "the promise is renewed through the neighbour", func(ctx context.Context) error {
			l, _, err := n.lease(ctx)
			if err == nil && l.ResourceVersion == last {
				err = errors.New("it has the same revision")
			}
			if err == nil {
				last = l.ResourceVersion
			}
			return err
		})
	}
	n.stays(timeout)
	n.condemn()
	c.Eventually(t, "the node is reset", func(context.Context) error {
		if _, _, resets := n.see(); resets == 0 {
			return errors.New("nothing resets it")
		}
		return nil
	})
}
