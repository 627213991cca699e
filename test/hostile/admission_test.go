package hostile

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestI14AdmissionPolicies: the API server answers each row with Fettle's policies. Fettle itself does not run. The
// definitions of health checks accept anything, so that only the policies refuse.
func TestI14AdmissionPolicies(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	w := newTemplatesWorld(t, c)
	c.InstallFettle(t)
	g := newGrantsWorld(t, c)
	t.Run("grants", func(t *testing.T) { g.in(t).wantRows() })
	t.Run("secrets", func(t *testing.T) { g.in(t).wantSecrets() })
	t.Run("templates", func(t *testing.T) { w.in(t).wantRows() })
}

// TestI14PoliciesFailClosed: each policy refuses what it can't evaluate, and its binding denies.
func TestI14PoliciesFailClosed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "config", "admission", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no policies (%v)", err)
	}
	for _, file := range files {
		objects := cluster.Manifest(t, filepath.Join("config", "admission", filepath.Base(file)))
		if len(objects) != 2 {
			t.Fatalf("%s has %d objects", file, len(objects))
		}
		var policy admissionv1.ValidatingAdmissionPolicy
		var binding admissionv1.ValidatingAdmissionPolicyBinding
		for i, into := range []any{&policy, &binding} {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, into); err != nil {
				t.Fatalf("reading %s: %v", file, err)
			}
		}
		if p := policy.Spec.FailurePolicy; p == nil || *p != admissionv1.Fail {
			t.Errorf("%s does not fail closed", policy.Name)
		}
		if !slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) || binding.Spec.PolicyName != policy.Name || binding.Spec.MatchResources != nil {
			t.Errorf("%s is not bound to deny everywhere: %+v", policy.Name, binding.Spec)
		}
	}
}

// grantsWorld has users who may do everything with Fettle's kinds in the namespace tenant. In all namespaces, each user
// has the rights of one grant.
type grantsWorld struct {
	*identityWorld

	grants []grant
	// stored are objects of all granted kinds.
	stored []client.Object
}

// A grant is verbs on one resource of fettle.io in all namespaces.
type grant struct {
	user, resource string
	verbs          []string
}

const grantsRights = `
{apiVersion: v1, kind: Namespace, metadata: {name: tenant}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: grants, namespace: tenant},
 rules: [{apiGroups: [fettle.io], resources: ["*"], verbs: ["*"]}, {apiGroups: [""], resources: [secrets], resourceNames: [stored, probe], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: grants, namespace: tenant},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: grants}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: tenants}]}
`

// grantedKinds are the kinds that only users with rights in all namespaces may write, in the order of objects.
func grantedKinds() []string {
	return []string{"repairs", "machinedeletionremediations", "powerremediations", "bmcs", "selffenceremediations", "powerremediationtemplates", "selffenceremediationtemplates"}
}

// allGrants are each verb that a policy checks, and all other verbs, on each resource.
func allGrants() []grant {
	grants := []grant{{user: "without-grants"}}
	for _, kind := range grantedKinds() {
		for _, resource := range []string{kind, kind + "/status"} {
			for _, verbs := range [][]string{{"create"}, {"update"}, {"patch"}, {"delete"}, {"get", "list", "watch", "deletecollection"}} {
				user := verbs[0] + "-" + strings.ReplaceAll(resource, "/", "-")
				grants = append(grants, grant{user, resource, verbs})
			}
		}
	}
	return grants
}

func newGrantsWorld(t *testing.T, c *cluster.Cluster) *grantsWorld {
	t.Helper()
	c.Apply(t, grantsRights)
	w := &grantsWorld{identityWorld: &identityWorld{Cluster: c, t: t, namespace: "tenant"}, grants: allGrants()}
	for _, g := range w.grants[1:] {
		w.bind(g)
	}
	for _, g := range w.grants {
		w.awaitRights(g)
	}
	w.stored = w.objects("stored")
	for _, o := range w.stored {
		w.must("creating "+o.GetName(), c.Create(cluster.Context(t), o))
	}
	for _, o := range w.objects("probe") {
		w.Eventually(t, "the API server follows the policy", func(ctx context.Context) error {
			if err := w.of(w.grants[0]).Create(ctx, o, client.DryRunAll); !apierrors.IsForbidden(err) {
				return fmt.Errorf("the answer is %w", err)
			}
			return nil
		})
	}
	return w
}

func (w *grantsWorld) in(t *testing.T) *grantsWorld {
	t.Helper()
	of := *w
	of.identityWorld = w.identityWorld.in(t)
	return &of
}

func (w *grantsWorld) of(g grant) client.Client { return w.as(g.user, "tenants") }

func (w *grantsWorld) bind(g grant) {
	w.t.Helper()
	ctx := cluster.Context(w.t)
	w.must("creating a role", w.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: g.user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"fettle.io"}, Resources: []string{g.resource}, Verbs: g.verbs}},
	}))
	w.must("binding a role", w.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: g.user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: g.user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: g.user}},
	}))
}

