package power

import "time"

const (
	// maxRefused is how many logins in succession may be refused before the BMC is left alone.
	maxRefused = 2
	// holdTime is how long the BMC is left alone then. BMCs lock accounts after a few refused logins.
	holdTime = 15 * time.Minute
)

// hold counts refused logins. Its zero value has none.
type hold struct {
	refused int
	until   time.Time
}

// after returns the hold after an operation. Once a BMC was left alone, one more refused login suffices until one succeeds.
func (h hold) after(reason Reason, now time.Time) hold {
	switch reason {
	case "":
		return hold{}
	case AuthenticationRefused:
		h.refused++
		if h.refused >= maxRefused {
			h.until = now.Add(holdTime)
		}
	case PermissionDenied, ResetNotAllowed, UnsupportedSystem, OtherSystem, CommandRefused, AuthenticationHeld, CredentialsUnusable, CertificateNotTrusted,
		CipherSuitesRefused, Unreachable, TimedOut, Interrupted, Busy, NoSessionLeft, UnexpectedAnswer:
	}
	return h
}

// at returns until when the BMC is left alone, or zero if it isn't.
func (h hold) at(now time.Time) time.Time {
	if now.Before(h.until) {
		return h.until
	}
	return time.Time{}
}
