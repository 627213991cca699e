package power

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/stmcginnis/gofish/schemas"
)

// redfishFailure returns the failure that an error of a request means. It reads types and codes, never text.
func redfishFailure(err error) Failure {
	if answer, ok := errors.AsType[*schemas.Error](err); ok && answer.HTTPReturnedStatusCode != 0 {
		return Failure{Reason: reasonOfAnswer(answer), HTTPStatus: answer.HTTPReturnedStatusCode}
	}
	if presented, ok := untrusted(err); ok {
		return Failure{Reason: CertificateNotTrusted, Fingerprint: presented}
	}
	return Failure{Reason: networkReason(err)}
}

// reasonOfAnswer returns what an answer that refuses means.
func reasonOfAnswer(answer *schemas.Error) Reason {
	if sessionsExhausted(answer) {
		return NoSessionLeft
	}
	switch answer.HTTPReturnedStatusCode {
	case http.StatusUnauthorized:
		return AuthenticationRefused
	case http.StatusForbidden:
		return PermissionDenied
	case http.StatusNotFound:
		return UnsupportedSystem
	case http.StatusBadRequest, http.StatusConflict:
		return CommandRefused
	}
	return UnexpectedAnswer
}

// sessionsExhausted reports whether an answer has the identifier of a message that says so.
func sessionsExhausted(answer *schemas.Error) bool {
	if isSessionLimit(answer.Code) {
		return true
	}
	for i := range answer.ExtendedInfos {
		if isSessionLimit(answer.ExtendedInfos[i].MessageID) {
			return true
		}
	}
	return false
}

// isSessionLimit reports whether the identifier of a message is SessionLimitExceeded, or RAC0218 of an iDRAC. The registry and its
// version stand before it.
func isSessionLimit(id string) bool {
	key := id[strings.LastIndexByte(id, '.')+1:]
	return key == "SessionLimitExceeded" || key == "RAC0218"
}

// networkReason returns what an error of a connection means.
func networkReason(err error) Reason {
	if errors.Is(err, context.Canceled) {
		return Interrupted
	}
	network, ok := errors.AsType[net.Error](err)
	if errors.Is(err, context.DeadlineExceeded) || ok && network.Timeout() {
		return TimedOut
	}
	_, operation := errors.AsType[*net.OpError](err)
	_, lookup := errors.AsType[*net.DNSError](err)
	if operation || lookup || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Unreachable
	}
	return UnexpectedAnswer
}

// withoutSession reports whether a login failed since the BMC makes no session, now or ever, or doesn't say where.
func withoutSession(err error) bool {
	answer, ok := errors.AsType[*schemas.Error](err)
	if !ok {
		return false
	}
	switch answer.HTTPReturnedStatusCode {
	case 0, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusServiceUnavailable:
		return true
	}
	return sessionsExhausted(answer)
}