// awaitRights waits until the authorizer knows a user's rights, in the namespace and in all.
func (w *grantsWorld) awaitRights(g grant) {
	w.t.Helper()
	wanted := []authorizationv1.ResourceAttributes{{Group: "fettle.io", Resource: "repairs", Verb: "create", Namespace: "tenant"}}
	if g.resource != "" {
		resource, subresource, _ := strings.Cut(g.resource, "/")
		wanted = append(wanted, authorizationv1.ResourceAttributes{Group: "fettle.io", Resource: resource, Subresource: subresource, Verb: g.verbs[0]})
	}
	for _, attributes := range wanted {
		w.Eventually(w.t, "the rights of "+g.user, func(ctx context.Context) error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: g.user, Groups: []string{"tenants"}, ResourceAttributes: &attributes,
			}}
			if err := w.Create(ctx, review); err != nil || !review.Status.Allowed {
				return fmt.Errorf("%+v is not allowed (%w)", attributes, err)
			}
			return nil
		})
	}
}

// objects returns one object of each kind.
func (*grantsWorld) objects(name string) []client.Object {
	target := core.ID{Kind: "Machine", Namespace: "tenant", Name: name, UID: name}
	w, limit := repairsWorld{}, metav1.Duration{Duration: time.Minute}
	return []client.Object{
		w.forged(target, core.ID{Kind: "MachineHealthCheck", Namespace: "tenant", Name: "workers", UID: "check"}, 1),
		&v1alpha1.MachineDeletionRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name}},
		&v1alpha1.PowerRemediation{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name},
			// An update has the same spec only where durations are written as Go writes them.
			Spec: v1alpha1.PowerRemediationSpec{PowerOffTimeout: &limit, FenceTimeout: &limit, ReleaseTimeout: &limit, PowerOnTimeout: &limit, BootTimeout: &limit, MachineDeletionTimeout: &limit},
		},
		&v1alpha1.BMC{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name},
			Spec:       v1alpha1.BMCSpec{NodeName: name, Address: "redfish://" + name + ".example.com", CredentialsName: name},
		},
		&v1alpha1.SelfFenceRemediation{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name},
			Spec:       v1alpha1.SelfFenceRemediationSpec{FenceTimeout: &limit, ReleaseTimeout: &limit, BootTimeout: &limit},
		},
		// A user who writes the template that a health check names would decide that machines or nodes are deleted.
		&v1alpha1.PowerRemediationTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name},
			Spec: v1alpha1.PowerRemediationTemplateSpec{Template: v1alpha1.PowerRemediationTemplateResource{Spec: v1alpha1.PowerRemediationSpec{
				OnFailure: v1alpha1.DeleteMachineAction, PowerOffTimeout: &limit, FenceTimeout: &limit, ReleaseTimeout: &limit, PowerOnTimeout: &limit, BootTimeout: &limit, MachineDeletionTimeout: &limit,
			}}},
		},
		&v1alpha1.SelfFenceRemediationTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name},
			Spec: v1alpha1.SelfFenceRemediationTemplateSpec{Template: v1alpha1.SelfFenceRemediationTemplateResource{Spec: v1alpha1.SelfFenceRemediationSpec{
				Release: v1alpha1.DeleteNodeRelease, FenceTimeout: &limit, ReleaseTimeout: &limit, BootTimeout: &limit,
			}}},
		},
	}
}

// A grantsRow is what a user does with an object. Each of the needed rights suffices, in all namespaces.
type grantsRow struct {
	does  string
	needs []string
	do    func(context.Context, client.Client, client.Object) error
}

