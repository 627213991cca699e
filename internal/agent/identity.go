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

// papers are the certificate of an agent with its key, and the authorities that it trusts, as texts.
type papers struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	Authorities string `json:"authorities"`
}

// Bounds of papers.
const (
	maxPapers      = 64 << 10
	maxAuthorities = 4
	maxBundle      = 16 << 10
)

var errPapers = errors.New("the certificate is not one of this agent, or no authority that agents trust has issued it")

// identity returns what the papers of a node's agent say, with the authority that new certificates are of.
func (p papers) identity(node string) (peer.Identity, *x509.Certificate, error) {
	all, err := authoritiesOf(p.Authorities)
	if err != nil {
		return peer.Identity{}, nil, err
	}
	pair, err := tls.X509KeyPair([]byte(p.Certificate), []byte(p.Key))
	if err != nil {
		return peer.Identity{}, nil, errPapers
	}
	if key, is := pair.PrivateKey.(*ecdsa.PrivateKey); !is || !key.PublicKey.Equal(pair.Leaf.PublicKey) || len(pair.Certificate) != 1 {
		return peer.Identity{}, nil, errPapers
	}
	pool := x509.NewCertPool()
	for _, a := range all {
		pool.AddCert(a)
	}
	if of, err := peer.NodeOf(pair.Leaf); err != nil || of != node || !issued(pair.Leaf, pool) {
		return peer.Identity{}, nil, errPapers
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

// papersFile is the name of the file with the papers.
const papersFile = "identity.json"

// loadPapers returns the stored papers, which are empty if there are none.
func (d Directory) loadPapers() (papers, error) {
	text, err := d.read(papersFile, maxPapers)
	if errors.Is(err, fs.ErrNotExist) {
		return papers{}, nil
	}
	if err != nil {
		return papers{}, err
	}
	var p papers
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&p) != nil {
		return papers{}, errPapers
	}
	return p, nil
}

// savePapers replaces the stored papers.
func (d Directory) savePapers(p papers) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encoding the certificate: %w", err)
	}
	return d.replace(papersFile, text)
}
