package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fettle-io/fettle/sandbox/access"
	"github.com/fettle-io/fettle/sandbox/pki"
)

// partLabel says to which part of a cluster a node belongs.
const partLabel = "bench.example.com/part"

func partName(i int) string { return fmt.Sprintf("part-%03d", i) }

// parts serve a cluster's nodes in parts, each at its own address, so that every part looks like a cluster. Many API
// servers would not fit on one machine.
type parts struct {
	dir         string
	ca          []byte
	certificate tls.Certificate
	whole       *rest.Config
	serving     []*http.Server
}

// newParts divides the cluster of a kubeconfig. The parts have its credentials.
func newParts(dir string, kubeconfig []byte) (*parts, error) {
	whole, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the cluster to divide: %w", err)
	}
	authority, err := pki.Open(filepath.Join(dir, "parts"))
	if err != nil {
		return nil, err
	}
	pair, err := authority.Issue(pki.Request{File: "part", CommonName: "part", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		return nil, err
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the parts: %w", err)
	}
	ca, err := os.ReadFile(authority.CertFile())
	if err != nil {
		return nil, fmt.Errorf("reading the authority of the parts: %w", err)
	}
	return &parts{dir: dir, ca: ca, certificate: certificate, whole: whole}, nil
}

// serve starts to serve a part, and returns a kubeconfig of it.
func (p *parts) serve(ctx context.Context, name string) ([]byte, error) {
	proxy, err := p.proxy(name)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("finding a free port: %w", err)
	}
	server := &http.Server{
		Handler: proxy, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{p.certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	p.serving = append(p.serving, server)
	file := filepath.Join(p.dir, "parts", name+".kubeconfig")
	if err := access.Write(file, access.Identity{Server: "https://" + listener.Addr().String(), CA: p.ca, Token: p.whole.BearerToken}); err != nil {
		return nil, err
	}
	kubeconfig, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of a part: %w", err)
	}
	return kubeconfig, nil
}

// proxy passes everything on to the whole cluster, with the credentials of the client.
func (p *parts) proxy(name string) (*httputil.ReverseProxy, error) {
	target, err := url.Parse(p.whole.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cluster to divide: %w", err)
	}
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: p.whole.CAData}})
	if err != nil {
		return nil, fmt.Errorf("preparing to pass requests on: %w", err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			narrow(r.Out.URL, partLabel+"="+name)
		},
		Transport: transport, ErrorLog: log.New(io.Discard, "", 0),
	}, nil
}

// narrow restricts lists and watches of nodes to the nodes of a selector.
func narrow(asked *url.URL, selector string) {
	if asked.Path != "/api/v1/nodes" {
		return
	}
	query := asked.Query()
	if own := query.Get("labelSelector"); own != "" {
		selector = own + "," + selector
	}
	query.Set("labelSelector", selector)
	asked.RawQuery = query.Encode()
}

// close closes all servers and connections.
func (p *parts) close() error {
	var failed []error
	for _, s := range p.serving {
		failed = append(failed, s.Close())
	}
	return errors.Join(failed...)
}
