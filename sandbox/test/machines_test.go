package test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

const namespace = "openshift-machine-api"

func newMachine(name, providerSpec string) *machinev1.Machine {
	return &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			Labels: map[string]string{machinev1.ClusterLabel: "test"},
		},
		Spec: newMachineSpec(providerSpec),
	}
}

func newMachineSet(name string, replicas int32, providerSpec string) *machinev1.MachineSet {
	mark := map[string]string{machinev1.MachineSetLabel: name}
	return &machinev1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: machinev1.MachineSetSpec{
			Replicas: &replicas,
			Selector: metav1.LabelSelector{MatchLabels: mark},
			Template: machinev1.MachineTemplateSpec{
				ObjectMeta: machinev1.ObjectMeta{Labels: map[string]string{
					machinev1.MachineSetLabel: name, machinev1.ClusterLabel: "test",
				}},
				Spec: newMachineSpec(providerSpec),
			},
		},
	}
}

func newMachineSpec(providerSpec string) machinev1.MachineSpec {
	value := &runtime.RawExtension{Raw: []byte(providerSpec)}
	return machinev1.MachineSpec{ProviderSpec: machinev1.ProviderSpec{Value: value}}
}

func awaitPhase(t *testing.T, machine *machinev1.Machine, phase string) {
	t.Helper()
	eventually(t, "machine "+machine.Name+" becomes "+phase, func() string {
		get(t, shared, machine)
		if machine.Phase() != phase {
			return "it is " + machine.Phase()
		}
		return ""
	})
}

// awaitRunning waits until the set has so many running machines that are not in deletion, and returns them.
func awaitRunning(t *testing.T, set *machinev1.MachineSet, n int) []*machinev1.Machine {
	t.Helper()
	var running []*machinev1.Machine
	eventually(t, fmt.Sprintf("%d machines of %s run", n, set.Name), func() string {
		machines, err := machinesOf(set)
		if err != nil {
			return err.Error()
		}
		running = nil
		for i := range machines {
			if machine := &machines[i]; machine.DeletionTimestamp.IsZero() && machine.Phase() == machinev1.PhaseRunning {
				running = append(running, machine)
			}
		}
		if len(running) != n {
			return fmt.Sprintf("%d run", len(running))
		}
		return ""
	})
	return running
}

// countIs returns an error text if the set has another number of machines, including those in deletion.
func countIs(set *machinev1.MachineSet, want int) string {
	machines, err := machinesOf(set)
	if err != nil {
		return err.Error()
	}
	if len(machines) != want {
		return fmt.Sprintf("there are %d machines", len(machines))
	}
	return ""
}

func machinesOf(set *machinev1.MachineSet) ([]machinev1.Machine, error) {
	list := &machinev1.MachineList{}
	err := shared.List(context.Background(), list, client.InNamespace(namespace),
		client.MatchingLabels{machinev1.MachineSetLabel: set.Name})
	return list.Items, err
}

func hasTaint(node *corev1.Node, key string) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == key {
			return true
		}
	}
	return false
}
