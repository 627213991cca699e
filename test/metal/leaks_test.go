package metal

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// refusedPassword is a password that no BMC accepts. Tests give it to Fettle for a while.
const refusedPassword = "wrong-password"

// searchesIn is how long the search for secrets may take at the end of a test.
const searchesIn = 3 * time.Minute

// place is a text that must show no secret. Its kind says what the text is, and its name which one.
type place struct{ kind, name, text string }

// secrets says by the text of each secret what it is.
type secrets map[string]string

// shows returns which secrets a place shows, and in which form.
func (p place) shows(all secrets) []string {
	var found []string
	digits := strings.ToLower(p.text)
	for _, secret := range slices.Sorted(maps.Keys(all)) {
		if how := leak(p.text, digits, secret); how != "" {
			found = append(found, fmt.Sprintf("%s %s shows %s %s", p.kind, p.name, all[secret], how))
		}
	}
	return found
}

// leak says in which form a text has a secret: as it is, in base64 or in hexadecimal digits. It is empty if the text doesn't have it. The text
// is given in lower case too.
func leak(text, lower, secret string) string {
	if strings.Contains(text, secret) {
		return "as it is"
	}
	if strings.Contains(lower, hex.EncodeToString([]byte(secret))) {
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

// TestLeaksAreFound: the search for secrets finds them in each form, and each of several.
func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	all := secrets{password: "a password", username: "a user name"}
	for text, found := range map[string]string{
		"the password is " + password + ".":                                          "a password as it is",
		base64.StdEncoding.EncodeToString([]byte(password)):                          "a password in base64",
		base64.StdEncoding.EncodeToString([]byte("admin:" + password)):               "a password in base64",
		base64.StdEncoding.EncodeToString([]byte(`{"Password":"` + password + `"}`)): "a password in base64",
		base64.URLEncoding.EncodeToString([]byte("?>" + password + "?>")):            "a password in base64",
		hex.EncodeToString([]byte("a" + password + "b")):                             "a password in hexadecimal digits",
		strings.ToUpper(hex.EncodeToString([]byte(password))):                        "a password in hexadecimal digits",
		"user " + username + " and " + password:                                      "a user name as it is; a password as it is",
		"the secret of the sandbox":                                                  "",
		base64.StdEncoding.EncodeToString([]byte("sandbox")):                         "",
	} {
		want := []string{}
		for what := range strings.SplitSeq(found, "; ") {
			if what != "" {
				want = append(want, "log a shows "+what)
			}
		}
		got := place{"log", "a", text}.shows(all)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", text, got, want)
		}
	}
}

// secrets returns the credentials that tests have given to Fettle, those of its Secrets now, and the tokens of all sessions of its BMCs.
func (s *site) secrets(ctx context.Context, t *testing.T) secrets {
	t.Helper()
	all := secrets{password: "a password", refusedPassword: "a password", username: "a user name"}
	var list corev1.SecretList
	if err := s.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		t.Errorf("listing Secrets: %v", err)
	}
	for i := range list.Items {
		if word := string(list.Items[i].Data["password"]); word != "" {
			all[word] = "a password"
		}
	}
	for _, of := range s.both() {
		for _, r := range of.requestsOfAll(t) {
			if r.Token != "" {
				all[r.Token] = "the token of a session"
			}
		}
	}
	return all
}

// showsNoSecret checks at the end of a site that no secret of a BMC is anywhere but in the Secrets. It searches all other objects, each revision of
// what Fettle writes, among it events, the logs and the metrics of Fettle, and what its commands print.
func (s *site) showsNoSecret(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), searchesIn)
	defer cancel()
	places := s.places(ctx, t) // the commands open sessions too
	all := s.secrets(ctx, t)
	for _, p := range places {
		for _, found := range p.shows(all) {
			t.Error(found)
		}
	}
	if t.Failed() {
		return
	}
	kinds := kindsOf(places)
	for _, kind := range []string{"object BMC", "object Node", "revision of BMC", "log", "metrics", "output"} {
		if !kinds[kind] {
			t.Errorf("no %s was searched, but only %v", kind, slices.Sorted(maps.Keys(kinds)))
		}
	}
}

