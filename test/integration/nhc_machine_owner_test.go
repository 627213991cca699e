package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// TestMachinesOwnRequestsWithoutTheirHealthChecks: the machine of a node owns the node's remediation object, in a
// cluster that serves machines and no health checks of machines.
func TestMachinesOwnRequestsWithoutTheirHealthChecks(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.InstallRemediators(t)
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "machinehealthchecks.machine.openshift.io")
	if err := c.Delete(cluster.Context(t), definition); err != nil {
		t.Fatalf("deleting the definition: %v", err)
	}
	c.Eventually(t, "the definition is gone", func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(definition), definition)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there (%w)", err)
	})
	f := newMachineFixture(t, c, "owned")
	p := &pool{f}
	for _, name := range []string{"a", "b", "c"} {
		f.machine(name, machineOptions{})
	}
	c.StartFettle(t)
	p.template(rebooting, "reboot", false)
	f.namedNodeCheck(p, "workers")
	p.fails("a")
	p.wantObjects("a reboot")
	owned := slices.ContainsFunc(p.object("a reboot").GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.APIVersion == "machine.openshift.io/v1beta1" && r.Kind == "Machine" && r.Name == "a"
	})
	if !owned {
		t.Errorf("the machine does not own the request: %+v", p.object("a reboot").GetOwnerReferences())
	}
	p.recovers("a")
	p.wantObjects()
}
