package workload

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// answering returns a client with a bound of 1000 bytes, and the address of a server that answers so.
func answering(t *testing.T, answer http.HandlerFunc) (*http.Client, string) {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	c, err := httpClient(&rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, dialer().DialContext, 1000)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c, server.URL
}

// TestI15AnswersAreBounded by the bytes that are read of them, after they were decompressed.
func TestI15AnswersAreBounded(t *testing.T) {
	plain := func(code, size int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, strings.Repeat("x", size))
		}
	}
	encoded := func(encoding string, size int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", encoding)
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, strings.Repeat("x", size))
			_ = z.Close()
		}
	}
	typed := func(contentType string, size int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, strings.Repeat("x", size))
		}
	}
	cases := map[string]struct {
		answer http.HandlerFunc
		query  string
		limit  int64
		bound  string // the name of the bound that was exceeded
	}{
		"as many bytes as it may have":       {plain(200, 1000), "", 0, ""},
		"one byte more":                      {plain(200, 1001), "", 0, "bytes"},
		"more where the request allows that": {plain(200, 5000), "", 5000, ""},
		"more than the request allows":       {plain(200, 5001), "", 5000, "bytes"},
		"an error is bounded on its own":     {plain(500, errorBytes+1), "", 1 << 30, "bytes"},
		"compressed, and small enough":       {encoded("gzip", 1000), "", 0, ""},
		"compressed, and too large":          {encoded("gzip", 1<<20), "", 0, "bytes"},
		"in an encoding of its own":          {encoded("zstd", 10), "", 0, "encoding"},
		"a watch has no bound in all":        {typed(protobuf+";stream=watch", 5000), "?watch=true", 0, ""},
		"a watch that is compressed":         {encoded("gzip", 10), "?watch=true", 0, "encoding"},
		"a watch in JSON":                    {typed("application/json", 10), "?watch=true", 0, "encoding"},
		"a redirection":                      {plain(302, 0), "", 0, "redirect"},
		"a redirection that keeps the verb":  {plain(308, 0), "", 0, "redirect"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			c, at := answering(t, tc.answer)
			ctx := t.Context()
			if tc.limit > 0 {
				ctx = withLimit(ctx, tc.limit)
			}
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/"+tc.query, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := c.Do(request)
			if err == nil {
				defer response.Body.Close()
				_, err = io.ReadAll(response.Body)
			}
			exceeded, is := errors.AsType[*boundError](err)
			if is != (tc.bound != "") || (is && exceeded.name != tc.bound) || (!is && err != nil) {
				t.Errorf("it fails with %v, want the bound %q", err, tc.bound)
			}
		})
	}
}

// TestI14LinkLocalAddressesAreRefused: machines are told secrets of their own there.
func TestI14LinkLocalAddressesAreRefused(t *testing.T) {
	for address, refused := range map[string]bool{
		"169.254.169.254:80": true, "[::ffff:169.254.169.254]:443": true, "[fe80::1]:443": true, "[fe80::1%eth0]:443": true,
		"0.0.0.0:6443": true, "[::]:6443": true, "224.0.0.1:443": true, "[fd00:ec2::254]:443": true,
		"10.0.0.1:6443": false, "127.0.0.1:6443": false, "[::1]:6443": false, "[fd00::1]:6443": false, "203.0.113.1:443": false,
	} {
		if err := refuseLinkLocal("tcp", address, nil); errors.Is(err, errAddress) != refused {
			t.Errorf("%s: %v, want it refused: %t", address, err, refused)
		}
	}
	if _, err := dialer().DialContext(t.Context(), "tcp", "169.254.169.254:80"); !errors.Is(err, errAddress) {
		t.Errorf("dialing a link-local address: %v", err)
	}
}

// TestI15HeadersAreBounded, and a watch is never compressed: its events would expand without end.
func TestI15HeadersAreBounded(t *testing.T) {
	encodings := map[string]string{}
	size := 10
	c, at := answering(t, func(w http.ResponseWriter, r *http.Request) {
		encodings[r.URL.RawQuery] = r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Type", protobuf)
		w.Header().Set("Long", strings.Repeat("x", size))
	})
	get := func(query string) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/?"+query, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	for query, want := range map[string]string{"": "gzip", "watch=true": "identity"} {
		if err := get(query); err != nil || encodings[query] != want {
			t.Errorf("?%s: it accepts the encoding %q, want %q; %v", query, encodings[query], want, err)
		}
	}
	size = 2 * headerBytes
	if err := get(""); err == nil {
		t.Errorf("headers of %d bytes were taken in", size)
	}
}
