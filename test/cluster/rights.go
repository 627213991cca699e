package cluster

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The names of Fettle's service account: its own, and the audit log's.
const (
	accountNamespace = "fettle-system"
	accountName      = "fettle"
	accountUser      = "system:serviceaccount:" + accountNamespace + ":" + accountName
)

// Right is one verb on one resource, or on "resource/subresource". A granted right with an empty namespace or name
// holds for all.
type Right struct{ Group, Resource, Verb, Namespace, Name string }

// Covers reports whether a granted right allows a use.
func (r Right) Covers(done Right) bool {
	return r.Group == done.Group && r.Resource == done.Resource && r.Verb == done.Verb &&
		(r.Namespace == "" || r.Namespace == done.Namespace) && (r.Name == "" || r.Name == done.Name)
}

// Use is a right that Fettle used, or tried to use.
type Use struct {
	Right

	// Allowed is the answer of the API server's authorizer.
	Allowed bool
}

// Uses returns what Fettle's service account did with resources, including watches, each once.
func (c *Cluster) Uses(t testing.TB) []Use {
	t.Helper()
	file, err := os.Open(c.auditLog())
	if err != nil {
		t.Fatalf("opening the audit log: %v", err)
	}
	defer func() { _ = file.Close() }()
	seen := map[Use]bool{}
	var uses []Use
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		if u, ok := readUse(lines.Bytes()); ok && !seen[u] {
			seen[u] = true
			uses = append(uses, u)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	return uses
}

// readUse reads a line of the audit log. A watch has a line when it begins, and other requests when they are answered.
func readUse(line []byte) (Use, bool) {
	var e struct {
		Verb        string
		User        struct{ Username string }
		ObjectRef   *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		Annotations map[string]string
	}
	if json.Unmarshal(line, &e) != nil || e.User.Username != accountUser || e.ObjectRef == nil {
		return Use{}, false
	}
	o := e.ObjectRef
	resource := o.Resource
	if o.Subresource != "" {
		resource += "/" + o.Subresource
	}
	right := Right{Group: o.APIGroup, Resource: resource, Verb: e.Verb, Namespace: o.Namespace, Name: o.Name}
	return Use{Right: right, Allowed: e.Annotations["authorization.k8s.io/decision"] == "allow"}, true
}

// ClusterAPIRoles is the prefix of the names of roles that only a management cluster of Cluster API needs.
const ClusterAPIRoles = "fettle-cluster-api"

// Granted returns the rights that bindings grant to Fettle's service account, of the roles whose names are wanted. It
// leaves out rights that a role has aggregated from other roles.
func (c *Cluster) Granted(t testing.TB, wanted func(role string) bool) []Right {
	t.Helper()
	var everywhere rbacv1.ClusterRoleBindingList
	var inNamespaces rbacv1.RoleBindingList
	for _, list := range []client.ObjectList{&everywhere, &inNamespaces} {
		if err := c.List(Context(t), list); err != nil {
			t.Fatalf("listing who has which role: %v", err)
		}
	}
	var rights []Right
	for i := range everywhere.Items {
		b := &everywhere.Items[i]
		if !slices.ContainsFunc(b.Subjects, isFettle) || !wanted(b.RoleRef.Name) {
			continue
		}
		if role := c.clusterRole(t, b.RoleRef); role.AggregationRule == nil {
			rights = append(rights, rightsOf(role.Rules, "")...)
		}
	}
	for i := range inNamespaces.Items {
		if b := &inNamespaces.Items[i]; slices.ContainsFunc(b.Subjects, isFettle) && wanted(b.RoleRef.Name) {
			rights = append(rights, rightsOf(c.rulesOf(t, b.RoleRef, b.Namespace), b.Namespace)...)
		}
	}
	return rights
}

func isFettle(s rbacv1.Subject) bool {
	return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == accountNamespace && s.Name == accountName
}

func rightsOf(rules []rbacv1.PolicyRule, namespace string) []Right {
	var rights []Right
	for _, rule := range rules {
		rights = append(rights, Rights(rule, namespace)...)
	}
	return rights
}

func (c *Cluster) rulesOf(t testing.TB, ref rbacv1.RoleRef, namespace string) []rbacv1.PolicyRule {
	t.Helper()
	if ref.Kind == "ClusterRole" {
		return c.clusterRole(t, ref).Rules
	}
	var role rbacv1.Role
	if err := c.Get(Context(t), client.ObjectKey{Namespace: namespace, Name: ref.Name}, &role); err != nil {
		t.Fatalf("reading Role %s: %v", ref.Name, err)
	}
	return role.Rules
}

func (c *Cluster) clusterRole(t testing.TB, ref rbacv1.RoleRef) *rbacv1.ClusterRole {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := c.Get(Context(t), client.ObjectKey{Name: ref.Name}, role); err != nil {
		t.Fatalf("reading ClusterRole %s: %v", ref.Name, err)
	}
	return role
}

// Rights splits a rule of a role into single rights.
func Rights(rule rbacv1.PolicyRule, namespace string) []Right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var rights []Right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					rights = append(rights, Right{Group: group, Resource: resource, Verb: verb, Namespace: namespace, Name: name})
				}
			}
		}
	}
	return rights
}
