package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Finalizer lets a remediator undo what it did to a node before its remediation object is gone.
const Finalizer = "sandbox.fettle.io/remediation"

// Annotations and conditions between health checkers and remediators. The contract is shared with others, so the names are theirs.
const (
	// NodeNameAnnotation on a remediation object names the node. Without it, the object's own name does.
	NodeNameAnnotation = "remediation.medik8s.io/node-name"
	// TimedOutAnnotation on a remediation object tells the remediator that its time is over.
	TimedOutAnnotation = "remediation.medik8s.io/nhc-timed-out"
	// MultipleTemplatesAnnotation on a template tells that the remediator heeds NodeNameAnnotation.
	MultipleTemplatesAnnotation = "remediation.medik8s.io/multiple-templates-support"

	// ConditionProcessing is True while the remediator works, and False when it won't any more.
	ConditionProcessing = "Processing"
	// ConditionSucceeded is Unknown until the remediator knows how it ended.
	ConditionSucceeded = "Succeeded"
	// ConditionPermanentNodeDeletionExpected tells whether the node goes away for good, and another takes its name.
	ConditionPermanentNodeDeletionExpected = "PermanentNodeDeletionExpected"
)

// Outcome is how a remediation ends.
type Outcome string

// Outcomes. An empty one is Succeed.
const (
	// OutcomeSucceed: the node comes back.
	OutcomeSucceed Outcome = "Succeed"
	// OutcomeFail: the remediator says that it can't repair the node.
	OutcomeFail Outcome = "Fail"
	// OutcomeHang: the remediator works for ever.
	OutcomeHang Outcome = "Hang"
	// OutcomeIgnore: no remediator touches the object, as if none were installed.
	OutcomeIgnore Outcome = "Ignore"
)

// RemediationSpec says what the simulated remediator does for a remediation.
type RemediationSpec struct {
	// outcome is how it ends. A reboot of a node that is annotated sandbox.fettle.io/reboot=fails fails, whatever is said here.
	// +optional
	// +kubebuilder:default=Succeed
	// +kubebuilder:validation:Enum=Succeed;Fail;Hang;Ignore
	Outcome Outcome `json:"outcome,omitempty"`
	// takes is how long the remediator works.
	// +optional
	// +kubebuilder:default="1s"
	Takes metav1.Duration `json:"takes,omitempty"`
}

// RemediationStatus is how far the remediator has come.
type RemediationStatus struct {
	// startedAt is when it took up the work.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// removed is the node that a reprovisioning has removed, as it is going to register again.
	// +optional
	Removed *Registration `json:"removed,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Registration is what a node registers with.
type Registration struct {
	// uid is that of the node that was removed, so that no other of its name is.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// +optional
	ProviderID string `json:"providerID,omitempty"`
}

// RemediationTemplateSpec is what remediation objects are made from.
type RemediationTemplateSpec struct {
	Template RemediationTemplateResource `json:"template"`
}

// RemediationTemplateResource is the remediation object to be.
type RemediationTemplateResource struct {
	Spec RemediationSpec `json:"spec"`
}
