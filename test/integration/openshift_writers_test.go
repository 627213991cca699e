package integration

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/writers"
	"github.com/fettle-io/fettle/test/cluster"
)

// anotherWriterOfOpenShift: Fettle reports a controller that writes the status again and again, by its field manager.
// Fettle keeps to its own limits, and its status is right.
func anotherWriterOfOpenShift(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{})
	f.machine("b", machineOptions{})
	f.wantStatus("example", 2, 2, 2, "")
	f.wantAnotherWriter("example", "machine-healthcheck")
	f.wantEvent("example", writers.Reason)
	f.wantStatus("example", 2, 2, 2, "")
	f.setReady("a", corev1.ConditionFalse)
	f.wantMachines("b")
}

// statusOfMachinesEditedByHand: one edit is no other controller, and Fettle writes the status anew.
func statusOfMachinesEditedByHand(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{})
	f.wantStatus("example", 1, 1, 1, "")
	if _, err := f.writesStatus(cluster.Context(f.t), "example", "kubectl-edit", `{"expectedMachines":7}`); err != nil {
		f.t.Fatal(err)
	}
	f.wantStatus("example", 1, 1, 1, "")
	u := f.check("example")
	if err := f.Get(cluster.Context(f.t), client.ObjectKeyFromObject(u), u); err != nil {
		f.t.Fatal(err)
	}
	if saysAnother(u, "") == nil {
		f.t.Errorf("it says that there is another controller: %v", u.Object["status"])
	}
}

// wantAnotherWriter writes the status of a health check as another controller does, until Fettle reports that
// controller.
func (f *machineFixture) wantAnotherWriter(check, manager string) {
	f.t.Helper()
	f.Eventually(f.t, "another controller is reported", func(ctx context.Context) error {
		u, err := f.writesStatus(ctx, check, manager, `{"expectedMachines":7}`)
		if err != nil {
			return err
		}
		return saysAnother(u, manager)
	})
}

// writesStatus merges a part into the status of a health check as another field manager does.
func (f *machineFixture) writesStatus(ctx context.Context, check, manager, status string) (*unstructured.Unstructured, error) {
	u := f.check(check)
	err := f.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(`{"status":`+status+`}`)), client.FieldOwner(manager))
	return u, err
}

// saysAnother returns an error unless a status says that a field manager writes it too.
func saysAnother(u *unstructured.Unstructured, manager string) error {
	conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		said, _ := c.(map[string]any)
		if said["type"] == writers.Condition && said["status"] == "False" && said["reason"] == writers.Reason {
			if !strings.Contains(fmt.Sprint(said["message"]), manager) {
				return fmt.Errorf("it does not name %s: %v", manager, said)
			}
			return nil
		}
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("conditions are %v", conditions)
}
