package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// A sandbox lives on one machine for hours. There is no rotation, so nothing may expire meanwhile.
const lifetime = 10 * 365 * 24 * time.Hour

// Authority signs the certificates of one sandbox. Its files are in one directory.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is the files of a certificate and its key.
type Pair struct {
	CertFile string
	KeyFile  string
}

// Request describes a certificate. With Hosts it is for a server, else for a client.
type Request struct {
	File         string // base name of its two files
	CommonName   string
	Organization string
	Hosts        []string // DNS names and IP addresses
}

// Open reads the authority in dir, or creates one there.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the certificate directory: %w", err)
	}
	a := &Authority{dir: dir}
	pair := a.pair("ca")
	if !exists(pair) {
		if err := a.create(pair); err != nil {
			return nil, fmt.Errorf("creating the certificate authority: %w", err)
		}
	}
	var err error
	if a.cert, err = readCertificate(pair.CertFile); err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	if a.key, err = readKey(pair.KeyFile); err != nil {
		return nil, fmt.Errorf("reading the key of the certificate authority: %w", err)
	}
	return a, nil
}

// CertFile returns the file of the authority's own certificate.
func (a *Authority) CertFile() string { return a.pair("ca").CertFile }

// Issue returns the certificate of that file name, and creates it if it doesn't exist. It returns an existing one
// unchanged.
func (a *Authority) Issue(r Request) (Pair, error) {
	pair := a.pair(r.File)
	if exists(pair) {
		return pair, nil
	}
	template := newTemplate(r.CommonName, r.Organization)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(r.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		addHosts(template, r.Hosts)
	}
	if err := write(pair, template, a.cert, a.key); err != nil {
		return Pair{}, fmt.Errorf("issuing the certificate %s: %w", r.File, err)
	}
	return pair, nil
}

// SigningKey returns the file of a bare key pair, and creates it if it doesn't exist.
func (a *Authority) SigningKey(name string) (string, error) {
	file := filepath.Join(a.dir, name+".key")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	key, err := newKey()
	if err != nil {
		return "", fmt.Errorf("making the key %s: %w", name, err)
	}
	if err := writeKey(file, key); err != nil {
		return "", fmt.Errorf("writing the key %s: %w", name, err)
	}
	return file, nil
}

func (a *Authority) create(pair Pair) error {
	template := newTemplate("fettle-sandbox", "")
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	return write(pair, template, template, nil)
}

func (a *Authority) pair(name string) Pair {
	return Pair{
		CertFile: filepath.Join(a.dir, name+".crt"),
		KeyFile:  filepath.Join(a.dir, name+".key"),
	}
}

// write makes a key and the certificate for it. A nil parentKey makes the certificate sign itself.
func write(pair Pair, template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("drawing a serial number: %w", err)
	}
	template.SerialNumber = serial
	key, err := newKey()
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	if parentKey == nil {
		parentKey = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	// The certificate comes last: a pair counts as created only when both files exist.
	if err := writeKey(pair.KeyFile, key); err != nil {
		return err
	}
	return writeCertificate(pair.CertFile, der)
}

func newTemplate(commonName, organization string) *x509.Certificate {
	now := time.Now()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: commonName},
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(lifetime),
	}
	if organization != "" {
		template.Subject.Organization = []string{organization}
	}
	return template
}

func addHosts(template *x509.Certificate, hosts []string) {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}
