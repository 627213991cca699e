package power

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bougou/go-ipmi/pkg/bmc"
	ipmi "github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/rmcpplus"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/fettle-io/fettle/internal/fencing"
)

// closing is a connection that counts how often it is closed.
type closing struct {
	net.Conn

	closed *atomic.Int32
}

func (c closing) Close() error {
	c.closed.Add(1)
	return c.Conn.Close()
}

// dials returns a driver whose connections are counted once they are closed.
func (b *ipmiBMC) dials(t *testing.T, username, password string) (*lanplus, *atomic.Int32) {
	t.Helper()
	closed := &atomic.Int32{}
	l := openIPMI(Config{Address: b.address}, mustCredentials(t, username, password)).(*lanplus)
	usual := l.dial
	l.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := usual(ctx, network, address)
		return closing{conn, closed}, err
	}
	return l, closed
}

// TestIPMIConnectionsAreClosed, also where the BMC refuses the login.
func TestIPMIConnectionsAreClosed(t *testing.T) {
	b := startIPMI(t)
	for password, want := range map[string]Reason{testPassword: "", "wrong": AuthenticationRefused} {
		l, closed := b.dials(t, testUser, password)
		if _, f := l.State(t.Context()); f.Reason != want || closed.Load() == 0 {
			t.Errorf("after failure %q the connection was closed %d times", f.Reason, closed.Load())
		}
	}
}

// TestIPMICredentialsAtTheirBounds are tried. Longer ones are refused by the client too.
func TestIPMICredentialsAtTheirBounds(t *testing.T) {
	b := startIPMI(t)
	for _, c := range [][2]string{{strings.Repeat("u", 16), "x"}, {"x", strings.Repeat("p", 20)}} {
		l, _ := b.dials(t, c[0], c[1])
		if _, f := l.State(t.Context()); f.Reason != AuthenticationRefused {
			t.Errorf("credentials of %d and %d bytes: failure %q", len(c[0]), len(c[1]), f.Reason)
		}
	}
	l, _ := b.dials(t, strings.Repeat("u", 17), "x")
	called := false
	err := l.session(t.Context(), suites[0], func(*ipmi.Client) error {
		called = true
		return nil
	})
	if err == nil || called {
		t.Errorf("a user name of 17 bytes is met with %v, and the operation was made: %t", err, called)
	}
}

func TestIPMIDialThatFails(t *testing.T) {
	b := startIPMI(t)
	l, _ := b.dials(t, testUser, testPassword)
	l.dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("no route")}
	}
	if _, f := l.State(t.Context()); f.Reason != Unreachable {
		t.Errorf("failure %q, want %q", f.Reason, Unreachable)
	}
}

// TestIPMIPrivilegeThatIsRefused: no operation is made with less privilege than was requested.
func TestIPMIPrivilegeThatIsRefused(t *testing.T) {
	b := startIPMI(t)
	var id uint32
	answer := func(datagram []byte) [][]byte {
		switch types.PayloadType(datagram[typeAt]) { //nolint:exhaustive // the others stay as they are
		case types.PayloadTypeRmcpOpenSessionResponse:
			id = binary.LittleEndian.Uint32(datagram[payloadAt+8:])
		case types.PayloadTypeRAKPMessage4:
			session, err := b.bmc.Sessions.Get(id)
			if err != nil {
				t.Error(err)
				break
			}
			session.MaxPrivilege = bmc.PrivilegeLevelUser
		}
		return [][]byte{datagram}
	}
	b.conn.answer.Store(&answer)
	if reading, f := b.host(t, newClock(), testPassword).Read(t.Context()); f.Reason != PermissionDenied {
		t.Errorf("read %v with less privilege, failure %q", reading, f.Reason)
	}
}

func TestIPMIAlgorithms(t *testing.T) {
	auth, integrity, encryption, _ := types.GetCipherSuiteAlgorithms(types.CipherSuiteID17)
	requested := rmcpplus.OpenSessionResponse{}
	requested.AuthAlg, requested.IntegrityAlg, requested.CryptAlg = uint8(auth), uint8(integrity), uint8(encryption)
	for name, tc := range map[string]struct {
		change func(*rmcpplus.OpenSessionResponse)
		suite  types.CipherSuiteID
		want   bool
	}{
		"as requested":                  {func(*rmcpplus.OpenSessionResponse) {}, types.CipherSuiteID17, true},
		"another authentication":        {func(r *rmcpplus.OpenSessionResponse) { r.AuthAlg = 0 }, types.CipherSuiteID17, false},
		"another integrity":             {func(r *rmcpplus.OpenSessionResponse) { r.IntegrityAlg = 0 }, types.CipherSuiteID17, false},
		"another encryption":            {func(r *rmcpplus.OpenSessionResponse) { r.CryptAlg = 0 }, types.CipherSuiteID17, false},
		"none, by a suite without them": {func(r *rmcpplus.OpenSessionResponse) { *r = rmcpplus.OpenSessionResponse{} }, types.CipherSuiteIDReserved, false},
	} {
		answered := requested
		tc.change(&answered)
		if got := hasAlgorithms(&answered, tc.suite); got != tc.want {
			t.Errorf("%s: the algorithms are those of the suite: %t", name, got)
		}
	}
}

// silent is a connection that never answers, in the time of a bubble. It records when it was written to.
type silent struct {
	net.Conn

	began time.Time
	at    []time.Duration
}

