package cluster

import (
	"maps"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Effective returns the rights of Fettle's service account as the API server reports them, whichever role grants them.
// It leaves out the rights of every service account. A right in all namespaces has an empty Namespace. For a right on a
// path, Resource is that path.
func (c *Cluster) Effective(t testing.TB) []Right {
	t.Helper()
	var namespaces corev1.NamespaceList
	if err := c.List(Context(t), &namespaces); err != nil {
		t.Fatalf("listing namespaces: %v", err)
	}
	fettle, stranger := c.as(t, accountName), c.as(t, "without-any-binding")
	in := map[string]map[Right]bool{}
	for i := range namespaces.Items {
		name := namespaces.Items[i].Name
		in[name] = rulesIn(t, fettle, name)
		for r := range rulesIn(t, stranger, name) {
			delete(in[name], r)
		}
	}
	return slices.Collect(maps.Keys(withNamespaces(in)))
}

// withNamespaces sets the namespace of each right that holds in some namespaces only.
func withNamespaces(in map[string]map[Right]bool) map[Right]bool {
	count := map[Right]int{}
	for _, rights := range in {
		for r := range rights {
			count[r]++
		}
	}
	all := map[Right]bool{}
	for namespace, rights := range in {
		for r := range rights {
			if count[r] < len(in) {
				r.Namespace = namespace
			}
			all[r] = true
		}
	}
	return all
}

// as returns a client that acts as a service account in Fettle's namespace, which may be Fettle's own.
func (c *Cluster) as(t testing.TB, account string) client.Client {
	t.Helper()
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + accountNamespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + accountNamespace, "system:authenticated"},
	}
	out, err := client.New(config, client.Options{Scheme: scheme()})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return out
}

// rulesIn returns what the API server lets the client's user do in a namespace.
func rulesIn(t testing.TB, as client.Client, namespace string) map[Right]bool {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := as.Create(Context(t), review); err != nil {
		t.Fatalf("asking for the rules in namespace %s: %v", namespace, err)
	}
	if review.Status.Incomplete {
		t.Fatalf("the rules in namespace %s are incomplete: %s", namespace, review.Status.EvaluationError)
	}
	rights := map[Right]bool{}
	for _, r := range review.Status.ResourceRules {
		rule := rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, Verbs: r.Verbs, ResourceNames: r.ResourceNames}
		for _, right := range Rights(rule, "") {
			rights[right] = true
		}
	}
	for _, r := range review.Status.NonResourceRules {
		for _, right := range Rights(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: r.NonResourceURLs, Verbs: r.Verbs}, "") {
			rights[right] = true
		}
	}
	return rights
}
