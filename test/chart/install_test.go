package chart

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/test/cluster"
)

const (
	ownCRD       = "repairs.fettle.io"
	openshiftCRD = "machinehealthchecks.machine.openshift.io"
	// leasesNamespace is shared with other programs.
	leasesNamespace = "medik8s-leases"
	medik8sCRD      = "nodehealthchecks.remediation.medik8s.io"
)

// world is a cluster with a user who installs charts.
type world struct {
	*cluster.Cluster

	t *testing.T
}

func (w *world) helm(args ...string) {
	w.t.Helper()
	args = append(args, "--kubeconfig", w.Kubeconfig(), "--namespace", namespace)
	if args[0] == "install" || args[0] == "upgrade" {
		args = append(args, "--set", imageSet)
	}
	mustHelm(w.t, args...)
}

func (w *world) get(apiVersion, kind, in, name string) *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	if err := w.Get(cluster.Context(w.t), client.ObjectKey{Namespace: in, Name: name}, u); client.IgnoreNotFound(err) != nil {
		w.t.Fatalf("reading %s %s: %v", kind, name, err)
	}
	return u
}

func exists(u *unstructured.Unstructured) bool {
	return u.GetUID() != "" && u.GetDeletionTimestamp() == nil
}

func (w *world) definition(name string) *unstructured.Unstructured {
	return w.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name)
}

func (w *world) deployment() *unstructured.Unstructured {
	return w.get("apps/v1", "Deployment", namespace, "fettle")
}

// shortNames are the difference between a definition's versions in this test.
func shortNames(definition *unstructured.Unstructured) string {
	names, _, _ := unstructured.NestedStringSlice(definition.Object, "spec", "names", "shortNames")
	return strings.Join(names, " ")
}

// olderChart copies the chart as an earlier version, whose definitions have another short name.
func olderChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fettle")
	if err := os.CopyFS(dir, os.DirFS(chartDir())); err != nil {
		t.Fatalf("copying the chart: %v", err)
	}
	edit(t, filepath.Join(dir, "Chart.yaml"), func(o map[string]any) { o["version"], o["appVersion"] = "0.0.1", "v0.0.1" })
	for _, file := range []string{"fettle.io_repairs.yaml", "machine.openshift.io_machinehealthchecks.yaml", "remediation.medik8s.io_nodehealthchecks.yaml"} {
		edit(t, filepath.Join(dir, "files", "crd", file), func(o map[string]any) {
			if err := unstructured.SetNestedStringSlice(o, []string{"older"}, "spec", "names", "shortNames"); err != nil {
				t.Fatal(err)
			}
		})
	}
	return dir
}

