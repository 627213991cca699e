package agent_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/peer"
)

// signer is a stand-in for the API server and for Fettle's signer.
type signer struct {
	t *testing.T
	*agent.Server

	authorities []signingKey
	requests    map[string]*certificatesv1.CertificateSigningRequest
	// answer is called for a request that is read.
	answer func(*certificatesv1.CertificateSigningRequest)
	// down is set while it gives no good answer, refuses while it takes no requests, and unread while none can be read. Text replaces that of the
	// authorities if it is set.
	down, refuses, unread bool
	text                  *string
}

type signingKey struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newSigningKey(t *testing.T, name string) signingKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signingKey{cert, key}
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	s := &signer{t: t, authorities: []signingKey{newSigningKey(t, "one")}, requests: map[string]*certificatesv1.CertificateSigningRequest{}}
	s.answer = func(r *certificatesv1.CertificateSigningRequest) { s.issue(r, "n") }
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	var err error
	if s.Server, err = agent.NewServer(&rest.Config{Host: server.URL}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *signer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	name, isRequest := strings.CutPrefix(r.URL.Path, "/apis/certificates.k8s.io/v1/certificatesigningrequests")
	name = strings.TrimPrefix(name, "/")
	var answer any
	switch {
	case s.down, s.refuses && r.Method == http.MethodPost, s.unread && isRequest:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Method == http.MethodPost && isRequest:
		c := &certificatesv1.CertificateSigningRequest{}
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields() // the API server drops these
		if err := decoder.Decode(c); err != nil {
			s.t.Error(err)
		}
		usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth}
		if c.GroupVersionKind().String() != "certificates.k8s.io/v1, Kind=CertificateSigningRequest" || !slices.Equal(c.Spec.Usages, usages) {
			s.t.Errorf("the agent requests %+v", c)
		}
		s.requests[c.Name] = c
		answer = c
	case isRequest && s.requests[name] != nil:
		s.answer(s.requests[name])
		answer = s.requests[name]
	case r.URL.Path == "/api/v1/namespaces/fettle-agents/configmaps/fettle-agent-authorities":
		var text strings.Builder
		for _, a := range s.authorities {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
		}
		if s.text != nil {
			text.Reset()
			text.WriteString(*s.text)
		}
		answer = corev1.ConfigMap{Data: map[string]string{"authorities.pem": text.String()}}
	default:
		w.WriteHeader(http.StatusNotFound)
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404}
	}
	_ = json.NewEncoder(w).Encode(answer) //nolint:errchkjson // the client notices
}

