package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WatchdogKind is which watchdogs are honoured.
type WatchdogKind string

// Values of WatchdogKind.
const (
	// HardwareWatchdog accepts hardware watchdogs alone.
	HardwareWatchdog WatchdogKind = "Hardware"
	// AnyWatchdog also accepts watchdogs of the kernel's software, which end with the kernel.
	AnyWatchdog WatchdogKind = "Any"
)

// IsolationAction is what a node does that reaches no API server.
type IsolationAction string

// Values of IsolationAction.
const (
	// HoldOnIsolation goes on. Such a node is reset only when it learns that it is condemned.
	HoldOnIsolation IsolationAction = "Hold"
	// ResetOnIsolation resets the node, unless witnesses say that the API server is away for them too.
	ResetOnIsolation IsolationAction = "Reset"
)

// RequiredProof is what must prove that a node has stopped before its workload may start elsewhere.
type RequiredProof string

// Values of RequiredProof.
const (
	// AnyProof: each proof suffices.
	AnyProof RequiredProof = "Any"
	// PowerAndPromise: the power was observed off, and the promise of the node has expired. A new boot suffices too.
	PowerAndPromise RequiredProof = "PowerAndPromise"
)

// Conditions of a FencePolicy, and their reasons.
const (
	// InEffectCondition is True if the policy applies to nodes.
	InEffectCondition     = "InEffect"
	AppliesReason         = "Applies"
	SelectsNoneReason     = "SelectsNone"
	OverriddenReason      = "Overridden"
	SelectorInvalidReason = "SelectorInvalid"
	BlockedReason         = "Blocked"
	// PromisingCondition is True if each node that the policy applies to promises to fence itself.
	PromisingCondition        = "Promising"
	AllPromiseReason          = "AllPromise"
	NodesWithoutPromiseReason = "NodesWithoutPromise"
	NoNodesReason             = "NoNodes"
	LeasesNotReadReason       = "LeasesNotRead"
)

// FencePolicy says how the agents of nodes fence their nodes by a watchdog. If several policies select
// a node, then the oldest applies, and of two as old the first by name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=fettle
// +kubebuilder:printcolumn:name="On-Isolation",type=string,JSONPath=`.spec.onIsolation`
// +kubebuilder:printcolumn:name="Validity",type=string,JSONPath=`.spec.validity`,priority=1
// +kubebuilder:printcolumn:name="Watchdog",type=string,JSONPath=`.spec.watchdog.timeout`,priority=1
// +kubebuilder:printcolumn:name="Required-Proof",type=string,JSONPath=`.spec.requiredProof`,priority=1
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Promising",type=integer,JSONPath=`.status.promising`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FencePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is which nodes fence themselves, and how.
	// +required
	Spec FencePolicySpec `json:"spec"`
	// status is how many nodes promise to fence themselves. Only Fettle writes it.
	// +optional
	Status FencePolicyStatus `json:"status,omitempty"`
}

