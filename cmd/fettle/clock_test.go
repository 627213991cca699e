package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
)

// TestI05AnswersAreCompared: each answer of the API server has the time of its clock.
func TestI05AnswersAreCompared(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
	}))
	defer server.Close()
	var mu sync.Mutex
	var logged strings.Builder
	log := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		logged.WriteString(args + "\n")
	}, funcr.Options{})
	manager, err := newManager(&rest.Config{Host: server.URL}, controllerOptions{repairNamespace: "fettle-system", metricsAddress: off, healthAddress: off}, log)
	if err != nil {
		t.Fatalf("making a manager: %v", err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/version", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := manager.GetHTTPClient().Do(request)
	if err != nil {
		t.Fatalf("asking the API server: %v", err)
	}
	_ = response.Body.Close()
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(logged.String(), "Fettle's clock differs from the API server's") {
		t.Errorf("an answer of an hour ahead is not noticed:\n%s", logged.String())
	}
}
