package power

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/transport/udp"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/fettle-io/fettle/internal/fencing"
)

// ipmiBMC is go-ipmi's own BMC on a port of the loopback.
type ipmiBMC struct {
	address Address
	conn    *watchedConn
	bmc     *bmc.BMC
}

// watchedConn counts logins, and may change what the BMC answers.
type watchedConn struct {
	*udp.Conn
	// opened counts requests for a session, and logins the attempts to log in.
	opened, logins atomic.Int32
	// answer, if set, returns the datagrams that are sent in place of one.
	answer atomic.Pointer[func([]byte) [][]byte]
}

func (c *watchedConn) ReadFrom(buffer []byte) (int, net.Addr, error) {
	n, from, err := c.Conn.ReadFrom(buffer)
	if err == nil && n > typeAt {
		if buffer[typeAt] == byte(types.PayloadTypeRmcpOpenSessionRequest) {
			c.opened.Add(1)
		}
		if buffer[typeAt] == byte(types.PayloadTypeRAKPMessage1) {
			c.logins.Add(1)
		}
	}
	return n, from, err
}

func (c *watchedConn) WriteTo(datagram []byte, to net.Addr) (int, error) {
	answer := c.answer.Load()
	if answer == nil {
		return c.Conn.WriteTo(datagram, to)
	}
	for _, other := range (*answer)(datagram) {
		if _, err := c.Conn.WriteTo(other, to); err != nil {
			return 0, err
		}
	}
	return len(datagram), nil
}

// startIPMI starts a BMC with one account that may log in, and a host that is on.
func startIPMI(t *testing.T, offered ...types.CipherSuiteID) *ipmiBMC {
	t.Helper()
	return startIPMIOf(t, func(*mock.Chassis) {}, offered...)
}

// startIPMIOf is startIPMI with a host that was changed before.
func startIPMIOf(t *testing.T, change func(*mock.Chassis), offered ...types.CipherSuiteID) *ipmiBMC {
	t.Helper()
	hardware := mock.New()
	chassis := hardware.Chassis().(*mock.Chassis)
	chassis.On = true
	change(chassis)
	b := bmc.New(bmc.DeviceInfo{DeviceID: 1, IPMIVersion: 0x20}, [16]byte{1}, hardware)
	account, err := b.Users.Add(2, testUser)
	if err != nil {
		t.Fatal(err)
	}
	account.SetPassword([]byte(testPassword))
	account.Enabled = true
	account.ChannelAccess[1] = bmc.UserChannelAccess{MaxPrivilege: bmc.PrivilegeLevelOperator, Enabled: true}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	conn := &watchedConn{Conn: udp.Wrap(socket)}
	if len(offered) == 0 {
		offered = suites[:]
	}
	s := server.NewServer(b, conn, server.WithCipherSuites(offered))
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(t.Context())
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	port := socket.LocalAddr().(*net.UDPAddr).Port
	return &ipmiBMC{address: Address{Protocol: IPMI, Host: "127.0.0.1", Port: uint16(port)}, conn: conn, bmc: b}
}

// host returns the host of a BMC.
func (b *ipmiBMC) host(t *testing.T, c *testClock, password string) *Host {
	t.Helper()
	return NewHost(Config{Address: b.address, Now: c.now, Timeout: testTimeout}, mustCredentials(t, testUser, password))
}

func TestIPMIPower(t *testing.T) {
	for name, offered := range map[string][]types.CipherSuiteID{
		"both suites": nil, "suite 17": {types.CipherSuiteID17}, "suite 3": {types.CipherSuiteID3},
	} {
		t.Run(name, func(t *testing.T) {
			b := startIPMI(t, offered...)
			h := b.host(t, newClock(), testPassword)
			wantState(t, h, fencing.IsOn)
			wantCommand(t, h, TurnOff)
			wantState(t, h, fencing.IsOff)
			wantCommand(t, h, TurnOff)
			wantState(t, h, fencing.IsOff)
			wantCommand(t, h, TurnOn)
			wantState(t, h, fencing.IsOn)
			if n := b.bmc.Sessions.Count(); n != 0 {
				t.Errorf("%d sessions were not given back", n)
			}
		})
	}
}

