package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestSilentWatchesAreEnded, before their answer or within it. A watch that receives data goes on,
// and so do other requests.
func TestSilentWatchesAreEnded(t *testing.T) {
	const silence = time.Second
	released := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mute" {
			<-released
			return
		}
		pieces := 1
		if r.URL.Path == "/lively" {
			pieces = 30
		}
		for range pieces {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(silence / 20):
			case <-released:
			}
		}
		if r.URL.Path == "/silent" || r.URL.Path == "/slow" {
			select {
			case <-released:
			case <-time.After(3 * silence / 2):
			}
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(released) })
	client := server.Client()
	client.Transport = endIdleWatches(silence)(client.Transport)
	cases := map[string]struct {
		path   string
		silent bool
		want   string
	}{
		"a watch that falls silent":      {"/silent?watch=true", true, "x"},
		"a watch that is never answered": {"/mute?watch=true", true, ""},
		"a watch that goes on":           {"/lively?watch=true", false, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
		"a read that takes its time":     {"/slow", false, "x"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got, err := read(t, client, server.URL+tc.path)
			if errors.Is(err, errWatchIdle) != tc.silent || (err != nil) != tc.silent || got != tc.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func read(t *testing.T, client *http.Client, url string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatalf("preparing a request: %v", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
