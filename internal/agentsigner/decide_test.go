package agentsigner

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/fettle-io/fettle/internal/peer"
)

type csr = certificatesv1.CertificateSigningRequest

func ecKey(t testing.TB, c elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// text returns the text of a request for node a.
func text(t testing.TB, key crypto.Signer, changes ...func(*x509.CertificateRequest)) []byte {
	t.Helper()
	template := &x509.CertificateRequest{DNSNames: []string{peer.NameOf("a")}}
	for _, change := range changes {
		change(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func request(text []byte) *csr {
	return &csr{Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: SignerName, Username: agentUser, Usages: Usages(), Request: text,
		Extra: map[string]certificatesv1.ExtraValue{nodeClaim: {"a"}},
	}}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	key := ecKey(t, elliptic.P256())
	g, reason := decide(request(text(t, key)))
	if reason != "" || g.node != "a" || !g.key.Equal(key.Public()) {
		t.Errorf("the request of an agent is denied for %s: %+v", reason, g)
	}
	shuffled := request(text(t, key))
	shuffled.Spec.Usages[0], shuffled.Spec.Usages[2] = shuffled.Spec.Usages[2], shuffled.Spec.Usages[0]
	if _, reason := decide(shuffled); reason != "" {
		t.Errorf("other order of usages: %s", reason)
	}
}

// TestDenied: each thing that is not as an agent's is denied for its reason.
func TestDenied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*csr)
		want   Reason
	}{
		"another signer":       {func(r *csr) { r.Spec.SignerName = certificatesv1.KubeletServingSignerName }, NotAnAgent},
		"another user":         {func(r *csr) { r.Spec.Username = "system:serviceaccount:fettle-agents:other" }, NotAnAgent},
		"another namespace":    {func(r *csr) { r.Spec.Username = "system:serviceaccount:other:fettle-agent" }, NotAnAgent},
		"a kubelet":            {func(r *csr) { r.Spec.Username = "system:node:a" }, NotAnAgent},
		"no claim":             {func(r *csr) { r.Spec.Extra = nil }, NoNode},
		"an empty claim":       {func(r *csr) { r.Spec.Extra[nodeClaim] = nil }, NoNode},
		"two claims":           {func(r *csr) { r.Spec.Extra[nodeClaim] = []string{"a", "b"} }, NoNode},
		"no name of a node":    {func(r *csr) { r.Spec.Extra[nodeClaim] = []string{"*"} }, NoNode},
		"another node":         {func(r *csr) { r.Spec.Extra[nodeClaim] = []string{"b"} }, WrongName},
		"a usage too few":      {func(r *csr) { r.Spec.Usages = r.Spec.Usages[:2] }, WrongUsages},
		"a usage too many":     {func(r *csr) { r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageCertSign) }, WrongUsages},
		"a usage twice":        {func(r *csr) { r.Spec.Usages[0] = r.Spec.Usages[1] }, WrongUsages},
		"a duration":           {func(r *csr) { r.Spec.ExpirationSeconds = new(int32(600)) }, WrongUsages},
		"nothing":              {func(r *csr) { r.Spec.Request = nil }, Malformed},
		"a long text":          {func(r *csr) { r.Spec.Request = append(bytes.Repeat([]byte("\n"), maxRequest), r.Spec.Request...) }, Malformed},
		"text behind it":       {func(r *csr) { r.Spec.Request = append(r.Spec.Request, 'x') }, Malformed},
		"a block of something": {func(r *csr) { r.Spec.Request = bytes.ReplaceAll(r.Spec.Request, []byte(" REQUEST"), nil) }, Malformed},
		"no request within": {func(r *csr) {
			r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")})
		}, Malformed},
		"headers": {func(r *csr) {
			block, _ := pem.Decode(r.Spec.Request)
			block.Headers = map[string]string{"a": "b"}
			r.Spec.Request = pem.EncodeToMemory(block)
		}, Malformed},
		"another signature": {func(r *csr) {
			block, _ := pem.Decode(r.Spec.Request)
			block.Bytes[len(block.Bytes)-1] ^= 1
			r.Spec.Request = pem.EncodeToMemory(block)
		}, WrongKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request(text(t, ecKey(t, elliptic.P256())))
			c.change(r)
			denied(t, r, c.want)
		})
	}
}

func denied(t *testing.T, r *csr, want Reason) {
	t.Helper()
	if g, reason := decide(r); reason != want || g != (grant{}) || reason.message() == "" {
		t.Errorf("the reason is %q with %+v, want %s", reason, g, want)
	}
}

// TestTooManySaysHowMany, as the page on self-fencing does.
func TestTooManySaysHowMany(t *testing.T) {
	t.Parallel()
	if got := TooMany.message(); !strings.HasPrefix(got, "the node has got 10 certificates within an hour") {
		t.Errorf("it says %q", got)
	}
}

// TestDeniedRequests: the request within has one name and a key of the right kind, and nothing else.
func TestDeniedRequests(t *testing.T) {
	t.Parallel()
	uri, err := url.Parse("spiffe://a")
	if err != nil {
		t.Fatal(err)
	}
	type template = x509.CertificateRequest
	for name, c := range map[string]struct {
		change func(*template)
		want   Reason
	}{
		"no name":     {func(r *template) { r.DNSNames = nil }, Malformed},
		"two names":   {func(r *template) { r.DNSNames = append(r.DNSNames, peer.NameOf("b")) }, WrongName},
		"a bare name": {func(r *template) { r.DNSNames = []string{"a"} }, WrongName},
		"a wildcard":  {func(r *template) { r.DNSNames = []string{"*.node.fettle.io"} }, WrongName},
		"an address":  {func(r *template) { r.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} }, WrongName},
		"a mailbox":   {func(r *template) { r.EmailAddresses = []string{"a@example.org"} }, WrongName},
		"a URI":       {func(r *template) { r.URIs = []*url.URL{uri} }, WrongName},
		"a subject":   {func(r *template) { r.Subject = pkix.Name{CommonName: "a"} }, Malformed},
		"more extension": {func(r *template) {
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 0}}}
		}, Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			denied(t, request(text(t, ecKey(t, elliptic.P256()), c.change)), c.want)
		})
	}
	t.Run("keys", func(t *testing.T) {
		t.Parallel()
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		denied(t, request(text(t, key)), WrongKey)
		denied(t, request(text(t, ecKey(t, elliptic.P384()))), WrongKey)
	})
}

// FuzzDecide: any request is decided without a panic.
func FuzzDecide(f *testing.F) {
	f.Add(text(f, ecKey(f, elliptic.P256())), "a")
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"), "*")
	f.Fuzz(func(t *testing.T, text []byte, node string) {
		r := request(text)
		r.Spec.Extra[nodeClaim] = []string{node}
		if g, reason := decide(r); (reason == "") != (g.key != nil && g.node == node) {
			t.Errorf("the reason is %q with %+v", reason, g)
		}
	})
}
