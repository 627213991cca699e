package cli

import (
	"context"
	"strings"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
)

// login logs in to the BMC once, reads the power, and ends the session. It returns the UUID of the system, if the BMC has reported it.
func (c *BMCCheck) login(ctx context.Context, config power.Config, credentials power.Credentials) string {
	host := power.NewHost(config, credentials)
	defer host.Close(ctx)
	reading, failure := host.Read(ctx)
	c.report(config.Address, reading.State, failure)
	if !failure.Failed() {
		c.resets(host.ReadResets(ctx), host.Lacks())
	}
	return host.UUID()
}

// report says how far a read came, and what it read.
func (c *BMCCheck) report(a power.Address, state fencing.PowerState, failure power.Failure) {
	c.Fingerprint = failure.Fingerprint
	c.connection(a, failure)
	if hasCertificate(a) {
		c.certificate(failure)
	}
	c.accepted(failure)
	if failure.Failed() {
		c.unreadPower(failure)
		return
	}
	c.power(state)
	if a.Protocol == power.Redfish { // a session of IPMI has the privilege, or is refused
		c.Notes = append(c.Notes, "Whether the account may reset the system was not tried, since only a command shows that.")
	}
}

// resets says whether the BMC allows what Fettle commands, if it says so.
func (c *BMCCheck) resets(failure power.Failure, lacks []string) {
	switch {
	case failure.Failed():
		c.add(checkResets, unknown, "which resets the BMC allows could not be read: %s", failure)
	case len(lacks) > 0:
		c.add(checkResets, fails, "the BMC does not list %s among the resets that it allows, so Fettle can't power the host off and on; "+
			"see whether it allows them to this account, by its settings, its licence and its firmware", strings.Join(lacks, " and "))
	}
}

// connection says whether the BMC answered.
func (c *BMCCheck) connection(a power.Address, f power.Failure) {
	switch stageOf(f) {
	case atConnection:
		c.add(checkConnection, fails, "%s at %s; check the address, firewalls and routes", f, a.HostPort())
	case atSuites:
		c.add(checkConnection, fails, "%s; enable one of them on the BMC", f)
	case unclear:
		if f.HTTPStatus == 0 {
			c.add(checkConnection, unknown, "%s gave an answer that is not one of a BMC; check the address and its port", a.HostPort())
			return
		}
		c.add(checkConnection, works, "%s answers", a.HostPort())
	case beforeConnection:
		c.add(checkConnection, untested, "nothing was sent")
	case atCertificate, atLogin, atPower:
		c.add(checkConnection, works, "%s answers", a.HostPort())
	}
}

// certificate says whether the certificate is trusted.
func (c *BMCCheck) certificate(f power.Failure) {
	switch stage := stageOf(f); {
	case stage == atCertificate:
		c.add(checkCertificate, fails, "it is not trusted; its SHA-256 fingerprint is %s; compare that with what the BMC itself shows, such as on its console, "+
			"and only if both are equal set spec.tls.fingerprint", f.Fingerprint)
	case stage == beforeConnection:
		c.add(checkCertificate, untested, "nothing was sent")
	case stage == atConnection, stage == unclear && f.HTTPStatus == 0:
		c.add(checkCertificate, unknown, "no answer says so")
	default:
		c.add(checkCertificate, works, "it is trusted")
	}
}

// accepted says whether the BMC accepted the login.
func (c *BMCCheck) accepted(f power.Failure) {
	switch stageOf(f) {
	case beforeConnection:
		if f.Reason == power.CredentialsUnusable {
			c.add(checkLogin, fails, "%s; shorten them on the BMC and in the Secret", f)
			return
		}
		c.add(checkLogin, untested, "%s", f)
	case atSuites, atCertificate:
		c.add(checkLogin, untested, "no credentials were sent")
	case atLogin:
		advice := "correct the keys " + v1alpha1.UsernameKey + " and " + v1alpha1.PasswordKey + " of the Secret before the next try, since BMCs lock accounts"
		if f.Reason == power.NoSessionLeft {
			advice = "end sessions on the BMC, or wait until they expire"
		}
		c.add(checkLogin, fails, "%s; %s", f, advice)
	case atConnection, unclear:
		c.add(checkLogin, unknown, "no answer says so, and the credentials may have been sent")
	case atPower:
		c.add(checkLogin, works, "the BMC accepted it")
	}
}

// unreadPower says why the power was not read.
func (c *BMCCheck) unreadPower(f power.Failure) {
	switch {
	case f.Reason == power.PermissionDenied:
		c.add(checkPower, fails, "%s; give it the role of an operator", f)
	case f.Reason == power.UnsupportedSystem:
		c.add(checkPower, fails, "%s; give the ID of the system in spec.system, or the path of the system in spec.address", f)
	case f.Reason == power.CommandRefused:
		c.add(checkPower, fails, "the BMC refused the read, status %d; check the scheme, the port and the path of spec.address", f.HTTPStatus)
	case stageOf(f) == unclear:
		c.add(checkPower, fails, "%s", f)
	case stageOf(f) == atConnection:
		c.add(checkPower, unknown, "there was no answer")
	default:
		c.add(checkPower, untested, "there was no login")
	}
}

// power says how the power is.
func (c *BMCCheck) power(state fencing.PowerState) {
	switch state {
	case fencing.IsOn:
		c.Power = string(v1alpha1.HostOn)
	case fencing.IsOff:
		c.Power = string(v1alpha1.HostOff)
	case fencing.PowerUnknown:
		c.Power = string(v1alpha1.HostPowerUnknown)
		c.add(checkPower, unknown, "the BMC says neither On nor Off, as it does while a host changes its power; check again in a minute")
		return
	}
	c.add(checkPower, works, "the host is %s", c.Power)
}

// stage is how far a read came.
type stage int

const (
	beforeConnection stage = iota
	// atConnection is for a connection that was not made, or that broke at any time.
	atConnection
	atSuites
	atCertificate
	atLogin
	// unclear is for an answer that may be one to the login, or to the read of the power.
	unclear
	atPower
)

// stageOf returns how far a read came.
func stageOf(f power.Failure) stage {
	switch f.Reason {
	case power.CredentialsUnusable, power.AuthenticationHeld, power.Busy:
		return beforeConnection
	case power.Unreachable, power.TimedOut, power.Interrupted:
		return atConnection
	case power.CipherSuitesRefused:
		return atSuites
	case power.CertificateNotTrusted:
		return atCertificate
	case power.AuthenticationRefused, power.NoSessionLeft:
		return atLogin
	case power.UnexpectedAnswer, power.CommandRefused:
		return unclear
	case power.UnsupportedSystem:
		if f.HTTPStatus != 0 {
			return unclear
		}
	case power.PermissionDenied, power.OtherSystem, power.ResetNotAllowed:
	}
	return atPower
}
