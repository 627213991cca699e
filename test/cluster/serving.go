package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FreeAddress returns an address on loopback for a server that is started soon. Its IP address is a random one, since other processes connect
// from 127.0.0.1 and listen there: they would take a port that was free a moment ago.
func FreeAddress(t testing.TB) string {
	t.Helper()
	random := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	l, err := net.Listen("tcp", random+":0")
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0") // not all systems have the other addresses
	}
	if err != nil {
		t.Fatalf("finding a free port: %v", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// ServiceAccount creates a service account in a namespace, and returns a token of it.
func (c *Cluster) ServiceAccount(t testing.TB, namespace, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = namespace, name
	if err := c.Create(Context(t), account); err != nil {
		t.Fatalf("creating service account %s: %v", name, err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(Context(t), account, request); err != nil {
		t.Fatalf("requesting a token of %s: %v", name, err)
	}
	return request.Status.Token
}

// MetricsReader creates the service account fettle-system/scraper, which may read metrics, and returns its token.
func (c *Cluster) MetricsReader(t testing.TB) string {
	t.Helper()
	c.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-reader}
rules:
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}
subjects:
- {kind: ServiceAccount, namespace: fettle-system, name: scraper}
`)
	return c.ServiceAccount(t, "fettle-system", "scraper")
}

// RemoveServiceAccount deletes a service account, which revokes its tokens.
func (c *Cluster) RemoveServiceAccount(t testing.TB, namespace, name string) {
	t.Helper()
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = namespace, name
	if err := c.Delete(Context(t), account); client.IgnoreNotFound(err) != nil {
		t.Fatalf("deleting service account %s: %v", name, err)
	}
}

// Answer is the answer of a server.
type Answer struct {
	Status int
	Body   string
	// Certificate is the server's certificate, or nil without TLS.
	Certificate *x509.Certificate
	// HTTP is the version of the protocol.
	HTTP string
}

// Get requests a page, with the bearer token if there is one. If there are roots, one of them must have signed the
// server's certificate.
func Get(t testing.TB, url, token string, roots *x509.CertPool) (Answer, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(Context(t), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatalf("asking for %s: %v", url, err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, InsecureSkipVerify: roots == nil}, ForceAttemptHTTP2: true, DisableKeepAlives: true,
	}
	response, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	a := Answer{Status: response.StatusCode, Body: string(body), HTTP: response.Proto}
	if response.TLS != nil {
		a.Certificate = response.TLS.PeerCertificates[0]
	}
	return a, err
}

// Series returns the series of a page of metrics by name and labels, as they are written there.
func Series(t testing.TB, page string) map[string]float64 {
	t.Helper()
	series := map[string]float64{}
	for line := range strings.Lines(page) {
		at := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line)[at+1:], 64)
		if err != nil {
			t.Fatalf("the line %q has no number: %v", line, err)
		}
		series[line[:at]] = value
	}
	return series
}

// Log returns what Fettle has logged so far. Other replicas on the same cluster write to the same file.
func (f *Fettle) Log(t testing.TB) string {
	t.Helper()
	all, err := os.ReadFile(f.process.log)
	if err != nil {
		t.Fatalf("reading the log: %v", err)
	}
	return string(all)
}

// EndsByItself waits until Fettle ends without a signal, and returns its error.
func (f *Fettle) EndsByItself(t testing.TB) error {
	t.Helper()
	f.ended = true
	select {
	case err := <-f.process.done:
		f.process.done <- err
		return err
	case <-time.After(patience):
		_ = f.process.cmd.Process.Kill()
		t.Fatalf("fettle did not end within %s\n%s", patience, f.process.tail())
	}
	return nil
}
