package cli

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// repair puts the repair of a machine of node-NAME, which has begun an hour before noon.
func (f *fleet) repair(name string, status v1alpha1.RepairStatus) {
	f.t.Helper()
	machine := core.ID{Kind: "Machine", Namespace: "machines", Name: "worker-" + name, UID: "machines-" + name}
	r := &v1alpha1.Repair{
		TypeMeta:   metav1.TypeMeta{APIVersion: "fettle.io/v1alpha1", Kind: "Repair"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: core.RepairName(machine, 1)},
		Spec: v1alpha1.RepairSpec{
			Target: v1alpha1.RepairTarget{ObjectReference: objectReference(machine), Node: "node-" + name},
			Policy: v1alpha1.ObjectReference{Kind: "MachineHealthCheck", Namespace: "machines", Name: "workers", UID: "check"}, Reason: "UnhealthyCondition", Message: "so",
			Ladder: []v1alpha1.RepairStep{{Remedy: "DeleteMachine", Nature: "Delete"}}, StartedAt: metav1.NewMicroTime(noon.Add(-time.Hour)),
		},
		Status: status,
	}
	text, err := json.Marshal(r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.put(string(text))
}

func runningRepair() v1alpha1.RepairStatus {
	return v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning}
}

// finishedRepair is the status of a repair that has ended a minute before noon.
func finishedRepair() v1alpha1.RepairStatus {
	return v1alpha1.RepairStatus{Phase: v1alpha1.RepairSucceeded, Message: "it is gone", FinishedAt: &metav1.Time{Time: noon.Add(-time.Minute)}}
}

// repairName is the name of the first repair of a machine.
func repairName(name string) string {
	return core.RepairName(core.ID{Kind: "Machine", Namespace: "machines", Name: "worker-" + name, UID: "machines-" + name}, 1)
}

// repairNameIn is the name of the first repair of a machine of a workload cluster.
func repairNameIn(machine string) string {
	return core.RepairName(core.ID{Kind: "Machine", Namespace: "fleets", Name: machine, UID: machine}, 1)
}

// repairIn puts the repair of a machine of a workload cluster.
func (f *fleet) repairIn(cluster, machine string, status v1alpha1.RepairStatus) {
	f.t.Helper()
	s := &clusterScene{repairs: map[string]*v1alpha1.Repair{}}
	s.repair(cluster, machine, status)
	for _, r := range s.repairs {
		r.TypeMeta = metav1.TypeMeta{APIVersion: "fettle.io/v1alpha1", Kind: "Repair"}
		if cluster == "west" {
			r.Spec.Target.Node, r.Spec.Target.UID = "node-b", machine+"-west"
			r.Name = core.RepairName(core.ID{Kind: "Machine", Namespace: "fleets", Name: machine, UID: machine + "-west"}, 1)
		}
		text, err := json.Marshal(r)
		if err != nil {
			f.t.Fatal(err)
		}
		f.put(string(text))
	}
}