func edit(t *testing.T, file string, change func(map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	change(object)
	if text, err = yaml.Marshal(object); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

const aRepair = `
apiVersion: fettle.io/v1alpha1
kind: Repair
metadata: {name: survivor, namespace: default}
spec:
  reason: Test
  startedAt: "2026-01-01T00:00:00.000000Z"
  ladder: [{remedy: DeleteMachine}]
  policy: {kind: MachineHealthCheck, namespace: default, name: example, uid: "1"}
  target: {kind: Machine, namespace: default, name: a, uid: "2"}
`

// TestLifeOfARelease: a release is installed where the cluster has no MachineHealthCheck, upgraded, rolled back and
// uninstalled. Its definitions follow, stay after it, and are adopted again. Objects of their kinds stay.
func TestLifeOfARelease(t *testing.T) {
	t.Parallel()
	w := &world{Cluster: cluster.Start(t, cluster.Options{}), t: t}
	older := olderChart(t)

	w.helm("install", release, older, "--create-namespace")
	w.wantShortNames("older", "older", "older")
	w.Eventually(t, "serving Repairs", func(context.Context) error {
		_, err := w.RESTMapper().RESTMapping(schema.GroupKind{Group: "fettle.io", Kind: "Repair"}, "v1alpha1")
		return err
	})
	w.Apply(t, aRepair)

	w.helm("upgrade", release, chartDir(), "--set", "replicas=3")
	w.wantShortNames("rep", "mhc mhcs", "nhc")
	if replicas, _, _ := unstructured.NestedInt64(w.deployment().Object, "spec", "replicas"); replicas != 3 {
		t.Errorf("after the upgrade there are %d replicas, want 3", replicas)
	}
	w.helm("rollback", release, "1")
	w.wantShortNames("older", "older", "older")
	if replicas, _, _ := unstructured.NestedInt64(w.deployment().Object, "spec", "replicas"); replicas != 2 {
		t.Errorf("after the rollback there are %d replicas, want 2", replicas)
	}

	w.helm("uninstall", release)
	w.wantShortNames("older", "older", "older")
	if d := w.deployment(); exists(d) {
		t.Error("the Deployment is still there after uninstall")
	}
	if repair := w.get("fettle.io/v1alpha1", "Repair", "default", "survivor"); !exists(repair) {
		t.Error("a Repair went with the release")
	}
	if leases := w.get("v1", "Namespace", "", leasesNamespace); !exists(leases) {
		t.Error("the leases of others went with the release")
	}
	w.helm("install", release, chartDir())
	w.wantShortNames("rep", "mhc mhcs", "nhc")
}

func (w *world) wantShortNames(own, openshift, medik8s string) {
	w.t.Helper()
	for name, want := range map[string]string{ownCRD: own, openshiftCRD: openshift, medik8sCRD: medik8s} {
		if got := shortNames(w.definition(name)); got != want {
			w.t.Errorf("definition %s has the short names %q, want %q", name, got, want)
		}
	}
}

// TestDefinitionsOfOthersAreUnchanged: the chart never changes a definition of another vendor.
func TestDefinitionsOfOthersAreUnchanged(t *testing.T) {
	t.Parallel()
	w := &world{Cluster: cluster.Start(t, cluster.Options{}), t: t}
	for _, manifest := range []string{cluster.OpenShiftCRD, cluster.Medik8sCRD} {
		theirs := cluster.Manifest(t, manifest)[0]
		if err := unstructured.SetNestedStringSlice(theirs.Object, []string{"theirs"}, "spec", "names", "shortNames"); err != nil {
			t.Fatal(err)
		}
		if err := w.Create(cluster.Context(t), theirs); err != nil {
			t.Fatalf("creating their definition: %v", err)
		}
	}
	w.Namespace(t, leasesNamespace)
	for _, step := range [][]string{
		{"install", release, chartDir(), "--create-namespace"},
		{"upgrade", release, chartDir(), "--set", "logLevel=debug"},
		{"rollback", release, "1"},
		{"upgrade", release, chartDir(), "--set", "crds.openshift=Never,crds.medik8s=Never"},
		{"uninstall", release},
	} {
		w.helm(step...)
		for _, name := range []string{openshiftCRD, medik8sCRD} {
			now := w.definition(name)
			if !exists(now) || shortNames(now) != "theirs" || now.GetGeneration() != 1 || len(now.GetLabels()) > 0 {
				t.Errorf("after helm %s their definition %s is %s, generation %d, labels %v",
					step[0], name, shortNames(now), now.GetGeneration(), now.GetLabels())
			}
		}
		if ns := w.get("v1", "Namespace", "", leasesNamespace); !exists(ns) || ns.GetLabels()["helm.sh/chart"] != "" {
			t.Errorf("after helm %s the namespace of leases that another client made has the labels %v", step[0], ns.GetLabels())
		}
	}
}

const failedMachine = `
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {name: example, namespace: default}
spec:
  selector: {}
  unhealthyConditions: [{type: Ready, status: "False", timeout: 1h}]
---
apiVersion: machine.openshift.io/v1beta1
kind: Machine
metadata: {name: a, namespace: default}
`

// TestChartRuns: Fettle judges and repairs with the rights that the chart grants. There is a template for nodes that fence themselves, which an
// upgrade leaves alone. Agents can withdraw their promises where they are no part of the release any more.
func TestChartRuns(t *testing.T) {
	t.Parallel()
	w := &world{Cluster: cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}}), t: t}
	w.helm("install", release, chartDir(), "--create-namespace", "--set", "selfFence.enabled=true")
	reset := w.get("fettle.io/v1alpha1", "SelfFenceRemediationTemplate", namespace, "reset")
	w.helm("upgrade", release, chartDir(), "--set", "selfFence.enabled=true")
	if again := w.get("fettle.io/v1alpha1", "SelfFenceRemediationTemplate", namespace, "reset"); !exists(reset) || again.GetUID() != reset.GetUID() {
		t.Errorf("the template is %v after the installation, and %v after an upgrade", reset.Object, again.Object)
	}
	w.ApplyDir(t, "sandbox/crd")
	w.StartFettle(t, "--leader-elect")
	w.Apply(t, failedMachine)
	set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"made": "never"}},
	}}}
	set.SetGroupVersionKind(schema.GroupVersionKind{Group: "machine.openshift.io", Version: "v1beta1", Kind: "MachineSet"})
	set.SetNamespace("default")
	set.SetName("workers")
	if err := w.Create(cluster.Context(t), set); err != nil {
		t.Fatalf("creating a machine set: %v", err)
	}
	owned := w.get("machine.openshift.io/v1beta1", "Machine", "default", "a")
	owned.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(set, set.GroupVersionKind())})
	if err := w.Update(cluster.Context(t), owned); err != nil {
		t.Fatalf("giving the machine an owner: %v", err)
	}
	owned.Object["status"] = map[string]any{"phase": "Failed"}
	if err := w.Status().Update(cluster.Context(t), owned); err != nil {
		t.Fatalf("having the machine fail: %v", err)
	}
	w.Eventually(t, "the failed machine is repaired", func(ctx context.Context) error {
		var repairs v1alpha1.RepairList
		if err := w.List(ctx, &repairs); err != nil {
			return err
		}
		if len(repairs.Items) != 1 || repairs.Items[0].Status.Phase != "Succeeded" {
			return fmt.Errorf("repairs are %v", repairs.Items)
		}
		return nil
	})
	if m := w.get("machine.openshift.io/v1beta1", "Machine", "default", "a"); exists(m) {
		t.Error("the failed machine is still there")
	}
	w.agentsCanWithdraw()
}

// agentsCanWithdraw: agents that end with their part of the release have the rights to withdraw their promises, since each node would be reset
// otherwise. The part can be installed again.
func (w *world) agentsCanWithdraw() {
	w.t.Helper()
	const agents = promiselease.Namespace
	w.helm("upgrade", release, chartDir())
	if set := w.get("apps/v1", "DaemonSet", agents, "fettle-agent"); exists(set) {
		w.t.Error("the agents are still there")
	}
	for _, kept := range []*unstructured.Unstructured{
		w.get("v1", "Namespace", "", agents), w.get("v1", "ServiceAccount", agents, "fettle-agent"),
		w.get("rbac.authorization.k8s.io/v1", "Role", agents, "fettle-agent"), w.get("rbac.authorization.k8s.io/v1", "RoleBinding", agents, "fettle-agent"),
	} {
		if !exists(kept) {
			w.t.Errorf("%s of agents is gone, so that none can withdraw its promise", kept.GetKind())
		}
	}
	w.helm("upgrade", release, chartDir(), "--set", "selfFence.enabled=true")
	if set := w.get("apps/v1", "DaemonSet", agents, "fettle-agent"); !exists(set) {
		w.t.Error("the agents are not there again")
	}
}
