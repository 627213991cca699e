package agentsigner

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/fettle-io/fettle/internal/peer"
)

// Times of authorities.
const (
	// rotation is how long an authority is the newest one. The one before is trusted for as long.
	rotation = 7 * 24 * time.Hour
	// spreading is how long agents have to learn of a new authority before it issues certificates.
	spreading = time.Hour
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// authorities are what agents trust.
type authorities struct {
	newest authority
	// created is when the newest was created.
	created time.Time
	// before is the one before, and empty if there is none.
	before authority
}

// begin and end are the dates of all certificates. They hold at whatever time a clock shows.
func begin() time.Time { return time.Unix(0, 0) }
func end() time.Time   { return time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC) }

// serial returns a serial number that no other certificate has.
func serial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}

// newAuthority returns a new authority. Created is for people who look at its certificate.
func newAuthority(created time.Time) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("making a key: %w", err)
	}
	number, err := serial()
	if err != nil {
		return authority{}, err
	}
	template := &x509.Certificate{
		SerialNumber: number, NotBefore: begin(), NotAfter: end(), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		Subject:  pkix.Name{CommonName: "Fettle agents " + created.UTC().Format(time.DateOnly) + " " + number.Text(36)},
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return authority{}, fmt.Errorf("making a certificate of the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return authority{}, fmt.Errorf("reading a new certificate: %w", err)
	}
	return authority{cert, key}, nil
}

// issue returns the text of a certificate.
func (a authority) issue(g grant) ([]byte, error) {
	number, err := serial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: number, NotBefore: begin(), NotAfter: end(), DNSNames: []string{peer.NameOf(g.node)}, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: peer.Usages(),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, g.key, a.key)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// issuer returns the authority that issues certificates now.
func (a authorities) issuer(now time.Time) authority {
	if a.before.cert != nil && now.Before(a.created.Add(spreading)) {
		return a.before
	}
	return a.newest
}

// bundle returns the certificates that agents trust, that of the issuer first.
func (a authorities) bundle(now time.Time) []byte {
	first, second := a.issuer(now), a.newest
	if first.cert.Equal(second.cert) {
		second = a.before
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: first.cert.Raw})
	if second.cert != nil {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: second.cert.Raw})...)
	}
	return text
}

// next returns the authorities from now on, and whether they are others. A creation in the future counts as now: the clock was wrong then, or is
// now.
func (a authorities) next(now time.Time) (authorities, bool, error) {
	switch {
	case a.newest.cert != nil && a.created.After(now):
		a.created = now
		return a, true, nil
	case a.newest.cert != nil && now.Before(a.created.Add(rotation)):
		return a, false, nil
	}
	newest, err := newAuthority(now)
	if err != nil {
		return a, false, err
	}
	return authorities{newest: newest, created: now, before: a.newest}, true, nil
}

// The keys of the Secret with the authorities.
const (
	newestCert = "newest.crt"
	newestKey  = "newest.key"
	beforeCert = "before.crt"
	beforeKey  = "before.key"
	createdKey = "created"
)

var errSecret = errors.New("the Secret of the authorities has something else than Fettle has stored; empty it to have a new authority, which all agents must learn first")

// encode returns the data of the Secret.
func (a authorities) encode() (map[string][]byte, error) {
	data := map[string][]byte{createdKey: []byte(a.created.UTC().Format(time.RFC3339))}
	for _, of := range []struct {
		cert, key string
		is        authority
	}{{newestCert, newestKey, a.newest}, {beforeCert, beforeKey, a.before}} {
		if of.is.cert == nil {
			continue
		}
		key, err := x509.MarshalECPrivateKey(of.is.key)
		if err != nil {
			return nil, fmt.Errorf("encoding the key of an authority: %w", err)
		}
		data[of.cert] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: of.is.cert.Raw})
		data[of.key] = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})
	}
	return data, nil
}

// decode returns the authorities of a Secret. An empty one has none yet.
func decode(data map[string][]byte) (authorities, error) {
	if len(data) == 0 {
		return authorities{}, nil
	}
	created, err := time.Parse(time.RFC3339, string(data[createdKey]))
	if err != nil {
		return authorities{}, errSecret
	}
	a := authorities{created: created}
	if a.newest, err = decodeAuthority(data[newestCert], data[newestKey]); err != nil {
		return authorities{}, err
	}
	if data[beforeCert] != nil {
		if a.before, err = decodeAuthority(data[beforeCert], data[beforeKey]); err != nil {
			return authorities{}, err
		}
	}
	return a, nil
}

// maxStored bounds a text of the Secret.
const maxStored = 4 << 10

// decodeAuthority returns an authority.
func decodeAuthority(certText, keyText []byte) (authority, error) {
	if len(certText) > maxStored || len(keyText) > maxStored {
		return authority{}, errSecret
	}
	certBlock, _ := pem.Decode(certText)
	keyBlock, _ := pem.Decode(keyText)
	if certBlock == nil || keyBlock == nil {
		return authority{}, errSecret
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return authority{}, errSecret
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil || !key.PublicKey.Equal(cert.PublicKey) || !cert.IsCA {
		return authority{}, errSecret
	}
	return authority{cert, key}, nil
}
