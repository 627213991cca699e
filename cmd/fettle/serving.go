package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fettle-io/fettle/internal/metricsauth"
)

// off is the address that serves nothing.
const off = "0"

// metricsOptions returns the options of the metrics server: TLS, for clients that the cluster
// authorises.
func metricsOptions(o controllerOptions) (metricsserver.Options, error) {
	options := metricsserver.Options{
		BindAddress:    o.metricsAddress,
		SecureServing:  true,
		FilterProvider: newMetricsFilter,
		// HTTP/2 has no use for a scraper, and lets attackers keep the server busy.
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}
	if o.metricsAddress == off {
		return options, nil
	}
	if o.metricsCertDir != "" {
		options.CertDir = o.metricsCertDir // the server reads it again when it changes
		return options, nil
	}
	own, err := selfSigned()
	if err != nil {
		return options, err
	}
	options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil }
	})
	return options, nil
}

// newMetricsFilter returns the filter that authorises requests for metrics.
func newMetricsFilter(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	c, err := metricsauth.NewConfig(config, client, time.Now)
	if err != nil {
		return nil, err
	}
	filter := metricsauth.NewFilter(c)
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		return filter.Wrap(log, handler), nil
	}, nil
}

// selfSigned returns a certificate for the life of the process. It encrypts metrics. To
// authenticate the server, users set --metrics-cert-dir.
func selfSigned() (tls.Certificate, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a certificate for metrics: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a certificate for metrics: %w", err)
	}
	return pair, nil
}

// checkAddress returns an error if the address of a flag is invalid.
func checkAddress(flag, address string) error {
	if address == off {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		if n, bad := strconv.Atoi(port); bad == nil && n >= 0 && n <= 65535 {
			return nil
		}
	}
	return fmt.Errorf("--%s is %q; it must be an address with a port, such as :8081 or 127.0.0.1:8081, or 0 to serve nothing", flag, address)
}

// checkCertificate returns an error if the directory has no certificate at the start. Fettle reads
// it again when it changes. A self-signed certificate in its place would be a surprise.
func checkCertificate(dir string) error {
	if dir == "" {
		return nil
	}
	_, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return fmt.Errorf("--metrics-cert-dir is %q; it must have tls.crt and tls.key, as a mounted TLS secret does: %w", dir, err)
	}
	return nil
}

func (o *controllerOptions) checkServing() error {
	return errors.Join(
		checkAddress("health-probe-bind-address", o.healthAddress),
		checkAddress("metrics-bind-address", o.metricsAddress),
		checkCertificate(o.metricsCertDir),
	)
}
