package guards

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/guard/upgrade"
	"github.com/fettle-io/fettle/test/cluster"
)

// clusterVersions defines the fields of OpenShift's kind that the guard reads.
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

// TestUpgrades runs with the rights that config/ grants.
func TestUpgrades(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.InstallFettle(t)
	d := newUpgradeGuard(t, identity(t, c.FettleKubeconfig(t)))
	wantTri(t, "what is served is not known yet", core.Unknown, d.survey(), nil)
	d.served = core.No
	wantTri(t, "no OpenShift", core.No, d.survey(), nil)
	if err := d.guard.Watch(cluster.Context(t)); !meta.IsNoMatchError(err) || d.guard.HasSynced() {
		t.Fatalf("watching what is not served gives %v; in step: %t", err, d.guard.HasSynced())
	}
	c.Apply(t, clusterVersions)
	d.served = core.Yes
	wantTri(t, "it is served and not watched yet", core.Unknown, d.survey(), nil)
	is(t, c, "it is watched", nil, func() error { return d.guard.Watch(cluster.Context(t)) })
	is(t, c, "nothing is being upgraded", core.No, d.survey)
	if d.count() > 0 {
		t.Errorf("nothing has changed, and the engine was woken %d times", d.count())
	}
	upgradesOfAVersion(t, c, d)
	upgradesAreUnseen(t, c)
}

// upgradeGuard is a guard of upgrades, whether its kind is served, and how often it has woken the engine.
type upgradeGuard struct {
	wakeCounter

	guard  *upgrade.Client
	served core.Tri
}

// newUpgradeGuard returns a guard that acts as a user. It does not know yet whether its kind is served.
func newUpgradeGuard(t *testing.T, config *rest.Config) *upgradeGuard {
	t.Helper()
	d := &upgradeGuard{served: core.Unknown}
	d.guard = upgrade.NewClient(upgrade.Config{
		Informers: informers(t, config), Served: func() core.Tri { return d.served }, Wake: d.wake,
	})
	return d
}

func (d *upgradeGuard) survey() core.Tri {
	cluster := core.Cluster{Upgrading: core.Yes}
	d.guard.AddFacts(nil, &cluster)
	return cluster.Upgrading
}

func upgradesOfAVersion(t *testing.T, c *cluster.Cluster, d *upgradeGuard) {
	t.Helper()
	v := version(t, c)
	is(t, c, "a version that says nothing", core.No, d.survey)
	say(t, c, v, "Progressing", "True")
	is(t, c, "an upgrade", core.Yes, d.survey)
	is(t, c, "the engine was woken", 1, d.count)
	say(t, c, v, "Available", "True")
	say(t, c, v, "Progressing", "False")
	is(t, c, "its end", core.No, d.survey)
	say(t, c, v, "Progressing", "True")
	is(t, c, "another upgrade", core.Yes, d.survey)
	d.served = core.No
	wantTri(t, "the kind is gone", core.No, d.survey(), nil)
	d.served = core.Yes
	if err := c.Delete(cluster.Context(t), v); err != nil {
		t.Fatalf("deleting a version: %v", err)
	}
	is(t, c, "the version is gone", core.No, d.survey)
	is(t, c, "the engine was woken for each change, and for no other", 4, d.count)
}

// upgradesAreUnseen by a user who may not watch them.
func upgradesAreUnseen(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	d := newUpgradeGuard(t, account(t, c, "stranger"))
	d.served = core.Yes
	is(t, c, "it is watched", nil, func() error { return d.guard.Watch(cluster.Context(t)) })
	c.Never(t, "it is known without the right to watch", 500*time.Millisecond, func(context.Context) error {
		if got := d.survey(); got != core.Unknown {
			return fmt.Errorf("upgrading: %s", got)
		}
		return nil
	})
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
