package integration

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/test/cluster"
)

// installable returns the objects of some kinds in all parts of an installation.
func installable(t *testing.T, kinds ...string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, dir := range []string{"config", "config/monitoring", "config/openshift", "config/cluster_api", "config/power", "config/metal3", "config/selffence"} {
		for _, u := range cluster.Kustomization(t, dir) {
			if slices.Contains(kinds, u.GetKind()) {
				all = append(all, u)
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("there is no %v", kinds)
	}
	return all
}

func convert(t *testing.T, u *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		t.Fatalf("reading %s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// TestI14RightsAreBoundToFettleAlone: no binding of an installation grants a right to another identity, except for the
// Prometheus that reads metrics, and the agents.
func TestI14RightsAreBoundToFettleAlone(t *testing.T) {
	t.Parallel()
	fettle := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "fettle-system", Name: "fettle"}}
	for _, u := range installable(t, "RoleBinding", "ClusterRoleBinding") {
		var b rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
		convert(t, u, &b)
		want := fettle
		if strings.HasPrefix(b.RoleRef.Name, "fettle-agent") {
			want = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "fettle-agents", Name: "fettle-agent"}}
		}
		if b.RoleRef.Name != "fettle-metrics-reader" && !slices.Equal(b.Subjects, want) {
			t.Errorf("%s %s binds %s to %+v", b.Kind, b.Name, b.RoleRef.Name, b.Subjects)
		}
		if b.RoleRef.Name != b.Name {
			t.Errorf("%s %s binds %s", b.Kind, b.Name, b.RoleRef.Name)
		}
	}
}

// TestI14ViewersReadNoSecrets: the roles for viewers grant no change, and no read of a kubeconfig.
func TestI14ViewersReadNoSecrets(t *testing.T) {
	t.Parallel()
	roles := 0
	for _, u := range installable(t, "Role", "ClusterRole") {
		if !strings.Contains(u.GetName(), "view") {
			continue
		}
		roles++
		var role rbacv1.ClusterRole
		convert(t, u, &role)
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("%s %s may %s %v", role.Kind, role.Name, verb, rule.Resources)
				}
			}
			if slices.Contains(rule.Resources, "secrets") {
				t.Errorf("%s %s reads Secrets", role.Kind, role.Name)
			}
		}
	}
	if roles < 4 {
		t.Errorf("only %d roles were found", roles)
	}
}

// TestI14RolesReachNoFurther: other roles aggregate a role by its label. Only these four are meant for that.
func TestI14RolesReachNoFurther(t *testing.T) {
	t.Parallel()
	meant := map[string]string{
		"fettle-repairs-view":                 "rbac.authorization.k8s.io/aggregate-to-view",
		"fettle-machine-deletion-remediation": "rbac.ext-remediation/aggregate-to-ext-remediation",
		"fettle-power-remediation":            "rbac.ext-remediation/aggregate-to-ext-remediation",
		"fettle-self-fence-remediation":       "rbac.ext-remediation/aggregate-to-ext-remediation",
	}
	for _, u := range installable(t, "ClusterRole") {
		for label := range u.GetLabels() {
			if strings.Contains(label, "aggregate-to") && meant[u.GetName()] != label {
				t.Errorf("ClusterRole %s has label %s", u.GetName(), label)
			}
		}
	}
}
