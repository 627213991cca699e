package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeCheck is a health check of nodes with the first remediator of the group.
func nodeCheck(name string, steps ...string) string {
	text := "apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck\nmetadata: {name: " + name + "}\nspec:\n  minHealthy: 1\n  selector: {matchLabels: {role: worker}}\n" +
		"  unhealthyConditions:\n  - {type: Ready, status: Unknown, duration: 300s}\n  - {type: Ready, status: 'False', duration: 300s}\n"
	if len(steps) == 1 {
		return text + "  remediationTemplate: " + steps[0] + "\n"
	}
	text += "  escalatingRemediations:\n"
	for i, step := range steps {
		text += fmt.Sprintf("  - {order: %d, timeout: 5m, remediationTemplate: %s}\n", i, step)
	}
	return text
}

func templateText(group, kind string) string {
	return "{apiVersion: " + group + "/v1, kind: " + kind + "Template, namespace: remediators, name: usual}"
}

// judged are the files of the goldens checked-*.txt, with what the cluster has.
var judged = map[string]struct {
	text   func() string
	change func(*judgingAPI)
	flags  []string
}{
	// Each health check whose remediator Fettle may not use has a warning, and no other has one.
	"missing-rights": {
		func() string {
			return strings.Join([]string{
				nodeCheck("first", templateText("fix.example", "Reboot"), templateText("fix.example", "Halt"), templateText("fix.example", "Pray")),
				nodeCheck("halts", templateText("fix.example", "Halt")), nodeCheck("reboots", templateText("fix.example", "Reboot")),
				nodeCheck("others", templateText("other.example", "Reboot")),
			}, "---\n")
		},
		func(a *judgingAPI) {
			a.remediators("other.example", "Reboot")
			a.lacks = []string{"SubjectAccessReview watch reboottemplates.fix.example", "SubjectAccessReview delete reboots.fix.example"}
		}, nil,
	},
	"reviews-forbidden": {
		func() string {
			return nodeCheck("first", templateText("fix.example", "Reboot"), templateText("fix.example", "Halt"))
		},
		func(a *judgingAPI) { a.set(reviewsPath, http.StatusForbidden) }, nil,
	},
	"reviews-fail": {
		func() string { return nodeCheck("first", templateText("fix.example", "Reboot")) },
		func(a *judgingAPI) { a.set(reviewsPath, http.StatusInternalServerError) }, nil,
	},
	"reviews-unserved": {
		func() string { return nodeCheck("first", templateText("fix.example", "Reboot")) },
		func(a *judgingAPI) {
			a.set("/apis/authorization.k8s.io/v1", map[string]any{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": "authorization.k8s.io/v1", "resources": []any{}})
		}, nil,
	},
	// The warnings of hosts that can't be powered are in this order: rights, BMCs, promises.
	"power": {
		func() string {
			return fencedNodes + "---\n" + strings.Replace(fencedNodes, "name: workers", "name: more", 1) + "---\n" + nodeCheck("halts", templateText("fix.example", "Halt")) + "---\n" + goodPower
		},
		func(a *judgingAPI) {
			a.lacks = []string{"SubjectAccessReview get secrets.", "SubjectAccessReview delete nodes.", "SubjectAccessReview list pods.", "SubjectAccessReview list volumeattachments.storage.k8s.io",
				"SubjectAccessReview get baremetalhosts.metal3.io", "SubjectAccessReview create powerremediations.fettle.io"}
			a.list(policiesPath, "fettle.io/v1alpha1", "FencePolicyList",
				"{apiVersion: fettle.io/v1alpha1, kind: FencePolicy, metadata: {name: workers}, spec: {requiredProof: PowerAndPromise, nodeSelector: {matchLabels: {role: worker}}}}")
			a.list(agentsLeases, "coordination.k8s.io/v1", "LeaseList")
		}, nil,
	},
	"power-allowed": {func() string { return fencedNodes }, func(*judgingAPI) {}, nil},
	"power-unknown": {
		func() string {
			return fencedNodes + "---\n" + strings.Replace(fencedNodes, "name: workers", "name: more", 1)
		},
		func(a *judgingAPI) {
			a.set(reviewsPath, http.StatusForbidden)
			a.set(bmcsPath, http.StatusForbidden)
		}, nil,
	},
	// A health check that exists is replaced, and keeps its age and its status.
	"replaced": {
		func() string { return swapped(good, "  name: workers\n", "  name: workers\n  labels: {b: new}\n") },
		func(a *judgingAPI) {
			old := "{apiVersion: machine.openshift.io/v1beta1, kind: MachineHealthCheck, metadata: {name: workers, namespace: machines, uid: old, resourceVersion: '7', creationTimestamp: '2026-06-01T00:00:00Z'," +
				" labels: {a: old, b: old}, annotations: {c: old}}, spec: {minHealthy: 3, selector: {}}, status: {currentHealthy: 1}}"
			a.set(machineAPI+"namespaces/machines/machinehealthchecks/workers", object(a.t, old))
			a.list(machineAPI+"machinehealthchecks", "machine.openshift.io/v1beta1", "MachineHealthCheckList", old,
				strings.NewReplacer("name: workers", "name: younger", "uid: old", "uid: younger", "2026-06", "2026-07").Replace(old))
		}, nil,
	},
	// Of a file, the API server gets no status and nothing that it sets itself.
	"from-a-cluster": {
		func() string {
			return swapped(good, "  name: workers\n", "  name: workers\n  uid: old\n  resourceVersion: \"7\"\n  deletionTimestamp: \"2026-01-01T00:00:00Z\"\n  managedFields: [{manager: kubectl, operation: Apply, apiVersion: machine.openshift.io/v1beta1}]\n") + "status:\n  currentHealthy: 3\n"
		},
		func(*judgingAPI) {}, nil,
	},
	// A health check of OpenShift has its fault where it says what is done, in the namespace that it would be applied to.
	"strategy": {
		func() string {
			return swapped(strings.Replace(good, "  namespace: machines\n", "", 1), "  name: workers\n", "  name: workers\n  annotations:\n    machine.openshift.io/remediation-strategy: external-baremetal\n")
		},
		func(a *judgingAPI) {
			a.lacks = []string{"SubjectAccessReview get baremetalhosts.metal3.io"}
			a.only("machines")
		}, []string{"--external-baremetal=PowerRemediation", "-n", "machines"},
	},
	// The namespace of all documents that have one is read where the user may read no other.
	"one-namespace": {
		func() string {
			return swapped(goodNodes, "  name: workers\n", "  name: workers\n  namespace: here\n") + "---\n" + good
		},
		func(a *judgingAPI) { a.only("machines") }, nil,
	},
	"two-namespaces": {
		func() string {
			return good + "---\n" + strings.ReplaceAll(good, "namespace: machines", "namespace: more")
		},
		func(a *judgingAPI) { a.only("machines") }, nil,
	},
	"no-answer": {
		func() string { return good },
		func(a *judgingAPI) { a.set("/api/v1/nodes", http.StatusInternalServerError) }, nil,
	},
	"not-served": {
		func() string { return good + "---\n" + nodeCheck("first", templateText("fix.example", "Halt")) },
		func(a *judgingAPI) {
			a.lacks = []string{"SubjectAccessReview get halts.fix.example"}
			a.set(machineAPI+"machinehealthchecks", http.StatusNotFound)
		}, nil,
	},
	// A fault of one document keeps it from the cluster, and no other.
	"one-is-faulty": {
		func() string {
			return swapped(good, "40%", "x") + "---\n" + nodeCheck("first", templateText("fix.example", "Halt"))
		},
		func(*judgingAPI) {}, nil,
	},
	"one-is-refused": {
		func() string { return good + "---\n" + nodeCheck("first", templateText("fix.example", "Halt")) },
		func(a *judgingAPI) {
			a.refusals[machineAPI+"namespaces/machines/machinehealthchecks/workers"] = metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Message: "spec: Invalid value: no"}
			a.refusals["/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks/first"] = metav1.Status{
				Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no", Details: &metav1.StatusDetails{Group: "remediation.medik8s.io", Kind: "nodehealthchecks"},
			}
			a.lacks = []string{"SelfSubjectAccessReview create nodehealthchecks.remediation.medik8s.io"}
		}, nil,
	},
	"one-may-not-be-created": {
		func() string { return nodeCheck("first", templateText("fix.example", "Halt")) },
		func(a *judgingAPI) {
			a.refusals["/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks/first"] = metav1.Status{
				Code: 403, Reason: metav1.StatusReasonForbidden, Message: "a plugin denies it", Details: &metav1.StatusDetails{Group: "remediation.medik8s.io", Kind: "nodehealthchecks"},
			}
		}, nil,
	},
	// The kind of Cluster API is judged in the version that Fettle reads, and has the fields of its own.
	"cluster-api": {
		func() string {
			return "apiVersion: cluster.x-k8s.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: east, namespace: fleets}\nspec:\n  clusterName: east\n  selector: {matchLabels: {pool: workers}}\n" +
				"  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]\n  remediationTemplate: {apiVersion: fix.example/v1, kind: PrayTemplate, name: usual}\n---\n" +
				"apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineHealthCheck\nmetadata: {name: east-2, namespace: fleets}\nspec:\n  clusterName: east\n  selector: {matchLabels: {pool: workers}}\n" +
				"  checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 300}]}\n  remediation:\n    triggerIf: {unhealthyLessThanOrEqualTo: 40%}\n" +
				"    templateRef: {apiVersion: fix.example/v1, kind: PrayTemplate, name: usual}\n"
		},
		func(a *judgingAPI) { a.clusterAPI() }, nil,
	},
}

// TestCheckInACluster pins all that check prints of files, and all that it sends: reviews of access, and dry runs that force no other owner out.
func TestCheckInACluster(t *testing.T) {
	for name, c := range judged {
		t.Run(name, func(t *testing.T) {
			a := startJudge(t)
			c.change(a)
			golden(t, "checked-"+name+".txt", a.check(c.text(), c.flags...))
		})
	}
}

// TestOnlyWhatIsJudgedIsRead: without a valid health check, no list of the cluster is read.
func TestOnlyWhatIsJudgedIsRead(t *testing.T) {
	for _, text := range []string{goodPowerTemplate, goodPowerTemplate + "---\n" + strings.Replace(good, "40%", "x", 1)} {
		a := startJudge(t)
		a.check(text)
		if requests := a.forget(); slices.ContainsFunc(requests, func(r string) bool { return strings.HasSuffix(r, "/nodes") || strings.HasSuffix(r, "/fencepolicies") }) {
			t.Errorf("of %s it requests %q", text, requests)
		}
	}
}

// TestAsApplied: a draft is put in the place of what exists, with the age and the status of that. A new one is younger than any that was
// created within the same second. The draft stays as it is.
func TestAsApplied(t *testing.T) {
	of := func(text string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: object(t, text)}
	}
	const written = "{metadata: {name: a, uid: mine, resourceVersion: '1', creationTimestamp: '2020-01-01T00:00:00Z', deletionTimestamp: '2020-01-02T00:00:00Z'}, spec: {maxUnhealthy: 1}, status: {phase: Mine}}"
	const at = "2026-08-01T12:00:01Z"
	for existing, want := range map[string]string{
		"": "{metadata: {name: a, creationTimestamp: '" + at + "'}, spec: {maxUnhealthy: 1}}",
		"{metadata: {name: a, uid: old, resourceVersion: '7', creationTimestamp: '2026-01-01T00:00:00Z'}, spec: {}, status: {phase: Old}}": "{metadata: {name: a, uid: old, creationTimestamp: '2026-01-01T00:00:00Z'}, spec: {maxUnhealthy: 1}, status: {phase: Old}}",
		"{metadata: {name: a, uid: old, creationTimestamp: '2026-01-01T00:00:00Z'}, spec: {}}":                                             "{metadata: {name: a, uid: old, creationTimestamp: '2026-01-01T00:00:00Z'}, spec: {maxUnhealthy: 1}}",
	} {
		draft, old := of(written), client.Object(nil)
		if existing != "" {
			old = of(existing)
		}
		got := asApplied(draft, old, noon.Add(time.Second-1))
		if d := cmp.Diff(object(t, want), got.Object); d != "" {
			t.Errorf("in the place of %q (-want +got)\n%s", existing, d)
		}
		if d := cmp.Diff(object(t, written), draft.Object); d != "" {
			t.Errorf("the draft has changed (-want +got)\n%s", d)
		}
	}
}
