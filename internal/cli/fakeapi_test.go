package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// fakeAPI is an API server on the loopback. It answers with objects by their paths, and with NotFound to all else.
type fakeAPI struct {
	t  *testing.T
	mu sync.Mutex
	// objects are answers by path. A number is the code of a failure.
	objects map[string]any
	// requests are the methods and paths that it has answered.
	requests []string
}

// These are paths of the API server.
const (
	fettleAPI  = "/apis/fettle.io/v1alpha1"
	bmcsPath   = fettleAPI + "/namespaces/fettle-system/bmcs"
	secretPath = "/api/v1/namespaces/fettle-system/secrets/bmc-a"
)

// startAPI starts an API server that serves the kinds for bare metal, and has KUBECONFIG name it.
func startAPI(t *testing.T) *fakeAPI {
	t.Helper()
	a := &fakeAPI{t: t, objects: map[string]any{}}
	serve(t, a, "fettle-system")
	var resources []any
	for name, kind := range map[string]string{"bmcs": bmcKind, "powerremediations": powerKind, "powerremediationtemplates": powerTemplateKind, "selffenceremediations": selfFenceKind, "selffenceremediationtemplates": selfFenceTemplateKind} {
		resources = append(resources, map[string]any{"name": name, "kind": kind, "namespaced": true, "verbs": []string{"get", "list", "watch", "patch"}})
	}
	a.set(fettleAPI, map[string]any{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": "fettle.io/v1alpha1", "resources": resources})
	version := map[string]any{"groupVersion": "fettle.io/v1alpha1", "version": "v1alpha1"}
	a.set("/api", map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
	a.set("/apis", map[string]any{"apiVersion": "v1", "kind": "APIGroupList", "groups": []any{
		map[string]any{"name": "fettle.io", "versions": []any{version}, "preferredVersion": version},
	}})
	return a
}

// serve listens on the loopback, and has KUBECONFIG name that with a namespace. A second context has the namespace other.
func serve(t *testing.T, api http.Handler, namespace string) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	config := "apiVersion: v1\nkind: Config\ncurrent-context: here\nclusters: [{name: c, cluster: {server: " + server.URL + "}}]\nusers: [{name: u, user: {}}]\n" +
		"contexts: [{name: here, context: {cluster: c, user: u, namespace: " + namespace + "}}, {name: elsewhere, context: {cluster: c, user: u, namespace: other}}]\n"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
}

// list serves a list of objects, given as YAML.
func (a *fakeAPI) list(path, version, kind string, items ...string) {
	a.t.Helper()
	objects := []any{}
	for _, item := range items {
		objects = append(objects, object(a.t, item))
	}
	a.set(path, map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": "1"}, "items": objects})
}

// bmcs serves the BMCs of the cluster.
func (a *fakeAPI) bmcs(items ...string) {
	a.t.Helper()
	a.list(bmcsPath, "fettle.io/v1alpha1", "BMCList", items...)
}

// secret serves a Secret of the resource version 7.
func (a *fakeAPI) secret(data map[string]any) {
	a.set(secretPath, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "fettle-system", "name": "bmc-a", "resourceVersion": "7"}, "data": data,
	})
}

// set serves an answer at a path.
func (a *fakeAPI) set(path string, answer any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[path] = answer
}

// has reports whether a path was given an answer.
func (a *fakeAPI) has(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, has := a.objects[path]
	return has
}

// forget returns the requests up to now, and forgets them.
func (a *fakeAPI) forget() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	requests := a.requests
	a.requests = nil
	return requests
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	return o
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, r.Method+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "All" {
		var applied any
		if err := json.NewDecoder(r.Body).Decode(&applied); err != nil {
			panic(err)
		}
		a.write(w, applied)
		return
	}
	answer, known := a.objects[r.URL.Path]
	code, refused := answer.(int)
	switch {
	case !known:
		code = http.StatusNotFound
	case !refused:
		a.write(w, answer)
		return
	}
	w.WriteHeader(code)
	reason := map[int]string{http.StatusNotFound: "NotFound", http.StatusForbidden: "Forbidden", http.StatusInternalServerError: "InternalError"}[code]
	a.write(w, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": fmt.Sprintf("%s: %s", r.URL.Path, reason)})
}

func (a *fakeAPI) write(w http.ResponseWriter, answer any) {
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}

// wantOnlyReads fails if there was another request than a read.
func (a *fakeAPI) wantOnlyReads(t *testing.T) {
	t.Helper()
	requests := a.forget()
	if at := slices.IndexFunc(requests, func(r string) bool { return !strings.HasPrefix(r, "GET ") }); at >= 0 || len(requests) == 0 {
		t.Errorf("it has requested %q", requests)
	}
}
