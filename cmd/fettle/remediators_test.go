package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/remediator/machinedeletion"
	"github.com/fettle-io/fettle/internal/slim"
)

// TestReadMachine: the remediator needs each of these fields to find the machine of a node.
func TestReadMachine(t *testing.T) {
	m := &openshift.Machine{Meta: slim.Meta{Name: "a", UID: "a-uid"}, Node: "a-node"}
	owned := *m
	owned.Owner = &slim.Owner{Kind: "MachineSet", Name: "workers", UID: "set-uid"}
	leaving := *m
	leaving.DeletionTimestamp = &metav1.Time{}
	for sentence, tc := range map[string]struct {
		object client.Object
		want   machinedeletion.Machine
	}{
		"no owner's":     {m, machinedeletion.Machine{UID: "a-uid", Name: "a", Node: "a-node"}},
		"owned":          {&owned, machinedeletion.Machine{UID: "a-uid", Name: "a", Node: "a-node", Owner: "set-uid"}},
		"on its way out": {&leaving, machinedeletion.Machine{UID: "a-uid", Name: "a", Node: "a-node", Deleting: true}},
		"not a machine":  {&slim.Node{}, machinedeletion.Machine{}},
	} {
		if got := readMachine(tc.object); got != tc.want {
			t.Errorf("%s: %+v, want %+v", sentence, got, tc.want)
		}
	}
}

// TestFinalizersOfRequests: only a remediator that runs removes a finalizer.
func TestFinalizersOfRequests(t *testing.T) {
	runs := false
	of := finalizersOf(func() bool { return runs })
	power := schema.GroupKind{Group: "fettle.io", Kind: "PowerRemediation"}
	if got := of(power); len(got) > 0 {
		t.Errorf("without a remediator: %v", got)
	}
	runs = true
	if diff := cmp.Diff([]string{"fettle.io/power-remediation"}, of(power)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, other := range []schema.GroupKind{{Group: "fettle.io", Kind: "MachineDeletionRemediation"}, {Group: "x.example", Kind: "PowerRemediation"}} {
		if got := of(other); len(got) > 0 {
			t.Errorf("%s: %v", other, got)
		}
	}
}
