package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func setName(cluster string, i int) string {
	return fmt.Sprintf("%s-md-%d-%s", cluster, i, digest("set %d", i)[:5])
}

// workerLabels are the labels that a machine set gives its machines.
func workerLabels(cluster, set string) map[string]string {
	return map[string]string{
		clusterv1.ClusterNameLabel: cluster, clusterv1.MachineSetNameLabel: set, "nodepool": "workers",
		clusterv1.ClusterTopologyOwnedLabel: "", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "workers",
		clusterv1.MachineDeploymentNameLabel: cluster + "-workers", clusterv1.MachineDeploymentUniqueLabel: digest("%s", set)[:10] + "-" + digest("%s", set)[:5],
	}
}

func clusterMachineSet(cluster string, i int) *clusterv1.MachineSet {
	name := setName(cluster, i)
	labels := workerLabels(cluster, name)
	return &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: clustersNamespace, Name: name, Labels: labels},
		Spec: clusterv1.MachineSetSpec{
			ClusterName: cluster,
			Replicas:    new(int32(machinesOfSet)),
			Selector:    metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.MachineSetNameLabel: name}},
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: clusterv1.ObjectMeta{Labels: labels},
				Spec: clusterv1.MachineSpec{
					ClusterName: cluster, InfrastructureRef: provided("CloudMachineTemplate", cluster+"-workers"),
					Bootstrap: clusterv1.Bootstrap{DataSecretName: new(cluster + "-workers")},
				},
			},
		},
	}
}

// clusterMachine returns a running machine with a node. It is as large as one on a public cloud whose providers have
// written all their fields.
func clusterMachine(cluster string, i int, owner metav1.OwnerReference, now time.Time) *clusterv1.Machine {
	n := node(i, now)
	name := machineName(i)
	zone := n.Labels[corev1.LabelTopologyZone]
	return &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: clustersNamespace, OwnerReferences: []metav1.OwnerReference{owner},
			Labels:      workerLabels(cluster, owner.Name),
			Annotations: map[string]string{"machine.example.com/instance-type": "sim.4xlarge"},
			Finalizers:  []string{clusterv1.MachineFinalizer},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName: cluster, Version: n.Status.NodeInfo.KubeletVersion, ProviderID: n.Spec.ProviderID, FailureDomain: zone,
			InfrastructureRef: provided("CloudMachine", name),
			Bootstrap: clusterv1.Bootstrap{
				ConfigRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: name,
				},
				DataSecretName: new(name),
			},
			Deletion: clusterv1.MachineDeletionSpec{
				NodeDrainTimeoutSeconds: new(int32(600)), NodeVolumeDetachTimeoutSeconds: new(int32(300)), NodeDeletionTimeoutSeconds: new(int32(10)),
			},
		},
		Status: clusterMachineStatus(n, zone, metav1.NewTime(now.Add(-time.Hour))),
	}
}

func clusterMachineStatus(n *corev1.Node, zone string, since metav1.Time) clusterv1.MachineStatus {
	status := clusterv1.MachineStatus{
		Conditions:     machineConditions(since),
		Initialization: clusterv1.MachineInitializationStatus{InfrastructureProvisioned: new(true), BootstrapDataSecretCreated: new(true)},
		NodeRef:        clusterv1.MachineNodeReference{Name: n.Name},
		NodeInfo:       &n.Status.NodeInfo,
		LastUpdated:    since, FailureDomain: zone, Phase: string(clusterv1.MachinePhaseRunning), ObservedGeneration: 1,
		Deprecated: &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{Conditions: deprecatedConditions(since)}},
	}
	for _, a := range n.Status.Addresses {
		status.Addresses = append(status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineAddressType(a.Type), Address: a.Address})
	}
	return status
}

// machineConditions are the conditions of a healthy machine, in the order of their types, as the machine controller
// writes them. A health check adds its own.
func machineConditions(since metav1.Time) []metav1.Condition {
	all := []metav1.Condition{
		{Type: clusterv1.MachineAvailableCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineAvailableReason},
		{Type: clusterv1.MachineBootstrapConfigReadyCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineBootstrapConfigReadyReason},
		{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotDeletingReason},
		{
			Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineInfrastructureReadyReason,
			Message: "CloudMachine: instance is running, attached to its subnet and registered with its load balancers",
		},
		{Type: clusterv1.MachineNodeHealthyCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineNodeHealthyReason},
		{
			Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineNodeReadyReason,
			Message: "* Node.Ready: kubelet is posting ready status",
		},
		{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason},
		{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineReadyReason},
		{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineUpToDateReason},
		{Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotUpdatingReason},
		{
			Type: "cloud.example.com/Scheduled", Status: metav1.ConditionTrue, Reason: "InstanceScheduled",
			Message: "the instance runs on a host without planned maintenance",
		},
		{
			Type: "cloud.example.com/VolumesHealthy", Status: metav1.ConditionTrue, Reason: "VolumesAttached",
			Message: "all volumes of the instance are attached and optimized",
		},
	}
	for i := range all {
		all[i].LastTransitionTime, all[i].ObservedGeneration = since, 1
	}
	return all
}

func deprecatedConditions(since metav1.Time) clusterv1.Conditions {
	var all clusterv1.Conditions
	for _, kind := range []clusterv1.ConditionType{
		clusterv1.ReadyV1Beta1Condition, clusterv1.BootstrapReadyV1Beta1Condition, clusterv1.InfrastructureReadyV1Beta1Condition,
		clusterv1.MachineNodeHealthyV1Beta1Condition,
	} {
		all = append(all, clusterv1.Condition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: since})
	}
	return all
}