// issue issues a certificate for a node by the first authority.
func (s *signer) issue(r *certificatesv1.CertificateSigningRequest, node string) {
	block, _ := pem.Decode(r.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || request.CheckSignature() != nil || len(request.DNSNames) != 1 || request.DNSNames[0] != peer.NameOf("n") {
		s.t.Errorf("the request is %+v: %v", request, err)
	}
	if r.Spec.SignerName != "fettle.io/agent" || len(r.Spec.Usages) != 3 || !strings.HasPrefix(r.Name, "fettle-agent-") {
		s.t.Errorf("the request is %+v", r)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{peer.NameOf(node)}, NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: peer.Usages(),
	}
	by := s.authorities[0]
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, request.PublicKey, by.key)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// holder has the certificates of an agent, with a clock.
type holder struct {
	*agent.Certificates

	t     *testing.T
	now   time.Duration
	notes []agent.Reason
}

func (s *signer) holder(dir string) *holder {
	h := &holder{t: s.t}
	h.Certificates = agent.NewCertificates(s.Server, "n", agent.Directory(dir), func() time.Duration { return h.now }, func(n agent.Note) { h.notes = append(h.notes, n.Reason) })
	return h
}

// looks reviews the certificate some times.
func (h *holder) looks(times int) error {
	h.t.Helper()
	var err error
	for range times {
		_, err = h.Refresh(h.t.Context())
	}
	return err
}

// issuer returns the name of the authority of the certificate, or nothing.
func (h *holder) issuer() string {
	i, err := h.Identity()
	if err != nil {
		return ""
	}
	return i.Certificate.Leaf.Issuer.CommonName
}

// TestCertificate: an agent gets a certificate, and has it after a restart, also without the API server.
func TestCertificate(t *testing.T) {
	t.Parallel()
	s, dir := newSigner(t), t.TempDir()
	h := s.holder(dir)
	if h.issuer() != "" {
		t.Error("there is a certificate at first")
	}
	if err := h.looks(2); err != nil || h.issuer() != "one" {
		t.Errorf("the certificate is of %q: %v", h.issuer(), err)
	}
	h.now = agent.RenewWithin
	_ = h.looks(1)
	h.now += agent.RenewWithin
	if err := h.looks(3); err != nil || len(s.requests) != 1 {
		t.Errorf("the agent has sent %d requests: %v", len(s.requests), err)
	}
	s.down = true
	again := s.holder(dir)
	if again.issuer() != "one" || len(again.notes) > 0 {
		t.Errorf("after a restart the certificate is of %q, and people are told %v", again.issuer(), again.notes)
	}
	if err := again.looks(1); err == nil || !strings.Contains(err.Error(), "reading the authorities") || again.issuer() != "one" {
		t.Errorf("without the API server the certificate is of %q: %v", again.issuer(), err)
	}
	info, err := os.Stat(filepath.Join(dir, "identity.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is stored with the mode %s: %v", info.Mode(), err)
	}
}

// TestNewAuthority: an agent trusts a new authority at once, and requests a certificate of it at its own moment. If no authority is left that has
// issued its certificate, it requests one at once.
func TestNewAuthority(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	h := s.holder(t.TempDir())
	_ = h.looks(2)
	one, two := s.authorities[0], newSigningKey(t, "two")
	s.authorities = []signingKey{one, two}
	if err := h.looks(3); err != nil || h.issuer() != "one" || len(s.requests) != 1 {
		t.Errorf("a second authority: the certificate is of %q after %d requests: %v", h.issuer(), len(s.requests), err)
	}
	i, err := h.Identity()
	if pool := i.Authorities; err != nil || len(pool.Subjects()) != 2 { //nolint:staticcheck // not a pool of the system
		t.Errorf("the agent trusts %d authorities: %v", len(pool.Subjects()), err) //nolint:staticcheck // the same
	}
	s.authorities = []signingKey{two, one}
	if err := h.looks(3); err != nil || h.issuer() != "one" || len(s.requests) != 1 {
		t.Errorf("another issuer: the certificate is of %q after %d requests: %v", h.issuer(), len(s.requests), err)
	}
	h.now += agent.RenewWithin
	if err := h.looks(2); err != nil || h.issuer() != "two" {
		t.Errorf("after an hour the certificate is of %q: %v", h.issuer(), err)
	}
	s.authorities = []signingKey{newSigningKey(t, "three")}
	if err := h.looks(1); err != nil || h.issuer() != "two" {
		t.Errorf("all authorities are others: the certificate is of %q: %v", h.issuer(), err)
	}
	if err := h.looks(1); err != nil || h.issuer() != "three" {
		t.Errorf("all authorities are others, and have answered: the certificate is of %q: %v", h.issuer(), err)
	}
}

// TestMomentOfANode: a certificate is replaced from that moment on after its authority is not the first any more, each time anew.
func TestMomentOfANode(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	h := s.holder(t.TempDir())
	_ = h.looks(2)
	for i, name := range []string{"two", "three"} {
		before := s.authorities[0]
		s.authorities = []signingKey{newSigningKey(t, name), before}
		_ = h.looks(1)
		h.now += agent.Spread("n") - 1
		if err := h.looks(2); err != nil || len(s.requests) != i+1 {
			t.Errorf("before its moment, the agent has sent %d requests: %v", len(s.requests), err)
		}
		h.now++
		if err := h.looks(2); err != nil || len(s.requests) != i+2 || h.issuer() != name {
			t.Errorf("at its moment, the agent has sent %d requests, and its certificate is of %s: %v", len(s.requests), h.issuer(), err)
		}
		_ = h.looks(1)
	}
}

// TestPausesAfterFailures: the agent looks again after 30s, and says what has failed.
func TestPausesAfterFailures(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	h := s.holder(t.TempDir())
	_ = h.looks(1)
	s.unread = true
	if pause, err := h.Refresh(t.Context()); pause != 30*time.Second || err == nil || !strings.Contains(err.Error(), "reading the request") {
		t.Errorf("a request that can't be read: the pause is %s: %v", pause, err)
	}
	s.unread, s.text = false, new(string)
	if pause, err := h.Refresh(t.Context()); pause != 30*time.Second || err == nil {
		t.Errorf("no authority: the pause is %s: %v", pause, err)
	}
	s.text = nil
	other := agent.NewCertificates(s.Server, "\u00e9", agent.Directory(t.TempDir()), func() time.Duration { return 0 }, func(agent.Note) {})
	if _, err := other.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "making a request") || len(s.requests) != 1 {
		t.Errorf("a name that no certificate has: there are %d requests: %v", len(s.requests), err)
	}
}