func TestIPMIOtherSuitesAreRefused(t *testing.T) {
	b := startIPMI(t, types.CipherSuiteID2)
	h := b.host(t, newClock(), testPassword)
	wantFailure(t, h, CipherSuitesRefused)
	if n := b.conn.logins.Load(); n != 0 {
		t.Errorf("%d logins without encryption", n)
	}
}

func TestIPMIWrongPasswordIsOneLogin(t *testing.T) {
	b := startIPMI(t)
	c := newClock()
	h := b.host(t, c, "wrong"+testPassword[:4])
	wantFailure(t, h, AuthenticationRefused)
	if n := b.conn.logins.Load(); n != 1 {
		t.Errorf("one wrong password was %d logins", n)
	}
	wantFailure(t, h, AuthenticationRefused)
	wantFailure(t, h, AuthenticationHeld)
	if n := b.conn.opened.Load(); n != 2 {
		t.Errorf("%d sessions were requested, want 2", n)
	}
}

func TestIPMIUnknownUserIsRefused(t *testing.T) {
	b := startIPMI(t)
	h := NewHost(Config{Address: b.address, Now: newClock().now, Timeout: testTimeout}, mustCredentials(t, "stranger", testPassword))
	wantFailure(t, h, AuthenticationRefused)
}

func TestIPMIAccountWithoutPrivilege(t *testing.T) {
	b := startIPMI(t)
	err := b.bmc.Users.Update(2, func(u *bmc.User) error {
		u.ChannelAccess[1] = bmc.UserChannelAccess{MaxPrivilege: bmc.PrivilegeLevelUser, Enabled: true}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantFailure(t, b.host(t, newClock(), testPassword), PermissionDenied)
}

func TestIPMILongCredentialsAreNotTried(t *testing.T) {
	b := startIPMI(t)
	for _, long := range [][2]string{{"a-user-name-of-17", "x"}, {"x", "a-password-of-21-byte"}} {
		h := NewHost(Config{Address: b.address, Now: newClock().now}, mustCredentials(t, long[0], long[1]))
		wantFailure(t, h, CredentialsUnusable)
	}
	if n := b.conn.opened.Load(); n != 0 {
		t.Errorf("%d sessions were requested", n)
	}
}

func TestIPMISilentBMC(t *testing.T) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	address := Address{Protocol: IPMI, Host: "127.0.0.1", Port: uint16(socket.LocalAddr().(*net.UDPAddr).Port)}
	h := NewHost(Config{Address: address, Now: newClock().now, Timeout: shortTimeout}, mustCredentials(t, testUser, testPassword))
	wantFailure(t, h, TimedOut)
}

func TestIPMINoBMC(t *testing.T) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	address := Address{Protocol: IPMI, Host: "127.0.0.1", Port: uint16(socket.LocalAddr().(*net.UDPAddr).Port)}
	socket.Close()
	h := NewHost(Config{Address: address, Now: newClock().now, Timeout: testTimeout}, mustCredentials(t, testUser, testPassword))
	wantFailure(t, h, Unreachable)
}

