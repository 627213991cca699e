package workload

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// The bounds on making a connection and on the first word of an answer.
const (
	dialTimeout   = 10 * time.Second
	answerTimeout = 15 * time.Second
)

// protobuf is the content type in which nodes travel.
const protobuf = "application/vnd.kubernetes.protobuf"

// line is the way to one API server with one set of credentials. It has a transport of its own: those that client-go
// shares outlive who needs them, and keep to a connection that is dead as long as its kernel believes in it.
type line struct {
	*rest.RESTClient

	host   string
	opened *connrotation.ConnectionTracker
}

// open makes a line. Nothing is sent yet.
func (c *Config) open(config *rest.Config) (*line, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("its certificates can't be used: %w", err)
	}
	tracker := connrotation.NewConnectionTracker()
	dialer := connrotation.NewDialerWithTracker((&net.Dialer{Timeout: dialTimeout, KeepAlive: answerTimeout}).DialContext, tracker)
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: tls, TLSHandshakeTimeout: dialTimeout,
		ResponseHeaderTimeout: answerTimeout, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
	}
	if config.Proxy != nil {
		transport.Proxy = config.Proxy
	}
	authenticated, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, fmt.Errorf("its credentials can't be used: %w", err)
	}
	// A redirection would carry the credentials elsewhere.
	httpClient := &http.Client{Transport: authenticated, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	rc := *config
	rc.APIPath, rc.GroupVersion = "/api", &schema.GroupVersion{Version: "v1"}
	rc.NegotiatedSerializer, rc.ContentType, rc.AcceptContentTypes = c.codecs, protobuf, protobuf+",application/json"
	client, err := rest.RESTClientForConfigAndClient(&rc, httpClient)
	if err != nil {
		return nil, fmt.Errorf("its address can't be used: %w", err)
	}
	return &line{RESTClient: client, host: config.Host, opened: tracker}, nil
}

// close ends all that is under way.
func (l *line) close() {
	l.Client.CloseIdleConnections()
	l.opened.CloseAll()
}

// isReady asks whether the API server serves: it answers itself, knows our credentials, and has its etcd. Whoever may
// not ask is known to it too.
func (l *line) isReady(ctx context.Context) error {
	body, err := l.Get().AbsPath("/readyz").MaxRetries(0).DoRaw(ctx)
	return readiness(body, err)
}
