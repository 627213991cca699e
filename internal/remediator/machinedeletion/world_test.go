package machinedeletion

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// noon is when these tests take place.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

var (
	workerA = types.NamespacedName{Namespace: "machines", Name: "worker-a"}
	theSet  = metav1.OwnerReference{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: "workers", UID: "set-uid"}
)

type change func(*v1alpha1.MachineDeletionRemediation)

// remediation is what a health checker has created for node-a a minute ago.
func remediation(changes ...change) *v1alpha1.MachineDeletionRemediation {
	r := &v1alpha1.MachineDeletionRemediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: "machines", Name: "node-a", UID: "r-uid", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute)),
	}}
	for _, change := range changes {
		change(r)
	}
	return r
}

func finalized(r *v1alpha1.MachineDeletionRemediation) {
	r.Finalizers = append(r.Finalizers, annotation.MachineDeletionFinalizer)
}

func deleted(r *v1alpha1.MachineDeletionRemediation) {
	now := metav1.NewTime(noon)
	r.DeletionTimestamp = &now
}

func annotated(key, value string) change {
	return func(r *v1alpha1.MachineDeletionRemediation) {
		if r.Annotations == nil {
			r.Annotations = map[string]string{}
		}
		r.Annotations[key] = value
	}
}

func ownedBy(apiVersion, kind, name, uid string) change {
	return func(r *v1alpha1.MachineDeletionRemediation) {
		r.OwnerReferences = append(r.OwnerReferences, metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid)})
	}
}

func called(name string) change {
	return func(r *v1alpha1.MachineDeletionRemediation) { r.Name = name }
}

// begun has recorded worker-a, of a set of three.
func begun(r *v1alpha1.MachineDeletionRemediation) {
	finalized(r)
	r.Status.Machine = &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "worker-a", UID: "a-uid"}
	r.Status.Owner = &v1alpha1.RemediationOwner{
		APIVersion:      "machine.openshift.io/v1beta1",
		ObjectReference: v1alpha1.ObjectReference{Kind: "MachineSet", Namespace: "machines", Name: "workers", UID: "set-uid"},
	}
	r.Status.Machines = 3
}

func ended(status metav1.ConditionStatus) change {
	return func(r *v1alpha1.MachineDeletionRemediation) {
		r.Status.Conditions = []metav1.Condition{{Type: "Succeeded", Status: status, Reason: "Because"}}
	}
}

// machineA is worker-a as the API server has it.
func machineA(changes ...func(*machineFacts)) *machineFacts {
	owner := theSet
	m := &machineFacts{
		found: true, key: workerA, uid: "a-uid", created: noon.Add(-time.Hour), owner: &owner, node: "node-a", providerID: "aws:///zone/i-a",
	}
	for _, change := range changes {
		change(m)
	}
	return m
}

func ownerWanting(replicas int) *ownerFacts { return &ownerFacts{found: true, replicas: &replicas} }
