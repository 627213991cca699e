package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// TestLeaderSendsNothingOnceItsLeaseIsLost: a suspended process may resume before its timers fire,
// while another replica leads. So its connections read the clock themselves.
func TestLeaderSendsNothingOnceItsLeaseIsLost(t *testing.T) {
	mine, released := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}, resourcelock.LeaderElectionRecord{}
	for name, c := range map[string]struct {
		reason string
		writes []resourcelock.LeaderElectionRecord
		after  time.Duration
		sent   bool
	}{
		"never led":             {"a replica that waits reads on", nil, time.Hour, true},
		"another leads":         {"it has never led", []resourcelock.LeaderElectionRecord{{HolderIdentity: "another"}}, time.Hour, true},
		"leads":                 {"no other replica may lead yet", []resourcelock.LeaderElectionRecord{mine}, 10*time.Second - 1, true},
		"the lease is lost":     {"another may lead now", []resourcelock.LeaderElectionRecord{mine}, 10 * time.Second, false},
		"released and lost":     {"the release renews nothing", []resourcelock.LeaderElectionRecord{mine, released}, 10 * time.Second, false},
		"long after it was led": {"what is lost stays so", []resourcelock.LeaderElectionRecord{mine}, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			config, requests := apiServer(t)
			held, now := electedBy(t, config)
			client, err := rest.HTTPClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range c.writes {
				if err := held.Update(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			if err := post(t, client, config.Host); err != nil {
				t.Fatalf("the connection is not open: %v", err)
			}
			now.Add(int64(c.after))
			err = post(t, client, config.Host)
			if c.sent != (err == nil) || c.sent != (requests.Load() == 2) {
				t.Errorf("%s: %v after %d requests", c.reason, err, requests.Load())
			}
		})
	}
}

// apiServer returns the config of clients of a server that counts requests.
func apiServer(t *testing.T) (*rest.Config, *atomic.Int32) {
	t.Helper()
	requests := &atomic.Int32{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, requests
}

// electedBy prepares the config of a manager as Fettle does. It returns the lease, and the time of
// the lease's clock.
func electedBy(t *testing.T, config *rest.Config) (*leaderLease, *atomic.Int64) {
	t.Helper()
	o := controllerOptions{
		leaderElect: true, leaderElectionNamespace: "fettle-system", metricsAddress: off, healthAddress: off,
		leaseDuration: 15 * time.Second, renewDeadline: 10 * time.Second, retryPeriod: 2 * time.Second,
	}
	_, held, err := managerOptions(config, o, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	elapsed := &atomic.Int64{}
	held.now = func() time.Time { return time.Unix(0, elapsed.Load()+1) }
	held.Interface = &lock{}
	return held, elapsed
}

func post(t *testing.T, client *http.Client, address string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err == nil {
		err = response.Body.Close()
	}
	return err
}
