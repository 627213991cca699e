package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Labels and annotations of the external remediation contract (reference medik8s 1.6).
const (
	// ExcludeLabel on a node, with the value "true", keeps it from being remediated.
	ExcludeLabel = "remediation.medik8s.io/exclude-from-remediation"
	// ConfirmedHealthyAnnotation on a node, with any value, ends a healthy delay for it.
	ConfirmedHealthyAnnotation = "remediation.medik8s.io/manually-confirmed-healthy"
	// MultipleTemplatesAnnotation on a template tells that its remediator reads the node's name from
	// NodeNameAnnotation, so that a node may have several of its remediation objects.
	MultipleTemplatesAnnotation = "remediation.medik8s.io/multiple-templates-support"
	// NodeNameAnnotation on a remediation object names the node that it is about.
	NodeNameAnnotation = "remediation.medik8s.io/node-name"
	// TemplateNameAnnotation on a remediation object names the template that it was made from.
	TemplateNameAnnotation = "remediation.medik8s.io/template-name"
	// TimedOutAnnotation on a remediation object tells its remediator to stop. RFC 3339.
	TimedOutAnnotation = "remediation.medik8s.io/nhc-timed-out"
	// ControlPlaneLabel on a remediation object tells that its node belongs to the control plane.
	ControlPlaneLabel = "remediation.medik8s.io/isControlPlaneNode"
	// PartOfLabel and PartOf are on each remediation object.
	PartOfLabel = "app.kubernetes.io/part-of"
	PartOf      = "node-healthcheck-controller"
	// LeaseNamespace has the leases of nodes, LeasePrefix begins their names.
	LeaseNamespace = "medik8s-leases"
	LeasePrefix    = "node-"
)

// Annotations on a NodeHealthCheck for what its fields can't say.
const (
	// DryRunAnnotation, with the value "true", shows what would be done and does nothing.
	DryRunAnnotation = "fettle.io/dry-run"
	// MaxInFlightAnnotation is how many nodes may be under remediation at a time: a number, a percentage
	// of the selected nodes, or "unlimited", which is the default.
	MaxInFlightAnnotation = "fettle.io/max-in-flight"
	// BackoffBaseAnnotation is the first pause of spec.backoff. A duration; the default is 5s.
	BackoffBaseAnnotation = "fettle.io/backoff-base"
)

// Condition types and reasons of remediation objects (reference medik8s 3).
const (
	ProcessingCondition                    = "Processing"
	SucceededCondition                     = "Succeeded"
	PermanentNodeDeletionExpectedCondition = "PermanentNodeDeletionExpected"
)

// Condition types and reasons of a NodeHealthCheck (reference medik8s 1.3). RemediationAllowed is Fettle's own.
const (
	DisabledCondition           = "Disabled"
	StormActiveCondition        = "StormActive"
	StormCooldownCondition      = "StormCooldownActive"
	RemediationAllowedCondition = "RemediationAllowed"

	TemplateNotFoundReason     = "RemediationTemplateNotFound"
	TemplateInvalidReason      = "RemediationTemplateInvalid"
	InvalidSpecReason          = "InvalidSpec"
	EnabledReason              = "NodeHealthCheckEnabled"
	HealthyNodeThresholdReason = "HealthyNodeThresholdChange"
)

// Phase is how a NodeHealthCheck stands, in a word.
type Phase string

// The phases, the first that fits (reference medik8s 1.4).
const (
	PhaseDisabled    Phase = "Disabled"
	PhasePaused      Phase = "Paused"
	PhaseRemediating Phase = "Remediating"
	PhaseEnabled     Phase = "Enabled"
)

// Duration is a Go duration string such as 300s or 1h30m. It is kept as written, so that one that
// can't be parsed is told to its author instead of breaking the watch for all others.
type Duration string

// NodeHealthCheck has the unhealthy nodes among those that it selects remediated.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nhc
type NodeHealthCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NodeHealthCheckSpec   `json:"spec,omitempty"`
	Status NodeHealthCheckStatus `json:"status,omitempty"`
}

