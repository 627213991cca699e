package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Names that machines, sets and their nodes carry.
const (
	MachineFinalizer = "machine.machine.openshift.io"

	ClusterLabel      = "machine.openshift.io/cluster-api-cluster" // required on every machine
	RoleLabel         = "machine.openshift.io/cluster-api-machine-role"
	MachineSetLabel   = "machine.openshift.io/cluster-api-machineset"
	ZoneLabel         = "machine.openshift.io/zone"
	InstanceTypeLabel = "machine.openshift.io/instance-type"

	MachineAnnotation         = "machine.openshift.io/machine" // on a node: its machine, as namespace/name
	DeleteAnnotation          = "machine.openshift.io/delete-machine"
	OldDeleteAnnotation       = "machine.openshift.io/cluster-api-delete-machine"
	ExcludeDrainingAnnotation = "machine.openshift.io/exclude-node-draining"
	InstanceStateAnnotation   = "machine.openshift.io/instance-state"
)

// Phases of a machine.
const (
	PhaseProvisioning = "Provisioning"
	PhaseProvisioned  = "Provisioned"
	PhaseRunning      = "Running"
	PhaseDeleting     = "Deleting"
	PhaseFailed       = "Failed"
)

// Values of a machine's ErrorReason.
const (
	ErrorInvalidConfiguration = "InvalidConfiguration"
	ErrorCreate               = "CreateError"
	ErrorUpdate               = "UpdateError"
)

// ObjectMeta is the part of an object's metadata that a template may set.
type ObjectMeta struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	GenerateName string `json:"generateName,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ProviderSpec is for the cloud's own code.
type ProviderSpec struct {
	// Value in the cloud's own format.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Value *runtime.RawExtension `json:"value,omitempty"`
}

// LifecycleHooks hold the deletion of a machine until their owners remove them.
type LifecycleHooks struct {
	// PreDrain hooks hold it before its node is drained.
	// +optional
	// +listType=map
	// +listMapKey=name
	PreDrain []LifecycleHook `json:"preDrain,omitempty"`
	// PreTerminate hooks hold it before its instance is deleted.
	// +optional
	// +listType=map
	// +listMapKey=name
	PreTerminate []LifecycleHook `json:"preTerminate,omitempty"`
}

// LifecycleHook is one of them.
type LifecycleHook struct {
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=512
	Owner string `json:"owner"`
}

// MachineSpec is the desired state of a machine.
type MachineSpec struct {
	// ObjectMeta has labels and annotations that the machine's node shall get.
	// +optional
	ObjectMeta `json:"metadata,omitempty"`
	// +optional
	LifecycleHooks LifecycleHooks `json:"lifecycleHooks,omitempty"`
	// Taints that the machine's node shall get, beside those it has.
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`
	// +optional
	ProviderSpec ProviderSpec `json:"providerSpec"`
	// ProviderID names the instance; the cloud's code sets it.
	// +optional
	ProviderID *string `json:"providerID,omitempty"`
}

// MachineStatus is the observed state of a machine.
type MachineStatus struct {
	// +optional
	NodeRef *corev1.ObjectReference `json:"nodeRef,omitempty"`
	// LastUpdated is when anything in the status last changed.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
	// +optional
	ErrorReason *string `json:"errorReason,omitempty"`
	// +optional
	ErrorMessage *string `json:"errorMessage,omitempty"`
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
	// +optional
	// +listType=atomic
	Addresses []corev1.NodeAddress `json:"addresses,omitempty"`
	// +optional
	Phase *string `json:"phase,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`
}

// Machine is one machine of a cluster: an instance of the cloud, and the node that it becomes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".metadata.labels['machine\\.openshift\\.io/instance-type']"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".metadata.labels['machine\\.openshift\\.io/zone']"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.nodeRef.name",priority=1
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",priority=1
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".metadata.annotations['machine\\.openshift\\.io/instance-state']",priority=1
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MachineSpec   `json:"spec,omitempty"`
	Status MachineStatus `json:"status,omitempty"`
}

// MachineList is a list of machines.
//
// +kubebuilder:object:root=true
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Machine `json:"items"`
}

// Phase returns the machine's phase, empty if it has none yet.
func (m *Machine) Phase() string {
	if m.Status.Phase == nil {
		return ""
	}
	return *m.Status.Phase
}
