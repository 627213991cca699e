package power

import (
	"strconv"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

// ConfigError is an error that a user can mend in what was configured. It quotes nothing of that.
type ConfigError string

func (e ConfigError) Error() string { return string(e) }

// Reason is why an operation failed. It is empty if the operation succeeded.
type Reason string

// Reasons.
const (
	// AuthenticationRefused means that the BMC refused the credentials.
	AuthenticationRefused Reason = "AuthenticationRefused"
	// AuthenticationHeld means that nothing was tried, since the BMC has refused the credentials too often.
	AuthenticationHeld Reason = "AuthenticationHeld"
	// CredentialsUnusable means that the protocol has no room for the user name or the password.
	CredentialsUnusable Reason = "CredentialsUnusable"
	// PermissionDenied means that the account may not do this.
	PermissionDenied Reason = "PermissionDenied"
	// CertificateNotTrusted means that nothing vouches for the certificate of the BMC.
	CertificateNotTrusted Reason = "CertificateNotTrusted"
	// CipherSuitesRefused means that the BMC supports neither cipher suite 17 nor 3.
	CipherSuitesRefused Reason = "CipherSuitesRefused"
	// Unreachable means that no connection was made, or that it broke.
	Unreachable Reason = "Unreachable"
	// TimedOut means that the BMC didn't answer in time. It may have received a command all the same.
	TimedOut Reason = "TimedOut"
	// Interrupted means that the caller has given up.
	Interrupted Reason = "Interrupted"
	// Busy means that another operation of the same BMC took too long.
	Busy Reason = "Busy"
	// NoSessionLeft means that the BMC has no session left.
	NoSessionLeft Reason = "NoSessionLeft"
	// ResetNotAllowed means that the system doesn't list a command among the resets that it allows. Nothing was commanded.
	ResetNotAllowed Reason = "ResetNotAllowed"
	// UnsupportedSystem means that the system doesn't exist, that there are several, or that it can't be powered so.
	UnsupportedSystem Reason = "UnsupportedSystem"
	// OtherSystem means that the UUID of the system is another than the caller expects. Nothing was commanded.
	OtherSystem Reason = "OtherSystem"
	// CommandRefused means that the BMC refused a command, and that the power isn't yet as commanded.
	CommandRefused Reason = "CommandRefused"
	// UnexpectedAnswer means that the BMC answered with something else: a redirect, an error of its own, or too much.
	UnexpectedAnswer Reason = "UnexpectedAnswer"
)

// message returns what a reason means to a user.
func (r Reason) message() string { //nolint:cyclop // a text for each reason
	switch r {
	case AuthenticationRefused:
		return "the BMC refused the credentials"
	case AuthenticationHeld:
		return "the BMC refused the credentials too often, and is left alone so that it doesn't lock the account"
	case CredentialsUnusable:
		return "IPMI has room for 16 bytes of user name and 20 bytes of password"
	case PermissionDenied:
		return "the account of the credentials may not do this"
	case CertificateNotTrusted:
		return "the certificate of the BMC is not trusted"
	case CipherSuitesRefused:
		return "the BMC supports neither cipher suite 17 nor 3"
	case Unreachable:
		return "the BMC can't be reached"
	case TimedOut:
		return "the BMC didn't answer in time"
	case Interrupted:
		return "the operation was interrupted"
	case Busy:
		return "another operation of the BMC is running"
	case NoSessionLeft:
		return "the BMC has no session left"
	case ResetNotAllowed:
		return "the BMC doesn't allow the reset of the system that the command needs"
	case UnsupportedSystem:
		return "the BMC has no such system, or several, or can't power it"
	case OtherSystem:
		return "the UUID of the system is not that of the node, so the BMC is probably of another host"
	case CommandRefused:
		return "the BMC refused the command"
	case UnexpectedAnswer:
		return "the BMC gave an unexpected answer"
	}
	return "no failure"
}

// Failure is why an operation failed. Its zero value means that it didn't. It contains nothing of the text that a BMC has sent.
type Failure struct {
	Reason Reason
	// HTTPStatus is the status of the answer, if there was one.
	HTTPStatus int
	// Fingerprint is the SHA-256 fingerprint of a certificate that isn't trusted, so that a user can compare it.
	Fingerprint string
	// HeldUntil is until when the BMC is left alone.
	HeldUntil time.Time
}

// Failed reports whether the operation failed.
func (f Failure) Failed() bool { return f.Reason != "" }

// String returns the failure in words.
func (f Failure) String() string {
	text := f.Reason.message()
	if f.HTTPStatus != 0 {
		text += ", status " + strconv.Itoa(f.HTTPStatus)
	}
	if f.Fingerprint != "" {
		text += ", SHA-256 fingerprint " + f.Fingerprint
	}
	if !f.HeldUntil.IsZero() {
		text += ", until " + f.HeldUntil.UTC().Format(time.RFC3339)
	}
	return text
}

// Command is a command to a host.
type Command int

// Commands.
const (
	// TurnOff turns the power off at once, without asking the operating system.
	TurnOff Command = iota + 1
	// TurnOn turns the power on.
	TurnOn
)

// wanted returns the state that a command leads to.
func (c Command) wanted() fencing.PowerState {
	if c == TurnOff {
		return fencing.IsOff
	}
	return fencing.IsOn
}
