package clusterapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/fettle-io/fettle/sandbox/pki"
)

const headerTimeout = 10 * time.Second

// webhookServer serves on a listener that is open already: the one of controller-runtime wants to be told a port, which
// may be taken by then. What calls before it serves, waits.
type webhookServer struct {
	listener net.Listener
	hooks    *http.ServeMux
}

func newWebhookServer(listener net.Listener, certificate pki.Pair) (*webhookServer, error) {
	pair, err := tls.LoadX509KeyPair(certificate.CertFile, certificate.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the webhooks: %w", err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
	}
	return &webhookServer{listener: tls.NewListener(listener, config), hooks: http.NewServeMux()}, nil
}

// NeedLeaderElection is false: they serve from the start.
func (s *webhookServer) NeedLeaderElection() bool { return false }

// Register adds a hook.
func (s *webhookServer) Register(path string, hook http.Handler) { s.hooks.Handle(path, hook) }

// WebhookMux is how builders find out what is registered.
func (s *webhookServer) WebhookMux() *http.ServeMux { return s.hooks }

// StartedChecker never complains, since nobody has to wait.
func (s *webhookServer) StartedChecker() healthz.Checker { return healthz.Ping }

// Start serves until ctx ends.
func (s *webhookServer) Start(ctx context.Context) error {
	server := &http.Server{Handler: s.hooks, ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving webhooks: %w", err)
	}
	return nil
}
