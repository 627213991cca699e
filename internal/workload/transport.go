package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// errAddress refuses a connection before it is made.
var errAddress = errors.New("its address is link-local, where machines are told their own secrets, and no API server of a cluster is reached there")

// refuseLinkLocal keeps the author of a kubeconfig from reaching services for Fettle's own machine, such as the
// metadata of a cloud. It gets the address that a name was resolved to. Loopback and private addresses are allowed,
// since API servers are reached there through tunnels and in private networks.
// docs/adr/0013-connections-to-workload-clusters.md says what an author can learn from that.
func refuseLinkLocal(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reading the address of a connection: %w", err)
	}
	ip := at.Addr().Unmap()
	if ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || ip == metadataOfAWS {
		return errAddress
	}
	return nil
}

// metadataOfAWS is the one well-known address of a metadata service that is not link-local.
var metadataOfAWS = netip.MustParseAddr("fd00:ec2::254") //nolint:gochecknoglobals // a constant

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func dialer() *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, KeepAlive: answerTimeout, Control: refuseLinkLocal}
}

// httpClient returns a client of one API server with the credentials of a kubeconfig. It follows no redirection.
// most bounds its answers, unless withLimit sets another bound.
func httpClient(config *rest.Config, dial dialFunc, most int64) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("its certificates can't be used: %w", err)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dial, TLSClientConfig: tls, TLSHandshakeTimeout: dialTimeout,
		ResponseHeaderTimeout: answerTimeout, MaxResponseHeaderBytes: headerBytes,
		ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: streamBytes},
		MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
	}
	if config.Proxy != nil {
		transport.Proxy = config.Proxy
	}
	authenticated, err := rest.HTTPWrappersForConfig(config, limitedTransport{next: transport, most: most})
	if err != nil {
		return nil, fmt.Errorf("its credentials can't be used: %w", err)
	}
	return &http.Client{Transport: authenticated, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}
