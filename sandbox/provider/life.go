package provider

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
	"github.com/fettle-io/fettle/sandbox/cloud"
)

const (
	workerLabel       = "node-role.kubernetes.io/worker"
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
)

// The reasons of failure that Cluster API knows.
const (
	reasonInvalid    = "InvalidConfiguration"
	reasonTerminated = "UpdateError"
)

// instance returns the machine as an instance of the cloud.
func instance(machine *providerv1.SandboxMachine, owner *clusterv1.Machine) *cloudv1.Instance {
	spec := machine.Spec
	labels := spec.NodeLabels
	if labels == nil {
		labels = map[string]string{workerLabel: ""}
		if _, ok := owner.Labels[clusterv1.MachineControlPlaneLabel]; ok {
			labels = map[string]string{controlPlaneLabel: ""}
		}
	}
	return &cloudv1.Instance{
		ObjectMeta: metav1.ObjectMeta{Name: machine.Name},
		Spec: cloudv1.InstanceSpec{
			Zone:         spec.Zone,
			InstanceType: spec.InstanceType,
			NodeName:     machine.Name,
			NodeLabels:   labels,
			BootTime:     spec.BootTime,
			Joins:        spec.Joins,
			FailsAfter:   spec.FailsAfter,
			Fault:        spec.Fault,
		},
		Status: machine.Status.InstanceStatus,
	}
}

// advance returns the status of the machine at that instant, and the instant of its next change, or zero for never. It
// is pure, like cloud.Advance, which it uses.
func advance(machine *providerv1.SandboxMachine, owner *clusterv1.Machine, now time.Time) (providerv1.SandboxMachineStatus, time.Time) {
	status := *machine.Status.DeepCopy()
	if status.State == "" { // not launched yet
		switch machine.Spec.Launch {
		case cloudv1.LaunchError:
			return status, time.Time{}
		case cloudv1.LaunchInvalidConfiguration:
			status.FailureReason = reasonInvalid
			status.FailureMessage = "the simulated provider was told that this configuration is invalid"
			return status, time.Time{}
		}
	}
	var wake time.Time
	status.InstanceStatus, wake = cloud.Advance(instance(machine, owner), now)
	status.FailureDomain = machine.Spec.Zone
	switch status.State {
	case cloudv1.StatePending:
	case cloudv1.StateRunning:
		status.Initialization.Provisioned = new(true)
	case cloudv1.StateTerminated:
		status.FailureReason = reasonTerminated
		status.FailureMessage = "the instance terminated"
	}
	return status, wake
}

// mayLaunch implements the contract: infrastructure waits for the cluster's and for bootstrap data.
func mayLaunch(cluster *clusterv1.Cluster, owner *clusterv1.Machine) bool {
	return ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false) && owner.Spec.Bootstrap.DataSecretName != nil
}
