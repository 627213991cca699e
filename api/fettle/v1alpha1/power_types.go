package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PowerStrategy is what a PowerRemediation does with the power.
type PowerStrategy string

// Values of PowerStrategy.
const (
	// RebootStrategy turns the power off and on again.
	RebootStrategy PowerStrategy = "Reboot"
	// OffStrategy turns the power off and leaves it off. A plain Off would be a boolean in YAML.
	OffStrategy PowerStrategy = "PowerOff"
)

// Reasons of the condition Succeeded of a PowerRemediation, besides those of a
// MachineDeletionRemediation and those in docs/remedies/power.md.
const (
	// CannotStartNoBMCReason: no BMC names the node.
	CannotStartNoBMCReason = "RemediationCannotStartNoBMC"
	// CannotStartNoBareMetalHostReason: the BareMetalHost that the BMC of the node names does not exist.
	CannotStartNoBareMetalHostReason = "RemediationCannotStartNoBareMetalHost"
	// CannotStartUnsuitableBareMetalHostReason: Metal3 doesn't power the host of the node off by an annotation.
	CannotStartUnsuitableBareMetalHostReason = "RemediationCannotStartUnsuitableBareMetalHost"
	// CannotStartOtherSystemReason: the UUID of the BMC's system is not that of the node's host.
	CannotStartOtherSystemReason = "RemediationCannotStartOtherSystem"
	// CannotStartAmbiguousBMCReason: two BMCs name the node, or have the same address.
	CannotStartAmbiguousBMCReason = "RemediationCannotStartAmbiguousBMC"
	// CannotStartFencedMeanwhileReason: the remediation has waited for another one or for the end of a mark,
	// and the node has become Ready meanwhile.
	CannotStartFencedMeanwhileReason = "RemediationCannotStartFencedMeanwhile"
	// CannotStartNodeIsNewerReason: the node was created after the remediation.
	CannotStartNodeIsNewerReason = "RemediationCannotStartNodeIsNewer"
	// CannotStartClusterNotFoundReason: the Cluster of a machine of Cluster API does not exist, or is
	// being deleted.
	CannotStartClusterNotFoundReason = "RemediationCannotStartClusterNotFound"
)

// PowerRemediation requests that one node is fenced: its host is powered off, its workload may start
// elsewhere once the host is proven to be off, and its host is powered on again. A health checker
// creates the object for an unhealthy node, and deletes it when the node is healthy. The remediator
// works while the object exists, and takes back what it did when the object is deleted. A user who
// may create these objects may power hosts off.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=fettle
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.node.name`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.status.node.cluster.name`,priority=1
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Proof",type=string,JSONPath=`.status.proof.kind`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`
// +kubebuilder:printcolumn:name="Waiting-For",type=string,JSONPath=`.status.conditions[?(@.type=="Processing")].reason`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PowerRemediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how the node is fenced. Only its limits can be changed.
	// +kubebuilder:default={}
	// +kubebuilder:validation:XValidation:rule="has(self.strategy) == has(oldSelf.strategy) && (!has(self.strategy) || self.strategy == oldSelf.strategy) && has(self.release) == has(oldSelf.release) && (!has(self.release) || self.release == oldSelf.release) && has(self.onFailure) == has(oldSelf.onFailure) && (!has(self.onFailure) || self.onFailure == oldSelf.onFailure) && has(self.retries) == has(oldSelf.retries) && (!has(self.retries) || self.retries == oldSelf.retries)",message="strategy, release, onFailure and retries can't be changed, since the remediation may have begun; delete the remediation and create another"
	// +optional
	Spec PowerRemediationSpec `json:"spec,omitempty"`
	// status is the progress of the remediation. Only Fettle writes it.
	// +optional
	Status PowerRemediationStatus `json:"status,omitempty"`
}

