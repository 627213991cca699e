package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
)

// revisions is an API server that sends nothing to watches, and a revision with lists.
type revisions struct {
	mu sync.Mutex
	// now has the answers to lists, one after the other. The last one answers all further lists. A
	// number becomes the revision of an empty list.
	now   []string
	lists []*http.Request
}

func (a *revisions) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body := ""
	if r.URL.Query().Get("watch") == "" {
		a.lists = append(a.lists, r)
		now := a.now[0]
		if len(a.now) > 1 {
			a.now = a.now[1:]
		}
		if now == "down" {
			return nil, errors.New("the API server is down")
		}
		body = fmt.Sprintf(`{"kind":"List","metadata":{"resourceVersion":%q},"items":[{"metadata":{"resourceVersion":"1"}}]}`, now)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewBufferString(body)), Request: r}, nil
}

func (a *revisions) requests() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lists
}

const nodes = "https://example.com/api/v1/nodes?allowWatchBookmarks=true&watch=true&resourceVersion="

// TestLooksAreMadeWhenAWatchBeginsAgain at a revision that can be compared.
func TestLooksAreMadeWhenAWatchBeginsAgain(t *testing.T) {
	for sentence, c := range map[string]struct {
		before, now string
		looks       bool
	}{
		"the same resource":            {nodes + "9", nodes + "12", true},
		"the first watch":              {nodes[:len(nodes)-len("&watch=true&resourceVersion=")], nodes + "9", false},
		"another resource":             {"https://example.com/api/v1/pods?watch=true&resourceVersion=9", nodes + "9", false},
		"from the beginning":           {nodes + "9", nodes + "0", false},
		"from nowhere":                 {nodes + "9", nodes, false},
		"a revision that is no number": {nodes + "9", nodes + "abc", false},
		"a list":                       {nodes + "9", "https://example.com/api/v1/nodes?resourceVersion=9", false},
	} {
		h := newRollbackDetector(logr.Discard(), nil)
		var again bool
		for _, text := range []string{c.before, c.now} {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatalf("reading a URL: %v", err)
			}
			_, again = h.restartedFrom(u)
		}
		if again != c.looks {
			t.Errorf("%s: a look is made: %t", sentence, again)
		}
	}
}

// TestClusterThatWasSetBackIsNoticed when a watch starts again.
func TestClusterThatWasSetBackIsNoticed(t *testing.T) {
	for sentence, c := range map[string]struct {
		watches []string
		now     []string
		lists   int
		back    bool
	}{
		"the cluster is where it was": {[]string{nodes + "9", nodes + "9"}, []string{"9"}, 1, false},
		"the cluster went on":         {[]string{nodes + "9", nodes + "9"}, []string{"10"}, 1, false},
		"the cluster was set back":    {[]string{nodes + "9", nodes + "10"}, []string{"9"}, 1, true},
		"it is known later":           {[]string{nodes + "9", nodes + "9"}, []string{"down", "no number", "5"}, 3, true},
		"it is never known":           {[]string{nodes + "9", nodes + "9"}, []string{"down"}, maxReads, false},
		"a list is no watch":          {[]string{"https://example.com/api/v1/nodes?resourceVersion=9", "https://example.com/api/v1/nodes?resourceVersion=9"}, []string{"5"}, 2, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			h, api := newRollbackDetector(logr.Discard(), end), &revisions{now: c.now}
			h.pause = time.Microsecond
			transport := h.wrap(api)
			for _, address := range c.watches {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
				if err != nil {
					t.Fatalf("making a request: %v", err)
				}
				r.Header.Set("Authorization", "Bearer mine")
				response, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatalf("sending it: %v", err)
				}
				_ = response.Body.Close()
			}
			noticed := func(context.Context) (bool, error) {
				return len(api.requests()) >= c.lists && (!c.back || ctx.Err() != nil), nil
			}
			_ = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, noticed)
			lists := api.requests()
			if back := errors.Is(context.Cause(ctx), errRolledBack); back != c.back || len(lists) != c.lists {
				t.Fatalf("it was noticed: %t (%v), after %d lists; want %t after %d", back, context.Cause(ctx), len(lists), c.back, c.lists)
			}
			for _, r := range lists {
				if c.watches[0] == nodes+"9" && (r.URL.RawQuery != "limit=1" || r.URL.Path != "/api/v1/nodes" || r.Header.Get("Authorization") != "Bearer mine") {
					t.Errorf("the list was requested by %s with %v", r.URL, r.Header)
				}
			}
		})
	}
}
