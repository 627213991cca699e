package peer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
)

// socket is a connection that counts how often it was closed.
type socket struct {
	net.Conn

	closed atomic.Int32
}

func (s *socket) Close() error {
	s.closed.Add(1)
	return nil
}

// RemoteAddr returns an address of no network.
func (*socket) RemoteAddr() net.Addr { return &net.UnixAddr{} }

// opened returns new connections that have a place.
func (p *places) opened(count int) []*socket {
	var all []*socket
	for range count {
		s := &socket{}
		p.open(s)
		all = append(all, s)
	}
	return all
}

// TestAKnownConnectionKeepsItsPlace: a node that has all its connections asks again through each of them.
func TestAKnownConnectionKeepsItsPlace(t *testing.T) {
	t.Parallel()
	p := &places{}
	all := p.opened(maxOfNode)
	for range 2 {
		for i, s := range all {
			if !p.know(s, "a") || s.closed.Load() != 0 {
				t.Errorf("connection %d was closed %d times", i, s.closed.Load())
			}
		}
	}
}

// TestKnownConnectionsOfAll: of all nodes a bounded number of connections is known. A new one takes the place of the oldest that is idle, and none of a
// connection whose question is being answered.
func TestKnownConnectionsOfAll(t *testing.T) {
	t.Parallel()
	p := &places{}
	var all []*socket
	for i := range maxKnown {
		s := p.opened(1)[0]
		if !p.know(s, "n"+strconv.Itoa(i)) {
			t.Fatalf("there is no room for connection %d", i)
		}
		p.change(s, http.StateActive)
		all = append(all, s)
	}
	more := p.opened(2)
	if p.know(more[0], "more") {
		t.Error("there is room while all are busy")
	}
	p.change(all[7], http.StateIdle)
	p.change(all[3], http.StateIdle)
	if !p.know(more[1], "more") || all[7].closed.Load() != 1 || all[3].closed.Load() != 0 {
		t.Errorf("the idle connections were closed %d and %d times", all[7].closed.Load(), all[3].closed.Load())
	}
	if p.find(all[7]) != nil || p.find(all[3]) == nil {
		t.Error("another place is left than that of the connection that is open")
	}
}

// TestAConnectionThatWasClosed in the meantime has no place any more, and takes none.
func TestAConnectionThatWasClosed(t *testing.T) {
	t.Parallel()
	for _, end := range []http.ConnState{http.StateClosed, http.StateHijacked} {
		p := &places{}
		s := p.opened(1)[0]
		if unasked := p.change(s, end); unasked != (end == http.StateClosed) || len(p.all) != 0 {
			t.Errorf("in state %s it has asked nothing: %t, and %d have a place", end, unasked, len(p.all))
		}
		if p.know(s, "a") || p.refuse(s) || p.change(s, end) || len(p.all) != 0 {
			t.Errorf("after state %s it is still known", end)
		}
	}
}

// TestAConnectionWithoutAPlace gets no answer, and people are told.
func TestAConnectionWithoutAPlace(t *testing.T) {
	t.Parallel()
	var told []Refusal
	s := NewServer(nil, func(r Refusal) { told = append(told, r) })
	answered := false
	s.Handle("/echo", func(context.Context, string, []byte) ([]byte, error) { answered = true; return nil, nil })
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), connKey{}, net.Conn(&socket{})), http.MethodPost, "/echo", http.NoBody)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{
		DNSNames: []string{NameOf("a")}, ExtKeyUsage: Usages(), PublicKey: &ecdsa.PublicKey{Curve: elliptic.P256()},
	}}}
	w := httptest.NewRecorder()
	s.answer(w, r)
	if w.Code != http.StatusTooManyRequests || answered || !slices.Equal(told, []Refusal{{Cause: TooManyConnections, Node: "a", Times: 1}}) {
		t.Errorf("the answer is %d, and people are told %+v", w.Code, told)
	}
}

// TestTurnsAreForgotten: of a node that has no turn nothing is kept.
func TestTurnsAreForgotten(t *testing.T) {
	t.Parallel()
	var of turns
	for range 2 {
		if !of.take("a", bound{ofNode: 2, all: 2}) {
			t.Fatal("there is no turn")
		}
	}
	for _, left := range []int{1, 0} {
		of.leave("a")
		if of.of["a"] != left || len(of.of) != left || of.all != left {
			t.Errorf("after a turn, %v are left, %d in all", of.of, of.all)
		}
	}
}

// TestBounds of what other agents may use at a time.
func TestBounds(t *testing.T) {
	t.Parallel()
	if got := askingBound(); got != (bound{ofNode: 2, all: 64}) {
		t.Errorf("the questions are bounded by %+v", got)
	}
	if got := relayBound(); got != (bound{ofNode: 2, all: 16}) {
		t.Errorf("the streams are bounded by %+v", got)
	}
	if got, want := Usages(), []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}; !slices.Equal(got, want) {
		t.Errorf("certificates have the usages %v, and earlier ones have %v", got, want)
	}
	if got := usable(netip.AddrPortFrom(netip.Addr{}, 1)); got {
		t.Error("an agent listens at no address")
	}
}

// TestReasonOfAnError: which errors say that a certificate was not accepted.
func TestReasonOfAnError(t *testing.T) {
	t.Parallel()
	for want, errs := range map[Reason][]error{
		NotVerified: {errCertificate, &tls.CertificateVerificationError{Err: io.EOF}, &net.OpError{Op: "remote error", Err: io.EOF}},
		Unreachable: {io.EOF, &net.OpError{Op: "dial", Err: io.EOF}, context.DeadlineExceeded},
		Busy:        {&Error{Reason: Busy}},
	} {
		for _, err := range errs {
			var e *Error
			if got := errorOf(fmt.Errorf("asking: %w", err)); !errors.As(got, &e) || e.Reason != want || !errors.Is(got, err) {
				t.Errorf("the reason of %v is %v, want %s", err, got, want)
			}
		}
	}
}

// TestErrorsSayWhy: each reason has a text of its own, which has nothing of what went wrong.
func TestErrorsSayWhy(t *testing.T) {
	t.Parallel()
	seen := map[string]Reason{"the other agent has not answered": "no reason"}
	for _, reason := range []Reason{NoIdentity, NoAddress, Unreachable, NotVerified, Busy, Refused, TooLong} {
		text := (&Error{reason, errors.New("secret")}).Error()
		if other, is := seen[text]; is {
			t.Errorf("the text of %s is that of %s: %s", reason, other, text)
		}
		seen[text] = reason
	}
	if text := (&Error{Err: errors.New("secret")}).Error(); seen[text] != "no reason" {
		t.Errorf("an error without a reason says %q", text)
	}
}