// PowerRemediationSpec is how a node is fenced.
//
// +kubebuilder:validation:XValidation:rule="!has(self.powerOffTimeout) || duration(self.powerOffTimeout) >= duration('15s') && duration(self.powerOffTimeout) <= duration('24h')",message="powerOffTimeout must be from 15s to 24h"
// +kubebuilder:validation:XValidation:rule="!has(self.fenceTimeout) || duration(self.fenceTimeout) >= duration('15s') && duration(self.fenceTimeout) <= duration('24h')",message="fenceTimeout must be from 15s to 24h"
// +kubebuilder:validation:XValidation:rule="!has(self.releaseTimeout) || duration(self.releaseTimeout) >= duration('15s') && duration(self.releaseTimeout) <= duration('24h')",message="releaseTimeout must be from 15s to 24h"
// +kubebuilder:validation:XValidation:rule="!has(self.powerOnTimeout) || duration(self.powerOnTimeout) >= duration('15s') && duration(self.powerOnTimeout) <= duration('24h')",message="powerOnTimeout must be from 15s to 24h"
// +kubebuilder:validation:XValidation:rule="!has(self.bootTimeout) || duration(self.bootTimeout) >= duration('15s') && duration(self.bootTimeout) <= duration('24h')",message="bootTimeout must be from 15s to 24h"
// +kubebuilder:validation:XValidation:rule="!has(self.machineDeletionTimeout) || duration(self.machineDeletionTimeout) >= duration('15s') && duration(self.machineDeletionTimeout) <= duration('24h')",message="machineDeletionTimeout must be from 15s to 24h"
type PowerRemediationSpec struct {
	// strategy is Reboot, which turns the power off and on again, or PowerOff, which leaves it off.
	// +kubebuilder:validation:Enum=Reboot;PowerOff
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:default=Reboot
	// +optional
	Strategy PowerStrategy `json:"strategy,omitempty"`
	// release is how the workload may start elsewhere once the node is proven to have stopped.
	// Taint sets the taint node.kubernetes.io/out-of-service until no pod and no volume of the node
	// is left. DeleteNode deletes the node; its labels, annotations and taints are restored when the
	// kubelet has registered it again.
	// +kubebuilder:validation:Enum=Taint;DeleteNode
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:default=Taint
	// +optional
	Release WorkloadRelease `json:"release,omitempty"`
	// onFailure is what follows when no power cycle has brought the node back. Hold leaves the node
	// as it is. DeleteMachine deletes its machine, so that its owner creates another. The machine
	// of a control-plane node is kept, and so is a machine without a controller.
	// +kubebuilder:validation:Enum=Hold;DeleteMachine
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:default=Hold
	// +optional
	OnFailure FailureAction `json:"onFailure,omitempty"`
	// retries is how many power cycles may follow the first.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=1
	// +optional
	Retries *int32 `json:"retries,omitempty"`
	// powerOffTimeout is how long it may take until the node is tainted, and then until the host is
	// proven to be off.
	// +kubebuilder:default="2m"
	// +optional
	PowerOffTimeout *metav1.Duration `json:"powerOffTimeout,omitempty"`
	// fenceTimeout is how long it may take until the promise of the node has expired, where a FencePolicy
	// requires that too. It counts from the same moment as powerOffTimeout.
	// +kubebuilder:default="5m"
	// +optional
	FenceTimeout *metav1.Duration `json:"fenceTimeout,omitempty"`
	// releaseTimeout is how long pods and volumes may stay on the node once they are released.
	// +kubebuilder:default="10m"
	// +optional
	ReleaseTimeout *metav1.Duration `json:"releaseTimeout,omitempty"`
	// powerOnTimeout is how long it may take until the host is on again.
	// +kubebuilder:default="2m"
	// +optional
	PowerOnTimeout *metav1.Duration `json:"powerOnTimeout,omitempty"`
	// bootTimeout is how long it may take until the node is Ready again once the host is on.
	// +kubebuilder:default="15m"
	// +optional
	BootTimeout *metav1.Duration `json:"bootTimeout,omitempty"`
	// machineDeletionTimeout is how long it may take until the machine is gone, with
	// onFailure: DeleteMachine. Its provider may have to clean the disks of the host first.
	// +kubebuilder:default="1h"
	// +optional
	MachineDeletionTimeout *metav1.Duration `json:"machineDeletionTimeout,omitempty"`
}

