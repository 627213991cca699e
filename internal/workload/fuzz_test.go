package workload

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzKubeconfig: whatever a Secret holds, no file is read and no command is run for it, and why it is refused can be told.
func FuzzKubeconfig(f *testing.F) {
	const server = "server: https://127.0.0.1:1"
	for _, seed := range []string{
		"", "{", "a: [", "apiVersion: v1\nkind: Config\n", kubeconfigOf(server, "token: t"), kubeconfigOf("server: ' '", "token: t"), kubeconfigOf("server: '127.0.0.1:1'", "token: t"),
		kubeconfigOf("server: 'http://127.0.0.1:1'", "token: t"), kubeconfigOf(server+", proxy-url: 'socks5://127.0.0.1:2'", "username: u, password: p"),
		kubeconfigOf(server+", certificate-authority: /etc/hostname", "token: t"), kubeconfigOf(server, "tokenFile: /etc/hostname"),
		kubeconfigOf(server, "client-certificate-data: YQ==, client-key: /etc/hostname"), kubeconfigOf(server, "exec: {command: 'true', apiVersion: client.authentication.k8s.io/v1}"),
		kubeconfigOf(server, "auth-provider: {name: oidc}"), kubeconfigOf(server+", certificate-authority-data: YQ==", "as: another, token: t"),
		kubeconfigOf(server, "token: t}}, {name: \"x\\ny\", user: {tokenFile: y"), strings.ReplaceAll(kubeconfigOf(server, "tokenFile: x"), "name: u", "name: "+strings.Repeat("u", 5000)),
		"apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c}]\nclusters: [null]\nusers: [null]\n", `{"kind":"Config","clusters":[{"name":"k","cluster":null}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		config, err := readKubeconfig(raw)
		if (config == nil) != (err != nil) {
			t.Fatalf("it gives %v and %v", config, err)
		}
		if err != nil {
			checkExplained(t, err)
			return
		}
		tls := &config.TLSClientConfig
		if config.ExecProvider != nil || config.AuthProvider != nil || config.BearerTokenFile != "" || tls.CAFile != "" || tls.CertFile != "" || tls.KeyFile != "" {
			t.Errorf("it has a command run or a file read: %#v", config)
		}
		if address, err := url.Parse(config.Host); err == nil && address.Scheme == "" {
			t.Errorf("the scheme of %q is left to others", config.Host)
		}
		again, err := readKubeconfig(raw)
		if err != nil || again.Host != config.Host || again.BearerToken != config.BearerToken {
			t.Errorf("reading it twice gives %v and %v, %v", config, again, err)
		}
	})
}

// FuzzReadiness: whatever an API server says of its readiness fits into a status, and only an answer without an error is
// taken for ready.
func FuzzReadiness(f *testing.F) {
	for _, body := range []string{
		"", "ok", "[+]ping ok\n[-]etcd failed: reason withheld\n[-]log failed\nreadyz check failed\n", "[-]", "[-]\n[-]\n", "[-]\x1b[31mred failed",
		strings.Repeat("[-]x failed\n", 5000), "[-]" + strings.Repeat("y", 1<<16), "[-]a\rb c\n", "[-]\xff\xfe z",
	} {
		f.Add([]byte(body), 500)
	}
	f.Add([]byte("x"), 403)
	f.Add([]byte("x"), 401)
	f.Add([]byte("x"), -1)
	f.Fuzz(func(t *testing.T, body []byte, code int) {
		answer := &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code), Reason: metav1.StatusReasonInternalError}}
		err := readiness(body, answer)
		if !errors.Is(err, errUnready) {
			t.Fatalf("an answer of an error gives %v", err)
		}
		checkExplained(t, err)
		if again := readiness(body, answer); again.Error() != err.Error() {
			t.Errorf("the same answer has other words: %v and %v", err, again)
		}
		if err := readiness(body, nil); err != nil {
			t.Errorf("an answer without an error gives %v", err)
		}
	})
}

// checkExplained checks that an error fits into one line of a status.
func checkExplained(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	harmful := func(r rune) bool { return r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) }
	if len(text) > 2048 || !utf8.ValidString(text) || strings.ContainsFunc(text, harmful) {
		t.Errorf("the error has %d bytes and can't be told: %.300q", len(text), text)
	}
}

// FuzzDirect: of what a cluster sends to a remediator, a bounded part is kept, or nothing.
func FuzzDirect(f *testing.F) {
	f.Add([]byte(nodeOfEast))
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"next"},"items":[{"spec":{"tolerations":[{}]}},{}]}`))
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","items":[null,[],{},{},{}]}`))
	c := NewDirect(Config{Now: clock}).Client(east)
	at := where{corev1.SchemeGroupVersion, "PodList", "", "pods", podPage}
	f.Fuzz(func(t *testing.T, body []byte) {
		var n corev1.Node
		if err := c.decodeNode(body, "a", &n); (err == nil) != (n.Name == "a") || len(n.Spec.Taints) > mostParts || len(n.Status.Conditions) > mostParts || n.ManagedFields != nil {
			t.Errorf("%v, %+v", err, n)
		}
		var page listPage[podItem]
		if err := decodePage(body, c, &page, at, metav1.ListOptions{Limit: 3, Continue: "now"}); len(page.Items) > 3 || err != nil && len(page.Items) > 0 || page.Metadata.Continue == "now" {
			t.Errorf("%v, %+v", err, page)
		}
	})
}
