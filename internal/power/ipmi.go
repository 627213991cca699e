package power

import (
	"context"
	"errors"
	"net"
	"time"

	ipmi "github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/rmcpplus"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/fettle-io/fettle/internal/fencing"
)

const (
	// maxIPMIUsername and maxIPMIPassword are what IPMI has room for.
	maxIPMIUsername, maxIPMIPassword = 16, 20
	// ipmiRetryAfter is how long an answer may take before the datagram is sent again.
	ipmiRetryAfter = time.Second
	// ipmiRetries is more than the time of an operation has room for.
	ipmiRetries = 1000
)

// suites are the cipher suites that are tried, in this order. Others sign or encrypt too weakly, or not at all.
var suites = [...]types.CipherSuiteID{types.CipherSuiteID17, types.CipherSuiteID3}

// errDowngraded is the error for a BMC that answers with other algorithms than were requested.
var errDowngraded = errors.New("the BMC answered with another cipher suite")

// lanplus drives one host by IPMI 2.0 over LAN. Each operation has a session of its own, which is given back at its end.
type lanplus struct {
	address     Address
	credentials Credentials
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
}

// openIPMI returns the driver of a host. It makes no connection yet.
func openIPMI(config Config, credentials Credentials) connection {
	return &lanplus{address: config.Address, credentials: credentials, dial: (&net.Dialer{}).DialContext}
}

// State reads the power.
func (l *lanplus) State(ctx context.Context) (fencing.PowerState, Failure) {
	var status *chassis.GetChassisStatusResponse
	failure := l.use(ctx, func(client *ipmi.Client) (err error) {
		status, err = client.GetChassisStatus(ctx)
		return err //nolint:wrapcheck // it is classified, and never shown
	})
	if failure.Failed() {
		return fencing.PowerUnknown, failure
	}
	return chassisState(status), Failure{}
}

func chassisState(status *chassis.GetChassisStatusResponse) fencing.PowerState {
	if status.PowerIsOn {
		return fencing.IsOn
	}
	return fencing.IsOff
}

// Off turns the power off at once.
func (l *lanplus) Off(ctx context.Context) Failure {
	return l.control(ctx, chassis.ChassisControlPowerDown, TurnOff.wanted())
}

// On turns the power on.
func (l *lanplus) On(ctx context.Context) Failure {
	return l.control(ctx, chassis.ChassisControlPowerUp, TurnOn.wanted())
}

// control sends a command. BMCs refuse a command without effect, so the state decides then.
func (l *lanplus) control(ctx context.Context, control chassis.ChassisControl, wanted fencing.PowerState) Failure {
	return l.use(ctx, func(client *ipmi.Client) error {
		_, refused := client.ChassisControl(ctx, control)
		if refused == nil || ipmiFailure(refused).Reason != CommandRefused {
			return refused //nolint:wrapcheck // it is classified, and never shown
		}
		if status, err := client.GetChassisStatus(ctx); err != nil || chassisState(status) != wanted {
			return refused //nolint:wrapcheck // the same
		}
		return nil
	})
}

// Close does nothing: no session outlives its operation.
func (*lanplus) Close(context.Context) {}

// use makes an operation within a session. A refused login is tried with no other suite: that would be a second one.
func (l *lanplus) use(ctx context.Context, call func(*ipmi.Client) error) Failure {
	username, password := l.credentials.values()
	if len(username) > maxIPMIUsername || len(password) > maxIPMIPassword {
		return Failure{Reason: CredentialsUnusable}
	}
	var failure Failure
	for _, suite := range suites {
		err := l.session(ctx, suite, call)
		if err == nil {
			return Failure{}
		}
		failure = ipmiFailure(err)
		if failure.Reason != CipherSuitesRefused {
			return failure
		}
	}
	return failure
}

// session makes an operation within a session of one suite.
func (l *lanplus) session(ctx context.Context, suite types.CipherSuiteID, call func(*ipmi.Client) error) error {
	conn, err := l.dial(ctx, "udp", l.address.HostPort())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the session is over, whatever it says
	username, password := l.credentials.values()
	client, err := ipmi.NewClient(l.address.Host, int(l.address.Port), username, password)
	if err != nil {
		return err //nolint:wrapcheck // it is classified, and never shown
	}
	verified := newVerified(conn, suite, username, password)
	client.WithUDPProxy(dialed{verified}).WithTimeout(ipmiRetryAfter).WithRetry(ipmiRetries).
		WithCipherSuiteID(suite).WithMaxPrivilegeLevel(types.PrivilegeLevelOperator)
	if err := login(ctx, client, suite); err != nil {
		return err
	}
	defer giveBack(ctx, client)
	if _, err := client.SetSessionPrivilegeLevel(ctx, types.PrivilegeLevelOperator); err != nil {
		return err //nolint:wrapcheck // the same
	}
	return call(client)
}