func grantsRows(resource string) []grantsRow {
	of, ofStatus := []string{"update " + resource, "patch " + resource}, []string{"update " + resource + "/status", "patch " + resource + "/status"}
	rows := []grantsRow{
		{"update", of, func(ctx context.Context, as client.Client, o client.Object) error {
			o.SetLabels(map[string]string{"a": "b"})
			return as.Update(ctx, o, client.DryRunAll)
		}},
		{"patch", of, func(ctx context.Context, as client.Client, o client.Object) error {
			return as.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll)
		}},
		{"update the status", ofStatus, func(ctx context.Context, as client.Client, o client.Object) error {
			return as.Status().Update(ctx, o, client.DryRunAll)
		}},
		{"patch the status", ofStatus, func(ctx context.Context, as client.Client, o client.Object) error {
			return as.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"status":{"message":"a"}}`)), client.DryRunAll)
		}},
		{"create", []string{"create " + resource}, func(ctx context.Context, as client.Client, o client.Object) error {
			o.SetName("new")
			o.SetResourceVersion("")
			return as.Create(ctx, o, client.DryRunAll)
		}},
	}
	remove := grantsRow{"delete", []string{"delete " + resource}, func(ctx context.Context, as client.Client, o client.Object) error {
		return as.Delete(ctx, o, client.DryRunAll)
	}}
	if resource != "repairs" {
		remove.needs = nil // the right in the namespace suffices
	}
	if strings.HasSuffix(resource, "templates") { // they have no status
		rows = slices.DeleteFunc(rows, func(r grantsRow) bool { return strings.HasSuffix(r.does, "the status") })
	}
	return append(rows, remove)
}

// wantRows: a user with all rights in a namespace needs the same right in all namespaces.
func (w *grantsWorld) wantRows() {
	for i, resource := range grantedKinds() {
		for _, g := range w.grants {
			as := w.of(g)
			for _, row := range grantsRows(resource) {
				may := len(row.needs) == 0 || slices.ContainsFunc(g.verbs, func(verb string) bool { return slices.Contains(row.needs, verb+" "+g.resource) })
				what := fmt.Sprintf("%s of %s by %s", row.does, resource, g.user)
				o, _ := w.stored[i].DeepCopyObject().(client.Object)
				err := row.do(cluster.Context(w.t), as, o)
				switch {
				case !may:
					w.wantForbidden(what, err, "in all namespaces", "ClusterRoleBinding")
					if strings.HasSuffix(resource, "templates") && strings.Contains(fmt.Sprint(err), "fettle-self-fence-remediation") {
						w.t.Errorf("%s: the advice names a role without that right: %v", what, err)
					}
					if resource != "powerremediations" && resource != "powerremediations/status" && strings.Contains(fmt.Sprint(err), "fettle-power-remediation") {
						w.t.Errorf("%s: the advice names a role without that right: %v", what, err)
					}
				case err != nil:
					w.t.Errorf("%s: want it allowed, got %v", what, err)
				}
			}
		}
	}
}

// wantSecrets: a BMC has the credentials of a Secret sent to the address in its spec. So its author needs the right to get the Secret.
func (w *grantsWorld) wantSecrets() {
	ctx := cluster.Context(w.t)
	bmc := func(name, secret string) *v1alpha1.BMC {
		return &v1alpha1.BMC{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name},
			Spec:       v1alpha1.BMCSpec{NodeName: name, Address: "redfish://" + name + ".example.com", CredentialsName: secret},
		}
	}
	hidden, metal := bmc("of-hidden", "hidden"), bmc("of-metal3", "")
	w.must("creating a BMC", w.Create(ctx, hidden))
	metal.Spec.Address, metal.Spec.BareMetalHost = "", &v1alpha1.BareMetalHostReference{Namespace: "metal3", Name: "a"}
	create := func(b *v1alpha1.BMC) func(client.Client) error {
		return func(as client.Client) error { return as.Create(ctx, b.DeepCopy(), client.DryRunAll) }
	}
	merge := func(name, change string) func(client.Client) error {
		return func(as client.Client) error {
			return as.Patch(ctx, bmc(name, ""), client.RawPatch(types.MergePatchType, []byte(change)), client.DryRunAll)
		}
	}
	const elsewhere = `{"spec":{"address":"redfish+http://elsewhere.example.com"}}`
	for what, tc := range map[string]struct {
		user string
		do   func(client.Client) error
		may  bool
	}{
		"a BMC with a Secret that its author may get": {"create-bmcs", create(bmc("new", "stored")), true},
		"a BMC with another Secret":                   {"create-bmcs", create(bmc("new", "hidden")), false},
		"a BMC with a BareMetalHost":                  {"create-bmcs", create(metal), true},
		"another address":                             {"patch-bmcs", merge("stored", elsewhere), true},
		"another address for a Secret that is hidden": {"patch-bmcs", merge("of-hidden", elsewhere), false},
		"a Secret that is hidden":                     {"patch-bmcs", merge("stored", `{"spec":{"credentialsName":"hidden"}}`), false},
		"a label":                                     {"patch-bmcs", merge("of-hidden", `{"metadata":{"labels":{"a":"b"}}}`), true},
		"the same spec":                               {"patch-bmcs", merge("of-hidden", `{"spec":{"credentialsName":"hidden"}}`), true},
		"another Secret in place of a hidden one":     {"patch-bmcs", merge("of-hidden", `{"spec":{"credentialsName":"stored"}}`), true},
		"a BareMetalHost in place of an address":      {"patch-bmcs", merge("of-hidden", `{"spec":{"address":null,"credentialsName":null,"bareMetalHost":{"namespace":"metal3","name":"a"}}}`), true},
		"the same as an update":                       {"update-bmcs", func(as client.Client) error { return as.Update(ctx, hidden.DeepCopy(), client.DryRunAll) }, true},
		"the status of a BMC with a Secret that is hidden": {"patch-bmcs-status", func(as client.Client) error {
			return as.Status().Patch(ctx, hidden.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"power":"On"}}`)), client.DryRunAll)
		}, true},
	} {
		switch err := tc.do(w.as(tc.user, "tenants")); {
		case !tc.may:
			w.wantForbidden(what, err, "you may not get Secret hidden of namespace tenant", "a Role")
		case err != nil:
			w.t.Errorf("%s: want it allowed, got %v", what, err)
		}
	}
}
