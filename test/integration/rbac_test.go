package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// repairNamespace is a namespace that no installation has made.
const repairNamespace = "repairs-of-nodes"

// TestRights: Fettle has the rights that it uses and no others, whichever role grants them, also beside the roles of
// Cluster API. In a story Fettle does everything that it can do, and the audit log shows which rights that took.
func TestRights(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallProvidersRoles(t)
	// The kinds come later, while Fettle runs.
	c.InstallRights(t)
	address := cluster.FreeAddress(t)
	fettle := c.StartFettle(t, "--leader-elect", "--repair-retention-count=1", "--repair-namespace="+repairNamespace, "--metrics-bind-address="+address)
	c.InstallFettle(t)
	remediatesNodes(t, c)
	f := newMachineFixture(t, c, "rights")
	repairsAndPrunes(f)
	remediatesForOthers(f)
	isRefused(f)
	isRefusedForOthers(f)
	marks(newMachineFixture(t, c, "metal"))
	reviewsItsPower(newMachineFixture(t, c, "power"))
	onlyRehearses(f)
	tellsOfTheSameTwice(f)
	givesMetrics(f, "https://"+address+"/metrics")
	repairsTheControlPlane(t, c)
	fettle.Stop(t)
	onAnOlderServer(t, c)

	effective, uses := c.Effective(t), c.Uses(t)
	wantAllAllowed(t, effective, uses)
	wantAllUsed(t, effective, uses, func(cluster.Right) bool { return false })
	asksNoMoreOfRemediators(t, uses)
}

// repairsAndPrunes: two machines are replaced. Of two older Repairs, which no back-off reads, the first is deleted.
func repairsAndPrunes(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{phase: "Failed"})
	f.wantMachines()
	f.machine("b", machineOptions{phase: "Failed", labels: map[string]string{"pool": "another"}})
	f.wantMachines()
	f.endedLongAgo("old-1", "old-2")
	f.wantRepairs("a Succeeded", "b Succeeded", "old-2 Succeeded")
}

// marks: a machine is marked for an outside remediator.
func marks(f *machineFixture) {
	f.healthCheck("metal", map[string]string{"machine.openshift.io/remediation-strategy": "external-baremetal"},
		"selector: {matchLabels: {role: metal}}\nunhealthyConditions:\n"+`- {type: Ready, status: "False", timeout: 2s}`)
	f.machine("m", machineOptions{labels: map[string]string{"role": "metal"}})
	f.setReady("m", corev1.ConditionFalse)
	f.wantMarked("m", true)
}

// reviewsItsPower: before Fettle powers hosts, it reviews whether it has the rights of config/power, which it lacks here.
func reviewsItsPower(f *machineFixture) {
	f.healthCheck("power", map[string]string{"machine.openshift.io/remediation-strategy": "external-baremetal", "fettle.io/external-baremetal": "PowerRemediation"},
		"selector: {matchLabels: {role: power}}\nunhealthyConditions:\n"+`- {type: Ready, status: "False", timeout: 2s}`)
	f.machine("p", machineOptions{labels: map[string]string{"role": "power"}})
	f.setReady("p", corev1.ConditionFalse)
	f.wantEvent("p", "RemediationHeldTemplateUnusable")
}

// remediatesForOthers: by another health checker's remediation, Fettle deletes a machine whose set wants no other.
func remediatesForOthers(f *machineFixture) {
	f.linked("r", machineOptions{labels: map[string]string{"role": "other"}})
	passesASecond(f.t)
	f.remediate("r")
	f.wantRemediation("r", "Succeeded=True")
	f.endRemediation("r")
}