// login makes a session. Client.Connect isn't used: it hides the kinds of errors, and accepts other algorithms than were requested.
func login(ctx context.Context, client *ipmi.Client, suite types.CipherSuiteID) error {
	opened, err := client.OpenSession(ctx)
	if err != nil {
		return err //nolint:wrapcheck // it is classified, and never shown
	}
	if !hasAlgorithms(opened, suite) {
		return errDowngraded
	}
	if _, err := client.RAKPMessage1(ctx); err != nil {
		return ofUser(err)
	}
	_, err = client.RAKPMessage3(ctx)
	return err //nolint:wrapcheck // the same
}

// ofUser returns the error of a message that names the user. OpenIPMI's BMC calls a user illegal whom it doesn't know.
func ofUser(err error) error {
	if status, ok := errors.AsType[*types.RmcpStatusError](err); ok && status.StatusCode() == types.RmcpStatusCodeIllegalParameter {
		return types.NewRmcpStatusError(types.RmcpStatusCodeUnauthorizedName) //nolint:wrapcheck // it is classified, and never shown
	}
	return err
}

// hasAlgorithms reports whether a BMC answered with the algorithms of a suite.
func hasAlgorithms(opened *rmcpplus.OpenSessionResponse, suite types.CipherSuiteID) bool {
	auth, integrity, encryption, ok := types.GetCipherSuiteAlgorithms(suite)
	return ok && opened.AuthAlg == uint8(auth) && opened.IntegrityAlg == uint8(integrity) && opened.CryptAlg == uint8(encryption)
}

// giveBack ends a session, also where the caller's context is over.
func giveBack(ctx context.Context, client *ipmi.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ipmiRetryAfter)
	defer cancel()
	_ = client.Close(ctx) // the BMC ends it after a minute anyway
}

// ipmiFailure returns the failure that an error means. It reads types and codes, never text.
func ipmiFailure(err error) Failure {
	if status, ok := errors.AsType[*types.RmcpStatusError](err); ok {
		return Failure{Reason: reasonOfStatus(status.StatusCode())}
	}
	if answer, ok := errors.AsType[*types.ResponseError](err); ok {
		return Failure{Reason: reasonOfCode(answer.CompletionCode())}
	}
	switch {
	case errors.Is(err, errDowngraded):
		return Failure{Reason: CipherSuitesRefused}
	case errors.Is(err, ipmi.ErrRAKPAuthentication):
		return Failure{Reason: AuthenticationRefused}
	}
	return Failure{Reason: networkReason(err)}
}

// reasonOfStatus returns what a status of a login means.
func reasonOfStatus(code types.RmcpStatusCode) Reason {
	switch code { //nolint:exhaustive // the others mean that the BMC or Fettle made a mistake
	case types.RmcpStatusCodeNoResToCreateSess, types.RmcpStatusCodeNoResToCreateSessAtRole:
		return NoSessionLeft
	case types.RmcpStatusCodeUnauthorizedName, types.RmcpStatusCodeInvalidNameLength, types.RmcpStatusCodeInvalidIntegrityCheckValue:
		return AuthenticationRefused
	case types.RmcpStatusCodeUnauthorizedRoleOfPriLevel, types.RmcpStatusCodeInvalidRole:
		return PermissionDenied
	case types.RmcpStatusCodeInvalidAuthAlg, types.RmcpStatusCodeInvalidIntegrityAlg, types.RmcpStatusCodeInvalidConfidentAlg,
		types.RmcpStatusCodeNoMatchingAuthPayload, types.RmcpStatusCodeNoMatchingIntegrityPayload,
		types.RmcpStatusCodeNoCipherSuiteMatch:
		return CipherSuitesRefused
	}
	return UnexpectedAnswer
}

// reasonOfCode returns what the completion code of a command means.
func reasonOfCode(code types.CompletionCode) Reason {
	switch code { //nolint:exhaustive // the others mean that the BMC has a fault
	case types.CodeInsufficientPrivilege:
		return PermissionDenied
	case types.CodeNotSupported:
		return CommandRefused
	}
	return UnexpectedAnswer
}
