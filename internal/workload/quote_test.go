package workload

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/slim"
)

// banner starts a host that greets each connection, as hosts of other protocols do.
func banner(t *testing.T, greeting string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listening: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(greeting))
			_ = c.Close()
		}
	}()
	return listener.Addr().String()
}

// TestI15NoHostIsQuoted: a kubeconfig may name any host, and no status has its words.
func TestI15NoHostIsQuoted(t *testing.T) {
	answering := func(code int, contentType, body string) string {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Location", "https://me:SECRET@elsewhere/SECRET")
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	cases := map[string]string{
		"a page":                     answering(http.StatusOK, "text/html", "<html>SECRET"),
		"an error in words":          answering(http.StatusInternalServerError, "text/plain", "SECRET"),
		"nothing there, in words":    answering(http.StatusNotFound, "text/plain", "SECRET"),
		"a redirection":              answering(http.StatusFound, "text/plain", "SECRET"),
		"another kind":               answering(http.StatusOK, "application/json", `{"kind":"SECRET","apiVersion":"SECRET/v1"}`),
		"nodes that are none":        answering(http.StatusOK, "application/json", `{"kind":"NodeList","apiVersion":"v1","items":"SECRET"}`),
		"bytes":                      answering(http.StatusOK, "application/vnd.kubernetes.protobuf", "SECRET"),
		"a banner in plain text":     "https://" + banner(t, "SSH-2.0-SECRET\r\n"),
		"a banner, over HTTP":        "http://" + banner(t, "SSH-2.0-SECRET\r\n"),
		"a user and a password":      "https://me:SECRET@127.0.0.1:1",
		"an address that can't be":   "https://me:SECRET word@127.0.0.1:1",
		"a token in a query":         "https://127.0.0.1:1/?token=SECRET",
		"a host that has a password": "https://127.0.0.1:1/a@SECRET:443" + strings.Repeat("/a", 4000),
	}
	for sentence, host := range cases {
		t.Run(sentence, func(t *testing.T) {
			config := &rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{Insecure: strings.HasPrefix(host, "https")}}
			got := looked(t, config)
			if sentence != "a host that has a password" && strings.Contains(got, "SECRET") || len(got) > 2048 || got == "" {
				t.Errorf("people are told %q", got)
			}
		})
	}
}

// looked returns the text about a cluster whose nodes are listed once.
func looked(t *testing.T, config *rest.Config) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	scheme := runtime.NewScheme()
	if err := slim.AddToScheme(scheme); err != nil {
		t.Fatalf("making a scheme: %v", err)
	}
	c, err := NewClient(config, client.Options{Scheme: scheme})
	if err == nil {
		err = c.List(ctx, &slim.NodeList{})
	}
	if err == nil {
		t.Fatal("its nodes are known")
	}
	if err == errNoURL { //nolint:errorlint // it is for people as it is
		return err.Error()
	}
	return Explain(err, config, types.NamespacedName{Namespace: "fleet", Name: "east"})
}

// TestKubeconfigIsNotRepeated: the error about a kubeconfig is one short line without its secrets.
func TestKubeconfigIsNotRepeated(t *testing.T) {
	name := "\x1b[2J" + strings.Repeat("a", 1<<20)
	secret := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{}}}
	secret.SetNamespace("fleet")
	secret.SetName("east-kubeconfig")
	for sentence, text := range map[string]string{
		"a user that runs a command": "users: [{name: \"\\e[2J" + name[4:] + "\", user: {exec: {command: sh}}}]",
		"what is no kubeconfig":      "SECRET: [",
	} {
		_ = unstructured.SetNestedField(secret.Object, base64.StdEncoding.EncodeToString([]byte(text)), "data", secretKey)
		_, err := Kubeconfig(secret)
		if err == nil || len(err.Error()) > 1024 || strings.ContainsAny(err.Error(), "\x1b\n") || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: people are told %q", sentence, err)
		}
	}
}
