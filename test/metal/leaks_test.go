package metal

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// refusedPassword is a password that no BMC accepts. Tests give it to Fettle for a while.
const refusedPassword = "wrong-password"

// searchesIn is how long the search for leaks may take at the end of a test.
const searchesIn = 3 * time.Minute

// leak says in which form a text has a secret: as it is, in base64 or in hexadecimal digits. It is empty if the text doesn't have it.
func leak(text, secret string) string {
	if strings.Contains(text, secret) {
		return "as it is"
	}
	if strings.Contains(strings.ToLower(text), hex.EncodeToString([]byte(secret))) {
		return "in hexadecimal digits"
	}
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // three bytes are four characters, so what comes before the secret matters
			encoded := alphabet.EncodeToString(append(make([]byte, before), secret...))
			encoded = encoded[(before*8+5)/6:]
			if (before+len(secret))%3 != 0 {
				encoded = encoded[:len(encoded)-1] // it has bits of what follows
			}
			if strings.Contains(text, encoded) {
				return "in base64"
			}
		}
	}
	return ""
}

// TestLeaksAreFound: the search for passwords finds them in each form.
func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	for what, found := range map[string]string{
		"the password is " + password + ".":                                          "as it is",
		base64.StdEncoding.EncodeToString([]byte(password)):                          "in base64",
		base64.StdEncoding.EncodeToString([]byte("admin:" + password)):               "in base64",
		base64.StdEncoding.EncodeToString([]byte(`{"Password":"` + password + `"}`)): "in base64",
		base64.URLEncoding.EncodeToString([]byte("?>" + password + "?>")):            "in base64",
		hex.EncodeToString([]byte("a" + password + "b")):                             "in hexadecimal digits",
		strings.ToUpper(hex.EncodeToString([]byte(password))):                        "in hexadecimal digits",
		"the secret of the sandbox":                                                  "",
		base64.StdEncoding.EncodeToString([]byte("sandbox")):                         "",
	} {
		if got := leak(what, password); got != found {
			t.Errorf("%s: found %q, want %q", what, got, found)
		}
	}
}

// secrets returns the passwords that tests have given to Fettle, and those of its Secrets now.
func (s *site) secrets(ctx context.Context, t *testing.T) []string {
	t.Helper()
	all := []string{password, refusedPassword}
	var list corev1.SecretList
	if err := s.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		t.Errorf("listing Secrets: %v", err)
	}
	for i := range list.Items {
		if word := string(list.Items[i].Data["password"]); word != "" {
			all = append(all, word)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func wantNoPassword(t *testing.T, where, text string, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		if how := leak(text, secret); how != "" {
			t.Errorf("%s has a password %s", where, how)
		}
	}
}

// leaksNothing checks at the end of the test that no password is anywhere but in the Secrets: not in other objects, among them events, not
// in the log of Fettle, and not in what its commands print. StartFettleWith sees to the metrics. It is called before Fettle runs.
func (s *site) leaksNothing(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), searchesIn)
		defer cancel()
		secrets := s.secrets(ctx, t)
		s.objectsLeakNothing(ctx, t, secrets)
		s.logsLeakNothing(t, secrets)
		s.commandsLeakNothing(ctx, t, secrets)
		if s.pages.Load() == 0 && !t.Failed() {
			t.Error("no metrics of Fettle were read")
		}
	})
}

// objectsLeakNothing searches all objects that the API server has but Secrets.
func (s *site) objectsLeakNothing(ctx context.Context, t *testing.T, secrets []string) {
	t.Helper()
	served, err := discovery.NewDiscoveryClientForConfigOrDie(s.Config).ServerPreferredResources()
	if err != nil {
		t.Errorf("reading which kinds are served: %v", err)
	}
	searched := map[string]bool{}
	for _, group := range served {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatalf("reading which kinds are served: %v", err)
		}
		for i := range group.APIResources {
			r := &group.APIResources[i]
			if slices.Contains(r.Verbs, "list") && (version.Group != "" || r.Name != "secrets") {
				searched[r.Name] = s.kindLeaksNothing(ctx, t, version.WithKind(r.Kind), secrets)
			}
		}
	}
	for _, kind := range []string{"bmcs", "nodes"} {
		if !searched[kind] && !t.Failed() {
			t.Errorf("the search found no %s: %v", kind, searched)
		}
	}
}