// NodeHealthCheckSpec says which nodes are unhealthy, and what is done about them.
type NodeHealthCheckSpec struct {
	// selector selects the nodes. The default are those with the label node-role.kubernetes.io/worker.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// unhealthyConditions are the node conditions by which a node is unhealthy; any one suffices. The
	// default is Ready False or Unknown for 300s.
	// +optional
	UnhealthyConditions []UnhealthyCondition `json:"unhealthyConditions,omitempty"`
	// maxUnhealthy is the number, or percentage, of selected nodes up to which remediation goes on. A
	// percentage is rounded down. The default is 49%, unless minHealthy is set.
	// +optional
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
	// minHealthy is the number, or percentage, of selected nodes that must be healthy for remediation to go
	// on. A percentage is rounded up.
	// +optional
	MinHealthy *intstr.IntOrString `json:"minHealthy,omitempty"`
	// remediationTemplate is what remediation objects are made from.
	// +optional
	RemediationTemplate *corev1.ObjectReference `json:"remediationTemplate,omitempty"`
	// escalatingRemediations are tried in their order, each for its timeout, until the node is healthy.
	// +optional
	EscalatingRemediations []EscalatingRemediation `json:"escalatingRemediations,omitempty"`
	// pauseRequests are reasons to pause; while there is any, no remediation begins.
	// +optional
	PauseRequests []string `json:"pauseRequests,omitempty"`
	// healthyDelay is how long a node must be healthy again before its remediation objects are deleted. A
	// negative one waits until a person confirms it.
	// +optional
	HealthyDelay *Duration `json:"healthyDelay,omitempty"`
	// stormCooldownDuration is how long remediation waits after too many nodes were unhealthy.
	// +optional
	StormCooldownDuration *Duration `json:"stormCooldownDuration,omitempty"`
	// backoff has the remediations of a node that keeps failing wait longer each time.
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`
}

// UnhealthyCondition makes a node unhealthy when its condition has had the status for the duration.
type UnhealthyCondition struct {
	Type     string   `json:"type"`
	Status   string   `json:"status"`
	Duration Duration `json:"duration"`
}

// EscalatingRemediation is one step of an escalation.
type EscalatingRemediation struct {
	RemediationTemplate corev1.ObjectReference `json:"remediationTemplate"`
	// order of the step; lower ones go first.
	Order int `json:"order"`
	// timeout is how long the step may take.
	Timeout Duration `json:"timeout"`
}

// Backoff paces repeated remediations (seed 003).
type Backoff struct {
	// type is how the pauses grow.
	Type string `json:"type"`
	// limit is the longest pause.
	Limit Duration `json:"limit"`
}

// NodeHealthCheckStatus is how a NodeHealthCheck stands.
type NodeHealthCheckStatus struct {
	// observedNodes is the number of nodes selected.
	// +optional
	ObservedNodes *int `json:"observedNodes,omitempty"`
	// healthyNodes is the number of those that match no unhealthy condition and have no remediation object.
	// +optional
	HealthyNodes *int `json:"healthyNodes,omitempty"`
	// inFlightRemediations gives, by node name, when its remediation began (seed 003).
	// +optional
	InFlightRemediations map[string]metav1.Time `json:"inFlightRemediations,omitempty"`
	// unhealthyNodes are the nodes that are unhealthy, or under remediation.
	// +listType=map
	// +listMapKey=name
	// +optional
	UnhealthyNodes []UnhealthyNode `json:"unhealthyNodes,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// phase is how the health check stands, in a word.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// reason says why, in a sentence.
	// +optional
	Reason string `json:"reason,omitempty"`
	// lastUpdateTime is when the status last changed.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
}

// UnhealthyNode is a node that is unhealthy or under remediation.
type UnhealthyNode struct {
	Name string `json:"name"`
	// +optional
	Remediations []Remediation `json:"remediations,omitempty"`
	// conditionsHealthyTimestamp is when the node's conditions stopped matching.
	// +optional
	ConditionsHealthyTimestamp *metav1.Time `json:"conditionsHealthyTimestamp,omitempty"`
	// healthyDelayed is set while only healthyDelay keeps the remediation objects.
	// +optional
	HealthyDelayed *bool `json:"healthyDelayed,omitempty"`
}

// Remediation is one remediation object of a node.
type Remediation struct {
	Resource corev1.ObjectReference `json:"resource"`
	Started  metav1.Time            `json:"started"`
	// timedOut is when the remediator was told to stop.
	// +optional
	TimedOut *metav1.Time `json:"timedOut,omitempty"`
	// +optional
	TemplateName string `json:"templateName,omitempty"`
}

// NodeHealthCheckList is a list of NodeHealthChecks.
//
// +kubebuilder:object:root=true
type NodeHealthCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeHealthCheck `json:"items"`
}
