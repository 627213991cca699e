package integration

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"

	"github.com/fettle-io/fettle/test/cluster"
)

// scraper reads the metrics of one Fettle.
type scraper struct {
	*machineFixture

	url, token string
}

// scrape returns the series of Fettle, and those of today's controller.
func (s *scraper) scrape() (map[string]float64, error) {
	s.t.Helper()
	answer, err := cluster.Get(s.t, s.url, s.token, nil)
	if err != nil {
		return nil, err
	}
	if answer.Status != http.StatusOK {
		return nil, fmt.Errorf("answered %d: %s", answer.Status, answer.Body)
	}
	series := cluster.Series(s.t, answer.Body)
	maps.DeleteFunc(series, func(name string, _ float64) bool {
		return !strings.HasPrefix(name, "fettle_") && !strings.HasPrefix(name, "mapi_")
	})
	return series, nil
}

// wantSeries waits until series have their values, and no series has one of the texts in its name.
func (s *scraper) wantSeries(sentence string, want map[string]float64, never ...string) {
	s.t.Helper()
	s.Eventually(s.t, sentence, func(context.Context) error {
		have, err := s.scrape()
		if err != nil {
			return err
		}
		for name, value := range want {
			if got, there := have[name]; !there || got != value {
				return fmt.Errorf("%s is %g (there: %t), want %g; all: %s", name, got, there, value, strings.Join(slices.Sorted(maps.Keys(have)), "\n"))
			}
		}
		for name := range have {
			for _, text := range never {
				if strings.Contains(name, text) {
					return fmt.Errorf("%s is still there", name)
				}
			}
		}
		return nil
	})
}

// TestMetrics follows one repair through the metrics, and its health check until that is gone.
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	address := cluster.FreeAddress(t)
	c.StartFettle(t, "--metrics-bind-address="+address)
	f := newMachineFixture(t, c, "metrics")
	s := &scraper{machineFixture: f, url: "https://" + address + "/metrics", token: c.MetricsReader(t)}
	f.healthCheck("example", nil, readyCheck("maxUnhealthy: 50%"))
	f.machine("a", machineOptions{finalizer: true})
	f.machine("b", machineOptions{})
	policy := func(name string) string {
		return "fettle_" + name + `{namespace="metrics",policy="example"}`
	}
	s.wantSeries("all is well", map[string]float64{
		`fettle_verdicts{health="healthy",kind="MachineHealthCheck",namespace="metrics",policy="example",reason="Healthy"}`: 2,
		"fettle_leader": 1, policy("policy_permitted"): 1, policy("policy_invalid"): 0, policy("policy_paused"): 0, policy("repairs_running"): 0,
		`fettle_repairs_started_total{namespace="metrics",policy="example",remedy="DeleteMachine"}`: 0,
		"fettle_detect_seconds_count": 0, "fettle_decide_seconds_count": 0, "fettle_queue_seconds_count": 0, "fettle_act_seconds_count": 0,
		`mapi_machinehealthcheck_nodes_covered{name="example",namespace="metrics"}`:             2,
		`mapi_machinehealthcheck_short_circuit{name="example",namespace="metrics"}`:             0,
		`mapi_machinehealthcheck_remediation_success_total{name="example",namespace="metrics"}`: 0,
	}, "fettle_refusals", "error")

	f.setReady("a", corev1.ConditionFalse)
	f.wantMachines("-a", "b")
	s.wantSeries("a is under repair", map[string]float64{
		policy("repairs_running"): 1,
		`fettle_verdicts{health="gone",kind="MachineHealthCheck",namespace="metrics",policy="example",reason="UnhealthyCondition"}`: 1,
		`fettle_repairs_started_total{namespace="metrics",policy="example",remedy="DeleteMachine"}`:                                 1,
		`fettle_remedy_refusals_total{namespace="metrics",policy="example",remedy="DeleteMachine"}`:                                 0,
		"fettle_detect_seconds_count": 1, "fettle_decide_seconds_count": 1, "fettle_queue_seconds_count": 1, "fettle_act_seconds_count": 1,
		`mapi_machinehealthcheck_remediation_success_total{name="example",namespace="metrics"}`: 1,
	}, `health="suspect"`, "fettle_recover")

	f.setReady("b", corev1.ConditionFalse)
	s.wantSeries("b is too much", map[string]float64{
		policy("policy_permitted"): 0,
		`fettle_refusals{gate="TooManyUnhealthy",namespace="metrics",policy="example"}`: 1,
		`mapi_machinehealthcheck_short_circuit{name="example",namespace="metrics"}`:     1,
	})
	f.setReady("b", corev1.ConditionTrue)
	f.release("a")
	s.wantSeries("a is gone", map[string]float64{
		policy("repairs_running"): 0, policy("policy_permitted"): 1,
		`fettle_repairs_total{namespace="metrics",outcome="Succeeded",policy="example",remedy="DeleteMachine"}`: 1,
		`fettle_recover_seconds_count{outcome="Succeeded"}`:                                                     1,
		`mapi_machinehealthcheck_nodes_covered{name="example",namespace="metrics"}`:                             1,
	}, "fettle_refusals", `health="gone"`)

	if err := c.Delete(cluster.Context(t), f.check("example")); err != nil {
		t.Fatalf("deleting the health check: %v", err)
	}
	s.wantSeries("series end with their health check", map[string]float64{"fettle_act_seconds_count": 1}, `namespace="metrics"`)
}

