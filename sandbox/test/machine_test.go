package test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

func TestMachineSetMakesNodes(t *testing.T) {
	t.Parallel()
	set := newMachineSet("three", 3, `{"zone":"zone-c","nodeLabels":{"node-role.kubernetes.io/infra":""}}`)
	set.Spec.Template.Spec.Labels = map[string]string{"team": "blue"}
	set.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "blue", Effect: corev1.TaintEffectNoSchedule}}
	create(t, shared, set)
	for _, machine := range awaitRunning(t, set, 3) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Status.NodeRef.Name}}
		eventually(t, "the machine's node is dressed", func() string {
			get(t, shared, node)
			switch {
			case node.Annotations[machinev1.MachineAnnotation] != machine.Namespace+"/"+machine.Name:
				return "it doesn't name its machine"
			case node.Labels["team"] != "blue":
				return "it lacks the label of the machine's spec.metadata"
			case !hasTaint(node, "dedicated"):
				return "it lacks the machine's taint"
			}
			return ""
		})
		if node.Spec.ProviderID != *machine.Spec.ProviderID || node.Labels[corev1.LabelTopologyZone] != "zone-c" {
			t.Errorf("node %s has provider ID %s and labels %v", node.Name, node.Spec.ProviderID, node.Labels)
		}
		if _, ok := node.Labels["node-role.kubernetes.io/infra"]; !ok {
			t.Errorf("node %s lacks the label of the provider spec", node.Name)
		}
	}
	eventually(t, "the set counts its machines", func() string {
		get(t, shared, set)
		if s := set.Status; s.Replicas != 3 || s.ReadyReplicas != 3 || s.AvailableReplicas != 3 || s.FullyLabeledReplicas != 3 {
			return "it does not yet"
		}
		return ""
	})

	patch(t, shared, set, `{"spec":{"replicas":1}}`)
	eventually(t, "a smaller set deletes machines", func() string { return countIs(set, 1) })
}

func TestDeletedMachineIsReplacedAtOnceAndDrained(t *testing.T) {
	t.Parallel()
	set := newMachineSet("replaced", 1, `{}`)
	create(t, shared, set)
	old := awaitRunning(t, set, 1)[0]
	pod := newPod("guarded", old.Name)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guarded", Namespace: "default"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: pod.Labels},
		},
	}
	create(t, shared, pod, budget)
	eventually(t, "the pod runs", func() string { return phaseIs(pod, corev1.PodRunning) })
	eventually(t, "the budget counts the pod", func() string {
		get(t, shared, budget)
		if budget.Status.CurrentHealthy != 1 {
			return "it does not yet"
		}
		return ""
	})

	remove(t, shared, old)
	eventually(t, "a replacement runs before the old machine is gone", func() string { return countIs(set, 2) })
	awaitRunning(t, set, 1)
	never(t, "the budget holds the drain", 2*time.Second, func() string {
		get(t, shared, pod)
		if !pod.DeletionTimestamp.IsZero() {
			return "the pod was evicted"
		}
		get(t, shared, old)
		if old.Phase() != machinev1.PhaseDeleting {
			return "the machine is " + old.Phase()
		}
		return ""
	})
	instance := &cloudv1.Instance{ObjectMeta: metav1.ObjectMeta{Name: old.Name}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: old.Name}}
	get(t, shared, instance)
	get(t, shared, node)
	if !node.Spec.Unschedulable {
		t.Error("the node being drained is not cordoned")
	}

	remove(t, shared, budget)
	for what, object := range map[string]client.Object{"pod": pod, "machine": old, "instance": instance, "node": node} {
		eventually(t, "the "+what+" goes when the drain may proceed", func() string { return gone(shared, object) })
	}
}

