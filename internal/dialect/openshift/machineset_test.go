package openshift

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/node"
)

func aMachineSet(uid string, replicas int64, template any) *unstructured.Unstructured {
	u := machineSetObject()
	u.SetNamespace("machines")
	u.SetName("workers")
	u.SetUID(types.UID(uid))
	u.Object["spec"] = map[string]any{"replicas": replicas, "template": template}
	return u
}

// TestTemplatesOfMachineSets: a target has the template of its machine set, and the number of
// replicas does not change that.
func TestTemplatesOfMachineSets(t *testing.T) {
	f := newStore()
	m := aMachine("a")
	f.putMachine(m)
	template := func() string {
		_, targets := f.snapshot(func(string) (node.Facts, bool) { return node.Facts{}, false })
		return targets[0].OwnerTemplate
	}
	owner := m.Owner
	if owner == nil || owner.Kind != machineSetKind || owner.Name != "workers" {
		t.Fatalf("the machine is owned by %v", owner)
	}
	if got := template(); got != "" {
		t.Errorf("before any is known, the template is %q", got)
	}
	small, large := map[string]any{"spec": map[string]any{"type": "small"}}, map[string]any{"spec": map[string]any{"type": "large"}}
	if !f.putSet(aMachineSet(owner.UID, 1, small)) {
		t.Error("a template that comes changes nothing")
	}
	before := template()
	if before == "" || f.putSet(aMachineSet(owner.UID, 5, small)) || template() != before {
		t.Errorf("with other replicas the template is %q, it was %q", template(), before)
	}
	if !f.putSet(aMachineSet(owner.UID, 5, large)) || template() == before || template() == "" {
		t.Errorf("another template is %q, as it was", template())
	}
	f.putSet(aMachineSet("another", 5, large))
	if template() != "" {
		t.Errorf("a namesake of the owner has the template %q", template())
	}
	f.putSet(aMachineSet(owner.UID, 5, small))
	f.dropSet("machines/workers")
	if template() != "" {
		t.Errorf("a machine set that is gone has the template %q", template())
	}
	f.putSet(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "machines", "name": "workers", "uid": owner.UID}}})
	if template() != "" {
		t.Errorf("a machine set without a template has the template %q", template())
	}
	if f.putSet("nonsense") {
		t.Error("nonsense changes something")
	}
}
