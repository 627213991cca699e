package power

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// maxAnswer bounds the body of an answer, and maxHeader its header.
	maxAnswer = 4 << 20
	maxHeader = 64 << 10
	// connectTimeout bounds the connection and the handshake each. They go on without the request that has begun them, and a second
	// connection has to wait for them.
	connectTimeout = 10 * time.Second
)

var (
	errOversized = errors.New("the answer is larger than 4 MiB")
	errElsewhere = errors.New("the BMC named a place that is not its own")
)

// confined makes requests to one server only, and bounds their answers. Links in answers can't lead elsewhere.
type confined struct {
	transport    *http.Transport
	scheme, host string
}

// newClient returns a client of HTTP for one BMC. It follows no redirect: those would be sent the credentials too.
func newClient(address Address, trust Trust) *http.Client {
	transport := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		TLSClientConfig:        trust.config(address.Host),
		MaxResponseHeaderBytes: maxHeader,
		MaxConnsPerHost:        1,
		IdleConnTimeout:        time.Minute,
		DisableCompression:     true,
	}
	return &http.Client{
		Transport:     confined{transport: transport, scheme: address.httpScheme(), host: address.HostPort()},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip makes one request and reads its answer.
func (c confined) RoundTrip(request *http.Request) (*http.Response, error) {
	if to := request.URL; to.Scheme != c.scheme || to.Host != c.host || to.User != nil {
		return nil, errElsewhere
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // the interface of transports returns it as it is
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, err //nolint:wrapcheck // the same
	}
	if len(body) > maxAnswer {
		return nil, errOversized
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// CloseIdleConnections closes the connection.
func (c confined) CloseIdleConnections() { c.transport.CloseIdleConnections() }