// TestUnanswered: an agent sends one request, however long it gets no answer, and another one if that is gone.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	s.answer = func(*certificatesv1.CertificateSigningRequest) {}
	h := s.holder(t.TempDir())
	var pauses []time.Duration
	var err error
	for range 8 {
		var pause time.Duration
		pause, err = h.Refresh(t.Context())
		h.now += pause
		pauses = append(pauses, pause/time.Second)
	}
	if err == nil || len(s.requests) != 1 {
		t.Errorf("the agent has sent %d requests: %v", len(s.requests), err)
	}
	if want := []time.Duration{2, 2, 4, 8, 16, 30, 30, 30}; !equal(pauses, want) {
		t.Errorf("the pauses are %d, want %d", pauses, want)
	}
	clear(s.requests)
	_ = h.looks(2)
	if len(s.requests) != 1 {
		t.Errorf("the agent has sent %d requests anew", len(s.requests))
	}
}

func equal(a, b []time.Duration) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// TestDenied: an agent whose request is denied says why, and sends another after an hour.
func TestDenied(t *testing.T) {
	t.Parallel()
	for _, condition := range []certificatesv1.RequestConditionType{certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		t.Run(string(condition), func(t *testing.T) {
			t.Parallel()
			isDenied(t, condition)
		})
	}
}

// isDenied has a request denied by a condition.
func isDenied(t *testing.T, condition certificatesv1.RequestConditionType) {
	t.Helper()
	s := newSigner(t)
	s.answer = func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: condition, Reason: "WrongName", Message: "no"}}
	}
	h := s.holder(t.TempDir())
	_ = h.looks(1)
	if pause, err := h.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "WrongName") || pause != 5*time.Minute {
		t.Errorf("the pause is %s, and the error is %v", pause, err)
	}
	for range 2 {
		h.now += time.Second
		if pause, err := h.Refresh(t.Context()); err == nil || pause != 5*time.Minute {
			t.Errorf("the pause is %s: %v", pause, err)
		}
	}
	h.now += time.Hour - 2*time.Second - 1
	if err := h.looks(2); err == nil || len(s.requests) != 1 {
		t.Errorf("the agent has sent %d requests: %v", len(s.requests), err)
	}
	h.now++
	if _ = h.looks(1); len(s.requests) != 2 {
		t.Errorf("the agent has sent %d requests after an hour", len(s.requests))
	}
}

// TestFalseCertificates: an agent uses no certificate that is not its own.
func TestFalseCertificates(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*signer, *certificatesv1.CertificateSigningRequest){
		"of another node": func(s *signer, r *certificatesv1.CertificateSigningRequest) { s.issue(r, "other") },
		"of another authority": func(s *signer, r *certificatesv1.CertificateSigningRequest) {
			before := s.authorities
			s.authorities = []signingKey{newSigningKey(s.t, "other")}
			s.issue(r, "n")
			s.authorities = before
		},
		"nonsense": func(_ *signer, r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = []byte("x") },
		"a long one": func(s *signer, r *certificatesv1.CertificateSigningRequest) {
			s.issue(r, "n")
			r.Status.Certificate = append(r.Status.Certificate, make([]byte, 17<<10)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSigner(t)
			s.answer = func(r *certificatesv1.CertificateSigningRequest) { answer(s, r) }
			h := s.holder(t.TempDir())
			if err := h.looks(2); err == nil || h.issuer() != "" {
				t.Errorf("the certificate is of %q: %v", h.issuer(), err)
			}
		})
	}
}

// TestStoredCertificates: credentials that were damaged are not used, and replaced.
func TestStoredCertificates(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"nothing": "", "nonsense": "x", "others": `{"a":1}`, "empty ones": `{"certificate":"x"}`, "long ones": `{"key":"` + strings.Repeat("x", 64<<10) + `"}`} {
		s, dir := newSigner(t), t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "identity.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h := s.holder(dir)
		if h.issuer() != "" || len(h.notes) != 1 || h.notes[0] != agent.NoCertificate {
			t.Errorf("%s: the certificate is of %q, and people are told %v", name, h.issuer(), h.notes)
		}
		if err := h.looks(2); err != nil || h.issuer() != "one" {
			t.Errorf("%s: the certificate is of %q: %v", name, h.issuer(), err)
		}
	}
}
