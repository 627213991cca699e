package etcdmembers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const certificateLifetime = 24 * time.Hour

// identityOf returns the TLS configuration of a member. Its certificate is of the cluster's etcd authority, whose
// secret the control plane has made. It requires a client certificate, too.
func (s *Members) identityOf(ctx context.Context, at net.Addr) (*tls.Config, error) {
	to, ok := at.(address)
	if !ok {
		return nil, errors.New("the connection reached no member")
	}
	authority := &corev1.Secret{}
	key := client.ObjectKey{Namespace: to.cluster.Namespace, Name: secret.Name(to.cluster.Name, secret.EtcdCA)}
	if err := s.cfg.Reader.Get(ctx, key, authority); err != nil {
		return nil, fmt.Errorf("reading the etcd authority of cluster %s: %w", to.cluster, err)
	}
	pair, err := tls.X509KeyPair(authority.Data[secret.TLSCrtDataName], authority.Data[secret.TLSKeyDataName])
	if err != nil {
		return nil, fmt.Errorf("reading the etcd authority of cluster %s: %w", to.cluster, err)
	}
	certificate, err := issue(pair, to.node, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, fmt.Errorf("issuing the certificate of etcd member %s: %w", to.node, err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(pair.Leaf)
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2"},
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
	}, nil
}

// issue makes a certificate for one use.
func issue(authority tls.Certificate, name string, use x509.ExtKeyUsage) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(certificateLifetime),
		DNSNames:     []string{name},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{use},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("signing: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
