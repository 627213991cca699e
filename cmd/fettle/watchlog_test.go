package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	toolscache "k8s.io/client-go/tools/cache"
)

// TestBrokenWatchIsLoggedOnce for each kind, and once that it works again.
func TestBrokenWatchIsLoggedOnce(t *testing.T) {
	var lines []string
	w := newWatchLogger(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	var status int
	var body string
	var away error
	transport := w.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(body))}, away
	}))
	requests := func(sentence, url string, want ...string) {
		t.Helper()
		lines = nil
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		response, err := transport.RoundTrip(r)
		if !errors.Is(err, away) {
			t.Errorf("%s: the error became %v", sentence, err)
		}
		if err == nil {
			if got, _ := io.ReadAll(response.Body); string(got) != body {
				t.Errorf("%s: the answer became %q", sentence, got)
			}
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
	const nodes, machines = "/api/v1/nodes?watch=true", "/apis/machine.openshift.io/v1beta1/machines?resourceVersion=7&watch=true"
	broke := func(resource, why string) string {
		return `"level"=0 "msg"="watch broke; it is retried until it works, and its cache may be old meanwhile" "resource"="` + resource + `" "why"="` + why + `"`
	}
	works := func(resource string) string {
		return `"level"=0 "msg"="watch works again" "resource"="` + resource + `"`
	}
	status = http.StatusOK
	requests("it works", nodes)
	away = errAway
	requests("it breaks", nodes, broke("nodes", "the API server is away"))
	requests("it is tried again", nodes)
	requests("so is another", machines, broke("machines.machine.openshift.io", "the API server is away"))
	requests("what is no watch is told elsewhere", "/api/v1/nodes/n")
	away = nil
	status, body = http.StatusGone, "too old"
	requests("it begins anew from a list", nodes)
	status, body = http.StatusForbidden, `{"kind":"Status","message":"nodes is forbidden"}`
	requests("it is broken still", nodes)
	status, body = http.StatusOK, "events"
	requests("it works again", nodes, works("nodes"))
	requests("and goes on working", nodes)
	requests("so does the other", machines, works("machines.machine.openshift.io"))
	status, body = http.StatusForbidden, `{"kind":"Status","message":"nodes is forbidden"}`
	requests("it is refused, and says why", nodes, broke("nodes", "Forbidden: nodes is forbidden"))
	status, body = http.StatusBadGateway, "<html>"
	requests("it is refused without a reason", machines, broke("machines.machine.openshift.io", "Bad Gateway"))
}

// TestUnreadableWatchIsAnError. A watch that ended is logged for debugging only.
func TestUnreadableWatchIsAnError(t *testing.T) {
	for err, want := range map[error]int{io.EOF: 0, io.ErrUnexpectedEOF: 0, errors.New("unable to decode"): 1} {
		lines := 0
		w := newWatchLogger(funcr.New(func(string, string) { lines++ }, funcr.Options{}))
		w.handleError(t.Context(), &toolscache.Reflector{}, err)
		if lines != want {
			t.Errorf("%v is told in %d lines, want %d", err, lines, want)
		}
	}
}
