package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadRelease is how a remediation lets the workload of a stopped node start elsewhere.
type WorkloadRelease string

// Values of WorkloadRelease.
const (
	// TaintRelease sets the taint node.kubernetes.io/out-of-service.
	TaintRelease WorkloadRelease = "Taint"
	// DeleteNodeRelease deletes the node. The kubelet registers it again.
	DeleteNodeRelease WorkloadRelease = "DeleteNode"
)

// FailureAction is what follows when a remediation of a node has failed.
type FailureAction string

// Values of FailureAction.
const (
	// HoldAction leaves the node as it is, until the remediation is deleted.
	HoldAction FailureAction = "Hold"
	// DeleteMachineAction deletes the node's machine, so that its owner creates another.
	DeleteMachineAction FailureAction = "DeleteMachine"
)

// FencingStatus is the part of the progress that all remediations have which fence a node.
type FencingStatus struct {
	// phase is Preparing, PoweringOff, Condemning, Releasing, PoweringOn, Booting, Restoring, Aborting or
	// DeletingMachine, and Succeeded, Failed or Aborted at the end. A PowerRemediation has no Condemning,
	// and a SelfFenceRemediation no PoweringOff and PoweringOn.
	// +optional
	Phase string `json:"phase,omitempty"`
	// phaseSince is when the phase began. Its limit counts from then.
	// +optional
	PhaseSince *metav1.MicroTime `json:"phaseSince,omitempty"`
	// reason is why the phase began, if that needs a reason.
	// +optional
	Reason string `json:"reason,omitempty"`
	// attempt counts the attempts to fence the node, such as power cycles, from 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// node is the node as it was before the first command of the attempt.
	// +optional
	Node *FencedNode `json:"node,omitempty"`
	// releasedAt is when workloadReleased was set.
	// +optional
	ReleasedAt *metav1.MicroTime `json:"releasedAt,omitempty"`
	// backAt is when the node was seen to be Ready under another boot ID.
	// +optional
	BackAt *metav1.MicroTime `json:"backAt,omitempty"`
	// proof is why the node is known to have stopped. Nothing is released without it.
	// +optional
	Proof *FencingProof `json:"proof,omitempty"`
	// voidProofs counts the proofs that no longer held just before the release.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	VoidProofs int32 `json:"voidProofs,omitempty"`
	// workloadReleased is set before the workload of the node is released.
	// +optional
	WorkloadReleased bool `json:"workloadReleased,omitempty"`
	// releasedBefore is set once an earlier proof had the workload released. A release that got no
	// answer may arrive late, and Fettle takes it back.
	// +optional
	ReleasedBefore bool `json:"releasedBefore,omitempty"`
	// nodeDeletion is set before the node is deleted.
	// +optional
	NodeDeletion bool `json:"nodeDeletion,omitempty"`
	// conditions are Processing, Succeeded and PermanentNodeDeletionExpected.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FencedNode is a node as it was before the first command of an attempt.
type FencedNode struct {
	// name of the node.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
	// cluster is the workload cluster of the node. It is missing for a node of the cluster that Fettle
	// runs in.
	// +optional
	Cluster *FencedCluster `json:"cluster,omitempty"`
	// uid of the node. It is empty if there was no such node.
	// +optional
	UID string `json:"uid,omitempty"`
	// bootID is the boot ID under which the node ran before the first command.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// offBootID is the boot ID that the node had when the host was proven to be off.
	// +optional
	OffBootID string `json:"offBootID,omitempty"`
	// backBootID is the boot ID under which the node is back.
	// +optional
	BackBootID string `json:"backBootID,omitempty"`
	// outOfService is set if the node had the taint node.kubernetes.io/out-of-service before. Then
	// Fettle leaves that taint alone.
	// +optional
	OutOfService bool `json:"outOfService,omitempty"`
	// saved is what is restored on a node that was deleted.
	// +optional
	Saved *SavedNode `json:"saved,omitempty"`
}

// FencedCluster is the Cluster of Cluster API that a fenced node belongs to.
type FencedCluster struct {
	// namespace of the Cluster.
	// +kubebuilder:validation:MinLength=1
	// +required
	Namespace string `json:"namespace"`
	// name of the Cluster.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
	// uid of the Cluster.
	// +kubebuilder:validation:MinLength=1
	// +required
	UID string `json:"uid"`
}

// SavedNode is what is restored on a node that was deleted and has registered again.
type SavedNode struct {
	// uid of the node that was deleted.
	// +optional
	UID string `json:"uid,omitempty"`
	// labels of the node.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the node.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// taints of the node, except the taints that Kubernetes sets and removes by itself.
	// +listType=atomic
	// +optional
	Taints []SavedTaint `json:"taints,omitempty"`
	// unschedulable is set if the node was cordoned.
	// +optional
	Unschedulable bool `json:"unschedulable,omitempty"`
}

// SavedTaint is a taint of a node that was deleted.
type SavedTaint struct {
	// key of the taint.
	// +required
	Key string `json:"key"`
	// value of the taint.
	// +optional
	Value string `json:"value,omitempty"`
	// effect of the taint.
	// +required
	Effect string `json:"effect"`
}

// FencingProof is why a node is known to have stopped.
type FencingProof struct {
	// kind is PowerOff, NewBoot, PromiseExpired or PowerOffAndPromiseExpired. PowerOff: the power was observed off twice, by reads
	// that began after the BMC had acknowledged the command. NewBoot: the node runs under another boot ID
	// than before the first command. PromiseExpired: the node has promised to reset itself by a time, and
	// its clock and that of Fettle have passed it. PowerOffAndPromiseExpired: PowerOff and PromiseExpired.
	// +kubebuilder:validation:Enum=PowerOff;NewBoot;PromiseExpired;PowerOffAndPromiseExpired
	// +required
	Kind string `json:"kind"`
	// at is when the observation began that completed the proof.
	// +required
	At metav1.MicroTime `json:"at"`
	// bootID is the boot ID under which the node runs now, for NewBoot.
	// +optional
	BootID string `json:"bootID,omitempty"`
}
