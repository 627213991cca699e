package peer

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// stateOf returns what package tls says of a connection of a node's agent.
func stateOf(node string) *tls.ConnectionState {
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{
		DNSNames: []string{NameOf(node)}, ExtKeyUsage: Usages(), PublicKey: &ecdsa.PublicKey{Curve: elliptic.P256()},
	}}}
}

// asked returns the answer to a request of node a.
func asked(t *testing.T, s *Server, w http.ResponseWriter, method, target, body string) {
	t.Helper()
	c := &socket{}
	s.places.open(c)
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), connKey{}, net.Conn(c)), method, "/", strings.NewReader(body))
	r.RequestURI, r.URL.Path, r.TLS = target, target, stateOf("a")
	s.answer(w, r)
}

// TestCodes: which code says why a question was refused.
func TestCodes(t *testing.T) {
	t.Parallel()
	fails := errors.New("it fails")
	for name, c := range map[string]struct {
		method, target, body string
		want                 int
	}{
		"a question that fails":           {http.MethodPost, "/fails", "", http.StatusInternalServerError},
		"a question that is too long":     {http.MethodPost, "/fails", strings.Repeat("x", MaxBody+1), http.StatusRequestEntityTooLarge},
		"a question that nothing answers": {http.MethodPost, "/other", "", http.StatusNotFound},
		"a stream to another server":      {http.MethodConnect, "192.0.2.1:443", "", http.StatusNotFound},
		"a stream that can't be made":     {http.MethodConnect, relayTarget, "", http.StatusBadGateway},
	} {
		s := NewServer(nil, func(Refusal) {})
		s.Handle("/fails", func(context.Context, string, []byte) ([]byte, error) { return []byte("x"), fails })
		s.Relay(func(context.Context) (net.Conn, error) { return nil, fails })
		w := httptest.NewRecorder()
		asked(t, s, w, c.method, c.target, c.body)
		if w.Code != c.want || w.Header().Get("Connection") != "close" || w.Body.Len() > 0 {
			t.Errorf("to %s the server answers %d with %q, want %d", name, w.Code, w.Body, c.want)
		}
	}
}

// TestWhoIsNoAgent gets no answer, and no certificate of others counts as one of an agent.
func TestWhoIsNoAgent(t *testing.T) {
	t.Parallel()
	other := stateOf("a")
	other.PeerCertificates[0].DNSNames = []string{"a.example.org"}
	for name, state := range map[string]*tls.ConnectionState{"no TLS": nil, "no certificate": {}, "another certificate": other} {
		s := NewServer(nil, func(Refusal) { t.Error("people are told") })
		s.Handle("/echo", func(context.Context, string, []byte) ([]byte, error) { t.Error("it is answered"); return nil, nil })
		c := &socket{}
		s.places.open(c)
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), connKey{}, net.Conn(c)), http.MethodPost, "/echo", http.NoBody)
		r.TLS = state
		if state != nil {
			if err := (Identity{Authorities: x509.NewCertPool()}).verify(*state); !errors.Is(err, errCertificate) {
				t.Errorf("with %s the handshake ends with %v", name, err)
			}
		}
		w := httptest.NewRecorder()
		s.answer(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("with %s the server answers %d", name, w.Code)
		}
	}
}

// hijacker passes a connection on.
type hijacker struct {
	*httptest.ResponseRecorder

	conn net.Conn
	read string
}

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r := bufio.NewReader(strings.NewReader(h.read))
	_, _ = r.Peek(1)
	return h.conn, bufio.NewReadWriter(r, nil), nil
}

// TestAStreamThatCanNotBegin: nothing is carried, and both connections are closed.
func TestAStreamThatCanNotBegin(t *testing.T) {
	t.Parallel()
	relays := func(there net.Conn) *Server {
		s := NewServer(nil, func(Refusal) {})
		s.Relay(func(context.Context) (net.Conn, error) { return there, nil })
		return s
	}
	for name, here := range map[string]*wire{
		"without a deadline": {socket: &socket{}, deadline: errUnwritable},
		"without a write":    {socket: &socket{}, write: errUnwritable},
	} {
		there := &wire{socket: &socket{}}
		asked(t, relays(there), hijacker{httptest.NewRecorder(), here, ""}, http.MethodConnect, relayTarget, "")
		if here.reads+there.reads > 0 || here.closed.Load() != 1 || there.closed.Load() != 1 || here.deadline != nil && here.writes > 0 {
			t.Errorf("%s: %d bytes are read, and the connections are closed %d and %d times", name, here.reads+there.reads, here.closed.Load(), there.closed.Load())
		}
	}
	there, w := &wire{socket: &socket{}}, httptest.NewRecorder() // which gives no connection away
	asked(t, relays(there), w, http.MethodConnect, relayTarget, "")
	if w.Code != http.StatusInternalServerError || there.reads > 0 || there.closed.Load() != 1 {
		t.Errorf("the answer is %d, and the connection is closed %d times", w.Code, there.closed.Load())
	}
}
