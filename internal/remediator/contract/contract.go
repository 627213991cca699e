// Package contract has the parts of the contract between health checkers and remediators (docs/contract.md) that Fettle's
// remediators share. It finds the node or machine that a remediation is for, and reads how far the remediation has come.
package contract

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// NodeOf returns the name of the node that a remediation is for.
func NodeOf(remediation metav1.Object) string {
	if name := remediation.GetAnnotations()[v1alpha1.NodeNameAnnotation]; name != "" {
		return name
	}
	return remediation.GetName()
}

// Machine is the machine that owns a remediation.
type Machine struct {
	Kind schema.GroupKind
	Key  types.NamespacedName
	UID  types.UID
}

// OwnerMachine returns the machine that owns a remediation, if one of a kind does.
func OwnerMachine(remediation metav1.Object, kinds ...schema.GroupKind) (Machine, bool) {
	for _, o := range remediation.GetOwnerReferences() {
		if kind := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind(); slices.Contains(kinds, kind) {
			return Machine{Kind: kind, Key: types.NamespacedName{Namespace: remediation.GetNamespace(), Name: o.Name}, UID: o.UID}, true
		}
	}
	return Machine{}, false
}

// IsForMachine reports whether a remediation is for a machine rather than for a node, as a health check of machines
// creates it. It has the name of the machine, has no other owner, and names no node.
func IsForMachine(remediation metav1.Object, kinds ...schema.GroupKind) bool {
	machine, owned := OwnerMachine(remediation, kinds...)
	return owned && len(remediation.GetOwnerReferences()) == 1 && machine.Key.Name == remediation.GetName() &&
		remediation.GetAnnotations()[v1alpha1.NodeNameAnnotation] == ""
}

// Stopped reports whether the health checker has requested that the remediator stops.
func Stopped(remediation metav1.Object) bool {
	_, set := remediation.GetAnnotations()[v1alpha1.TimedOutAnnotation]
	return set
}

// Succeeded returns the status of the condition Succeeded, which is Unknown until it is set.
func Succeeded(conditions []metav1.Condition) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(conditions, v1alpha1.SucceededCondition); c != nil {
		return c.Status
	}
	return metav1.ConditionUnknown
}
