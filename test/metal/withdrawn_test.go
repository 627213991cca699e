package metal

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestPowerRemediationWithoutItsHealthCheck: the health check is deleted in each phase of a remediation, which is withdrawn with it. The host is
// on in the end, and the node as it was.
func TestPowerRemediationWithoutItsHealthCheck(t *testing.T) {
	t.Parallel()
	s, proxy := behindProxy(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, check := range map[string]struct{ create, remove func(*held) }{
		"nhc": {(*held).checkedByNodes, (*held).deletesNodeCheck},
		"mhc": {(*held).checkedByMachines, (*held).deletesMachineCheck},
	} {
		for in := range phases {
			beside.Run(name+"-"+in, func(sub *testing.T) {
				h := s.newHeld(sub, t, proxy, name, in)
				check.create(h)
				h.in.begin(h)
				h.hangs(h.first())
				h.in.come(h)
				check.remove(h)
				if name != "mhc" || in != "DeletingMachine" { // the deletion of a machine goes on
					h.isWithdrawn()
				}
				h.in.free(h)
				h.isGone()
			})
		}
	}
}

// checkedByNodes creates a NodeHealthCheck.
func (h *held) checkedByNodes() { h.nodesCheckedBy(h.in.fields) }

// checkedByMachines creates a MachineHealthCheck of OpenShift.
func (h *held) checkedByMachines() {
	h.Helper()
	if h.named != "DeletingMachine" {
		h.ofMachine()
	}
	h.key = client.ObjectKey{Namespace: machines, Name: h.pool.name}
	h.Apply(h.T, fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: %s, namespace: %s}
spec: {template: {spec: {%s}}}
`, h.pool.name, machines, h.in.fields))
	h.isOld(h.first())
	h.machineCheckedBy(nil, map[string]any{"remediationTemplate": map[string]any{
		"apiVersion": "fettle.io/v1alpha1", "kind": "PowerRemediationTemplate", "namespace": machines, "name": h.pool.name,
	}})
}

// deletesNodeCheck deletes the NodeHealthCheck, as docs/dialects/nhc.md has it.
func (h *held) deletesNodeCheck() {
	h.Helper()
	check := &unstructured.Unstructured{}
	check.SetAPIVersion("remediation.medik8s.io/v1alpha1")
	check.SetKind("NodeHealthCheck")
	check.SetName(h.pool.name)
	force := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, annotation.ForceDelete)
	ctx := cluster.Context(h.T)
	if err := errors.Join(h.Patch(ctx, check, client.RawPatch(types.MergePatchType, force)), h.Delete(ctx, check)); err != nil {
		h.Fatalf("deleting the health check: %v", err)
	}
}

func (h *held) deletesMachineCheck() {
	h.Helper()
	check := &unstructured.Unstructured{}
	check.SetGroupVersionKind(machineKind("MachineHealthCheck"))
	check.SetNamespace(machines)
	check.SetName(h.pool.name)
	if err := h.Delete(cluster.Context(h.T), check); err != nil {
		h.Fatalf("deleting the health check: %v", err)
	}
}

// isWithdrawn waits until the remediation is being deleted, or is gone.
func (h *held) isWithdrawn() {
	h.Helper()
	h.Eventually(h.T, "withdrawal", func(ctx context.Context) error {
		r, err := h.remediation(ctx, h.first())
		if err == nil && r.DeletionTimestamp == nil {
			return fmt.Errorf("it is in phase %s: %s", r.Status.Phase, conditionsOf(r))
		}
		return client.IgnoreNotFound(err)
	})
}

// isGone waits until the remediation is gone, and checks that nothing of it is left.
func (h *held) isGone() {
	h.Helper()
	h.Eventually(h.T, "end of the remediation", func(ctx context.Context) error {
		r, err := h.remediation(ctx, h.first())
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is in phase %s: %s (%w)", r.Status.Phase, conditionsOf(r), err)
	})
	h.isRestored(h.first())
	h.isOn(h.first())
	h.isUnclaimedIfAny()
	h.Eventually(h.T, "end of the Repair", func(ctx context.Context) error {
		var repairs v1alpha1.RepairList
		if err := h.List(ctx, &repairs); err != nil {
			return err
		}
		for i := range repairs.Items {
			r := &repairs.Items[i]
			if target := r.Spec.Target.Name; (target == h.first() || target == h.pool.name) && r.Status.Phase == v1alpha1.RepairRunning {
				return fmt.Errorf("Repair %s is running", r.Name)
			}
		}
		return nil
	})
	h.ranAlone()
}

// isUnclaimedIfAny waits until no remediation claims the machine of the pool, if it has one.
func (h *held) isUnclaimedIfAny() {
	h.Helper()
	err := h.Get(cluster.Context(h.T), client.ObjectKeyFromObject(h.newMachine()), &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine"}})
	switch {
	case err == nil:
		h.isUnclaimed()
	case !apierrors.IsNotFound(err):
		h.Errorf("reading a machine: %v", err)
	}
}
