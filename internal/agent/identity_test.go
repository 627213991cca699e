package agent_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/peer"
)

// certify returns the text of the certificate of a key, and that of the key.
func (k signingKey) certify(t *testing.T, key crypto.Signer, node string) (certificate, private string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{peer.NameOf(node)}, NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: peer.Usages(),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, k.cert, key.Public(), k.key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return textOf("CERTIFICATE", der), textOf("PRIVATE KEY", text)
}

func textOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// TestStoredIdentity: credentials count only if they are those of this agent, and no longer than it writes them.
func TestStoredIdentity(t *testing.T) {
	t.Parallel()
	by, key := newSigningKey(t, "one"), newSigningKey(t, "key").key
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	certificate, private := by.certify(t, key, "n")
	ofOther, _ := by.certify(t, key, "other")
	rsaCertificate, rsaPrivate := by.certify(t, other, "n")
	authorities := textOf("CERTIFICATE", by.cert.Raw)
	for name, c := range map[string]struct {
		certificate, key, authorities string
		length                        int
		counts                        bool
	}{
		"as it is":          {certificate, private, authorities, 0, true},
		"two certificates":  {certificate + certificate, private, authorities, 0, false},
		"of another node":   {ofOther, private, authorities, 0, false},
		"of another kind":   {rsaCertificate, rsaPrivate, authorities, 0, false},
		"another key":       {certificate, rsaPrivate, authorities, 0, false},
		"no authorities":    {certificate, private, "", 0, false},
		"other authorities": {certificate, private, textOf("CERTIFICATE", newSigningKey(t, "two").cert.Raw), 0, false},
		"the longest":       {certificate, private, authorities, 64 << 10, true},
		"too long":          {certificate, private, authorities, 64<<10 + 1, false},
	} {
		text, err := json.Marshal(map[string]string{"certificate": c.certificate, "key": c.key, "authorities": c.authorities})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "identity.json"), append(text, strings.Repeat(" ", max(0, c.length-len(text)))...), 0o600); err != nil {
			t.Fatal(err)
		}
		told := 0
		h := agent.NewCertificates(nil, "n", agent.Directory(dir), nil, func(agent.Note) { told++ })
		if _, err := h.Identity(); (err == nil) != c.counts || (told == 0) != c.counts {
			t.Errorf("%s: the certificate counts: %v, and people were told %d times", name, err, told)
		}
	}
}

// TestAuthorities: an agent trusts up to four authorities, in a text of up to 16 KiB. Anything else in it makes it unreadable.
func TestAuthorities(t *testing.T) {
	t.Parallel()
	authority := newSigningKey(t, "one").cert.Raw
	one := textOf("CERTIFICATE", authority)
	leaf, _ := newSigningKey(t, "two").certify(t, newSigningKey(t, "key").key, "n")
	for name, c := range map[string]struct {
		text  string
		reads bool
	}{
		"one":              {one, true},
		"four":             {strings.Repeat(one, 4), true},
		"five":             {strings.Repeat(one, 5), false},
		"none":             {"", false},
		"no authority":     {one + leaf, false},
		"of another kind":  {one + textOf("PUBLIC KEY", authority), false},
		"another block":    {one + textOf("PUBLIC KEY", []byte("x")), false},
		"no certificate":   {one + textOf("CERTIFICATE", []byte("x")), false},
		"text behind them": {one + "x", false},
		"the longest":      {strings.Repeat("\n", 16<<10-len(one)) + one, true},
		"too long":         {strings.Repeat("\n", 16<<10-len(one)+1) + one, false},
	} {
		s := newSigner(t)
		s.text = &c.text
		h := s.holder(t.TempDir())
		if err := h.looks(1); (err == nil) != c.reads || (len(s.requests) == 1) != c.reads {
			t.Errorf("%s: after %d requests: %v", name, len(s.requests), err)
		}
	}
}

// TestPausesOfACertificate: how soon what a certificate depends on is read again, after each result.
func TestPausesOfACertificate(t *testing.T) {
	t.Parallel()
	const soon, again, every = 2 * time.Second, 30 * time.Second, 5 * time.Minute
	s := newSigner(t)
	dir := filepath.Join(t.TempDir(), "run")
	h := s.holder(dir)
	unanswered := func(*certificatesv1.CertificateSigningRequest) {}
	for _, step := range []struct {
		what   string
		do     func()
		want   time.Duration
		fails  bool
		issuer string
	}{
		{"no answer", func() { s.down = true }, again, true, ""},
		{"a request is refused", func() { s.down, s.refuses = false, true }, again, true, ""},
		{"a request is sent", func() { s.refuses, s.answer = false, unanswered }, soon, false, ""},
		{"it has waited for the longest", func() { h.now += again }, again, true, ""},
		{"the answer can't be read", func() { s.unread = true }, again, true, ""},
		{"the request is gone", func() { s.unread = false; clear(s.requests) }, again, false, ""},
		{"a request is sent again", func() {}, soon, false, ""},
		{"it can't be stored", func() { s.answer = func(r *certificatesv1.CertificateSigningRequest) { s.issue(r, "n") } }, again, true, "one"},
		{"it is there", func() {}, every, false, "one"},
		{"the authorities are others", func() {
			s.authorities = []signingKey{newSigningKey(t, "two")}
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}, soon, false, "one"},
		{"it is false", func() { s.answer = func(r *certificatesv1.CertificateSigningRequest) { s.issue(r, "other") } }, again, true, "one"},
		{"another request is sent", func() {}, soon, false, "one"},
		{"it is too long", func() {
			s.answer = func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = make([]byte, 16<<10+1) }
		}, every, true, "one"},
		{"yet another one", func() {}, soon, false, "one"},
		{"it is as long as it may be", func() {
			s.answer = func(r *certificatesv1.CertificateSigningRequest) {
				s.issue(r, "n")
				r.Status.Certificate = append(r.Status.Certificate, strings.Repeat("\n", 16<<10-len(r.Status.Certificate))...)
			}
		}, every, false, "two"},
	} {
		step.do()
		if pause, err := h.Refresh(t.Context()); pause != step.want || (err != nil) != step.fails || h.issuer() != step.issuer {
			t.Errorf("%s: the pause is %s, want %s, and the certificate is of %q: %v", step.what, pause, step.want, h.issuer(), err)
		}
	}
}

// TestCurve: an agent uses a key on P-256, as Fettle demands.
func TestCurve(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	h := s.holder(t.TempDir())
	if err := h.looks(2); err != nil {
		t.Fatal(err)
	}
	i, err := h.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if key, is := i.Certificate.PrivateKey.(*ecdsa.PrivateKey); !is || key.Curve != elliptic.P256() {
		t.Errorf("the key is %T", i.Certificate.PrivateKey)
	}
}