// kindLeaksNothing searches the objects of a kind. It reports whether there are any.
func (s *site) kindLeaksNothing(ctx context.Context, t *testing.T, kind schema.GroupVersionKind, secrets []string) bool {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := s.List(ctx, list); err != nil {
		if !apierrors.IsMethodNotSupported(err) && !apierrors.IsNotFound(err) {
			t.Errorf("listing objects of kind %s: %v", kind, err)
		}
		return false
	}
	for i := range list.Items {
		text, err := json.Marshal(list.Items[i].Object)
		if err != nil {
			t.Fatalf("encoding an object: %v", err)
		}
		wantNoPassword(t, kind.Kind+" "+list.Items[i].GetName(), string(text), secrets)
	}
	return len(list.Items) > 0
}

// logsLeakNothing searches the logs of all processes of Fettle that the test has started.
func (s *site) logsLeakNothing(t *testing.T, secrets []string) {
	t.Helper()
	logs, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(s.Dir)), "*", "fettle.log"))
	if len(logs) == 0 && !t.Failed() {
		t.Error("there is no log of Fettle")
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("reading a log: %v", err)
		}
		wantNoPassword(t, "the log "+name, string(text), secrets)
	}
}

// commandsLeakNothing searches what the commands print: of the cluster, and of a BMC of each state that there is.
func (s *site) commandsLeakNothing(ctx context.Context, t *testing.T, secrets []string) {
	t.Helper()
	commands := [][]string{{"status", "-A"}}
	var bmcs v1alpha1.BMCList
	if err := s.List(ctx, &bmcs, client.InNamespace(namespace)); err != nil {
		t.Errorf("listing BMCs: %v", err)
	}
	states := map[string]bool{}
	for i := range bmcs.Items {
		b := &bmcs.Items[i]
		protocol, _, _ := strings.Cut(b.Spec.Address, ":")
		state := protocol + " " + string(b.Status.Power)
		if c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ReachableCondition); c != nil {
			state += " " + c.Reason
		}
		if states[state] {
			continue
		}
		states[state] = true
		node := b.Spec.NodeName
		if in := b.Spec.Cluster; in != nil {
			node = in.Namespace + "/" + in.Name + "/" + node
		}
		commands = append(commands, []string{"bmc", "check", node}, []string{"explain", "node/" + b.Spec.NodeName, "-n", namespace})
	}
	for _, args := range commands {
		command := exec.CommandContext(ctx, cluster.Binary(t, "fettle"), append(args, "--kubeconfig", s.Kubeconfig())...)
		text, err := command.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || len(text) == 0 {
			t.Errorf("fettle %v: %v, %q", args, err, text)
		}
		wantNoPassword(t, fmt.Sprintf("what fettle %v prints", args), string(text), secrets)
	}
}

// StartFettle is StartFettleWith with a kubeconfig of Fettle's service account.
func (s *site) StartFettle(t *testing.T, args ...string) *cluster.Fettle {
	t.Helper()
	return s.StartFettleWith(t, s.FettleKubeconfig(t), args...)
}

// StartFettleWith starts Fettle with metrics. They are searched for passwords before it ends with the test.
func (s *site) StartFettleWith(t *testing.T, kubeconfig string, args ...string) *cluster.Fettle {
	t.Helper()
	s.scrapers.Do(func() {
		s.Apply(t, mayScrape)
		s.token = s.ServiceAccount(t, namespace, "scraper")
	})
	address := cluster.FreeAddress(t)
	f := s.Cluster.StartFettleWith(t, kubeconfig, append(slices.Clone(args), "--metrics-bind-address="+address)...)
	t.Cleanup(func() {
		if !f.Ended() && !t.Failed() {
			s.metricsLeakNothing(t, "https://"+address+"/metrics")
		}
	})
	return f
}

// mayScrape lets the service account scraper read metrics.
const mayScrape = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-reader}
rules:
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}
subjects:
- {kind: ServiceAccount, namespace: fettle-system, name: scraper}
`

// metricsLeakNothing searches the metrics of Fettle.
func (s *site) metricsLeakNothing(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), searchesIn)
	defer cancel()
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	var page string
	var last error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		page, last = get(ctx, browser, url, s.token)
		return last == nil, nil
	})
	if err != nil {
		t.Errorf("reading the metrics: %v", errors.Join(err, last))
		return
	}
	if !strings.Contains(page, "\nfettle_") {
		t.Errorf("the metrics have none of Fettle:\n%s", page)
	}
	wantNoPassword(t, "the page of metrics", page, s.secrets(ctx, t))
	s.pages.Add(1)
}

func get(ctx context.Context, browser *http.Client, url, token string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := browser.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the answer is %d: %s", answer.StatusCode, text)
	}
	return string(text), err
}
