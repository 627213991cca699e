package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// InstanceFinalizer lets the cloud stop an instance's kubelet before the instance is gone.
const InstanceFinalizer = "sandbox.fettle.io/instance"

// Fault is a fault of an instance.
type Fault string

// Faults. An empty one means none, and setting that again repairs Unresponsive.
const (
	// FaultUnresponsive: the cloud says that it runs, but nothing is heard from its node.
	FaultUnresponsive Fault = "Unresponsive"
	// FaultTerminated: it is gone for good, and its machine fails.
	FaultTerminated Fault = "Terminated"
)

// State is where an instance is in its life.
type State string

// States. None comes back from Terminated.
const (
	StatePending    State = "Pending"
	StateRunning    State = "Running"
	StateTerminated State = "Terminated"
)

// Kubelet is what an instance's kubelet does.
type Kubelet string

// States of a kubelet; empty before it first joined.
const (
	KubeletRunning Kubelet = "Running"
	KubeletStopped Kubelet = "Stopped"
)

// MachineReference is the machine that an instance was launched for.
type MachineReference struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// InstanceSpec is the request at launch, and the fault that a user injects.
type InstanceSpec struct {
	Machine MachineReference `json:"machine"`
	Zone    string           `json:"zone"`
	// +optional
	InstanceType string `json:"instanceType,omitempty"`
	// NodeName is the name under which it joins the cluster.
	NodeName string `json:"nodeName"`
	// NodeLabels are given to its node.
	// +optional
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	// BootTime passes between launch and joining.
	// +optional
	BootTime metav1.Duration `json:"bootTime,omitempty"`
	// Joins is false for an instance that boots but never becomes a node.
	// +optional
	// +kubebuilder:default=true
	Joins *bool `json:"joins,omitempty"`
	// FailsAfter is for how long it runs before it terminates by itself.
	// +optional
	FailsAfter *metav1.Duration `json:"failsAfter,omitempty"`
	// Fault makes the instance fail: kubectl patch instance NAME --type=merge -p '{"spec":{"fault":"Unresponsive"}}'
	// +optional
	// +kubebuilder:validation:Enum="";Unresponsive;Terminated
	Fault Fault `json:"fault,omitempty"`
}

// InstanceStatus is the state of the instance.
type InstanceStatus struct {
	// +optional
	// +kubebuilder:validation:Enum=Pending;Running;Terminated
	State State `json:"state,omitempty"`
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// +optional
	// +listType=atomic
	Addresses []corev1.NodeAddress `json:"addresses,omitempty"`
	// +optional
	LaunchedAt *metav1.MicroTime `json:"launchedAt,omitempty"`
	// +optional
	BootedAt *metav1.MicroTime `json:"bootedAt,omitempty"`
	// +optional
	Kubelet Kubelet `json:"kubelet,omitempty"`
}

// Instance is one virtual machine of the simulated cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=inst
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".spec.zone"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Fault",type="string",JSONPath=".spec.fault"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".spec.machine.name"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".spec.nodeName"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type Instance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   InstanceSpec   `json:"spec,omitempty"`
	Status InstanceStatus `json:"status,omitempty"`
}

// InstanceList is a list of instances.
//
// +kubebuilder:object:root=true
type InstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Instance `json:"items"`
}
