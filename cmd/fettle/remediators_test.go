package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
