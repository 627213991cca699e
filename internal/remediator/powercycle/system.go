package powercycle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/power"
)

const otherSystemAdvice = "correct spec.address, spec.system or spec.nodeName; where the BMC reports a wrong UUID, set spec.systemUUIDCheck to Disabled"

// expectedUUID returns the UUID that the system of a BMC must have to be powered for a node, which may be nil. It is empty if that is not
// known or not checked.
func expectedUUID(bmc *v1alpha1.BMC, node *corev1.Node) string {
	if node == nil || bmc.Spec.SystemUUIDCheck == v1alpha1.SystemUUIDCheckDisabled {
		return ""
	}
	return power.CanonicalUUID(node.Status.NodeInfo.SystemUUID)
}

// systemMismatch returns a problem if the last successful operation of a BMC was on another system than the host of the node. What was
// seen by an earlier spec doesn't count.
func systemMismatch(bmc *v1alpha1.BMC, node *corev1.Node) problem {
	seen := meta.FindStatusCondition(bmc.Status.Conditions, v1alpha1.ReachableCondition)
	if seen == nil || seen.Status != metav1.ConditionTrue || seen.ObservedGeneration != bmc.Generation {
		return problem{}
	}
	expected := expectedUUID(bmc, node)
	if !power.DifferentSystems(bmc.Status.SystemUUID, expected) {
		return problem{}
	}
	return problem{reason: v1alpha1.CannotStartOtherSystemReason, message: fmt.Sprintf(
		"the system of BMC %s has UUID %s, and node %s runs on a host with UUID %s, so it is not its BMC; %s",
		bmc.Name, bmc.Status.SystemUUID, node.Name, expected, otherSystemAdvice)}
}
