package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Labels and annotations of the external remediation contract (docs/reference/medik8s.md#labels-and-annotations).
const (
	// ExcludeLabel on a node, with the value "true", keeps it from being remediated.
	ExcludeLabel = "remediation.medik8s.io/exclude-from-remediation"
	// ConfirmedHealthyAnnotation on a node, with any value, ends a healthy delay for it.
	ConfirmedHealthyAnnotation = "remediation.medik8s.io/manually-confirmed-healthy"
	// MultipleTemplatesAnnotation on a template says that its remediator reads the node's name from
	// NodeNameAnnotation, so that one node may have several of its remediation objects.
	MultipleTemplatesAnnotation = "remediation.medik8s.io/multiple-templates-support"
	// NodeNameAnnotation on a remediation object names its node.
	NodeNameAnnotation = "remediation.medik8s.io/node-name"
	// TemplateNameAnnotation on a remediation object names its template.
	TemplateNameAnnotation = "remediation.medik8s.io/template-name"
	// TimedOutAnnotation on a remediation object makes its remediator stop. Its value is a time in
	// the format of RFC 3339.
	TimedOutAnnotation = "remediation.medik8s.io/nhc-timed-out"
	// ControlPlaneLabel on a remediation object says that its node belongs to the control plane.
	ControlPlaneLabel = "remediation.medik8s.io/isControlPlaneNode"
	// PartOfLabel and PartOf are on each remediation object.
	PartOfLabel = "app.kubernetes.io/part-of"
	PartOf      = "node-healthcheck-controller"
	// LeaseNamespace is the namespace of the leases of nodes, and LeasePrefix begins their names.
	LeaseNamespace = "medik8s-leases"
	LeasePrefix    = "node-"
)

// Condition types and reasons of remediation objects (docs/reference/medik8s.md#contract-of-remediators).
const (
	ProcessingCondition                    = "Processing"
	SucceededCondition                     = "Succeeded"
	PermanentNodeDeletionExpectedCondition = "PermanentNodeDeletionExpected"
)

// Condition types and reasons of a NodeHealthCheck (docs/reference/medik8s.md#conditions). RemediationAllowed is Fettle's own.
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

// The phases, the first that fits (docs/reference/medik8s.md#phases).
const (
	PhaseDisabled    Phase = "Disabled"
	PhasePaused      Phase = "Paused"
	PhaseRemediating Phase = "Remediating"
	PhaseEnabled     Phase = "Enabled"
)

// Duration is a Go duration string such as 300s or 1h30m. It is stored as written. So the author of
// an invalid duration can be told, and the watch of all other health checks goes on.
type Duration string

// NodeHealthCheck selects nodes, and has the unhealthy ones remediated.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nhc
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="How the health check stands"
// +kubebuilder:printcolumn:name="Observed",type=integer,JSONPath=`.status.observedNodes`,description="Number of nodes selected"
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.healthyNodes`,description="Number of nodes that are healthy and not under remediation"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.unhealthyNodes) || !oldSelf.status.unhealthyNodes.exists(n, has(n.remediations) && n.remediations.size() > 0) || (has(self.spec.selector) == has(oldSelf.spec.selector) && (!has(self.spec.selector) || self.spec.selector == oldSelf.spec.selector))",fieldPath=".spec.selector",message="selector can't be changed while a node is under remediation, as status.unhealthyNodes shows; add a pauseRequest, so that no other begins, and change it once they are over"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.unhealthyNodes) || !oldSelf.status.unhealthyNodes.exists(n, has(n.remediations) && n.remediations.size() > 0) || (has(self.spec.remediationTemplate) == has(oldSelf.spec.remediationTemplate) && (!has(self.spec.remediationTemplate) || self.spec.remediationTemplate == oldSelf.spec.remediationTemplate))",fieldPath=".spec.remediationTemplate",message="remediationTemplate can't be changed while a node is under remediation, as status.unhealthyNodes shows; add a pauseRequest, so that no other begins, and change it once they are over"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.unhealthyNodes) || !oldSelf.status.unhealthyNodes.exists(n, has(n.remediations) && n.remediations.size() > 0) || (has(self.spec.escalatingRemediations) == has(oldSelf.spec.escalatingRemediations) && (!has(self.spec.escalatingRemediations) || self.spec.escalatingRemediations == oldSelf.spec.escalatingRemediations))",fieldPath=".spec.escalatingRemediations",message="escalatingRemediations can't be changed while a node is under remediation, as status.unhealthyNodes shows; add a pauseRequest, so that no other begins, and change them once they are over"
type NodeHealthCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which nodes are unhealthy, and what is done about them.
	// +required
	Spec NodeHealthCheckSpec `json:"spec"`
	// status says what the last check found.
	// +optional
	Status NodeHealthCheckStatus `json:"status,omitempty"`
}

// NodeHealthCheckSpec says which nodes are unhealthy, and what is done about them.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.remediationTemplate) && has(self.escalatingRemediations) && self.escalatingRemediations.size() > 0)",message="remediationTemplate and escalatingRemediations exclude each other; remove one of them"
// +kubebuilder:validation:XValidation:rule="!(has(self.minHealthy) && has(self.maxUnhealthy))",message="minHealthy and maxUnhealthy exclude each other; remove one of them (with neither, maxUnhealthy is 49%)"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnhealthy) || !((has(self.remediationTemplate) && self.remediationTemplate.kind.lowerAscii() == 'machinedeletionremediationtemplate') || (has(self.escalatingRemediations) && self.escalatingRemediations.exists(e, e.remediationTemplate.kind.lowerAscii() == 'machinedeletionremediationtemplate')))",fieldPath=".maxUnhealthy",message="maxUnhealthy can't go with a MachineDeletionRemediationTemplate, which changes the number of nodes; give minHealthy instead"
type NodeHealthCheckSpec struct {
	// selector selects the nodes. The default are those with the label node-role.kubernetes.io/worker.
	// +kubebuilder:default={matchExpressions: {{key: "node-role.kubernetes.io/worker", operator: "Exists"}}}
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="selector must not be empty, since it would select every node; remove it for all workers, or give matchLabels or matchExpressions"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="selector.matchExpressions: operator must be In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['In', 'NotIn']) || (has(e.values) && e.values.size() > 0))",message="selector.matchExpressions: operators In and NotIn need at least one value"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['Exists', 'DoesNotExist']) || !has(e.values) || e.values.size() == 0)",message="selector.matchExpressions: operators Exists and DoesNotExist take no values"
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// unhealthyConditions are the node conditions by which a node is unhealthy; any one suffices. The
	// default is Ready False or Unknown for 300s.
	// +kubebuilder:default={{type: "Ready", status: "False", duration: "300s"}, {type: "Ready", status: "Unknown", duration: "300s"}}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=type
	// +listMapKey=status
	// +optional
	UnhealthyConditions []UnhealthyCondition `json:"unhealthyConditions,omitempty"`
	// maxUnhealthy is the number, or percentage, of selected nodes up to which remediation goes on. A
	// percentage is rounded down. The default is 49%, unless minHealthy is set.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^((100|[0-9]{1,2})%|[0-9]{1,9})$') : (self >= 0 && self <= 999999999)",message="maxUnhealthy must be a number from 0 to 999999999, such as 2, or a percentage from 0% to 100%, such as 49%"
	// +optional
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
	// minHealthy is the number, or percentage, of selected nodes that must be healthy for remediation to go
	// on. A percentage is rounded up.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^((100|[0-9]{1,2})%|[0-9]{1,9})$') : (self >= 0 && self <= 999999999)",message="minHealthy must be a number from 0 to 999999999, such as 2, or a percentage from 0% to 100%, such as 51%"
	// +optional
	MinHealthy *intstr.IntOrString `json:"minHealthy,omitempty"`
	// remediationTemplate is what remediation objects are made from.
	// +optional
	RemediationTemplate *TemplateReference `json:"remediationTemplate,omitempty"`
	// escalatingRemediations are tried in their order, each for its timeout, until the node is healthy.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.order == b.order))",message="escalatingRemediations must each have an order of their own, such as 0, 10 and 20; change those that are the same"
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.remediationTemplate == b.remediationTemplate))",message="escalatingRemediations must each have a remediationTemplate of their own, since what failed once is not tried again; remove those that are the same"
	// +listType=atomic
	// +optional
	EscalatingRemediations []EscalatingRemediation `json:"escalatingRemediations,omitempty"`
	// pauseRequests are reasons to pause; while there is any, no remediation begins.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	PauseRequests []string `json:"pauseRequests,omitempty"`
	// healthyDelay is how long a node must be healthy again before its remediation objects are deleted. A
	// negative one waits until a person confirms it.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || (self.matches('^-?([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) <= duration('2562047h'))",message="healthyDelay must be a duration such as 300s or 10m, up to 2562047h, or a negative one such as -1s to wait until a person confirms that the node is healthy"
	// +optional
	HealthyDelay *Duration `json:"healthyDelay,omitempty"`
	// stormCooldownDuration is how long remediation waits after too many nodes were unhealthy.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || (self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('0s'))",message="stormCooldownDuration must be a duration such as 300s, 10m or 1h30m, up to 2562047h"
	// +optional
	StormCooldownDuration *Duration `json:"stormCooldownDuration,omitempty"`
	// backoff has the remediations of a node that keeps failing wait longer each time.
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`
}

