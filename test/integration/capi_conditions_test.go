package integration

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/test/cluster"
)

// pausedMachine is a machine of a paused cluster, which no controller of Cluster API touches.
const pausedMachine = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: blue, namespace: default}
spec:
  paused: true
  infrastructureRef: {apiGroup: sandbox.fettle.io, kind: SandboxCluster, name: blue}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m, namespace: default}
spec:
  clusterName: blue
  bootstrap: {dataSecretName: none}
  infrastructureRef: {apiGroup: sandbox.fettle.io, kind: SandboxMachine, name: m}
`

// conditionsOf returns the conditions of a machine as the API server serves them in a version: type, status and reason.
func conditionsOf(t *testing.T, c *cluster.Cluster, version string, path ...string) string {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("cluster.x-k8s.io/" + version)
	u.SetKind("Machine")
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "m"}, u); err != nil {
		t.Fatalf("reading the machine: %v", err)
	}
	list, _, err := unstructured.NestedSlice(u.Object, path...)
	if err != nil {
		t.Fatalf("reading conditions: %v", err)
	}
	var words []string
	for _, each := range list {
		condition, _ := each.(map[string]any)
		for _, field := range []string{"type", "status", "reason"} {
			if word, has := condition[field].(string); has {
				words = append(words, word)
			}
		}
	}
	return strings.Join(words, " ")
}

// writesMachines returns a client that knows machines as Fettle does.
func writesMachines(t *testing.T, c *cluster.Cluster) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(metav1.AddMetaToScheme(s), clusterapi.AddToScheme(s)); err != nil {
		t.Fatalf("making a scheme: %v", err)
	}
	api, err := client.New(c.Config, client.Options{Scheme: s})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return api
}

// TestConditionsOfMachinesOnARealServer: a JSON patch by index changes the right condition in both versions. Any other
// change of the machine makes it a conflict. The API server finds a missing index before it compares revisions, and
// answers otherwise then.
func TestConditionsOfMachinesOnARealServer(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, clusterAPIOnly())
	for _, u := range cluster.Decode(t, []byte(pausedMachine)) {
		if err := c.Create(t.Context(), u); err != nil {
			t.Fatalf("creating %s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
	api := writesMachines(t, c)
	w := clusterapi.Writer{Statuses: api, Live: api, Now: time.Now}
	first, err := w.Read(t.Context(), "default", "m")
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	write := func(m *clusterapi.Machine, changes []clusterapi.Change) *clusterapi.Machine {
		t.Helper()
		written, err := w.Write(t.Context(), m, changes)
		if err != nil {
			t.Fatalf("writing: %v", err)
		}
		return written
	}
	wantConflict := func(sentence string, m *clusterapi.Machine, changes []clusterapi.Change) {
		t.Helper()
		if _, err := w.Write(t.Context(), m, changes); !apierrors.IsConflict(err) {
			t.Errorf("%s: it gives %v, want a conflict", sentence, err)
		}
	}
	says := func(sentence, current, deprecated string) {
		t.Helper()
		if got := conditionsOf(t, c, "v1beta2", "status", "conditions"); !strings.HasSuffix(got, current) {
			t.Errorf("%s: v1beta2 says %q, want %q", sentence, got, current)
		}
		if got := conditionsOf(t, c, "v1beta1", "status", "conditions"); !strings.HasSuffix(got, deprecated) {
			t.Errorf("%s: v1beta1 says %q, want %q", sentence, got, deprecated)
		}
	}
	finding := []core.Verdict{{Reason: core.NodeStartupTimeout, Limit: time.Minute}}

	passed := write(first, clusterapi.HealthCheckSucceeded())
	says("it is well", "HealthCheckSucceeded True HealthCheckSucceeded", "HealthCheckSucceeded True")
	wantConflict("it has changed since it was read", first, clusterapi.HealthCheckSucceeded())
	if again := write(passed, clusterapi.HealthCheckSucceeded()); again != passed {
		t.Error("nothing was to be changed, and it was written")
	}

	failed := write(passed, append(clusterapi.HealthCheckFailed(passed, "", finding), clusterapi.AskOwner(passed)...))
	says("it has failed", "HealthCheckSucceeded False NodeStartupTimeout OwnerRemediated False WaitingForRemediation",
		"HealthCheckSucceeded False NodeStartupTimeout OwnerRemediated False WaitingForRemediation")

	spared := write(failed, append(clusterapi.WithdrawOwnerRequest(failed), clusterapi.HealthCheckSucceeded()...))
	says("it has recovered", "HealthCheckSucceeded True HealthCheckSucceeded", "HealthCheckSucceeded True")
	wantConflict("its places are not there any more", failed, clusterapi.WithdrawOwnerRequest(failed))

	namesake := *spared
	namesake.UID = "another"
	wantConflict("another machine was meant", &namesake, clusterapi.HealthCheckFailed(spared, "", finding))
	says("another machine was meant", "HealthCheckSucceeded True HealthCheckSucceeded", "HealthCheckSucceeded True")
}