// TestWhoMayReadMetrics: a client with a token of the cluster and the right may, over TLS, and no other.
func TestWhoMayReadMetrics(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	certs, address := t.TempDir(), cluster.FreeAddress(t)
	first := writeCertificate(t, certs, "first.example", address)
	c.StartFettle(t, "--metrics-bind-address="+address, "--metrics-cert-dir="+certs)
	former := c.ServiceAccount(t, "fettle-system", "former")
	c.RemoveServiceAccount(t, "fettle-system", "former")
	good := c.MetricsReader(t)
	url := "https://" + address + "/metrics"
	wants := func(sentence, token string, status int) {
		t.Helper()
		c.Eventually(t, sentence, func(context.Context) error {
			answer, err := cluster.Get(t, url, token, first)
			if err == nil && (answer.Status != status || answer.HTTP != "HTTP/1.1" || strings.Contains(answer.Body, "fettle_") != (status == http.StatusOK)) {
				err = fmt.Errorf("answered %d by %s: %.200s", answer.Status, answer.HTTP, answer.Body)
			}
			return err
		})
	}
	wants("a user with the right", good, http.StatusOK)
	wants("no token", "", http.StatusUnauthorized)
	wants("garbage", "garbage", http.StatusUnauthorized)
	wants("a token that was revoked", former, http.StatusUnauthorized)
	wants("a token without the right", c.ServiceAccount(t, "fettle-system", "stranger"), http.StatusForbidden)
	if answer, err := cluster.Get(t, "http://"+address+"/metrics", good, nil); err == nil && answer.Status != http.StatusBadRequest {
		t.Errorf("without TLS it answers %d: %s", answer.Status, answer.Body)
	}
	if answer, err := cluster.Get(t, "https://"+address+"/debug/pprof/", good, first); err != nil || answer.Status != http.StatusNotFound {
		t.Errorf("something else than metrics is served: %d (%v)", answer.Status, err)
	}
	second := writeCertificate(t, certs, "second.example", address)
	c.Eventually(t, "the certificate is renewed", func(context.Context) error {
		answer, err := cluster.Get(t, url, good, second)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("answered %d", answer.Status)
		}
		return err
	})
}

// writeCertificate writes a certificate of its own into a directory, and returns the pool of roots that verify it.
func writeCertificate(t *testing.T, dir, name, address string) *x509.CertPool {
	t.Helper()
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatalf("reading an address: %v", err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(name, []net.IP{at.Addr().AsSlice()}, nil)
	if err != nil {
		t.Fatalf("making a certificate: %v", err)
	}
	for file, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatalf("writing a certificate: %v", err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return roots
}