// PowerRemediationStatus is the progress of a remediation. Each step is recorded before its effect,
// so that a restarted Fettle goes on from it.
type PowerRemediationStatus struct {
	FencingStatus `json:",inline"`
	// machineDeletion is set before the machine is deleted.
	// +optional
	MachineDeletion bool `json:"machineDeletion,omitempty"`
	// machine is the machine that is deleted after the last power cycle. Before the remediation
	// begins, it is the machine that the remediation waits for.
	// +optional
	Machine *ObjectReference `json:"machine,omitempty"`
	// bmc is the BMC of the node's host.
	// +optional
	BMC *FencingBMC `json:"bmc,omitempty"`
	// protocol is how Fettle reaches the power: Redfish, IPMI or BareMetalHost.
	// +optional
	Protocol string `json:"protocol,omitempty"`
	// commandedAt is when the power was first commanded off in this attempt.
	// +optional
	CommandedAt *metav1.MicroTime `json:"commandedAt,omitempty"`
	// poweredOff is set before the power is commanded off, and unset once the host is on again.
	// +optional
	PoweredOff bool `json:"poweredOff,omitempty"`
	// requiredProof is PowerAndPromise if this attempt releases the workload by both proofs or by a new
	// boot, and Any if one proof is enough. The FencePolicy of the node says so when the attempt begins.
	// +kubebuilder:validation:Enum=Any;PowerAndPromise
	// +optional
	RequiredProof RequiredProof `json:"requiredProof,omitempty"`
	// condemned is set before the promise of the node is revoked.
	// +optional
	Condemned bool `json:"condemned,omitempty"`
	// formerHosts are BareMetalHosts that were to be powered off before the BMC was changed to
	// another host. Fettle removes its annotation from them.
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	FormerHosts []FormerHost `json:"formerHosts,omitempty"`
}

// FormerHost is a BareMetalHost that may have Fettle's annotation.
type FormerHost struct {
	// namespace of the BareMetalHost.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Namespace string `json:"namespace"`
	// name of the BareMetalHost.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// uid of the BareMetalHost. Another one of its name is left alone.
	// +kubebuilder:validation:MaxLength=64
	// +required
	UID string `json:"uid"`
}

// FencingBMC names the BMC that a remediation uses.
type FencingBMC struct {
	// name of the BMC.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
	// uid of the BMC.
	// +required
	UID string `json:"uid"`
	// generation of the BMC's spec. A proof by the power doesn't outlive it.
	// +kubebuilder:validation:Minimum=0
	// +required
	Generation int64 `json:"generation"`
	// hostUID is the UID of the BareMetalHost that the BMC names, if it names one. Another
	// BareMetalHost of the same name is never powered by this remediation.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	HostUID string `json:"hostUID,omitempty"`
	// hostNamespace and hostName are the namespace and the name of that BareMetalHost. Fettle takes
	// back what it did there, also if the BMC is gone by then.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	HostNamespace string `json:"hostNamespace,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	HostName string `json:"hostName,omitempty"`
	// hostConsumer names what spec.consumerRef of that BareMetalHost refers to. While it refers to
	// anything else, the host is that of another node, and this remediation leaves it alone.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	HostConsumer string `json:"hostConsumer,omitempty"`
}

// PowerRemediationList is a list of remediations.
// +kubebuilder:object:root=true
type PowerRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PowerRemediation `json:"items"`
}

// PowerRemediationTemplate is the template from which health checkers create PowerRemediations in
// the template's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=fettle
type PowerRemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the template of a remediation.
	// +required
	Spec PowerRemediationTemplateSpec `json:"spec"`
}

// PowerRemediationTemplateSpec has the template of a remediation.
type PowerRemediationTemplateSpec struct {
	// template is the template of a remediation.
	// +required
	Template PowerRemediationTemplateResource `json:"template"`
}

// PowerRemediationTemplateResource is the template of a remediation.
type PowerRemediationTemplateResource struct {
	// spec of the remediation.
	// +required
	Spec PowerRemediationSpec `json:"spec"`
}

// PowerRemediationTemplateList is a list of templates.
// +kubebuilder:object:root=true
type PowerRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PowerRemediationTemplate `json:"items"`
}