// isRefusedForOthers: before Fettle retries a refused deletion, it reads the remediation again.
func isRefusedForOthers(f *machineFixture) {
	f.linked("s", machineOptions{labels: map[string]string{"role": "other"}})
	passesASecond(f.t)
	f.remediate("s")
	f.Eventually(f.t, "the remediation is read again", func(context.Context) error {
		if cluster.Count(f.Requests(f.t), "get", "machinedeletionremediations", f.namespace) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	f.endRemediation("s")
}

// isRefused: a deletion is refused, and the repair's status says so.
func isRefused(f *machineFixture) {
	f.Apply(f.t, noMachineMayBeDeleted)
	f.machine("c", machineOptions{})
	f.setReady("c", corev1.ConditionFalse)
	f.wantEvent("c", "MachineDeletionFailed")
	f.setReady("c", corev1.ConditionTrue)
	f.wantRepairs("a Succeeded", "b Succeeded", "c Recovered", "old-2 Succeeded")
}

// onlyRehearses: Fettle reports a dry run.
func onlyRehearses(f *machineFixture) {
	f.annotate(f.check("example"), "fettle.io/dry-run", "true")
	f.machine("d", machineOptions{phase: "Failed"})
	f.wantEvent("d", "DryRun")
}

// tellsOfTheSameTwice: an event that happens again becomes a series.
func tellsOfTheSameTwice(f *machineFixture) {
	f.healthCheck("patient", nil, "selector: {matchLabels: {role: patient}}\nunhealthyConditions:\n"+
		`- {type: Ready, status: "False", timeout: 1h}`)
	f.machine("e", machineOptions{labels: map[string]string{"role": "patient"}})
	f.Eventually(f.t, "a series of events about e", func(ctx context.Context) error {
		f.setReady("e", corev1.ConditionFalse)
		f.setReady("e", corev1.ConditionTrue)
		var events eventsv1.EventList
		if err := f.List(ctx, &events, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		for i := range events.Items {
			if events.Items[i].Regarding.Name == "e" && events.Items[i].Series != nil {
				return nil
			}
		}
		return fmt.Errorf("none of %d events is a series", len(events.Items))
	})
}

// givesMetrics: the Prometheus of config/monitoring reads the metrics. It finds every series that an alert uses, except
// the series of workload clusters and FencePolicies, of which there are none.
func givesMetrics(f *machineFixture, url string) {
	f.machine("g", machineOptions{phase: "Failed", noOwner: true, labels: map[string]string{"role": "patient"}})
	f.Namespace(f.t, "monitoring")
	token := f.ServiceAccount(f.t, "monitoring", "prometheus-k8s")
	f.wantAnotherWriter("patient", "machine-healthcheck")
	// The address of this BMC is of no system, so that no Secret is read.
	f.Apply(f.t, "{apiVersion: fettle.io/v1alpha1, kind: BMC, metadata: {name: metered, namespace: fettle-system}, spec: {nodeName: metered, address: 'redfish://bmc.example.com/metered', credentialsName: none}}")
	var requested []string
	for _, u := range cluster.Kustomization(f.t, "config/monitoring") {
		switch u.GetKind() {
		case "ClusterRole", "ClusterRoleBinding":
			f.create(u)
		case "PrometheusRule":
			requested = slices.DeleteFunc(seriesOf(f.t, u), func(name string) bool {
				return name == "fettle_workload_cluster_up" || name == "fettle_node_condemned" ||
					name == "fettle_power_remediations_not_begun" || name == "fettle_fencing_oldest_phase_timestamp_seconds" || strings.HasPrefix(name, "fettle_fence_policy_")
			})
		}
	}
	f.Eventually(f.t, "metrics", func(context.Context) error {
		answer, err := cluster.Get(f.t, url, token, nil)
		if err != nil {
			return err
		}
		if answer.Status != http.StatusOK {
			return fmt.Errorf("the answer is %d", answer.Status)
		}
		for _, name := range requested {
			if !strings.Contains(answer.Body, "\n"+name+"{") && !strings.Contains(answer.Body, "\n"+name+" ") {
				return fmt.Errorf("there is no series %s, which an alert reads", name)
			}
		}
		return nil
	})
}

// seriesOf returns the names of the series that rules use.
func seriesOf(t *testing.T, rule *unstructured.Unstructured) []string {
	t.Helper()
	text, err := rule.MarshalJSON()
	if err != nil {
		t.Fatalf("reading the alerts: %v", err)
	}
	names := regexp.MustCompile(`\bfettle_[a-z_]+`).FindAllString(string(text), -1)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 7 {
		t.Fatalf("the alerts ask for no more than %q", names)
	}
	return names
}

// onAnOlderServer: where initial lists can't stream, Fettle lists in one piece.
func onAnOlderServer(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	kubeconfig := c.FettleKubeconfig(t)
	cluster.Redirect(t, kubeconfig, c.StartOlderServer(t))
	fettle := c.StartFettleWith(t, kubeconfig, "--leader-elect")
	f := newMachineFixture(t, c, "older")
	f.healthCheck("example", map[string]string{"fettle.io/dry-run": "true"}, readyCheck())
	f.machine("a", machineOptions{phase: "Failed"})
	f.wantEvent("a", "DryRun")
	fettle.Stop(t)
}

// TestNoWildcards: the installed roles name what they grant, and grant no way to further rights.
func TestNoWildcards(t *testing.T) {
	t.Parallel()
	roles := 0
	for _, dir := range []string{"config", "config/monitoring", "config/openshift", "config/cluster_api", "config/power", "config/metal3"} {
		for _, u := range cluster.Kustomization(t, dir) {
			if u.GetKind() != "Role" && u.GetKind() != "ClusterRole" {
				continue
			}
			roles++
			rules, _ := u.Object["rules"].([]any)
			_, gathers := u.Object["aggregationRule"]
			if (len(rules) == 0) != gathers {
				t.Errorf("%s %s has %d rules, and gathers those of others: %t", u.GetKind(), u.GetName(), len(rules), gathers)
			}
			for _, rule := range rules {
				for field, values := range rule.(map[string]any) {
					for _, value := range values.([]any) {
						if strings.Contains(value.(string), "*") || slices.Contains([]string{"escalate", "bind", "impersonate"}, value.(string)) {
							t.Errorf("%s %s: %s has %s", u.GetKind(), u.GetName(), field, value)
						}
					}
				}
			}
		}
	}
	if roles < 12 {
		t.Errorf("only %d roles were found", roles)
	}
}

// TestViewersSeeRepairs: a user who may view a namespace sees its repairs, and may neither change them nor see nodes.
func TestViewersSeeRepairs(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.Namespace(t, "viewed")
	c.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer, namespace: viewed}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]
`)
	may := func(ctx context.Context, verb, group, resource, namespace string) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "viewer",
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: group, Resource: resource, Namespace: namespace,
			},
		}}
		err := c.Create(ctx, review)
		return review.Status.Allowed, err
	}
	c.Eventually(t, "a viewer may list repairs", func(ctx context.Context) error {
		allowed, err := may(ctx, "list", "fettle.io", "repairs", "viewed")
		if err == nil && !allowed {
			err = errors.New("not allowed")
		}
		return err
	})
	for _, verb := range []string{"delete", "create", "update", "patch"} {
		if allowed, err := may(t.Context(), verb, "fettle.io", "repairs", "viewed"); err != nil || allowed {
			t.Errorf("a viewer may %s repairs: %t, %v", verb, allowed, err)
		}
	}
	if allowed, err := may(t.Context(), "list", "", "nodes", ""); err != nil || allowed {
		t.Errorf("a viewer may list nodes: %t, %v", allowed, err)
	}
}
