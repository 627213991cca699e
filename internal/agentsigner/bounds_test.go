package agentsigner

import (
	"bytes"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// TestALongRequest: a text of as many bytes as a request may have is read, and none that is longer.
func TestALongRequest(t *testing.T) {
	t.Parallel()
	short := text(t, ecKey(t, elliptic.P256()))
	for more, want := range map[int]Reason{0: "", 1: Malformed} {
		long := append(bytes.Repeat([]byte("\n"), maxRequest-len(short)+more), short...)
		if _, reason := decide(request(long)); reason != want {
			t.Errorf("with %d bytes the reason is %q, want %q", len(long), reason, want)
		}
	}
}

// TestALongSecret: the same is true of each text of the Secret.
func TestALongSecret(t *testing.T) {
	t.Parallel()
	good, err := next(t, authorities{}, day(0), true).encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{newestCert, newestKey} {
		for more, fits := range map[int]bool{0: true, 1: false} {
			data := map[string][]byte{createdKey: good[createdKey], newestCert: good[newestCert], newestKey: good[newestKey]}
			data[key] = append(bytes.Repeat([]byte("\n"), maxStored-len(good[key])+more), good[key]...)
			if _, err := decode(data); (err == nil) != fits {
				t.Errorf("%s of %d bytes: %v", key, len(data[key]), err)
			}
		}
	}
}

// TestACertificateOfAnAgentIsNoAuthority, though its key is there.
func TestACertificateOfAnAgentIsNoAuthority(t *testing.T) {
	t.Parallel()
	key := ecKey(t, elliptic.P256())
	cert, err := next(t, authorities{}, day(0), true).newest.issue(grant{"a", &key.PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeAuthority(cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})); !errors.Is(err, errSecret) {
		t.Errorf("it is taken for an authority: %v", err)
	}
}

// TestCertificatesHoldFromTheFirstSecond that a clock can show.
func TestCertificatesHoldFromTheFirstSecond(t *testing.T) {
	t.Parallel()
	cert := next(t, authorities{}, day(0), true).newest.cert
	if !cert.NotBefore.Equal(time.Unix(0, 0)) || !cert.NotAfter.Equal(time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)) {
		t.Errorf("it holds from %v to %v", cert.NotBefore, cert.NotAfter)
	}
}

// TestRequestsAreLookedAtAgain when they change. A pause after a failure is as short as the first once a request was answered.
func TestRequestsAreLookedAtAgain(t *testing.T) {
	signs(t, func() *signer { return newSigner(t, named(t, "b"), named(t, "c")) }, func(w *signer) {
		informer := w.informers.Of("CertificateSigningRequest")
		informer.Show(named(t, "a")) // it is not there yet
		synctest.Wait()
		if err := w.api.Create(t.Context(), named(t, "a")); err != nil {
			t.Fatal(err)
		}
		w.sees(t, "a")
		if len(get(t, w, "", "a", &csr{}).Status.Certificate) == 0 {
			t.Error("a request that has changed is not looked at")
		}
		for range 2 {
			var failures atomic.Int32
			w.refuses(func(verb string, o runtime.Object) error {
				if _, is := o.(*csr); is && verb == "get" {
					failures.Add(1)
					return errDown
				}
				return nil
			})
			informer.Show(named(t, "b"))
			<-time.After(retryFirst - 1)
			synctest.Wait()
			if failures.Load() != 1 {
				t.Errorf("at first it fails %d times", failures.Load())
			}
			<-time.After(retryFirst)
			synctest.Wait()
			if failures.Load() != 2 {
				t.Errorf("after the first pause it has failed %d times", failures.Load())
			}
			w.refuses(nil)
			<-time.After(retryMost)
			synctest.Wait()
		}
	})
}
