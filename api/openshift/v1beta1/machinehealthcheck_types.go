package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Annotations on a MachineHealthCheck.
const (
	// PausedAnnotation, with any value, stops all repairs of the health check.
	PausedAnnotation = "cluster.x-k8s.io/paused"
	// RemediationStrategyAnnotation with the value "external-baremetal" leaves unhealthy machines
	// to an outside remediator, which looks for a mark. Machines in phase Failed are deleted all
	// the same.
	RemediationStrategyAnnotation = "machine.openshift.io/remediation-strategy"
)

// ExternalRemediationAnnotation on a Machine, with any value, requests its repair from an outside
// remediator. The remediator removes it when it is done.
const ExternalRemediationAnnotation = "host.metal3.io/external-remediation"

// Condition types, reasons and severities of a MachineHealthCheck.
const (
	// RemediationAllowedCondition says whether the health check may start repairs.
	RemediationAllowedCondition = "RemediationAllowed"
	// TooManyUnhealthyReason: the short circuit stops repairs.
	TooManyUnhealthyReason = "TooManyUnhealthy"
	// StormCooldownReason: repairs were stopped until just now.
	StormCooldownReason = "StormCooldown"
	// PausedReason: the pause annotation is set.
	PausedReason = "Paused"
	// InvalidSpecReason: the health check can't be followed as it is written.
	InvalidSpecReason = "InvalidSpec"
	// TemplateUnusableReason: no remediation object can be made from the template.
	TemplateUnusableReason = "TemplateUnusable"

	// ExternalRemediationTemplateAvailableCondition says whether remediation objects can be made
	// from the health check's template. Only health checks with a template have it.
	ExternalRemediationTemplateAvailableCondition = "ExternalRemediationTemplateAvailable"
	// ExternalRemediationTemplateNotFoundReason: there is no such template.
	ExternalRemediationTemplateNotFoundReason = "ExternalRemediationTemplateNotFound"
	// ExternalRemediationTemplateUnusableReason: the template exists, and no object can be made
	// from it.
	ExternalRemediationTemplateUnusableReason = "ExternalRemediationTemplateUnusable"
	// ExternalRemediationRequestAvailableCondition says whether all requested remediation objects
	// exist. Only health checks with a template have it.
	ExternalRemediationRequestAvailableCondition = "ExternalRemediationRequestAvailable"
	// ExternalRemediationRequestCreationFailedReason: a remediation object could not be created.
	ExternalRemediationRequestCreationFailedReason = "ExternalRemediationRequestCreationFailed"

	// SeverityError, SeverityWarning and SeverityInfo grade a condition that is False.
	SeverityError   = "Error"
	SeverityWarning = "Warning"
	SeverityInfo    = "Info"
)

// Duration is a Go duration string such as 300s or 1h30m. It is stored as written. So the author of
// an invalid duration can be told, and the watch of all other health checks goes on.
type Duration string

// MachineHealthCheck selects machines, and repairs the unhealthy ones.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mhc;mhcs
// +kubebuilder:printcolumn:name="MaxUnhealthy",type=string,JSONPath=`.spec.maxUnhealthy`,description="Maximum number of unhealthy machines allowed"
// +kubebuilder:printcolumn:name="ExpectedMachines",type=integer,JSONPath=`.status.expectedMachines`,description="Number of machines selected"
// +kubebuilder:printcolumn:name="CurrentHealthy",type=integer,JSONPath=`.status.currentHealthy`,description="Number of machines known to be healthy"
type MachineHealthCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which machines are checked, and when they are unhealthy.
	// +optional
	Spec MachineHealthCheckSpec `json:"spec,omitempty"`
	// status says what the last check found.
	// +optional
	Status MachineHealthCheckStatus `json:"status,omitempty"`
}

