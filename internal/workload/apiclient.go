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

// apiClient is a client of one API server with one set of credentials. It has a transport of its own. The
// transports that client-go shares outlive their users, and keep a dead connection for as long as the kernel does.
type apiClient struct {
	*rest.RESTClient

	host   string
	opened *connrotation.ConnectionTracker
}

// open returns a client. It sends nothing yet.
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
		return nil, errNoURL // the cause repeats the address, and secrets in it
	}
	return &apiClient{RESTClient: restClient, host: config.Host, opened: tracker}, nil
}

// withoutLogging keeps client-go from logging failures in a context. The connection logs why it was lost, once.
func withoutLogging(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// close ends all requests.
func (api *apiClient) close() {
	api.opened.CloseAll()
}

// isReady reads from the API server whether it serves: it answers, accepts the credentials, and has its etcd.
func (api *apiClient) isReady(ctx context.Context) error {
	body, err := api.Get().AbsPath("/readyz").MaxRetries(0).DoRaw(ctx)
	return readiness(body, err)
}
