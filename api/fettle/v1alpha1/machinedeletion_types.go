package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The contract between health checkers and remediators, which others speak too: docs/contract.md.
const (
	// NodeNameAnnotation on a remediation names the node that it is about. Without it the remediation's own
	// name does.
	NodeNameAnnotation = "remediation.medik8s.io/node-name"
	// TimedOutAnnotation on a remediation tells the remediator to stop. Its value is when.
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
	// RemediationStoppedReason: the health checker has asked to stop.
	RemediationStoppedReason = "RemediationStoppedByNHC"
	// CannotStartNodeNotFoundReason: there is no such node, and nothing else tells which machine is meant.
	CannotStartNodeNotFoundReason = "RemediationCannotStartNodeNotFound"
	// CannotStartMachineNotFoundReason: the node has no machine, or none that can be meant.
	CannotStartMachineNotFoundReason = "RemediationCannotStartMachineNotFound"
	// CannotStartNoControllerOwnerReason: nothing would replace the machine.
	CannotStartNoControllerOwnerReason = "RemediationCannotStartNoControllerOwner"

	// NodeIsReplacedReason: a cloud makes a new node under a new name.
	NodeIsReplacedReason = "NodeIsReplaced"
	// HostIsReusedReason: the node may come back, since its host is hardware.
	HostIsReusedReason = "HostIsReused"
	// ProviderUnknownReason: the machine does not say what provides it.
	ProviderUnknownReason = "ProviderUnknown"
	// NothingDeletedReason: the remediation has not begun, and won't.
	NothingDeletedReason = "NothingDeleted"
)

// MachineDeletionRemediation has the machine of one node deleted, so that its owner makes a new one. A
// health checker creates it for a node that is unhealthy, and deletes it when the node is well or gone;
// while it exists the remediator works. Whoever may create one may delete machines.
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
	// status is how far the remediation has come. Only Fettle writes it.
	// +optional
	Status MachineDeletionRemediationStatus `json:"status,omitempty"`
}

// MachineDeletionRemediationSpec has nothing to choose.
type MachineDeletionRemediationSpec struct{}

// MachineDeletionRemediationStatus is how far a remediation has come.
type MachineDeletionRemediationStatus struct {
	// machine is the one that is deleted, and no other of its name. It is set before that is asked for.
	// +optional
	Machine *ObjectReference `json:"machine,omitempty"`
	// owner is what replaces the machine.
	// +optional
	Owner *RemediationOwner `json:"owner,omitempty"`
	// machines is how many machines the owner should have again that have joined the cluster as nodes: as
	// many as when the deletion was asked for, the deleted one included.
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

// RemediationOwner names what replaces a machine.
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

// MachineDeletionRemediationTemplate is what health checkers make MachineDeletionRemediations from, in the
// template's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=fettle
type MachineDeletionRemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has what a remediation is made from.
	// +required
	Spec MachineDeletionRemediationTemplateSpec `json:"spec"`
}

// MachineDeletionRemediationTemplateSpec has what a remediation is made from.
type MachineDeletionRemediationTemplateSpec struct {
	// template is what a remediation is made from.
	// +required
	Template MachineDeletionRemediationTemplateResource `json:"template"`
}

// MachineDeletionRemediationTemplateResource is what a remediation is made from.
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
