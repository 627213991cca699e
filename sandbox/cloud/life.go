package cloud

import (
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
)

// Advance returns the status of the instance at that instant, and the instant of its next change, or zero for never. It
// is pure: the caller applies the new status to the node.
func Advance(instance *cloudv1.Instance, now time.Time) (cloudv1.InstanceStatus, time.Time) {
	spec, status := instance.Spec, *instance.Status.DeepCopy()
	if status.State == "" {
		status.State = cloudv1.StatePending
		status.ProviderID = fmt.Sprintf("sandbox:///%s/%s", spec.Zone, instance.Name)
		status.Addresses = addresses(instance.Name)
		status.LaunchedAt = new(metav1.NewMicroTime(now))
	}
	var wake time.Time
	if status.State == cloudv1.StatePending {
		boot := status.LaunchedAt.Add(spec.BootTime.Duration)
		wake = boot
		if !now.Before(boot) {
			wake = time.Time{}
			status.State = cloudv1.StateRunning
			status.BootedAt = new(metav1.NewMicroTime(now))
		}
	}
	if status.State == cloudv1.StateRunning && spec.FailsAfter != nil {
		end := status.BootedAt.Add(spec.FailsAfter.Duration)
		wake = end
		if !now.Before(end) {
			status.State = cloudv1.StateTerminated
		}
	}
	if spec.Fault == cloudv1.FaultTerminated {
		status.State = cloudv1.StateTerminated
	}
	if status.State == cloudv1.StateTerminated {
		wake = time.Time{}
	}
	status.Kubelet = kubelet(spec, status)
	return status, wake
}

// kubelet runs from the time an instance that joins has booted, except while the instance has a fault.
func kubelet(spec cloudv1.InstanceSpec, status cloudv1.InstanceStatus) cloudv1.Kubelet {
	switch {
	case status.State == cloudv1.StateRunning && spec.Fault == "" && ptr.Deref(spec.Joins, true):
		return cloudv1.KubeletRunning
	case status.Kubelet == "":
		return "" // it has never run
	default:
		return cloudv1.KubeletStopped
	}
}

// addresses returns the addresses of an instance, which never change: its IP address in 10.64.0.0/10 is made from its
// name.
func addresses(name string) []corev1.NodeAddress {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	sum := hash.Sum32()
	ip := fmt.Sprintf("10.%d.%d.%d", 64+(sum>>16)&63, (sum>>8)&255, sum&255)
	return []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: ip},
		{Type: corev1.NodeHostName, Address: name},
		{Type: corev1.NodeInternalDNS, Address: name},
	}
}
