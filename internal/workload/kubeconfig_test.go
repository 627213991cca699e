package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kubeconfigOf has one context, with these fields of its cluster and its user.
func kubeconfigOf(cluster, user string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n" +
		"clusters: [{name: k, cluster: {" + cluster + "}}]\nusers: [{name: u, user: {" + user + "}}]\n"
}

func TestKubeconfigsThatAreRefused(t *testing.T) {
	exists := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(exists, []byte("a secret of this process"), 0o600); err != nil {
		t.Fatalf("writing a file: %v", err)
	}
	const server = "server: https://127.0.0.1:1"
	cases := map[string]struct{ raw, says string }{
		"a command":                    {kubeconfigOf(server, "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/true, interactiveMode: Never}"), "exec"},
		"a plugin":                     {kubeconfigOf(server, "auth-provider: {name: oidc}"), "auth-provider"},
		"a file of a token":            {kubeconfigOf(server, "tokenFile: "+exists), "tokenFile"},
		"a file of a certificate":      {kubeconfigOf(server, "client-certificate: "+exists+", client-key-data: YQ=="), "client-certificate"},
		"a file of a key":              {kubeconfigOf(server, "client-certificate-data: YQ==, client-key: "+exists), "client-key"},
		"a file of an authority":       {kubeconfigOf(server+", certificate-authority: "+exists, "token: t"), "certificate-authority"},
		"a file beside what counts":    {kubeconfigOf(server, "token: t, tokenFile: "+exists), "tokenFile"},
		"a command of another context": {kubeconfigOf(server, "token: t}}, {name: other, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: x}"), "exec"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			config, err := readKubeconfig([]byte(tc.raw))
			if config != nil || !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "field "+tc.says+":") {
				t.Errorf("it gives %v, %v; want a refusal that names %s", config, err, tc.says)
			}
		})
	}
}

// TestI14KubeconfigsThatAreTooMuch: Fettle refuses a kubeconfig that leads to unencrypted requests or takes much to
// read.
func TestI14KubeconfigsThatAreTooMuch(t *testing.T) {
	const server = "server: https://127.0.0.1:1"
	many := ""
	for i := range kubeconfigParts + 1 {
		many += fmt.Sprintf("}}, {name: u%d, user: {token: t", i)
	}
	cases := map[string]struct {
		raw  string
		want error
	}{
		"plain http":            {kubeconfigOf("server: http://127.0.0.1:1", "token: t"), errNotHTTPS},
		"plain http, shouted":   {kubeconfigOf("server: HTTP://127.0.0.1:1", "token: t"), errNotHTTPS},
		"a file":                {kubeconfigOf("server: file:///etc/passwd", "token: t"), errNotHTTPS},
		"in another cluster":    {kubeconfigOf(server+"}}, {name: other, cluster: {server: http://127.0.0.1:1", "token: t"), errNotHTTPS},
		"large":                 {kubeconfigOf(server, "token: t") + "# " + strings.Repeat("x", kubeconfigBytes), errLarge},
		"many users":            {kubeconfigOf(server, "token: t"+many), errLarge},
		"a key that is no key":  {kubeconfigOf(server, "client-key-data: "+strings.Repeat("QUFB", keyBytes)), errLargeKey},
		"https in upper case":   {kubeconfigOf("server: HTTPS://127.0.0.1:1", "token: t"), nil},
		"as large as it may be": {kubeconfigOf(server, "token: "+strings.Repeat("t", kubeconfigBytes/2)), nil},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if config, err := readKubeconfig([]byte(tc.raw)); !errors.Is(err, tc.want) || (config == nil) != (tc.want != nil) {
				t.Errorf("it reads %v, %v; want %v", config, err, tc.want)
			}
		})
	}
}

func TestKubeconfigsThatAreNone(t *testing.T) {
	const secret = "hunter2"
	cases := map[string]string{
		"nothing":              "",
		"another thing":        secret,
		"broken YAML":          "token: [" + secret,
		"no current context":   "apiVersion: v1\nkind: Config\nusers: [{name: u, user: {token: " + secret + "}}]\n",
		"no server":            kubeconfigOf("insecure-skip-tls-verify: true", "token: "+secret),
		"a proxy that is none": kubeconfigOf("server: https://127.0.0.1:1, proxy-url: 'nonsense://"+secret+"'", "token: t"),
	}
	for sentence, raw := range cases {
		t.Run(sentence, func(t *testing.T) {
			config, err := readKubeconfig([]byte(raw))
			if err == nil {
				t.Fatalf("it is taken for %+v", config)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error quotes the Secret, and is for all who may read statuses: %v", err)
			}
		})
	}
}

func TestKubeconfigsThatAreFollowed(t *testing.T) {
	config, err := readKubeconfig([]byte(kubeconfigOf("server: '127.0.0.1:1/prefix', insecure-skip-tls-verify: true, proxy-url: 'socks5://127.0.0.1:2', tls-server-name: inside",
		"token: t, as: another, as-groups: [g]")))
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	if config.Host != "https://127.0.0.1:1/prefix" || !config.Insecure || config.Proxy == nil || config.ServerName != "inside" ||
		config.BearerToken != "t" || config.Impersonate.UserName != "another" {
		t.Errorf("it reads %+v", config)
	}
}

func TestValueOf(t *testing.T) {
	secret := func(data any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "fleet", "name": "east-kubeconfig"}, "data": data}}
	}
	cases := map[string]struct {
		secret *unstructured.Unstructured
		want   string
	}{
		"a value":         {secret(map[string]any{"value": "YWJj"}), "abc"},
		"no data":         {secret(nil), ""},
		"another key":     {secret(map[string]any{"kubeconfig": "YWJj"}), ""},
		"an empty value":  {secret(map[string]any{"value": ""}), ""},
		"not in base64":   {secret(map[string]any{"value": "!"}), ""},
		"data of no kind": {secret("YWJj"), ""},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			raw, err := valueOf(tc.secret)
			if string(raw) != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("it gives %q, %v; want %q", raw, err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), "Secret fleet/east-kubeconfig") {
				t.Errorf("the error doesn't name the Secret: %v", err)
			}
		})
	}
}
