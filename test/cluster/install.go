package cluster

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The manifests of definitions that other vendors install.
const (
	OpenShiftCRD = "config/crd/machine.openshift.io_machinehealthchecks.yaml"
	Medik8sCRD   = "config/crd/remediation.medik8s.io_nodehealthchecks.yaml"
)

// InstallFettle installs Fettle from config/, as users do. It leaves out the Deployment: no scheduler runs here, and
// tests start the processes. It adds missing definitions that a user's cluster has from other vendors.
func (c *Cluster) InstallFettle(t testing.TB) {
	t.Helper()
	c.installConfig(t)
	for _, manifest := range []string{OpenShiftCRD, Medik8sCRD} {
		for _, u := range Manifest(t, manifest) {
			c.createMissing(t, u)
		}
	}
	c.ApplyDir(t, "sandbox/crd")
	c.awaitKinds(t, "fettle.io/v1alpha1", "Repair", "MachineDeletionRemediation")
	c.awaitKinds(t, "machine.openshift.io/v1beta1", "MachineHealthCheck", "MachineSet", "Machine")
	c.awaitKinds(t, "remediation.medik8s.io/v1alpha1", "NodeHealthCheck")
}

// InstallFettleForNodes installs Fettle on a cluster without a Machine API. Remediators of nodes have installed their
// kinds and roles there, and none of them runs.
func (c *Cluster) InstallFettleForNodes(t testing.TB) {
	t.Helper()
	c.installConfig(t)
	c.InstallRemediators(t)
}

// InstallRemediators adds NodeHealthCheck, and the kinds and roles of remediators, to any cluster.
func (c *Cluster) InstallRemediators(t testing.TB) {
	t.Helper()
	for _, path := range []string{
		Medik8sCRD, "sandbox/remediator/cluster_role.yaml",
		"sandbox/crd/sandbox.fettle.io_rebootremediations.yaml", "sandbox/crd/sandbox.fettle.io_rebootremediationtemplates.yaml",
		"sandbox/crd/sandbox.fettle.io_reprovisionremediations.yaml", "sandbox/crd/sandbox.fettle.io_reprovisionremediationtemplates.yaml",
	} {
		for _, u := range Manifest(t, path) {
			c.createMissing(t, u)
		}
	}
	c.awaitKinds(t, "fettle.io/v1alpha1", "Repair")
	c.awaitKinds(t, "remediation.medik8s.io/v1alpha1", "NodeHealthCheck")
	c.awaitKinds(t, "sandbox.fettle.io/v1alpha1", "RebootRemediation", "RebootRemediationTemplate",
		"ReprovisionRemediation", "ReprovisionRemediationTemplate")
}

// InstallRights installs Fettle's service account and rights alone.
func (c *Cluster) InstallRights(t testing.TB) {
	t.Helper()
	for _, u := range Kustomization(t, "config/rbac") {
		c.createMissing(t, u)
	}
}

// AllowClusterAPI grants Fettle the rights that it needs on a management cluster of Cluster API.
func (c *Cluster) AllowClusterAPI(t testing.TB) {
	t.Helper()
	for _, u := range Kustomization(t, "config/cluster_api") {
		c.createMissing(t, u)
	}
}

// AllowClusterAPIIn is AllowClusterAPI with the Secrets of one namespace, by the kustomization in docs/install.md.
func (c *Cluster) AllowClusterAPIIn(t testing.TB, namespace string) {
	t.Helper()
	for _, u := range Documented(t, "docs/install.md", "config/cluster_api") {
		if u.GetKind() == "RoleBinding" {
			u.SetNamespace(namespace)
		}
		c.createMissing(t, u)
	}
}

// AllowPower grants Fettle the rights that it needs to power hosts through their BMCs.
func (c *Cluster) AllowPower(t testing.TB) {
	t.Helper()
	for _, u := range Kustomization(t, "config/power") {
		c.createMissing(t, u)
	}
}

// AllowMetal3 grants Fettle the right to have Metal3 power hosts, as its policy confines it.
func (c *Cluster) AllowMetal3(t testing.TB) {
	t.Helper()
	for _, u := range Kustomization(t, "config/metal3") {
		c.createMissing(t, u)
	}
}

// installConfig applies config/ without its Deployment.
func (c *Cluster) installConfig(t testing.TB) {
	t.Helper()
	for _, u := range Kustomization(t, "config") {
		if u.GetKind() != "Deployment" {
			c.createMissing(t, u)
		}
	}
}

// awaitKinds waits until kinds are served in a version. The mapper keeps the versions that it found for a group: called with no
// version, it never finds a kind of a version that came later.
func (c *Cluster) awaitKinds(t testing.TB, apiVersion string, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
		c.Eventually(t, "serving "+gvk.String(), func(context.Context) error {
			_, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
			return err
		})
	}
}

// Kustomization returns the objects that kubectl apply -k applies for a directory of the repository. A build takes about
// a second with the race detector, so that the process keeps the result.
func Kustomization(t testing.TB, dir string) []*unstructured.Unstructured {
	t.Helper()
	kustomizing.Lock()
	defer kustomizing.Unlock()
	if kustomizing.built[dir] == nil {
		kustomizing.built[dir] = kustomize(t, filepath.Join(Root(), dir))
	}
	return Decode(t, kustomizing.built[dir])
}

// kustomizing serializes builds, because kustomize keeps the schemas of Kubernetes in variables that it doesn't guard.
var kustomizing = struct {
	sync.Mutex

	built map[string][]byte // by directory of the repository
}{built: map[string][]byte{}}

// kustomized returns the objects of any directory.
func kustomized(t testing.TB, dir string) []*unstructured.Unstructured {
	t.Helper()
	kustomizing.Lock()
	defer kustomizing.Unlock()
	return Decode(t, kustomize(t, dir))
}

func kustomize(t testing.TB, dir string) []byte {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("building the kustomization in %s: %v", dir, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatalf("writing the kustomization in %s: %v", dir, err)
	}
	return text
}

// Manifest returns the objects of a YAML file of the repository.
func Manifest(t testing.TB, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(), path))
	if err != nil {
		t.Fatalf("reading a manifest: %v", err)
	}
	return Decode(t, text)
}

// createMissing creates an object, unless it exists.
func (c *Cluster) createMissing(t testing.TB, u *unstructured.Unstructured) {
	t.Helper()
	if err := c.Create(Context(t), u); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("creating %s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// Tool returns the path of a tool that make test builds, whatever its version.
func Tool(t testing.TB, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(Root(), "bin", "tools", name+"-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("there is not one %s in bin/tools but %d; run make test first, which builds it", name, len(found))
	}
	return found[0]
}
