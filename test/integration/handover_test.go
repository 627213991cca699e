package integration

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// never is longer than any test waits for a lease that was not released.
const never = "--leader-elect-lease-duration=1h"

func holder(t *testing.T, c *cluster.Cluster) (*coordinationv1.Lease, string) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := c.Get(cluster.Context(t), types.NamespacedName{Namespace: "fettle-system", Name: "fettle"}, lease); err != nil {
		t.Fatalf("reading the lease: %v", err)
	}
	if lease.Spec.HolderIdentity == nil {
		return lease, ""
	}
	return lease, *lease.Spec.HolderIdentity
}

// TestHandOver: a leader that receives SIGTERM releases the lease. The next replica, whose caches have synced, leads at
// its next look. Only the leader has series of decisions.
func TestHandOver(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	token := c.MetricsReader(t)
	f := newMachineFixture(t, c, "handover")
	replica := func() (*cluster.Fettle, *scraper, string) {
		metrics, probes := cluster.FreeAddress(t), cluster.FreeAddress(t)
		r := c.StartFettle(t, "--leader-elect", never, "--metrics-bind-address="+metrics, "--health-probe-bind-address="+probes)
		return r, &scraper{machineFixture: f, url: "https://" + metrics + "/metrics", token: token}, probes
	}
	first, leading, _ := replica()
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{phase: "Failed"})
	f.wantMachines()
	leading.wantSeries("the first leads", map[string]float64{"fettle_leader": 1, "fettle_act_seconds_count": 1})
	_, before := holder(t, c)

	_, waiting, probes := replica()
	probe(t, c, "http://"+probes+"/readyz", http.StatusOK)
	waiting.wantSeries("the second does not lead", map[string]float64{"fettle_leader": 0}, "fettle_verdicts", "fettle_detect", "fettle_pass", "mapi_")
	f.machine("b", machineOptions{phase: "Failed", finalizer: true, labels: map[string]string{"pool": "another"}})
	f.wantMachines("-b")
	first.Stop(t)
	if _, end, handed := strings.Cut(first.Log(t), "Stopping and waiting"); !handed || strings.Contains(end, `"level":"ERROR"`) {
		t.Errorf("it does not tell that it ends, or tells errors though it ended as it should:\n%s", end)
	}
	f.release("b")
	f.wantMachines()
	f.wantRepairs("a Succeeded", "b Succeeded")
	waiting.wantSeries("the second leads", map[string]float64{"fettle_leader": 1, `fettle_recover_seconds_count{outcome="Succeeded"}`: 1}, `fettle_leader{`)
	if _, after := holder(t, c); after == before || after == "" {
		t.Errorf("the lease is held by %q, as before", after)
	}
	f.wantRequests(2, "create", "repairs")
	f.wantRequests(2, "delete", "machines")
}

// TestLeaderThatLosesItsLease ends with an error, and does nothing any more.
func TestLeaderThatLosesItsLease(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	fettle := c.StartFettle(t, "--leader-elect", "--leader-elect-lease-duration=12s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=1s")
	f := newMachineFixture(t, c, "lost")
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{phase: "Failed"})
	f.wantMachines()
	f.Eventually(t, "a replica takes the lease", func(ctx context.Context) error {
		lease, _ := holder(t, c)
		another, long := "another", int32(3600)
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &another, &long
		return c.Update(ctx, lease)
	})
	if err := fettle.EndsByItself(t); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("it ended with %v", err)
	}
	if log := fettle.Log(t); !strings.Contains(log, "lease was not renewed in time") && !strings.Contains(log, "leader election lost") {
		t.Errorf("it does not say why it ended:\n%s", log)
	}
	if _, now := holder(t, c); now != "another" {
		t.Errorf("the lease is held by %q", now)
	}
	f.machine("b", machineOptions{phase: "Failed"})
	f.keepsMachines("b")
}

// TestEndDuringACall: a deletion is on its way when Fettle receives SIGTERM, and is not answered in time. It was not
// refused, and the next process continues it.
func TestEndDuringACall(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	received := make(chan struct{}, 1)
	forget := slowAdmission(t, c, received)
	f := newMachineFixture(t, c, "during")
	f.machine("a", machineOptions{phase: "Failed"})
	f.Eventually(t, "the webhook is called", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := c.Delete(ctx, object("machine.openshift.io/v1beta1", "Machine", f.namespace, "a"), client.DryRunAll)
		select {
		case <-received:
			return nil
		default:
			return fmt.Errorf("it was not; deleting gave: %w", err)
		}
	})
	first := c.StartFettle(t)
	f.healthCheck("example", nil, readyCheck())
	<-received
	first.Stop(t)
	repairs, err := f.repairs(cluster.Context(t))
	if err != nil || len(repairs) != 1 || repairs[0].Status.Attempts != 0 || repairs[0].Status.LastError != "" {
		t.Fatalf("the repair says that it was refused: %+v (%v)", repairs, err)
	}
	if reasons := f.EventReasons(t, f.namespace, "a"); slices.Contains(reasons, "MachineDeletionFailed") || slices.Contains(reasons, "MachineDeleted") {
		t.Errorf("events tell of %q", reasons)
	}
	f.wantMachines("a")
	forget()
	c.StartFettle(t)
	f.wantMachines()
	f.wantRepairs("a Succeeded")
	f.wantRequests(1, "create", "repairs")
}

// slowAdmission makes the API server call a webhook that never answers before it deletes a machine. It returns a
// function that removes the webhook.
func slowAdmission(t *testing.T, c *cluster.Cluster, received chan<- struct{}) func() {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatalf("making a certificate: %v", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatalf("reading a certificate: %v", err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var review json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&review)
		select {
		case received <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	c.Apply(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: never-answers}
webhooks:
- name: never-answers.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 30
  failurePolicy: Fail
  clientConfig: {url: "%s/", caBundle: %s}
  rules:
  - {apiGroups: [machine.openshift.io], apiVersions: ["*"], operations: [DELETE], resources: [machines]}
`, server.URL, base64.StdEncoding.EncodeToString(certificate)))
	return func() {
		if err := c.Delete(cluster.Context(t), object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "never-answers")); err != nil {
			t.Fatalf("removing the webhook: %v", err)
		}
	}
}
