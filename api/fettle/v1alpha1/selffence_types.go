package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SelfFenceRemediation requests that one node is fenced by its own agent: its promise is revoked, its
// workload may start elsewhere once the node is proven to have reset itself, and the node boots again. A
// health checker creates the object for an unhealthy node, and deletes it when the node is healthy. The
// remediator works while the object exists, and takes back what it did when the object is deleted. A user
// who may create these objects may have nodes reset.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=fettle
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.node.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Proof",type=string,JSONPath=`.status.proof.kind`
// +kubebuilder:printcolumn:name="Waiting-For",type=string,JSONPath=`.status.conditions[?(@.type=="Processing")].reason`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SelfFenceRemediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how the node is fenced. Only its limits can be changed.
	// +kubebuilder:default={}
	// +kubebuilder:validation:XValidation:rule="has(self.release) == has(oldSelf.release) && (!has(self.release) || self.release == oldSelf.release)",message="release can't be changed, since the remediation may have begun; delete the remediation and create another"
	// +optional
	Spec SelfFenceRemediationSpec `json:"spec,omitempty"`
	// status is the progress of the remediation. Only Fettle writes it.
	// +optional
	Status SelfFenceRemediationStatus `json:"status,omitempty"`
}

// SelfFenceRemediationSpec is how a node is fenced by its own agent.
//
// +kubebuilder:validation:XValidation:rule="!has(self.fenceTimeout) || duration(self.fenceTimeout) >= duration('15s') && duration(self.fenceTimeout) <= duration('24h')",message="fenceTimeout must be from 15s to 24h"
// +kubebuilder:validation:XValidation:rule="!has(self.releaseTimeout) || duration(self.releaseTimeout) >= duration('15s') && duration(self.releaseTimeout) <= duration('24h')",message="releaseTimeout must be from 15s to 24h"
// +kubebuilder:validation:XValidation:rule="!has(self.bootTimeout) || duration(self.bootTimeout) >= duration('15s') && duration(self.bootTimeout) <= duration('24h')",message="bootTimeout must be from 15s to 24h"
type SelfFenceRemediationSpec struct {
	// release is how the workload may start elsewhere once the node is proven to have stopped.
	// Taint sets the taint node.kubernetes.io/out-of-service until no pod and no volume of the node
	// is left. DeleteNode deletes the node; its labels, annotations and taints are restored when the
	// kubelet has registered it again.
	// +kubebuilder:validation:Enum=Taint;DeleteNode
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:default=Taint
	// +optional
	Release WorkloadRelease `json:"release,omitempty"`
	// fenceTimeout is how long it may take until the node is tainted, and then until it is proven to
	// have stopped.
	// +kubebuilder:default="5m"
	// +optional
	FenceTimeout *metav1.Duration `json:"fenceTimeout,omitempty"`
	// releaseTimeout is how long pods and volumes may stay on the node once they are released.
	// +kubebuilder:default="10m"
	// +optional
	ReleaseTimeout *metav1.Duration `json:"releaseTimeout,omitempty"`
	// bootTimeout is how long it may take until the node is Ready again once it has stopped.
	// +kubebuilder:default="15m"
	// +optional
	BootTimeout *metav1.Duration `json:"bootTimeout,omitempty"`
}

// SelfFenceRemediationStatus is the progress of a remediation. Each step is recorded before its effect,
// so that a restarted Fettle goes on from it.
type SelfFenceRemediationStatus struct {
	FencingStatus `json:",inline"`
	// condemned is set before the promise of the node is revoked.
	// +optional
	Condemned bool `json:"condemned,omitempty"`
	// condemnedAt is when condemned was set in this attempt.
	// +optional
	CondemnedAt *metav1.MicroTime `json:"condemnedAt,omitempty"`
}

// SelfFenceRemediationList is a list of remediations.
// +kubebuilder:object:root=true
type SelfFenceRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SelfFenceRemediation `json:"items"`
}

// SelfFenceRemediationTemplate is the template from which health checkers create SelfFenceRemediations
// in the template's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=fettle
type SelfFenceRemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the template of a remediation.
	// +required
	Spec SelfFenceRemediationTemplateSpec `json:"spec"`
}

// SelfFenceRemediationTemplateSpec has the template of a remediation.
type SelfFenceRemediationTemplateSpec struct {
	// template is the template of a remediation.
	// +required
	Template SelfFenceRemediationTemplateResource `json:"template"`
}

// SelfFenceRemediationTemplateResource is the template of a remediation.
type SelfFenceRemediationTemplateResource struct {
	// spec of the remediation.
	// +required
	Spec SelfFenceRemediationSpec `json:"spec"`
}

// SelfFenceRemediationTemplateList is a list of templates.
// +kubebuilder:object:root=true
type SelfFenceRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SelfFenceRemediationTemplate `json:"items"`
}
