package workload

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

// Nodepool is the label of workers and its value.
const (
	NodepoolLabel = "nodepool"
	Nodepool      = "nodepool-0"
)

var zones = [...]string{"zone-a", "zone-b", "zone-c"}

// workers returns a machine deployment and its templates, or nothing without workers.
func workers(cluster Cluster) []client.Object {
	if cluster.Workers == 0 {
		return nil
	}
	name := cluster.Name + "-workers"
	return []client.Object{
		&providerv1.SandboxMachineTemplate{ObjectMeta: cluster.meta(name)},
		&providerv1.SandboxBootstrapConfigTemplate{ObjectMeta: cluster.meta(name)},
		&clusterv1.MachineDeployment{
			ObjectMeta: cluster.meta(name),
			Spec: clusterv1.MachineDeploymentSpec{
				ClusterName: cluster.Name,
				Replicas:    new(cluster.Workers),
				Template: clusterv1.MachineTemplateSpec{
					ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{NodepoolLabel: Nodepool}},
					Spec: clusterv1.MachineSpec{
						ClusterName:       cluster.Name,
						Version:           Version,
						InfrastructureRef: provided(machineTemplateKind, name),
						Bootstrap:         clusterv1.Bootstrap{ConfigRef: provided(bootstrapTemplateKind, name)},
					},
				},
			},
		},
	}
}

// controlPlaneMachines returns machines after the objects to which they refer, which must exist first.
func controlPlaneMachines(cluster Cluster, owner metav1.OwnerReference) []client.Object {
	var objects []client.Object
	for i := range cluster.ControlPlaneMachines {
		name := fmt.Sprintf("%s-control-plane-%d", cluster.Name, i)
		zone := zones[int(i)%len(zones)]
		machine := &clusterv1.Machine{
			ObjectMeta: cluster.meta(name),
			Spec: clusterv1.MachineSpec{
				ClusterName:       cluster.Name,
				Version:           Version,
				FailureDomain:     zone,
				InfrastructureRef: provided(machineKind, name),
				Bootstrap:         clusterv1.Bootstrap{ConfigRef: provided(bootstrapKind, name)},
			},
		}
		machine.Labels[clusterv1.MachineControlPlaneLabel] = ""
		machine.Labels[clusterv1.MachineControlPlaneNameLabel] = cluster.Name
		machine.OwnerReferences = []metav1.OwnerReference{owner}
		objects = append(objects,
			&providerv1.SandboxMachine{ObjectMeta: cluster.meta(name), Spec: providerv1.SandboxMachineSpec{Zone: zone}},
			&providerv1.SandboxBootstrapConfig{ObjectMeta: cluster.meta(name)},
			machine)
	}
	return objects
}
