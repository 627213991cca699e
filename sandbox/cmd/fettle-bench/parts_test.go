package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fettle-io/fettle/sandbox/access"
)

func TestNarrow(t *testing.T) {
	cases := map[string]struct{ asked, want string }{
		"a list of all nodes":             {"/api/v1/nodes?limit=500", "labelSelector=part%3Da&limit=500"},
		"a watch of all nodes":            {"/api/v1/nodes?watch=true", "labelSelector=part%3Da&watch=true"},
		"what is selected is so too":      {"/api/v1/nodes?labelSelector=zone%3Db", "labelSelector=zone%3Db%2Cpart%3Da"},
		"one node":                        {"/api/v1/nodes/a", ""},
		"what the API server says itself": {"/readyz?verbose", "verbose"},
		"other objects":                   {"/api/v1/pods?limit=1", "limit=1"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			asked, err := url.Parse("https://127.0.0.1" + tc.asked)
			if err != nil {
				t.Fatal(err)
			}
			narrow(asked, "part=a")
			if asked.RawQuery != tc.want {
				t.Errorf("%s became %q, not %q", tc.asked, asked.RawQuery, tc.want)
			}
		})
	}
}

// TestPartsPassOn: the whole cluster knows a client of a part by the client's own credentials. The client sees at once
// what the whole cluster sends.
func TestPartsPassOn(t *testing.T) {
	read := make(chan struct{})
	whole := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s\n", r.Header.Get("Authorization"), r.URL.Query().Get("labelSelector"))
		_ = http.NewResponseController(w).Flush()
		<-read // a watch goes on
	}))
	defer whole.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: whole.Certificate().Raw})
	if err := access.Write(file, access.Identity{Server: whole.URL, CA: ca, Token: "secret"}); err != nil {
		t.Fatal(err)
	}
	p, err := newParts(t.TempDir(), readFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"part-000", "part-001"} {
		kubeconfig, err := p.serve(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := firstLine(t, kubeconfig), "Bearer secret "+partLabel+"="+name; got != want {
			t.Errorf("the whole was asked as %q, not %q", got, want)
		}
	}
	close(read)
	if err := p.close(); err != nil {
		t.Error(err)
	}
}

// firstLine requests nodes, and doesn't wait for more than the first line.
func firstLine(t *testing.T, kubeconfig []byte) string {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/api/v1/nodes?watch=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	line := []byte{}
	for one := make([]byte, 1); ; line = append(line, one[0]) {
		if _, err := io.ReadFull(response.Body, one); err != nil {
			t.Fatal(err)
		}
		if one[0] == '\n' {
			return string(line)
		}
	}
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
