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

// webhookServer serves on an open listener. The server of controller-runtime needs a port, which another process may
// have taken by then. Calls wait until it serves.
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

// NeedLeaderElection returns false: the webhooks serve from the start.
func (s *webhookServer) NeedLeaderElection() bool { return false }

// Register adds a hook.
func (s *webhookServer) Register(path string, hook http.Handler) { s.hooks.Handle(path, hook) }

// WebhookMux returns the mux in which builders look up registered webhooks.
func (s *webhookServer) WebhookMux() *http.ServeMux { return s.hooks }

// StartedChecker returns a check that always passes, since no caller has to wait.
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
