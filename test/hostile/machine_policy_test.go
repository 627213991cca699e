package hostile

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/test/cluster"
)

// machinePolicy is the name of the policy that confines what Fettle changes on machines.
const machinePolicy = "machine.fettle.io"

// TestI14FettleAnnotatesMachinesAlone: an attacker with Fettle's token changes no machine besides the annotations that Fettle itself
// writes. Each of these may be written, and other users write as before.
func TestI14FettleAnnotatesMachinesAlone(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.InstallFettle(t)
	w := newIdentityWorld(t, c, "machines")
	w.node("worker-a")
	w.machine("worker-a", "worker-a")
	fettle := client.NewDryRunClient(w.as("system:serviceaccount:fettle-system:fettle", "system:serviceaccounts", "system:serviceaccounts:fettle-system"))
	patch := func(as client.Client, body string) error {
		return as.Patch(cluster.Context(t), w.object("Machine", "worker-a"), client.RawPatch(types.MergePatchType, []byte(body)))
	}
	c.Eventually(t, "the API server follows the policy", func(context.Context) error {
		if err := patch(fettle, identityLabel("example.org/probe", `"x"`)); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	refused := func(body, says string) {
		t.Helper()
		if err := patch(fettle, body); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), machinePolicy) {
			t.Errorf("%s: the answer is %v, want %q", body, err, says)
		}
		if err := patch(client.NewDryRunClient(w.Client), body); err != nil {
			t.Errorf("%s by another user: %v", body, err)
		}
	}
	passes := func(body string) {
		t.Helper()
		if err := patch(fettle, body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	quoted := func(value string) string { return `"` + value + `"` }
	all := maps.Clone(openshift.ExternalRemediationMarks())
	all[annotation.ClaimedBy] = "checks/worker-a/uid"

	for key, value := range all {
		passes(identityAnnotation(key, quoted(value)))
	}
	passes(`{"metadata":{"annotations":{"host.metal3.io/external-remediation":"","machine.openshift.io/remediation-strategy":"external-baremetal"}}}`)
	for _, body := range []string{
		`{"spec":{"providerID":"other://host"}}`, identityLabel("machine.openshift.io/cluster-api-machine-role", `"master"`),
		`{"metadata":{"finalizers":["example.org/x"]}}`, `{"metadata":{"ownerReferences":null}}`,
	} {
		refused(body, "not its spec, status, labels, finalizers or owners")
	}
	for _, key := range []string{"fettle.io/repair-requested-at", "fettle.io/claimed-by-another", "machine.openshift.io/delete-machine", "example.org/a"} {
		refused(identityAnnotation(key, `"x"`), "and not "+key)
	}
	for key, value := range openshift.ExternalRemediationMarks() {
		refused(identityAnnotation(key, `"other"`), "may only set annotation "+key)
		w.must("marking the machine", patch(w.Client, identityAnnotation(key, quoted(value))))
		refused(identityAnnotation(key, "null"), "may only set annotation "+key)
		passes(identityAnnotation(key, quoted(value)))
	}
	w.must("annotating the machine", patch(w.Client, `{"metadata":{"annotations":{"example.org/a":"b","fettle.io/claimed-by":"c"}}}`))
	refused(identityAnnotation("example.org/a", "null"), "and not example.org/a")
	for _, value := range []string{"null", `"d"`} {
		passes(identityAnnotation(annotation.ClaimedBy, value))
	}
	elsewhere := client.NewDryRunClient(w.as("system:serviceaccount:elsewhere:fettle", "system:masters"))
	if err := patch(elsewhere, `{"spec":{"providerID":"other://host"}}`); !apierrors.IsForbidden(err) {
		t.Errorf("a service account of that name in another namespace: %v", err)
	}
	stranger := client.NewDryRunClient(w.as("system:serviceaccount:fettle-system:other-fettle", "system:masters"))
	if err := patch(stranger, `{"spec":{"providerID":"other://host"}}`); err != nil {
		t.Errorf("a service account of another name: %v", err)
	}
	made := &unstructured.Unstructured{Object: map[string]any{}}
	made.SetGroupVersionKind(w.object("Machine", "worker-b").GroupVersionKind())
	made.SetNamespace("machines")
	made.SetName("worker-b")
	if err := elsewhere.Create(cluster.Context(t), made); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Fettle creates no Machine") {
		t.Errorf("the creation of a machine: %v", err)
	}
	w.must("deleting the machine", fettle.Delete(cluster.Context(t), w.object("Machine", "worker-a")))
}
