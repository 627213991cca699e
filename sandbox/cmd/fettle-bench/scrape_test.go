package main

import (
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const exposition = `# HELP fettle_act_seconds How long a remedy's call took.
# TYPE fettle_act_seconds histogram
fettle_act_seconds_bucket{remedy="a",le="0.1"} 2
fettle_act_seconds_bucket{remedy="a",le="1"} 4
fettle_act_seconds_bucket{remedy="a",le="+Inf"} 4
fettle_act_seconds_sum{remedy="a"} 1.5
fettle_act_seconds_count{remedy="a"} 4
fettle_act_seconds_bucket{remedy="b",le="0.1"} 0
fettle_act_seconds_bucket{remedy="b",le="1"} 0
fettle_act_seconds_bucket{remedy="b",le="+Inf"} 2
fettle_act_seconds_sum{remedy="b"} 8.5
fettle_act_seconds_count{remedy="b"} 2
# TYPE fettle_verdicts gauge
fettle_verdicts{health="healthy"} 3
`

func TestScrape(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" || r.URL.Path != "/metrics" {
			http.Error(w, "not allowed", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(exposition))
	}))
	defer server.Close()
	e := &endpoint{address: strings.TrimPrefix(server.URL, "https://"), token: "token", client: server.Client()}
	got, err := e.scrape(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]histogram{"fettle_act_seconds": {count: 6, sum: 10, bounds: []float64{0.1, 1, math.Inf(1)}, upTo: []uint64{2, 4, 6}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(histogram{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e.token = "another"
	if _, err := e.scrape(t.Context()); err == nil {
		t.Error("a client without the right to read metrics should get an error")
	}
}

func TestQuantile(t *testing.T) {
	h := histogram{count: 10, bounds: []float64{0.1, 0.2, 0.4, math.Inf(1)}, upTo: []uint64{0, 4, 8, 10}}
	for q, want := range map[float64]float64{0.2: 0.15, 0.4: 0.2, 0.6: 0.3, 0.99: 0.4} {
		if got := h.quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := (histogram{}).quantile(0.5); got != 0 {
		t.Errorf("an empty histogram has quantile %v", got)
	}
}

func TestSummaryIsOfWhatCameSince(t *testing.T) {
	before := histogram{count: 100, sum: 1, bounds: []float64{1, 2, math.Inf(1)}, upTo: []uint64{100, 100, 100}}
	now := histogram{count: 104, sum: 7, bounds: before.bounds, upTo: []uint64{100, 104, 104}}
	want := summary{Name: "x", Count: 4, Mean: seconds(1500 * time.Millisecond), Median: seconds(1500 * time.Millisecond), P99: seconds(1990 * time.Millisecond)}
	if diff := cmp.Diff(want, summaryOf("x", now.since(before))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Count+100, summaryOf("x", now.since(histogram{})).Count); diff != "" {
		t.Errorf("without an earlier reading all of it counts:\n%s", diff)
	}
	if got := summaryOf("x", now.since(now)); got.Mean != 0 || got.Count != 0 {
		t.Errorf("nothing came, but got %+v", got)
	}
}

// TestFreeAddressStaysFree: an address can still be used after another process has taken its port at 127.0.0.1.
func TestFreeAddressStaysFree(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("this system has one address on loopback")
	}
	address, err := freeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{"127.0.0.1:" + port, address} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", taken)
		if err != nil {
			t.Fatalf("listening at %s: %v", taken, err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
}
