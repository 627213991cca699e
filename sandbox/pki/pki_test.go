package pki

import (
	"crypto/x509"
	"os"
	"testing"
)

func TestCertificatesAreMadeOnceAndStayValid(t *testing.T) {
	dir := t.TempDir()
	server := Request{File: "server", CommonName: "server", Hosts: []string{"127.0.0.1", "localhost"}}
	client := Request{File: "client", CommonName: "someone", Organization: "somewhere"}
	first := issue(t, dir, server, client)
	second := issue(t, dir, server, client)
	for i := range first {
		if !first[i].Equal(second[i]) {
			t.Errorf("certificate %d is another one after a restart", i)
		}
	}
	authority, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority.cert)
	if _, err := first[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}); err != nil {
		t.Errorf("the server's certificate is not good: %v", err)
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := first[1].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: usage}); err != nil {
		t.Errorf("the client's certificate is not good: %v", err)
	}
	if who := first[1].Subject; who.CommonName != "someone" || who.Organization[0] != "somewhere" {
		t.Errorf("the client is %v", who)
	}
}

func issue(t *testing.T, dir string, requests ...Request) []*x509.Certificate {
	t.Helper()
	authority, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var certificates []*x509.Certificate
	for _, request := range requests {
		pair, err := authority.Issue(request)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(pair.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("others may read %s", pair.KeyFile)
		}
		certificate, err := readCertificate(pair.CertFile)
		if err != nil {
			t.Fatal(err)
		}
		certificates = append(certificates, certificate)
	}
	return certificates
}