func (s *silent) Write(datagram []byte) (int, error) {
	s.at = append(s.at, time.Since(s.began)) //nolint:forbidigo // time in a bubble is injected
	return len(datagram), nil
}

func silence(t *testing.T) *silent {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	return &silent{Conn: ours, began: time.Now()} //nolint:forbidigo // the same
}

// TestIPMIDatagramsAreSentAgain after a second without an answer.
func TestIPMIDatagramsAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := silence(t)
		l := openIPMI(Config{Address: Address{Protocol: IPMI, Host: "127.0.0.1", Port: 623}}, mustCredentials(t, testUser, testPassword)).(*lanplus)
		l.dial = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2500*time.Millisecond, cancel)
		if state, f := l.State(ctx); f.Reason != Interrupted || state != fencing.PowerUnknown {
			t.Errorf("read %v, failure %q", state, f.Reason)
		}
		synctest.Wait()
		if want := []time.Duration{0, time.Second, 2 * time.Second}; !slices.Equal(conn.at, want) {
			t.Errorf("a datagram is sent after %v, want %v", conn.at, want)
		}
	})
}

// TestIPMIBMCThatNeverAnswers is given up after many datagrams, also where the caller sets no limit.
func TestIPMIBMCThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := silence(t)
		l := openIPMI(Config{Address: Address{Protocol: IPMI, Host: "127.0.0.1", Port: 623}}, mustCredentials(t, testUser, testPassword)).(*lanplus)
		l.dial = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
		_, f := l.State(t.Context())
		synctest.Wait()
		if f.Reason != TimedOut || len(conn.at) != 1+1000 {
			t.Errorf("failure %q after %d datagrams", f.Reason, len(conn.at))
		}
	})
}

// TestIPMISessionIsGivenBackInTime: a BMC that doesn't answer holds the end of an operation for a second, also where its caller has
// given up.
func TestIPMISessionIsGivenBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := silence(t)
		client, err := ipmi.NewClient("127.0.0.1", 623, testUser, testPassword)
		if err != nil {
			t.Fatal(err)
		}
		client.WithUDPProxy(dialed{conn}).WithTimeout(10 * time.Second).WithRetry(3)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		giveBack(ctx, client)
		took := time.Since(conn.began) //nolint:forbidigo // the same
		synctest.Wait()
		if took != time.Second || len(conn.at) == 0 {
			t.Errorf("giving a session back takes %s, after %d datagrams", took, len(conn.at))
		}
	})
}

// TestIPMIRefusalsWithoutSession: OpenIPMI's BMC sends two bytes where the specification wants eight.
func TestIPMIRefusalsWithoutSession(t *testing.T) {
	for name, tc := range map[string]struct {
		offered types.CipherSuiteID
		refused types.PayloadType
		status  types.RmcpStatusCode
		want    Reason
		logins  int32
	}{
		"of a suite, and the other works": {types.CipherSuiteID3, types.PayloadTypeRmcpOpenSessionResponse, 0, "", 1},
		"of both suites":                  {types.CipherSuiteID2, types.PayloadTypeRmcpOpenSessionResponse, 0, CipherSuitesRefused, 0},
		"of a session":                    {types.CipherSuiteID17, types.PayloadTypeRmcpOpenSessionResponse, types.RmcpStatusCodeNoResToCreateSess, NoSessionLeft, 0},
		"of a user":                       {types.CipherSuiteID17, types.PayloadTypeRAKPMessage2, types.RmcpStatusCodeUnauthorizedName, AuthenticationRefused, 1},
		"of a password":                   {types.CipherSuiteID17, types.PayloadTypeRAKPMessage4, types.RmcpStatusCodeInvalidIntegrityCheckValue, AuthenticationRefused, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := startIPMI(t, tc.offered)
			answer := func(datagram []byte) [][]byte {
				if datagram[typeAt] != byte(tc.refused) {
					return [][]byte{datagram}
				}
				if tc.status != 0 {
					datagram[payloadAt+1] = byte(tc.status)
				}
				if datagram[payloadAt+1] != 0 {
					datagram[lengthAt], datagram = 2, datagram[:payloadAt+2]
				}
				return [][]byte{datagram}
			}
			b.conn.answer.Store(&answer)
			h := b.host(t, newClock(), testPassword)
			if _, f := h.Read(t.Context()); f.Reason != tc.want || b.conn.logins.Load() != tc.logins {
				t.Errorf("failure %q after %d logins, want %q after %d", f.Reason, b.conn.logins.Load(), tc.want, tc.logins)
			}
		})
	}
}

// TestIPMIUserIsIllegal: OpenIPMI's BMC answers so to a user whom it doesn't know. In another place that answer is a fault.
func TestIPMIUserIsIllegal(t *testing.T) {
	for refused, want := range map[types.PayloadType]Reason{
		types.PayloadTypeRmcpOpenSessionResponse: UnexpectedAnswer,
		types.PayloadTypeRAKPMessage2:            AuthenticationRefused,
		types.PayloadTypeRAKPMessage4:            UnexpectedAnswer,
	} {
		b := startIPMI(t)
		answer := func(datagram []byte) [][]byte {
			if datagram[typeAt] == byte(refused) {
				datagram[payloadAt+1] = byte(types.RmcpStatusCodeIllegalParameter)
			}
			return [][]byte{datagram}
		}
		b.conn.answer.Store(&answer)
		wantFailure(t, b.host(t, newClock(), testPassword), want)
	}
}
