package agent

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"

	"github.com/fettle-io/fettle/internal/peer"
)

// credentials are the certificate of an agent with its key, and the authorities that it trusts, as texts.
type credentials struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	Authorities string `json:"authorities"`
}

// Bounds of credentials.
const (
	maxCredentials = 64 << 10
	maxAuthorities = 4
	maxBundle      = 16 << 10
)

var errCredentials = errors.New("the certificate is not one of this agent, or no authority that agents trust has issued it")

// identity returns the identity in the credentials of a node's agent, with the authority that new certificates are of.
func (c credentials) identity(node string) (peer.Identity, *x509.Certificate, error) {
	all, err := authoritiesOf(c.Authorities)
	if err != nil {
		return peer.Identity{}, nil, err
	}
	pair, err := tls.X509KeyPair([]byte(c.Certificate), []byte(c.Key))
	if err != nil {
		return peer.Identity{}, nil, errCredentials
	}
	if key, is := pair.PrivateKey.(*ecdsa.PrivateKey); !is || !key.PublicKey.Equal(pair.Leaf.PublicKey) || len(pair.Certificate) != 1 {
		return peer.Identity{}, nil, errCredentials
	}
	pool := x509.NewCertPool()
	for _, a := range all {
		pool.AddCert(a)
	}
	if of, err := peer.NodeOf(pair.Leaf); err != nil || of != node || !issued(pair.Leaf, pool) {
		return peer.Identity{}, nil, errCredentials
	}
	return peer.Identity{Certificate: pair, Authorities: pool}, all[0], nil
}

// issued reports whether one of some authorities has issued a certificate. The time does not matter.
func issued(c *x509.Certificate, by *x509.CertPool) bool {
	_, err := c.Verify(x509.VerifyOptions{Roots: by, CurrentTime: c.NotBefore, KeyUsages: peer.Usages()})
	return err == nil
}

// issuedBy reports whether an authority has issued the certificate of an identity.
func issuedBy(i peer.Identity, authority *x509.Certificate) bool {
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	return issued(i.Certificate.Leaf, pool)
}

var errAuthorities = errors.New("the authorities of agents can't be read")

// authoritiesOf returns the certificates of a text, of which there is at least one.
func authoritiesOf(text string) ([]*x509.Certificate, error) {
	if len(text) > maxBundle {
		return nil, errAuthorities
	}
	var all []*x509.Certificate
	for rest := []byte(text); len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" || len(all) == maxAuthorities {
			return nil, errAuthorities
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !cert.IsCA {
			return nil, errAuthorities
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, errAuthorities
	}
	return all, nil
}

// credentialsFile is the name of the file with the credentials.
const credentialsFile = "identity.json"

// loadCredentials returns the stored credentials, which are empty if there are none.
func (d Directory) loadCredentials() (credentials, error) {
	text, err := d.read(credentialsFile, maxCredentials)
	if errors.Is(err, fs.ErrNotExist) {
		return credentials{}, nil
	}
	if err != nil {
		return credentials{}, err
	}
	var c credentials
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&c) != nil {
		return credentials{}, errCredentials
	}
	return c, nil
}

// saveCredentials replaces the stored credentials.
func (d Directory) saveCredentials(c credentials) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding the certificate: %w", err)
	}
	return d.replace(credentialsFile, text)
}
