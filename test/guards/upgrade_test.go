package guards

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/guard/upgrade"
	"github.com/fettle-io/fettle/test/cluster"
)

// clusterVersions defines as much of OpenShift's kind as is read.
const clusterVersions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterversions.config.openshift.io}
spec:
  group: config.openshift.io
  scope: Cluster
  names: {kind: ClusterVersion, plural: clusterversions, singular: clusterversion, listKind: ClusterVersionList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// TestUpgrades under the rights that config/ and config/openshift grant.
func TestUpgrades(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.InstallFettle(t)
	fettle := identity(t, c.FettleKubeconfig(t))
	served, woken := core.Unknown, &wakes{}
	guard := upgrade.NewClient(upgrade.Config{
		Informers: informers(t, fettle), Served: func() core.Tri { return served }, Wake: woken.wake,
	})
	survey := func() core.Tri {
		fleet := core.Fleet{Upgrading: core.Yes}
		guard.Survey(nil, &fleet)
		return fleet.Upgrading
	}
	wantTri(t, "what is served is not known yet", core.Unknown, survey(), nil)
	served = core.No
	wantTri(t, "no OpenShift", core.No, survey(), nil)
	if err := guard.Watch(cluster.Context(t)); !meta.IsNoMatchError(err) || guard.InStep() {
		t.Fatalf("watching what is not served gives %v; in step: %t", err, guard.InStep())
	}
	c.Apply(t, clusterVersions)
	served = core.Yes
	wantTri(t, "it is served and not watched yet", core.Unknown, survey(), nil)
	is(t, c, "it is watched", nil, func() error { return guard.Watch(cluster.Context(t)) })
	c.Never(t, "it is known without the right to watch", 500e6, func(context.Context) error {
		if got := survey(); got != core.Unknown {
			return fmt.Errorf("upgrading: %s", got)
		}
		return nil
	})
	c.Namespace(t, "openshift-etcd")
	for _, u := range cluster.Kustomization(t, "config/openshift") {
		if err := c.Create(cluster.Context(t), u); err != nil {
			t.Fatalf("creating %s: %v", u.GetKind(), err)
		}
	}
	is(t, c, "nothing is being upgraded", core.No, survey)
	if woken.count() > 0 {
		t.Errorf("nothing has changed, and the engine was woken %d times", woken.count())
	}

	v := version(t, c)
	is(t, c, "a version that says nothing", core.No, survey)
	say(t, c, v, "Progressing", "True")
	is(t, c, "an upgrade", core.Yes, survey)
	is(t, c, "the engine was woken", 1, woken.count)
	say(t, c, v, "Available", "True")
	say(t, c, v, "Progressing", "False")
	is(t, c, "its end", core.No, survey)
	say(t, c, v, "Progressing", "True")
	is(t, c, "another upgrade", core.Yes, survey)
	served = core.No
	wantTri(t, "the kind is gone", core.No, survey(), nil)
	served = core.Yes
	if err := c.Delete(cluster.Context(t), v); err != nil {
		t.Fatalf("deleting a version: %v", err)
	}
	is(t, c, "the version is gone", core.No, survey)
	is(t, c, "the engine was woken for each change, and for no other", 4, woken.count)
}

func version(t *testing.T, c *cluster.Cluster) *unstructured.Unstructured {
	t.Helper()
	v := &unstructured.Unstructured{}
	v.SetGroupVersionKind(schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ClusterVersion"})
	v.SetName("version")
	c.Eventually(t, "creating a version", func(ctx context.Context) error { return c.Create(ctx, v) })
	return v
}

// say writes the one condition of a version.
func say(t *testing.T, c *cluster.Cluster, v *unstructured.Unstructured, condition, status string) {
	t.Helper()
	before := client.MergeFrom(v.DeepCopy())
	v.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": condition, "status": status}}}
	if err := c.Status().Patch(cluster.Context(t), v, before); err != nil {
		t.Fatalf("reporting the status of a version: %v", err)
	}
}
