package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Policies by which a set chooses the machines to delete.
const (
	DeleteRandom = "Random"
	DeleteNewest = "Newest"
	DeleteOldest = "Oldest"
)

// MachineTemplateSpec is the template of a set's machines.
type MachineTemplateSpec struct {
	// +optional
	ObjectMeta `json:"metadata,omitempty"`
	// +optional
	Spec MachineSpec `json:"spec,omitempty"`
}

// MachineSetSpec is the desired state of a set.
type MachineSetSpec struct {
	// +optional
	// +kubebuilder:default=1
	Replicas *int32 `json:"replicas,omitempty"`
	// MinReadySeconds is for how long a node must have been ready for its machine to be available.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// DeletePolicy says which machines go first when there are too many.
	// +optional
	// +kubebuilder:validation:Enum=Random;Newest;Oldest
	DeletePolicy string `json:"deletePolicy,omitempty"`
	// Selector must match the template's labels.
	Selector metav1.LabelSelector `json:"selector"`
	// +optional
	Template MachineTemplateSpec `json:"template,omitempty"`
}

// MachineSetStatus is the observed state of a set. Machines in deletion aren't counted.
type MachineSetStatus struct {
	// +optional
	Replicas int32 `json:"replicas"`
	// +optional
	FullyLabeledReplicas int32 `json:"fullyLabeledReplicas,omitempty"`
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LabelSelector is the selector as a string, for the scale subresource.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
	// +optional
	ErrorReason *string `json:"errorReason,omitempty"`
	// +optional
	ErrorMessage *string `json:"errorMessage,omitempty"`
}

// MachineSet keeps a number of machines of one make.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Desired",type="integer",JSONPath=".spec.replicas"
// +kubebuilder:printcolumn:name="Current",type="integer",JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="Ready",type="integer",JSONPath=".status.readyReplicas"
// +kubebuilder:printcolumn:name="Available",type="integer",JSONPath=".status.availableReplicas"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type MachineSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MachineSetSpec   `json:"spec,omitempty"`
	Status MachineSetStatus `json:"status,omitempty"`
}

// MachineSetList is a list of sets.
//
// +kubebuilder:object:root=true
type MachineSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineSet `json:"items"`
}