// UnhealthyCondition makes a node unhealthy when its condition has had the status for the duration.
type UnhealthyCondition struct {
	// type of the node's condition, for example Ready.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +required
	Type string `json:"type"`
	// status that the condition must have: True, False or Unknown.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +required
	Status string `json:"status"`
	// duration is how long the condition must have had the status.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || (self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('0s'))",message="duration must be a duration such as 300s, 10m or 1h30m, up to 2562047h"
	// +required
	Duration Duration `json:"duration"`
}

// EscalatingRemediation is one step of an escalation.
type EscalatingRemediation struct {
	// remediationTemplate is what the remediation objects of this step are made from.
	// +required
	RemediationTemplate TemplateReference `json:"remediationTemplate"`
	// order of the step; lower ones go first.
	// +required
	Order int `json:"order"`
	// timeout is how long the step may take; at least 60s.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="(self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('60s'))",message="timeout must be a duration of at least 60s, such as 300s, 10m or 1h30m, up to 2562047h"
	// +required
	Timeout Duration `json:"timeout"`
}

// TemplateReference refers to a template that remediation objects are made from.
type TemplateReference struct {
	// apiVersion of the template, such as self-node-remediation.medik8s.io/v1alpha1.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^/ ]+/[^/ ]+$')",message="apiVersion must be the template's group and version, such as self-node-remediation.medik8s.io/v1alpha1"
	// +required
	APIVersion string `json:"apiVersion"`
	// kind of the template. Its remediation objects have the same without Template at the end.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.endsWith('Template') && self != 'Template'",message="kind must be that of a template and end in Template, such as SelfNodeRemediationTemplate"
	// +required
	Kind string `json:"kind"`
	// namespace of the template, unless its kind has none. The remediation objects are made in it.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the template.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// uid is accepted as part of a reference, and not looked at.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	UID string `json:"uid,omitempty"`
	// resourceVersion is accepted as part of a reference, and not looked at.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// fieldPath is accepted as part of a reference, and not looked at.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	FieldPath string `json:"fieldPath,omitempty"`
}

// Backoff paces repeated remediations.
type Backoff struct {
	// type is how the pauses grow: exponential, which doubles each.
	// +kubebuilder:validation:Enum=exponential
	// +required
	Type string `json:"type"`
	// limit is the longest pause; above zero.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="(self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) > duration('0s'))",message="limit must be a duration above zero, such as 300s, 10m or 1h30m, up to 2562047h"
	// +required
	Limit Duration `json:"limit"`
}

// NodeHealthCheckStatus is how a NodeHealthCheck stands.
type NodeHealthCheckStatus struct {
	// observedNodes is the number of nodes selected.
	// +optional
	ObservedNodes *int `json:"observedNodes,omitempty"`
	// healthyNodes is the number of selected nodes that match no unhealthy condition and have no
	// remediation object.
	// +optional
	HealthyNodes *int `json:"healthyNodes,omitempty"`
	// inFlightRemediations has, by the name of the node, when its remediation began.
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
