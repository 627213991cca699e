package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// OtherAPIServer returns the path of the kube-apiserver that sandboxes run, or "" where they run the linked one. make
// test-versions sets it.
func OtherAPIServer() string { return os.Getenv("FETTLE_TEST_API_SERVER") }

// StartOlderServer starts a proxy that answers as an API server without streaming lists (WatchList): such watches are
// invalid. It returns the proxy's address. The proxy ends with the test.
func (c *Cluster) StartOlderServer(t testing.TB) string {
	t.Helper()
	target, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatalf("reading the API server's address: %v", err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(c.Config))
	if err != nil {
		t.Fatalf("preparing an older API server: %v", err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches must not wait in a buffer
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("sendInitialEvents") != "" {
			refuseStreaming(w)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS() // clients send no credentials without
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

func refuseStreaming(w http.ResponseWriter) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Reason:   metav1.StatusReasonInvalid,
		Code:     http.StatusUnprocessableEntity,
		Message:  "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
	})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	_, _ = w.Write(body)
}
