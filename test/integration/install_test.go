package integration

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// deployment returns the installed Deployment.
func deployment(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return deploymentOf(t, cluster.Kustomization(t, "config"))
}

func deploymentOf(t *testing.T, objects []*unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	at := slices.IndexFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "Deployment" })
	if at < 0 {
		t.Fatal("config/ has no Deployment")
	}
	return objects[at]
}

// TestDeploymentIsAdmitted: the API server accepts the Deployment without unknown fields, and its pods in a namespace
// with the restricted standard.
func TestDeploymentIsAdmitted(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	manifest := deployment(t)
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	if err := strict.Create(cluster.Context(t), manifest.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("the Deployment is refused: %v", err)
	}
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest.Object, &d); err != nil {
		t.Fatalf("reading the Deployment: %v", err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "fettle", Namespace: d.Namespace, Labels: d.Spec.Template.Labels},
		Spec:       d.Spec.Template.Spec,
	}
	if err := c.Create(cluster.Context(t), pod.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("its pods are refused: %v", err)
	}
	pod.Spec.Containers[0].SecurityContext.Capabilities = nil
	if err := c.Create(cluster.Context(t), pod, client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("the namespace takes pods that keep their capabilities: %v", err)
	}
}

// TestDeploymentsFlags: the binary knows each flag of the Deployment.
func TestDeploymentsFlags(t *testing.T) {
	t.Parallel()
	containers, _, _ := unstructured.NestedSlice(deployment(t).Object, "spec", "template", "spec", "containers")
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil || len(args) < 2 {
		t.Fatalf("the Deployment's arguments are %q: %v", args, err)
	}
	for _, c := range []struct {
		args  []string
		known bool
	}{{args, true}, {append(slices.Clone(args), "--no-such-flag"), false}} {
		out, err := exec.Command(cluster.Binary(t, "fettle"), append(c.args, "--help")...).CombinedOutput()
		if (err == nil) != c.known {
			t.Errorf("fettle %v: %v\n%s", c.args, err, out)
		}
	}
}

// TestNoImageIsNamedByDefault: the Deployment names an image that no registry can have. The kustomization in the
// documentation replaces it by an image with a digest.
func TestNoImageIsNamedByDefault(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		objects []*unstructured.Unstructured
		want    string
	}{
		"as it is":      {cluster.Kustomization(t, "config"), "fettle.invalid/fettle:v0.1.0"},
		"as documented": {cluster.Documented(t, "docs/install.md", "config"), "registry.example.com/fettle@sha256:" + strings.Repeat("0", 64)},
	} {
		containers, _, _ := unstructured.NestedSlice(deploymentOf(t, c.objects).Object, "spec", "template", "spec", "containers")
		if len(containers) != 1 || containers[0].(map[string]any)["image"] != c.want {
			t.Errorf("%s, the containers are %v, want one with the image %s", sentence, containers, c.want)
		}
	}
}

// TestKustomizationIsComplete: each manifest beside the kustomization is a part of it, except for OpenShift's
// definition, which another vendor may have installed.
func TestKustomizationIsComplete(t *testing.T) {
	t.Parallel()
	for dir, patterns := range map[string][]string{
		"config":             {"rbac", "admission/*.yaml", "controller/*.yaml", "crd/fettle.io_*.yaml"},
		"config/rbac":        {"[^k]*.yaml"},
		"config/monitoring":  {"[^k]*.yaml"},
		"config/openshift":   {"[^k]*.yaml"},
		"config/cluster_api": {"[^k]*.yaml"},
		"config/power":       {"[^k]*.yaml"},
		"config/metal3":      {"[^k]*.yaml"},
		"config/selffence":   {"[^k]*.yaml"},
	} {
		have, _, err := unstructured.NestedStringSlice(cluster.Manifest(t, dir+"/kustomization.yaml")[0].Object, "resources")
		if err != nil {
			t.Fatalf("reading the kustomization: %v", err)
		}
		var want []string
		for _, pattern := range patterns {
			found, err := filepath.Glob(filepath.Join(cluster.Root(), dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range found {
				path, _ := filepath.Rel(filepath.Join(cluster.Root(), dir), file)
				want = append(want, path)
			}
		}
		slices.Sort(have)
		slices.Sort(want)
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s/kustomization.yaml (+) does not list what is beside it (-):\n%s", dir, diff)
		}
	}
}
