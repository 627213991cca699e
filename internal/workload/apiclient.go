package workload

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/klog/v2"
)

var errNoURL = errors.New("its server is not an address that can be used")

// apiClient is the way to one API server with one set of credentials. It has a transport of its own: those that client-go
// shares outlive who needs them, and keep to a connection that is dead as long as its kernel believes in it.
type apiClient struct {
	*rest.RESTClient

	host   string
	opened *connrotation.ConnectionTracker
}

// open makes a line. Nothing is sent yet.
func (c *Config) open(config *rest.Config) (*apiClient, error) {
	tracker := connrotation.NewConnectionTracker()
	own := connrotation.NewDialerWithTracker(c.dial, tracker)
	client, err := httpClient(config, own.DialContext, errorBytes)
	if err != nil {
		return nil, err
	}
	rc := *config
	rc.APIPath, rc.GroupVersion = "/api", &schema.GroupVersion{Version: "v1"}
	rc.NegotiatedSerializer, rc.ContentType, rc.AcceptContentTypes = c.codecs, protobuf, protobuf+",application/json"
	restClient, err := rest.RESTClientForConfigAndClient(&rc, client)
	if err != nil {
		return nil, errNoURL // the error repeats the address, and what is secret in it
	}
	return &apiClient{RESTClient: restClient, host: config.Host, opened: tracker}, nil
}

// withoutLogging keeps client-go from logging what fails in a context. The connection tells why it was lost, once and in words of its own.
func withoutLogging(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// close ends all that is under way.
func (api *apiClient) close() {
	api.Client.CloseIdleConnections()
	api.opened.CloseAll()
}

// isReady asks whether the API server serves: it answers itself, knows our credentials, and has its etcd. Whoever may
// not ask is known to it too.
func (api *apiClient) isReady(ctx context.Context) error {
	body, err := api.Get().AbsPath("/readyz").MaxRetries(0).DoRaw(ctx)
	return readiness(body, err)
}
