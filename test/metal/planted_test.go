package metal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// secretsAreFoundEverywhere: the search at the end of a site looks at each place. The name of a node stands for a secret. It is in an earlier revision of
// each object, in the log, in the metrics and in what commands print. The credentials and the tokens of sessions are among what is searched.
func secretsAreFoundEverywhere(p *pool) {
	healthCheck(p) // which leaves no PowerRemediation behind
	name := p.first() + "-dead"
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	secret := &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"username": username, "password": password}}
	dead := &v1alpha1.BMC{ObjectMeta: meta, Spec: v1alpha1.BMCSpec{NodeName: name, Address: "redfish+http://127.0.0.2:1", CredentialsName: name}}
	for _, err := range []error{p.Create(cluster.Context(p.T), secret), p.Create(cluster.Context(p.T), dead)} {
		if err != nil {
			p.Fatalf("creating a BMC: %v", err)
		}
	}
	p.showsIn("its objects, logs and metrics", func(ctx context.Context) []place { return append(p.shown.places(), p.objects(ctx, p.T)...) },
		"object BMC", "object Node", "revision of BMC", "revision of PowerRemediation", "revision of Repair", "revision of Event", "log", "metrics")
	p.showsIn("outputs", func(ctx context.Context) []place { return p.outputs(ctx, p.T, [][]string{{"status", "-A"}}) }, "output")
	p.wereSearchedFor()
}

// showsIn waits until the name of the first node is in places of these kinds.
func (p *pool) showsIn(what string, places func(context.Context) []place, kinds ...string) {
	p.Helper()
	p.Eventually(p.T, "the name in "+what, func(ctx context.Context) error {
		shows := map[string]bool{}
		for _, place := range places(ctx) {
			if len(place.shows(secrets{p.first(): "the name"})) > 0 {
				shows[place.kind] = true
			}
		}
		for _, kind := range kinds {
			if !shows[kind] {
				return fmt.Errorf("it is in no %s, but in %v", kind, shows)
			}
		}
		return nil
	})
}

// wereSearchedFor checks that the user name, the password and the tokens of sessions are what the search looks for.
func (p *pool) wereSearchedFor() {
	p.Helper()
	all := p.secrets(cluster.Context(p.T), p.T)
	tokens := slices.DeleteFunc(p.requestsOf(p.T, p.first()), func(r request) bool { return r.Token == "" })
	if len(tokens) == 0 || all[username] == "" || all[password] == "" {
		p.Fatalf("what is searched for lacks a user name or a password, or no session was opened on the BMC of %s", p.first())
	}
	for _, r := range tokens {
		if found := (place{"log", "a", "Token: " + r.Token}).shows(all); len(found) != 1 || !strings.Contains(found[0], "session") {
			p.Errorf("the token of a session is found as %q", found)
		}
	}
}
