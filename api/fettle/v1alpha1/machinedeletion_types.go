package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The contract between health checkers and remediators (docs/contract.md). Other programs speak it
// too.
const (
	// NodeNameAnnotation on a remediation names its node. Without it, the name of the remediation
	// is that of the node.
	NodeNameAnnotation = "remediation.medik8s.io/node-name"
	// TimedOutAnnotation on a remediation makes the remediator stop. Its value is the time.
	TimedOutAnnotation = "remediation.medik8s.io/nhc-timed-out"

	// ProcessingCondition is True while a remediator works.
	ProcessingCondition = "Processing"
	// SucceededCondition is Unknown until the remediator has succeeded or failed.
	SucceededCondition = "Succeeded"
	// PermanentNodeDeletionExpectedCondition is True when the node will not come back under its name.
	PermanentNodeDeletionExpectedCondition = "PermanentNodeDeletionExpected"
)

// Reasons of the conditions of a MachineDeletionRemediation.
const (
	// RemediationStartedReason: the machine is being deleted and replaced.
	RemediationStartedReason = "RemediationStarted"
	// MachineDeletedReason: the machine is gone and replaced.
	MachineDeletedReason = "MachineDeleted"
	// RemediationStoppedReason: the health checker requested a stop.
	RemediationStoppedReason = "RemediationStoppedByNHC"
	// CannotStartNodeNotFoundReason: the node does not exist, and nothing else names its machine.
	CannotStartNodeNotFoundReason = "RemediationCannotStartNodeNotFound"
	// CannotStartMachineNotFoundReason: the node has no machine, or it is unknown which machine is
	// its own.
	CannotStartMachineNotFoundReason = "RemediationCannotStartMachineNotFound"
	// CannotStartNoControllerOwnerReason: nothing would replace the machine.
	CannotStartNoControllerOwnerReason = "RemediationCannotStartNoControllerOwner"

	// NodeIsReplacedReason: the cloud creates a new node with a new name.
	NodeIsReplacedReason = "NodeIsReplaced"
	// HostIsReusedReason: the node may come back, since its host is hardware.
	HostIsReusedReason = "HostIsReused"
	// ProviderUnknownReason: the machine does not name its provider.
	ProviderUnknownReason = "ProviderUnknown"
	// NothingDeletedReason: the remediation has not begun, and won't begin.
	NothingDeletedReason = "NothingDeleted"
)

// MachineDeletionRemediation requests the deletion of the machine of one node, so that its owner
// creates a new one. A health checker creates the object for an unhealthy node, and deletes it when
// the node is healthy or gone. The remediator works while the object exists. A user who may create
// these objects may delete machines.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=fettle
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.status.machine.name`
// +kubebuilder:printcolumn:name="Processing",type=string,JSONPath=`.status.conditions[?(@.type=="Processing")].status`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MachineDeletionRemediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is empty: there is nothing to choose.
	// +optional
	Spec MachineDeletionRemediationSpec `json:"spec,omitempty"`
	// status is the progress of the remediation. Only Fettle writes it.
	// +optional
	Status MachineDeletionRemediationStatus `json:"status,omitempty"`
}

// MachineDeletionRemediationSpec is empty: there is nothing to choose.
type MachineDeletionRemediationSpec struct{}

// MachineDeletionRemediationStatus is the progress of a remediation.
type MachineDeletionRemediationStatus struct {
	// machine is the deleted machine, and no other of its name. Fettle sets it before it deletes
	// the machine.
	// +optional
	Machine *ObjectReference `json:"machine,omitempty"`
	// owner is the object that replaces the machine.
	// +optional
	Owner *RemediationOwner `json:"owner,omitempty"`
	// machines is how many machines of the owner should have joined the cluster as nodes again. It
	// is their number when the machine was deleted, the deleted machine included.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Machines int32 `json:"machines,omitempty"`
	// conditions are Processing, Succeeded and PermanentNodeDeletionExpected.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RemediationOwner names the object that replaces a machine.
type RemediationOwner struct {
	ObjectReference `json:",inline"`
	// apiVersion of the owner.
	// +kubebuilder:validation:MinLength=1
	// +required
	APIVersion string `json:"apiVersion"`
}

// MachineDeletionRemediationList is a list of remediations.
// +kubebuilder:object:root=true
type MachineDeletionRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineDeletionRemediation `json:"items"`
}

// MachineDeletionRemediationTemplate is the template from which health checkers create
// MachineDeletionRemediations in the template's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=fettle
type MachineDeletionRemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the template of a remediation.
	// +required
	Spec MachineDeletionRemediationTemplateSpec `json:"spec"`
}

// MachineDeletionRemediationTemplateSpec has the template of a remediation.
type MachineDeletionRemediationTemplateSpec struct {
	// template is the template of a remediation.
	// +required
	Template MachineDeletionRemediationTemplateResource `json:"template"`
}

// MachineDeletionRemediationTemplateResource is the template of a remediation.
type MachineDeletionRemediationTemplateResource struct {
	// spec of the remediation: {}.
	// +required
	Spec MachineDeletionRemediationSpec `json:"spec"`
}

// MachineDeletionRemediationTemplateList is a list of templates.
// +kubebuilder:object:root=true
type MachineDeletionRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineDeletionRemediationTemplate `json:"items"`
}
