package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errUnready is that of an API server which answers, and says that it does not serve.
var errUnready = errors.New("the API server says that it is not ready")

// readiness reads the answer to a probe.
func readiness(body []byte, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil, apierrors.IsForbidden(err):
		return nil
	case apierrors.IsUnauthorized(err), !errors.As(err, &status):
		return fmt.Errorf("asking whether it is ready: %w", err)
	}
	var failing []string
	for line := range strings.Lines(string(body)) {
		if check, fails := strings.CutPrefix(line, "[-]"); fails {
			name, _, _ := strings.Cut(check, " ")
			failing = append(failing, name)
		}
	}
	if len(failing) == 0 {
		return fmt.Errorf("%w (%d)", errUnready, status.Status().Code)
	}
	return fmt.Errorf("%w: %s", errUnready, strings.Join(failing, ", "))
}

// explain says for people why a cluster is not known, and what to do. The same cause has the same words each time.
func explain(err error, host, secret string) string {
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the API server at %s does not accept the credentials in Secret %s any more; put valid ones there", host, secret)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("the user in Secret %s may not read the nodes of its cluster; grant get, list and watch of nodes to it", secret)
	case errors.Is(err, errUnready):
		return fmt.Sprintf("%s, at %s; nothing is judged by what it said before", err, host)
	}
	if cause := untrusted(err); cause != "" {
		return fmt.Sprintf("the API server at %s is not trusted: %s; put its certificate authority into Secret %s", host, cause, secret)
	}
	return fmt.Sprintf("the API server at %s does not answer: %s; see whether it runs, and can be reached from here", host, causeOf(err))
}

func untrusted(err error) string {
	if bad, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return bad.Err.Error()
	}
	if bad, is := errors.AsType[x509.UnknownAuthorityError](err); is {
		return bad.Error()
	}
	if bad, is := errors.AsType[x509.HostnameError](err); is {
		return bad.Error()
	}
	return ""
}

// causeOf leaves out what differs each time, such as ports of our own.
func causeOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "it takes too long"
	}
	if dns, is := errors.AsType[*net.DNSError](err); is {
		return "its name can't be resolved: " + dns.Err
	}
	if op, is := errors.AsType[*net.OpError](err); is && op.Err != nil {
		return op.Op + ": " + op.Err.Error()
	}
	if sending, is := errors.AsType[*url.Error](err); is {
		if sending.Timeout() {
			return "it takes too long"
		}
		return sending.Err.Error()
	}
	return err.Error()
}