func kindsOf(places []place) map[string]bool {
	kinds := map[string]bool{}
	for _, p := range places {
		kinds[p.kind] = true
	}
	return kinds
}

// places returns all that must show no secret.
func (s *site) places(ctx context.Context, t *testing.T) []place {
	t.Helper()
	all := slices.Concat(s.shown.places(), s.outputs(ctx, t, s.commands(ctx, t)))
	for _, of := range s.both() {
		all = append(all, of.objects(ctx, t)...)
	}
	return all
}

// objects returns all objects that the API server has but Secrets.
func (s *site) objects(ctx context.Context, t *testing.T) []place {
	t.Helper()
	served, err := discovery.NewDiscoveryClientForConfigOrDie(s.Config).ServerPreferredResources()
	if err != nil {
		t.Errorf("reading which kinds are served: %v", err)
	}
	var all []place
	for _, group := range served {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatalf("reading which kinds are served: %v", err)
		}
		for i := range group.APIResources {
			r := &group.APIResources[i]
			if slices.Contains(r.Verbs, "list") && (version.Group != "" || r.Name != "secrets") {
				all = append(all, s.objectsOf(ctx, t, version.WithKind(r.Kind))...)
			}
		}
	}
	return all
}

func (s *site) objectsOf(ctx context.Context, t *testing.T, kind schema.GroupVersionKind) []place {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := s.List(ctx, list); err != nil {
		if !apierrors.IsMethodNotSupported(err) && !apierrors.IsNotFound(err) {
			t.Errorf("listing objects of kind %s: %v", kind, err)
		}
		return nil
	}
	all := make([]place, 0, len(list.Items))
	for i := range list.Items {
		text, err := json.Marshal(list.Items[i].Object)
		if err != nil {
			t.Fatalf("encoding an object: %v", err)
		}
		all = append(all, place{"object " + kind.Kind, list.Items[i].GetName(), string(text)})
	}
	return all
}

// commands are those about the cluster, and about a BMC of each state that there is.
func (s *site) commands(ctx context.Context, t *testing.T) [][]string {
	t.Helper()
	commands := [][]string{{"status", "-A"}}
	var bmcs v1alpha1.BMCList
	if err := s.List(ctx, &bmcs, client.InNamespace(namespace)); err != nil {
		t.Errorf("listing BMCs: %v", err)
	}
	states := map[string]bool{}
	for i := range bmcs.Items {
		b := &bmcs.Items[i]
		if states[stateOfBMC(b)] {
			continue
		}
		states[stateOfBMC(b)] = true
		node := b.Spec.NodeName
		if in := b.Spec.Cluster; in != nil {
			node = in.Namespace + "/" + in.Name + "/" + node
		}
		commands = append(commands, []string{"bmc", "check", node}, []string{"explain", "node/" + b.Spec.NodeName, "-n", namespace})
	}
	return commands
}

// stateOfBMC returns the state of a BMC, as far as the commands print more or less for it.
func stateOfBMC(b *v1alpha1.BMC) string {
	protocol, _, _ := strings.Cut(b.Spec.Address, ":")
	state := protocol + " " + string(b.Status.Power)
	if c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ReachableCondition); c != nil {
		state += " " + c.Reason
	}
	return state
}

// outputs returns what commands print.
func (s *site) outputs(ctx context.Context, t *testing.T, commands [][]string) []place {
	t.Helper()
	all := make([]place, 0, len(commands))
	for _, args := range commands {
		command := exec.CommandContext(ctx, cluster.Binary(t, "fettle"), append(args, "--kubeconfig", s.Kubeconfig())...)
		text, err := command.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || len(text) == 0 {
			t.Errorf("fettle %v: %v, %q", args, err, text)
		}
		all = append(all, place{"output", "of fettle " + strings.Join(args, " "), string(text)})
	}
	return all
}
