package cluster

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Proxy stands between Fettle and the API server, records requests, and injects faults.
type Proxy struct {
	mu       sync.Mutex
	requests []*http.Request
	faults   []*Injected
	open     map[net.Conn]bool
	judge    *Judge
	listener *listener
}

// StartProxy starts a proxy, which ends with the test.
func (c *Cluster) StartProxy(t testing.TB) (*Proxy, string) {
	t.Helper()
	anonymous := rest.AnonymousClientConfig(c.Config)
	transport, err := rest.TransportFor(anonymous)
	if err != nil {
		t.Fatalf("preparing a proxy: %v", err)
	}
	target, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatalf("reading the API server's address: %v", err)
	}
	p := &Proxy{open: map[net.Conn]bool{}, listener: newListener(t)}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches must not wait in a buffer
		ModifyResponse: func(r *http.Response) error {
			p.skewed(r)
			if isWatch(r.Request) {
				r.Body = p.watchBody(r.Request, r.Body)
			}
			return nil
		},
		ErrorLog: log.New(io.Discard, "", 0), // tests disconnect clients and stop servers on purpose
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.note(r)
		if p.meet(w, r) {
			return
		}
		if j := p.judgeNow(); j == nil || !j.serve(w, r, forward) {
			forward.ServeHTTP(w, r)
		}
	}))
	_ = server.Listener.Close()
	server.Listener = p.listener
	server.EnableHTTP2 = true
	server.Config.ErrorLog = forward.ErrorLog
	server.Config.ConnState = p.noteState
	server.StartTLS() // clients send no credentials without
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return p, server.URL
}

func (p *Proxy) note(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, r.Clone(r.Context()))
}

func (p *Proxy) judgeNow() *Judge {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.judge
}

func (p *Proxy) noteState(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = true
	if state == http.StateClosed || state == http.StateHijacked {
		delete(p.open, c)
	}
}

// Connections returns how many connections to the proxy are open.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Requests returns the requests to one path.
func (p *Proxy) Requests(path string) []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*http.Request
	for _, r := range p.requests {
		if r.URL.Path == path {
			found = append(found, r)
		}
	}
	return found
}

// Redirect writes a kubeconfig with another address.
func Redirect(t testing.TB, kubeconfig, address string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatalf("reading a kubeconfig: %v", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthorityData, cluster.CertificateAuthority = address, nil, ""
		cluster.InsecureSkipTLSVerify = true
	}
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatalf("writing a kubeconfig: %v", err)
	}
	if err := os.Chmod(kubeconfig, 0o600); err != nil {
		t.Fatalf("protecting a kubeconfig: %v", err)
	}
}