// MachineHealthCheckSpec says which machines are checked, and when they are unhealthy.
type MachineHealthCheckSpec struct {
	// selector selects machines in the health check's namespace by their labels. An empty or absent
	// selector selects all of them.
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="selector.matchExpressions: operator must be In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['In', 'NotIn']) || (has(e.values) && e.values.size() > 0))",message="selector.matchExpressions: operators In and NotIn need at least one value"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['Exists', 'DoesNotExist']) || !has(e.values) || e.values.size() == 0)",message="selector.matchExpressions: operators Exists and DoesNotExist take no values"
	// +optional
	Selector metav1.LabelSelector `json:"selector,omitempty"`
	// unhealthyConditions are conditions of the node that make its machine unhealthy. One of them
	// suffices.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	UnhealthyConditions []UnhealthyCondition `json:"unhealthyConditions,omitempty"`
	// maxUnhealthy is how many of the selected machines may be unhealthy while repairs go on. It is
	// a number, or a percentage, which is rounded down. When more are unhealthy, no machine is
	// repaired. The default is 100%, which never stops repairs.
	// +kubebuilder:default="100%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^((100|[0-9]{1,2})%|[0-9]{1,9})$') : (self >= 0 && self <= 999999999)",message="maxUnhealthy must be a number from 0 to 999999999, such as 2, or a percentage from 0% to 100%, such as 40%"
	// +optional
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
	// nodeStartupTimeout is how long a machine may take until its node joins. "0" means for ever.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || (self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('0s'))",message="nodeStartupTimeout must be a duration such as 300s, 10m or 1h30m, up to 2562047h, or \"0\" for no timeout"
	// +optional
	NodeStartupTimeout *Duration `json:"nodeStartupTimeout,omitempty"`
	// remediationTemplate refers to a template in the health check's namespace. For each unhealthy
	// machine a remediation object is made from it, which requests the repair from a remediator.
	// The kind of the template ends in Template, and the kind of the objects lacks that ending.
	// With a template, the health check itself deletes no machine.
	// +kubebuilder:validation:XValidation:rule="has(self.apiVersion) && self.apiVersion != '' && has(self.kind) && self.kind.matches('^.+Template$') && has(self.name) && self.name != ''",message="remediationTemplate needs an apiVersion, a kind that ends in Template, and a name, such as {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: reboot}"
	// +optional
	RemediationTemplate *corev1.ObjectReference `json:"remediationTemplate,omitempty"`
}

// UnhealthyCondition makes a machine unhealthy when its node's condition of this type has had this
// status for the timeout.
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
	// timeout is how long the condition must have had the status; 0 when absent.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || (self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('0s'))",message="timeout must be a duration such as 300s, 10m or 1h30m, up to 2562047h"
	// +optional
	Timeout Duration `json:"timeout,omitempty"`
}

// MachineHealthCheckStatus says what the last check found.
type MachineHealthCheckStatus struct {
	// expectedMachines is the number of machines selected.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ExpectedMachines *int `json:"expectedMachines,omitempty"`
	// currentHealthy is the number of machines known to be healthy.
	// +kubebuilder:validation:Minimum=0
	// +optional
	CurrentHealthy *int `json:"currentHealthy,omitempty"`
	// remediationsAllowed is how many more machines may become unhealthy before repairs stop.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +kubebuilder:default=0
	// +optional
	RemediationsAllowed int32 `json:"remediationsAllowed"`
	// conditions are sorted by their type.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is a condition in the form of the Machine API: with a severity while it is False.
type Condition struct {
	// type of the condition.
	// +required
	Type string `json:"type"`
	// status of the condition: True, False or Unknown.
	// +required
	Status string `json:"status"`
	// severity of a condition that is False: Error, Warning or Info.
	// +optional
	Severity string `json:"severity,omitempty"`
	// lastTransitionTime is when the condition last changed.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// reason is the cause in one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the cause in a sentence, and what to do.
	// +optional
	Message string `json:"message,omitempty"`
}

// MachineHealthCheckList is a list of health checks.
// +kubebuilder:object:root=true
type MachineHealthCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineHealthCheck `json:"items"`
}
