package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// errUnready is the error of an API server that answers, and reports that it is not ready.
var errUnready = errors.New("the API server says that it is not ready")

// readyChecks are the checks of an API server whose names appear in messages. Names from other hosts are not
// repeated.
var readyChecks = [...]string{"ping", "log", "etcd", "etcd-readiness", "informer-sync", "shutdown"}

// readiness interprets the answer to a probe. An API server that forbids the probe is ready, since it knows the
// credentials.
func readiness(body []byte, err error) error {
	var status *apierrors.StatusError
	switch {
	case err == nil, apierrors.IsForbidden(err):
		return nil
	case apierrors.IsUnauthorized(err), !errors.As(err, &status):
		return fmt.Errorf("asking whether it is ready: %w", err)
	}
	var failing []string
	others := 0
	for line := range strings.Lines(string(body)) {
		check, fails := strings.CutPrefix(line, "[-]")
		name, _, _ := strings.Cut(check, " ")
		switch {
		case !fails, slices.Contains(failing, name):
		case slices.Contains(readyChecks[:], name):
			failing = append(failing, name)
		default:
			others++
		}
	}
	if others > 0 {
		failing = append(failing, fmt.Sprintf("%d of its other checks", others))
	}
	if len(failing) == 0 {
		return fmt.Errorf("%w (%d)", errUnready, status.ErrStatus.Code)
	}
	return fmt.Errorf("%w: %s", errUnready, strings.Join(failing, ", "))
}

// explain returns why a cluster is unknown, and what to do, as a text for users. The same cause has the same text
// each time.
func explain(err error, host, secret string) string {
	host = sanitize.URL(host)
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the API server at %s does not accept the credentials in Secret %s any more; put valid ones there", host, secret)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("the user in Secret %s may not read the nodes of its cluster; grant get, list and watch of nodes to it", secret)
	case errors.Is(err, errUnready):
		return fmt.Sprintf("%s, at %s; nothing is judged by what it said before", err, host)
	}
	if bound, is := errors.AsType[*boundError](err); is {
		return fmt.Sprintf("the API server at %s %s; nothing is judged by what it said before", host, bound.explain())
	}
	if cause := untrusted(err); cause != "" {
		return fmt.Sprintf("the API server at %s is not trusted: %s; put its certificate authority into Secret %s", host, cause, secret)
	}
	return fmt.Sprintf("the API server at %s does not answer: %s; see whether it runs, and can be reached from here", host, causeOf(err))
}

// untrusted returns why a certificate is not accepted, and nothing for other errors. It does not repeat the text of
// the error, which has names from the certificate. Any host may have made that.
func untrusted(err error) string {
	if _, is := errors.AsType[x509.UnknownAuthorityError](err); is {
		return "an authority that is not known here has signed its certificate"
	}
	if _, is := errors.AsType[x509.HostnameError](err); is {
		return "its certificate is for other names"
	}
	if invalid, is := errors.AsType[x509.CertificateInvalidError](err); is {
		if invalid.Reason == x509.Expired {
			return "its certificate has expired, or is not valid yet"
		}
		return "its certificate is not valid"
	}
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return "its certificate is not valid"
	}
	return ""
}

// A namedCause is an error that any host may cause, with its text for users.
type namedCause struct {
	err  error
	text string
}

// namedCauses are the errors whose texts don't come from a host.
var namedCauses = [...]namedCause{
	{context.DeadlineExceeded, "it takes too long"},
	{errEnded, errEnded.Error()},
	{errNotNodes, errNotNodes.Error()},
	{errNotObjects, errNotObjects.Error()},
	{errNotProtobuf, errNotProtobuf.Error()},
	{errAddress, errAddress.Error()},
	{io.ErrUnexpectedEOF, "it ends connections early"},
	{io.EOF, "it ends connections early"},
}

// remoteAlert is the name that the TLS library gives to an alert of the other side. The library makes the text of
// an alert from a number.
const remoteAlert = "remote error"

// causeOf returns why a cluster does not answer. It leaves out what differs each time, such as local ports. It
// repeats no text of a host but the message of a Status, since a kubeconfig may name any host.
func causeOf(err error) string {
	if bound, is := errors.AsType[*boundError](err); is {
		return bound.Error()
	}
	for _, c := range namedCauses {
		if errors.Is(err, c.err) {
			return c.text
		}
	}
	if dns, is := errors.AsType[*net.DNSError](err); is {
		return "its name can't be resolved: " + sanitize.Line(sanitize.MaxPart, dns.Err)
	}
	if sending, is := errors.AsType[*url.Error](err); is && sending.Timeout() {
		return "it takes too long"
	}
	if op, is := errors.AsType[*net.OpError](err); is {
		number, fromSystem := errors.AsType[syscall.Errno](op.Err)
		switch {
		case op.Timeout():
			return "it takes too long"
		case fromSystem:
			return op.Op + ": " + number.Error()
		case op.Op == remoteAlert:
			return "it refuses the connection: " + sanitize.Line(sanitize.MaxPart, op.Err.Error())
		}
	}
	if status, is := errors.AsType[*apierrors.StatusError](err); is {
		return sanitize.Failure(sanitize.MaxPart, status)
	}
	return "what it sends is not the answer of an API server"
}
