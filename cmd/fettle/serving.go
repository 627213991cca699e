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

// off is the address at which nothing is served.
const off = "0"

// metricsOptions serve metrics over TLS to whom the cluster allows it.
func metricsOptions(o controllerOptions) (metricsserver.Options, error) {
	options := metricsserver.Options{
		BindAddress:    o.metricsAddress,
		SecureServing:  true,
		FilterProvider: newMetricsFilter,
		// HTTP/2 gives a scraper nothing, and strangers ways to keep the server busy.
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}
	if o.metricsAddress == off {
		return options, nil
	}
	if o.metricsCertDir != "" {
		options.CertDir = o.metricsCertDir // it is read anew when it changes
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

// newMetricsFilter makes the filter before the metrics.
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

// selfSigned makes a certificate that lives as long as the process. It keeps what is read from being
// overheard; whoever wants to know whom they talk to gives one with --metrics-cert-dir.
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

// checkAddress tells what is wrong with an address that a flag gives.
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

// checkCertificate tells what is wrong with the certificate in a directory. It is renewed while
// Fettle runs, but must be there when it starts, since one of our own in its stead would surprise.
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
