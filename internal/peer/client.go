package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Addresses returns where the agent of a node listens, if that is known. The address may be false: the certificate of the agent is what counts.
type Addresses func(node string) (netip.AddrPort, bool)

// Client asks the agents of other nodes.
type Client struct {
	identity  Source
	addresses Addresses
	http      *http.Client
	transport *http.Transport
	// raw connects to an address.
	raw func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewClient returns a client. It sends nothing.
func NewClient(identity Source, addresses Addresses) *Client {
	c := &Client{identity: identity, addresses: addresses, raw: dialer().DialContext}
	c.transport = &http.Transport{
		DialTLSContext: c.dial, DisableCompression: true, MaxConnsPerHost: askingOfNode, MaxIdleConnsPerHost: 1, MaxIdleConns: maxOthers,
		IdleConnTimeout: clientIdleTime, MaxResponseHeaderBytes: maxHeader, Protocols: new(http.Protocols),
	}
	c.transport.Protocols.SetHTTP1(true)
	c.http = &http.Client{
		Transport:     c.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// dialer connects to addresses.
func dialer() *net.Dialer { return &net.Dialer{Timeout: helloTime, KeepAlive: keepAlive} }

// maxOthers is to how many other agents a client keeps connections.
const maxOthers = 8

// Ask asks the agent of a node, and returns its answer. It takes at most AnswerTime. The error is an *Error.
func (c *Client) Ask(ctx context.Context, node, path string, body []byte) ([]byte, error) {
	if len(body) > MaxBody {
		return nil, &Error{Reason: TooLong}
	}
	if len(validation.IsDNS1123Subdomain(node)) > 0 {
		return nil, &Error{Reason: NoAddress}
	}
	ctx, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	answer, err := c.ask(ctx, node, path, body)
	if err != nil {
		c.transport.CloseIdleConnections() // they may lead nowhere, as after a boot of the other node
		return nil, err
	}
	return answer, nil
}

func (c *Client) ask(ctx context.Context, node, path string, body []byte) ([]byte, error) {
	address := url.URL{Scheme: "https", Host: NameOf(node), Path: path}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Refused, err}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, errorOf(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := refusal(response.StatusCode); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, MaxBody+1))
	switch {
	case err != nil:
		return nil, errorOf(err)
	case len(answer) > MaxBody:
		return nil, &Error{Reason: TooLong}
	}
	return answer, nil
}

// refusal returns the error of an answer with a code.
func refusal(code int) error {
	switch code {
	case http.StatusOK:
		return nil
	case http.StatusTooManyRequests:
		return &Error{Reason: Busy}
	case http.StatusRequestEntityTooLarge:
		return &Error{Reason: TooLong}
	}
	return &Error{Reason: Refused}
}

// dial connects to the agent whose name is the host of an address.
func (c *Client) dial(ctx context.Context, network, host string) (net.Conn, error) {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		return nil, &Error{NoAddress, err}
	}
	conn, err := c.connect(ctx, network, name)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// connect connects to the agent with a name, and verifies its certificate.
func (c *Client) connect(ctx context.Context, network, name string) (*tls.Conn, error) {
	own, err := c.identity()
	if err != nil {
		return nil, &Error{NoIdentity, err}
	}
	at, is := c.addresses(name[:len(name)-len(suffix)])
	if !is || !usable(at) {
		return nil, &Error{Reason: NoAddress}
	}
	raw, err := c.raw(ctx, network, at.String())
	if err != nil {
		return nil, &Error{Unreachable, err}
	}
	conn := tls.Client(raw, own.clientConfig(name))
	ctx, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, errorOf(err)
	}
	return conn, nil
}

// clientConfig returns what a client demands of the agent with a name.
func (i Identity) clientConfig(name string) *tls.Config {
	c := i.config()
	c.ServerName = name
	c.VerifyConnection = func(state tls.ConnectionState) error {
		node, err := nodeAt(&state)
		if err == nil && NameOf(node) != name {
			err = errCertificate
		}
		return err
	}
	return c
}

// usable reports whether an agent may listen at an address. Others, such as the metadata services of clouds, are left alone.
func usable(at netip.AddrPort) bool {
	a := at.Addr().Unmap()
	return at.Port() != 0 && a.IsValid() && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLinkLocalUnicast()
}

// errorOf returns the error of a question that got no answer.
func errorOf(err error) error {
	if e, is := errors.AsType[*Error](err); is {
		return &Error{e.Reason, err}
	}
	_, bad := errors.AsType[*tls.CertificateVerificationError](err)
	op, is := errors.AsType[*net.OpError](err)
	if bad || errors.Is(err, errCertificate) || is && op.Op == "remote error" {
		return &Error{NotVerified, err}
	}
	return &Error{Unreachable, err}
}
