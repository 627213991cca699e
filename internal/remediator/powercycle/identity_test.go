package powercycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// TestA8IdentifyNode: a remediation that a machine owns is for a node that names this very machine.
func TestA8IdentifyNode(t *testing.T) {
	ownedBy := func(apiVersion, name string) func(*v1alpha1.PowerRemediation) {
		return func(r *v1alpha1.PowerRemediation) {
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Machine", Name: name, UID: "m-uid"}}
		}
	}
	const openshift, capi = "machine.openshift.io/v1beta1", "cluster.x-k8s.io/v1beta2"
	newer := func(n *corev1.Node) { n.CreationTimestamp = remediation().CreationTimestamp }
	capiNames := []func(*corev1.Node){annotated("cluster.x-k8s.io/machine", "m"), annotated("cluster.x-k8s.io/cluster-namespace", keyA.Namespace)}
	invalid := called(keyB)
	for sentence, tc := range map[string]struct {
		r    *v1alpha1.PowerRemediation
		node *corev1.Node
		want string
	}{
		"no machine":                        {remediation(), node(), ""},
		"no node":                           {remediation(), nil, ""},
		"a newer node":                      {remediation(), node(newer), v1alpha1.CannotStartNodeIsNewerReason},
		"openshift, named":                  {remediation(ownedBy(openshift, "m")), node(annotated(machineAnnotation, "checks/m")), ""},
		"openshift, another namespace":      {remediation(ownedBy(openshift, "m")), node(annotated(machineAnnotation, "other/m")), v1alpha1.CannotStartMachineNotFoundReason},
		"openshift, named by another group": {remediation(ownedBy(openshift, "m")), node(capiNames...), v1alpha1.CannotStartMachineNotFoundReason},
		"openshift, no node":                {remediation(ownedBy(openshift, "m")), nil, v1alpha1.CannotStartNodeNotFoundReason},
		"cluster API, named":                {remediation(ownedBy(capi, "m")), node(capiNames...), ""},
		"cluster API, machine alone":        {remediation(ownedBy(capi, "m")), node(capiNames[0]), v1alpha1.CannotStartMachineNotFoundReason},
		"cluster API, namespace alone":      {remediation(ownedBy(capi, "m")), node(capiNames[1]), v1alpha1.CannotStartMachineNotFoundReason},
		"another group":                     {remediation(ownedBy("example.com/v1", "m")), node(capiNames...), v1alpha1.CannotStartMachineNotFoundReason},
		"the machine of its name is gone":   {remediation(ownedBy(openshift, "node-a")), node(), v1alpha1.CannotStartMachineNotFoundReason},
		"an invalid name": {remediation(invalid, func(r *v1alpha1.PowerRemediation) {
			r.Annotations[v1alpha1.NodeNameAnnotation] = "../node-a"
		}), node(), v1alpha1.CannotStartNodeNotFoundReason},
	} {
		w := newWorld(t, bmcFor("a", "node-a", "redfish://10.0.0.1"))
		if tc.node != nil {
			w = newWorld(t, tc.node, bmcFor("a", "node-a", "redfish://10.0.0.1"))
		}
		s, found, err := w.identified(t, tc.r)
		if err != nil || found.reason != tc.want || found.found() && found.message == "" || !found.found() && (s.bmc == nil || s.name != "node-a") {
			t.Errorf("%s: %+v with problem %+v, %v", sentence, s, found, err)
		}
	}
}

// TestI14OrphanedRemediationReachesNoNode: a user who may delete a machine may have the garbage collector remove it from the owners of its
// remediation, without a right on remediations. So the remediation is not for the node of its name then.
func TestI14OrphanedRemediationReachesNoNode(t *testing.T) {
	for _, key := range []string{"machine.openshift.io/cloned-from-name", "cluster.x-k8s.io/cloned-from-name"} {
		w := newWorld(t, node(), bmcFor("a", "node-a", "redfish://10.0.0.1"))
		s, found, err := w.identified(t, remediation(func(r *v1alpha1.PowerRemediation) { r.Annotations = map[string]string{key: "reboot"} }))
		if err != nil || found.reason != v1alpha1.CannotStartMachineNotFoundReason || found.message == "" || s.bmc != nil {
			t.Errorf("%s: %+v with problem %+v, %v", key, s, found, err)
		}
	}
}
