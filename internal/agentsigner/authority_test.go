package agentsigner

import (
	"bytes"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/peer"
)

func day(n int) time.Time { return time.Date(2026, time.March, 1+n, 0, 0, 0, 0, time.UTC) }

// next returns the next authorities, and requires that they are others, or not.
func next(t *testing.T, a authorities, now time.Time, want bool) authorities {
	t.Helper()
	b, changed, err := a.next(now)
	if err != nil || changed != want {
		t.Fatalf("at %s the authorities change: %t, want %t: %v", now, changed, want, err)
	}
	return b
}

// bundled returns the certificates of a bundle.
func bundled(t *testing.T, text []byte) []*x509.Certificate {
	t.Helper()
	var all []*x509.Certificate
	for len(text) > 0 {
		var block *pem.Block
		block, text = pem.Decode(text)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cert)
	}
	return all
}

// TestRotation: a new authority is trusted for an hour before it issues, and the one before for as long as the new one is the newest.
func TestRotation(t *testing.T) {
	t.Parallel()
	one := next(t, authorities{}, day(0), true)
	if all := bundled(t, one.bundle(day(0))); len(all) != 1 || !all[0].Equal(one.newest.cert) || one.issuer(day(0)) != one.newest {
		t.Errorf("the first bundle has %d certificates", len(all))
	}
	next(t, one, day(7).Add(-1), false)
	two := next(t, one, day(7), true)
	if two.before != one.newest || two.newest == one.newest {
		t.Error("the authority before is another one")
	}
	for at, first := range map[time.Time]authority{day(7): one.newest, day(7).Add(time.Hour - 1): one.newest, day(7).Add(time.Hour): two.newest, day(14): two.newest} {
		all := bundled(t, two.bundle(at))
		if len(all) != 2 || !all[0].Equal(first.cert) || all[0].Equal(all[1]) || two.issuer(at) != first {
			t.Errorf("at %s the bundle has %d certificates, and the first is that of the issuer: %t", at, len(all), all[0].Equal(first.cert))
		}
	}
	three := next(t, two, day(14), true)
	if three.before != two.newest {
		t.Error("the oldest authority is trusted still")
	}
	// A clock that was ahead must not keep an authority for ever.
	ahead := next(t, one, day(-30), true)
	if ahead.newest != one.newest || !ahead.created.Equal(day(-30)) {
		t.Errorf("the creation in the future becomes %s", ahead.created)
	}
}

// TestIssue: a certificate holds at any time, for its node, as long as its authority is trusted.
func TestIssue(t *testing.T) {
	t.Parallel()
	a := next(t, authorities{}, day(0), true)
	b := next(t, a, day(7), true)
	key := ecKey(t, elliptic.P256())
	text, err := a.newest.issue(grant{"a", &key.PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	cert := bundled(t, text)[0]
	if node, err := peer.NodeOf(cert); err != nil || node != "a" || !key.PublicKey.Equal(cert.PublicKey) {
		t.Errorf("the certificate is of %q: %v", node, err)
	}
	for _, at := range []time.Time{time.Unix(1, 0), day(0), day(0).AddDate(5000, 0, 0)} {
		for i, of := range []authorities{a, b, next(t, b, day(14), true)} {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(of.bundle(day(7)))
			_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: peer.NameOf("a"), CurrentTime: at, KeyUsages: peer.Usages()})
			if (err == nil) != (i < 2) {
				t.Errorf("at %s with the authorities %d: %v", at, i, err)
			}
		}
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	one := next(t, authorities{}, day(0), true)
	two := next(t, one, day(7), true)
	for _, a := range []authorities{one, two} {
		data, err := a.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(data)
		if err != nil || !got.created.Equal(a.created) || !bytes.Equal(got.bundle(day(7)), a.bundle(day(7))) || !got.newest.key.Equal(a.newest.key) {
			t.Errorf("the Secret is read as %+v: %v", got, err)
		}
		again, _, err := got.next(day(7))
		if err != nil || again.newest.cert == nil {
			t.Error(err)
		}
	}
	good, err := two.encode()
	if err != nil {
		t.Fatal(err)
	}
	other, err := one.encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string][]byte){
		"no creation":      func(d map[string][]byte) { delete(d, createdKey) },
		"no certificate":   func(d map[string][]byte) { delete(d, newestCert) },
		"no key":           func(d map[string][]byte) { delete(d, newestKey) },
		"no key before":    func(d map[string][]byte) { delete(d, beforeKey) },
		"another key":      func(d map[string][]byte) { d[newestKey] = other[newestKey] },
		"another before":   func(d map[string][]byte) { d[beforeCert] = d[newestCert] },
		"long":             func(d map[string][]byte) { d[newestCert] = append(d[newestCert], make([]byte, maxStored)...) },
		"a long key":       func(d map[string][]byte) { d[newestKey] = append(d[newestKey], make([]byte, maxStored)...) },
		"no certificate 2": func(d map[string][]byte) { d[newestCert] = d[newestKey] },
		"no key 2":         func(d map[string][]byte) { d[newestKey] = d[newestCert] },
	} {
		d := map[string][]byte{}
		for k, v := range good {
			d[k] = bytes.Clone(v)
		}
		change(d)
		if a, err := decode(d); err == nil || a.newest.cert != nil {
			t.Errorf("%s: the Secret is read as %+v", name, a)
		}
	}
}
