package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Identity is what the agent of a node shows to others, and how it knows them.
type Identity struct {
	// Certificate names the node of the agent. It has the private key.
	Certificate tls.Certificate
	// Authorities issue the certificates of agents.
	Authorities *x509.CertPool
}

// Source returns the identity of this agent. An error says that there is none yet. It must not wait for anything.
type Source func() (Identity, error)

// suffix follows the name of a node in the name of its certificate. So no name is an address: nodes may be called like one.
const suffix = ".node.fettle.io"

// NameOf returns the name that the certificate of a node's agent has.
func NameOf(node string) string { return node + suffix }

var errCertificate = errors.New("the certificate is not one of an agent")

// NodeOf returns the node that a certificate of an agent names. It doesn't say who issued the certificate.
func NodeOf(c *x509.Certificate) (string, error) {
	if len(c.IPAddresses)+len(c.EmailAddresses)+len(c.URIs) > 0 || len(c.DNSNames) != 1 {
		return "", errCertificate
	}
	node, is := strings.CutSuffix(c.DNSNames[0], suffix)
	if !is || len(validation.IsDNS1123Subdomain(node)) > 0 || c.IsCA || !slices.Equal(c.ExtKeyUsage, Usages()) || !isKey(c.PublicKey) {
		return "", errCertificate
	}
	return node, nil
}

// Usages returns for what an agent uses its key.
func Usages() []x509.ExtKeyUsage {
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
}

// isKey reports whether a public key is of the only kind that agents use.
func isKey(public any) bool {
	key, is := public.(*ecdsa.PublicKey)
	return is && key.Curve == elliptic.P256()
}

// config returns what both sides of a connection demand.
func (i Identity) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.Certificate}, RootCAs: i.Authorities,
		SessionTicketsDisabled: true, NextProtos: []string{"http/1.1"},
	}
}

// nodeAt returns the node at the other side of a connection. An agent shows one certificate, which an authority has issued itself.
func nodeAt(s *tls.ConnectionState) (string, error) {
	if s == nil || len(s.PeerCertificates) != 1 {
		return "", errCertificate
	}
	return NodeOf(s.PeerCertificates[0])
}

// verify verifies who is at the other side of a connection to a server. Package tls would try each certificate that the other side sends as the
// issuer of the next one. A hundred of them take half a second of a processor.
func (i Identity) verify(s tls.ConnectionState) error {
	if _, err := nodeAt(&s); err != nil {
		return err
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: i.Authorities, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err //nolint:wrapcheck // the other side does not see it
}
