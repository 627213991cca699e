package power

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"strings"
)

// maxBundle bounds the certificates of authorities.
const maxBundle = 1 << 20

// Trust is which certificate of a BMC is trusted. Its zero value trusts what the authorities of the operating system have signed.
type Trust struct {
	authorities *x509.CertPool
	fingerprint string
}

// NewTrust returns the trust in what certain authorities have signed, as PEM, or in the one certificate with a SHA-256 fingerprint.
// It returns the zero value if neither is given.
func NewTrust(authorities []byte, fingerprint string) (Trust, error) {
	switch {
	case len(authorities) > 0 && fingerprint != "":
		return Trust{}, ConfigError("both authorities and a fingerprint are given; give one")
	case len(authorities) > maxBundle:
		return Trust{}, ConfigError("the certificates of the authorities are larger than 1 MiB")
	case len(authorities) > 0:
		return trustAuthorities(authorities)
	case fingerprint != "":
		return trustFingerprint(fingerprint)
	}
	return Trust{}, nil
}

// trustAuthorities returns the trust in what authorities have signed.
func trustAuthorities(pem []byte) (Trust, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return Trust{}, ConfigError("the authorities contain no certificate; give PEM")
	}
	return Trust{authorities: pool}, nil
}

// trustFingerprint returns the trust in one certificate.
func trustFingerprint(text string) (Trust, error) {
	plain := strings.ToLower(strings.ReplaceAll(text, ":", ""))
	if raw, err := hex.DecodeString(plain); err != nil || len(raw) != sha256.Size {
		return Trust{}, ConfigError("the fingerprint is not one of SHA-256; give 64 hexadecimal digits, with or without colons")
	}
	return Trust{fingerprint: plain}, nil
}

// certificateError is the error for a certificate that isn't the pinned one.
type certificateError struct{ fingerprint string }

func (certificateError) Error() string { return "the certificate is not the pinned one" }

// config returns how a connection verifies the certificate.
func (t Trust) config(host string) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: t.authorities}
	if t.fingerprint == "" {
		return config
	}
	config.InsecureSkipVerify = true // VerifyConnection compares the fingerprint in its place
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if found := fingerprint(state.PeerCertificates); found != t.fingerprint {
			return certificateError{found}
		}
		return nil
	}
	return config
}

// fingerprint returns the fingerprint of the first certificate, which is that of the server.
func fingerprint(certificates []*x509.Certificate) string {
	if len(certificates) == 0 {
		return ""
	}
	sum := sha256.Sum256(certificates[0].Raw)
	return hex.EncodeToString(sum[:])
}

// untrusted returns the fingerprint of the certificate that an error is about, and whether it is about one.
func untrusted(err error) (string, bool) {
	if pinned, ok := errors.AsType[certificateError](err); ok {
		return pinned.fingerprint, true
	}
	if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fingerprint(invalid.UnverifiedCertificates), true
	}
	return "", false
}