// A forger answers each request in the session before the BMC does. None of these may be believed, and none may end the process.
func TestIPMIForgedAnswersAreDropped(t *testing.T) {
	forgeries := map[string]func([]byte) []byte{
		"IPMI 1.5 says off": func([]byte) []byte {
			return []byte{6, 0, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0x81, 4, 0x7b, 0x20, 8, 1, 0, 0, 0, 0, 0, 0xd7}
		},
		"not encrypted": func(d []byte) []byte { d[typeAt] = 0x40; return d },
		"not signed":    func(d []byte) []byte { d[typeAt] = 0x80; return d },
		"neither":       func(d []byte) []byte { d[typeAt] = 0; return d },
		"a wrong byte":  func(d []byte) []byte { d[payloadAt+20] ^= 1; return d },
		"wrong signature": func(d []byte) []byte {
			d[len(d)-1] ^= 1
			return d
		},
		"no payload":   func(d []byte) []byte { d[lengthAt], d[lengthAt+1] = 0, 0; return d },
		"long payload": func(d []byte) []byte { d[lengthAt+1] = 0xff; return d },
		"cut short":    func(d []byte) []byte { return d[:payloadAt+5] },
		"header alone": func(d []byte) []byte { return d[:payloadAt-1] },
		"empty":        func([]byte) []byte { return nil },
		"a late RAKP message 2": func(d []byte) []byte {
			d[typeAt] = byte(types.PayloadTypeRAKPMessage2)
			return d
		},
	}
	for name, forge := range forgeries {
		t.Run(name, func(t *testing.T) {
			b := startIPMI(t)
			var forged atomic.Int32
			answer := func(datagram []byte) [][]byte {
				if datagram[typeAt]&encryptedAndSigned == 0 {
					return [][]byte{datagram}
				}
				forged.Add(1)
				return [][]byte{forge(append([]byte(nil), datagram...)), datagram}
			}
			b.conn.answer.Store(&answer)
			wantState(t, b.host(t, newClock(), testPassword), fencing.IsOn)
			if forged.Load() == 0 {
				t.Error("nothing was forged")
			}
		})
	}
}

// A BMC that answers with other algorithms than were requested would switch signatures off.
func TestIPMIDowngradeIsRefused(t *testing.T) {
	b := startIPMI(t)
	answer := func(datagram []byte) [][]byte {
		if datagram[typeAt] == byte(types.PayloadTypeRmcpOpenSessionResponse) {
			const integrityAt = payloadAt + 12 + 8 + 4
			datagram[integrityAt] = 0
		}
		return [][]byte{datagram}
	}
	b.conn.answer.Store(&answer)
	wantFailure(t, b.host(t, newClock(), testPassword), CipherSuitesRefused)
	if n := b.conn.logins.Load(); n != 0 {
		t.Errorf("%d logins after a downgrade", n)
	}
}

func TestIPMIInterrupted(t *testing.T) {
	b := startIPMI(t)
	ctx, cancel := context.WithCancel(t.Context())
	answer := func([]byte) [][]byte { cancel(); return nil }
	b.conn.answer.Store(&answer)
	if _, f := b.host(t, newClock(), testPassword).Read(ctx); f.Reason != Interrupted {
		t.Errorf("failure %v, want Interrupted", f)
	}
}

func TestIPMICodes(t *testing.T) {
	for code, want := range map[types.RmcpStatusCode]Reason{
		types.RmcpStatusCodeNoResToCreateSess: NoSessionLeft, types.RmcpStatusCodeNoResToCreateSessAtRole: NoSessionLeft,
		types.RmcpStatusCodeUnauthorizedName: AuthenticationRefused, types.RmcpStatusCodeInvalidIntegrityCheckValue: AuthenticationRefused,
		types.RmcpStatusCodeInvalidNameLength: AuthenticationRefused, types.RmcpStatusCodeInvalidRole: PermissionDenied,
		types.RmcpStatusCodeUnauthorizedRoleOfPriLevel: PermissionDenied, types.RmcpStatusCodeNoCipherSuiteMatch: CipherSuitesRefused,
		types.RmcpStatusCodeInvalidAuthAlg: CipherSuitesRefused, types.RmcpStatusCodeIllegalParameter: UnexpectedAnswer,
	} {
		if f := ipmiFailure(types.NewRmcpStatusError(code)); f.Reason != want {
			t.Errorf("status %v is %q, want %q", code, f.Reason, want)
		}
	}
	for code, want := range map[types.CompletionCode]Reason{
		types.CodeInsufficientPrivilege: PermissionDenied, types.CodeNotSupported: CommandRefused, types.CodeNodeBusy: UnexpectedAnswer,
	} {
		if f := ipmiFailure(types.NewResponseError(code, testPassword)); f.Reason != want {
			t.Errorf("code %v is %q, want %q", code, f.Reason, want)
		}
	}
}