func TestHooksHoldADeletion(t *testing.T) {
	t.Parallel()
	machine := newMachine("hooked", `{}`)
	machine.Spec.LifecycleHooks = machinev1.LifecycleHooks{
		PreDrain:     []machinev1.LifecycleHook{{Name: "before-drain", Owner: "tester"}},
		PreTerminate: []machinev1.LifecycleHook{{Name: "before-end", Owner: "tester"}},
	}
	create(t, shared, machine)
	awaitPhase(t, machine, machinev1.PhaseRunning)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}}
	remove(t, shared, machine)
	awaitPhase(t, machine, machinev1.PhaseDeleting)
	never(t, "a preDrain hook holds the drain", time.Second, func() string {
		get(t, shared, node)
		if node.Spec.Unschedulable {
			return "the node was cordoned"
		}
		return ""
	})
	patch(t, shared, machine, `{"spec":{"lifecycleHooks":{"preDrain":null}}}`)
	eventually(t, "the drain is done", func() string {
		get(t, shared, machine)
		if !machinev1.IsTrue(machine.Status.Conditions, machinev1.ConditionDrained) {
			return "it is not"
		}
		return ""
	})
	never(t, "a preTerminate hook holds the instance", time.Second, func() string {
		get(t, shared, &cloudv1.Instance{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}})
		return ""
	})
	patch(t, shared, machine, `{"spec":{"lifecycleHooks":{"preTerminate":null}}}`)
	eventually(t, "the machine goes", func() string { return gone(shared, machine) })
}

func TestUnreachableNodeDoesNotHoldTheDrain(t *testing.T) {
	t.Parallel()
	machine := newMachine("silent", `{}`)
	create(t, shared, machine)
	awaitPhase(t, machine, machinev1.PhaseRunning)
	pod := newPod("stranded", machine.Name)
	create(t, shared, pod)
	eventually(t, "the pod runs", func() string { return phaseIs(pod, corev1.PodRunning) })

	instance := &cloudv1.Instance{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}}
	patch(t, shared, instance, `{"spec":{"fault":"Unresponsive"}}`)
	eventually(t, "the node becomes unknown", func() string { return readyIs(shared, machine.Name, corev1.ConditionUnknown) })
	get(t, shared, machine)
	if machine.Phase() != machinev1.PhaseRunning {
		t.Errorf("a machine whose node is silent stays Running, but it is %s", machine.Phase())
	}
	remove(t, shared, machine)
	eventually(t, "the machine goes although no kubelet ends its pod", func() string { return gone(shared, machine) })
	if err := shared.Get(context.Background(), client.ObjectKeyFromObject(pod), pod); err == nil && pod.DeletionTimestamp.IsZero() {
		t.Error("the pod was not evicted")
	} // the controller manager removes the rest a minute later
}

func TestDeletedNodeLeavesADanglingReference(t *testing.T) {
	t.Parallel()
	machine := newMachine("nodeless", `{}`)
	create(t, shared, machine)
	awaitPhase(t, machine, machinev1.PhaseRunning)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}}
	remove(t, shared, node)
	eventually(t, "the node goes", func() string { return gone(shared, node) })
	never(t, "the reference stays and no node comes", time.Second, func() string {
		get(t, shared, machine)
		if machine.Status.NodeRef == nil || machine.Phase() != machinev1.PhaseRunning {
			return "the machine noticed"
		}
		if gone(shared, node) != "" {
			return "the node came back"
		}
		return ""
	})

	instance := &cloudv1.Instance{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}}
	patch(t, shared, instance, `{"spec":{"fault":"Unresponsive"}}`)
	eventually(t, "the kubelet stops", func() string { return kubeletIs(instance, cloudv1.KubeletStopped) })
	patch(t, shared, instance, `{"spec":{"fault":""}}`)
	eventually(t, "a kubelet that starts again registers its node", func() string {
		return readyIs(shared, machine.Name, corev1.ConditionTrue)
	})
	get(t, shared, node)
	eventually(t, "the machine refers to the new node", func() string {
		get(t, shared, machine)
		if machine.Status.NodeRef.UID != node.UID {
			return "it refers to the old one"
		}
		return ""
	})
}

func kubeletIs(instance *cloudv1.Instance, want cloudv1.Kubelet) string {
	if err := shared.Get(context.Background(), client.ObjectKeyFromObject(instance), instance); err != nil {
		return err.Error()
	}
	if instance.Status.Kubelet != want {
		return "it is " + string(instance.Status.Kubelet)
	}
	return ""
}