// FencePolicySpec is which nodes fence themselves, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.renewal) || duration(self.renewal) >= duration('1s') && duration(self.renewal) <= duration('5m')",message="renewal must be from 1s to 5m"
// +kubebuilder:validation:XValidation:rule="!has(self.validity) || duration(self.validity) <= duration('1h')",message="validity must be at most 1h"
// +kubebuilder:validation:XValidation:rule="!has(self.validity) || !has(self.renewal) || duration(self.validity) >= duration(self.renewal) + duration(self.renewal) + duration(self.renewal)",message="validity must be at least three times the renewal, so that one lost renewal resets no node"
// +kubebuilder:validation:XValidation:rule="!has(self.requiredProof) || self.requiredProof != 'PowerAndPromise' || !has(self.onIsolation) || self.onIsolation == 'Reset'",message="requiredProof PowerAndPromise needs onIsolation Reset, since with Hold no time proves that a node was reset"
// +kubebuilder:validation:XValidation:rule="!has(self.onIsolation) || !has(self.witnesses) || self.onIsolation == 'Reset' || self.witnesses == 0",message="witnesses must be 0 where onIsolation is Hold"
type FencePolicySpec struct {
	// nodeSelector selects the nodes by their labels. An empty selector selects all nodes.
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="each of matchExpressions needs an operator In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (has(e.values) && size(e.values) > 0) == e.operator.endsWith('In'))",message="matchExpressions need values for In and NotIn alone"
	// +required
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`
	// watchdog is the watchdog of the nodes.
	// +kubebuilder:default={}
	// +optional
	Watchdog FencePolicyWatchdog `json:"watchdog,omitempty"`
	// renewal is how often an agent renews the promise of its node.
	// +kubebuilder:default="5s"
	// +optional
	Renewal *metav1.Duration `json:"renewal,omitempty"`
	// validity is how long a renewal allows the agent to keep the watchdog from resetting the node. It
	// is at least three times the renewal.
	// +kubebuilder:default="20s"
	// +optional
	Validity *metav1.Duration `json:"validity,omitempty"`
	// onIsolation is what a node does that reaches no API server. Reset resets the node when its last
	// renewal is no longer valid, unless a majority of witnesses reaches no API server either. Hold goes
	// on: the node is reset only when it learns that it is condemned, and no time proves that it has
	// stopped. A node that finds too few witnesses does the same with Reset.
	// +kubebuilder:validation:Enum=Hold;Reset
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:default=Reset
	// +optional
	OnIsolation IsolationAction `json:"onIsolation,omitempty"`
	// witnesses is how many other agents an agent asks that reaches no API server, with Reset: 3, 5, or 0,
	// which are five, and three where fewer than six nodes promise something or too few beside the control
	// plane. Of five, one may lie, and of three none. With Hold it is 0.
	// +kubebuilder:validation:Enum=0;3;5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5
	// +kubebuilder:default=0
	// +optional
	Witnesses *int32 `json:"witnesses,omitempty"`
	// requiredProof is what must prove that a node has stopped before Fettle lets its workload start
	// elsewhere. With Any each proof suffices. With PowerAndPromise only a PowerRemediation may fence the
	// node: its power must be observed off, and its promise must have expired. Another boot of the node
	// suffices in any case.
	// +kubebuilder:validation:Enum=Any;PowerAndPromise
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:default=Any
	// +optional
	RequiredProof RequiredProof `json:"requiredProof,omitempty"`
}

// FencePolicyWatchdog is the watchdog of nodes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.timeout) || duration(self.timeout) >= duration('2s') && duration(self.timeout) <= duration('5m') && duration(self.timeout).getMilliseconds() % 1000 == 0",message="watchdog.timeout must be from 2s to 5m, in whole seconds"
type FencePolicyWatchdog struct {
	// device is the path of the watchdog on the node.
	// +kubebuilder:validation:Pattern=`^/dev/watchdog[0-9]{0,3}$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="/dev/watchdog"
	// +optional
	Device string `json:"device,omitempty"`
	// timeout is after which time without a sign of the agent the watchdog resets the node. A device
	// may have another timeout, which the agent then states.
	// +kubebuilder:default="10s"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// kind is Hardware, or Any to accept a watchdog in the software of the kernel too. Such a watchdog
	// does not reset a node whose kernel has stopped.
	// +kubebuilder:validation:Enum=Hardware;Any
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:default=Hardware
	// +optional
	Kind WatchdogKind `json:"kind,omitempty"`
	// allowVirtualMachines accepts nodes that are virtual machines. A machine that is paused, and its
	// watchdog with it, goes on later than it has promised.
	// +optional
	AllowVirtualMachines bool `json:"allowVirtualMachines,omitempty"`
}

// FencePolicyStatus is how many nodes promise to fence themselves.
type FencePolicyStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// nodes is how many nodes the policy applies to.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Nodes *int32 `json:"nodes,omitempty"`
	// promising is how many of them promise to fence themselves.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Promising *int32 `json:"promising,omitempty"`
	// withoutPromise are up to ten of the others, in the order of their names.
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=name
	// +optional
	WithoutPromise []NodeWithoutPromise `json:"withoutPromise,omitempty"`
	// conditions say whether the policy is in effect.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeWithoutPromise is a node that doesn't promise to fence itself.
type NodeWithoutPromise struct {
	// name of the node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// reason is why the node promises nothing.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Reason string `json:"reason"`
	// message is what the reason means.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
}

// FencePolicyList is a list of policies.
// +kubebuilder:object:root=true
type FencePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FencePolicy `json:"items"`
}
