package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phases of a Repair.
const (
	// RepairRunning: the repair has been recorded and has not ended.
	RepairRunning RepairPhase = "Running"
	// RepairSucceeded: the remedy did its work.
	RepairSucceeded RepairPhase = "Succeeded"
	// RepairRecovered: the target became healthy before its remedy had begun; nothing was done.
	RepairRecovered RepairPhase = "Recovered"
	// RepairWithdrawn: nothing asks for the repair any more; what had been asked of others was taken back or is let be.
	RepairWithdrawn RepairPhase = "Withdrawn"
)

// Natures of a step.
const (
	// StepDelete deletes the target, and counts on its owner to replace it.
	StepDelete StepNature = "Delete"
	// StepCreateRequest creates an object that asks a remediator, and that stands until it is withdrawn.
	StepCreateRequest StepNature = "CreateRequest"
	// StepAnnotate annotates the target for an outside remediator, which removes the annotation.
	StepAnnotate StepNature = "Annotate"
	// StepAskOwner asks the target's owner to replace it, by a mark that stands until it is withdrawn.
	StepAskOwner StepNature = "AskOwner"
)

// StepNature is what a step does with the target. Earlier versions of Fettle recorded Destroys, Requests, HandsOver and Delegates;
// Repairs that they left behind are still valid, so that their status can be updated.
// +kubebuilder:validation:Enum=Delete;CreateRequest;Annotate;AskOwner;Destroys;Requests;HandsOver;Delegates
type StepNature string

// Outcomes of a step that was given up.
const (
	// StepTimedOut: its time was over and the target was not healthy.
	StepTimedOut StepOutcome = "TimedOut"
	// StepFailed: the remediator said that it can't repair the target.
	StepFailed StepOutcome = "Failed"
)

// StepOutcome is why a step was given up.
// +kubebuilder:validation:Enum=TimedOut;Failed
type StepOutcome string

// RepairPhase is where a repair stands.
// +kubebuilder:validation:Enum=Running;Succeeded;Recovered;Withdrawn
type RepairPhase string

// Repair is one target being repaired, from the decision to the outcome. Fettle creates it before
// it touches the target, and its name is made from the target, so that two of them can't be started
// for the same fault. People read it; only Fettle writes it. Finished ones are removed in time.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=fettle,shortName=rep
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.target.kind`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target.name`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.target.node`
// +kubebuilder:printcolumn:name="Cluster",type=string,priority=1,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Health Check",type=string,JSONPath=`.spec.policy.name`
// +kubebuilder:printcolumn:name="Remedy",type=string,JSONPath=`.spec.ladder[*].remedy`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Step",type=integer,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Finished",type=date,priority=1,JSONPath=`.status.finishedAt`
// +kubebuilder:printcolumn:name="Refused Calls",type=integer,priority=1,JSONPath=`.status.attempts`
// +kubebuilder:printcolumn:name="Last Error",type=string,priority=1,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Progress",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Why",type=string,priority=1,JSONPath=`.spec.message`
type Repair struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is repaired, why and how. It never changes.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Repair's spec can't be changed: it records what was decided"
	// +required
	Spec RepairSpec `json:"spec"`
	// status is how far the repair has come.
	// +kubebuilder:default={phase: Running}
	// +optional
	Status RepairStatus `json:"status,omitempty"`
}

// RepairSpec is what is repaired, why and how.
type RepairSpec struct {
	// target is what is repaired.
	// +required
	Target RepairTarget `json:"target"`
	// cluster is the workload cluster that the target belongs to, by the name of its Cluster in the same
	// namespace. It is empty for targets of the cluster that Fettle itself runs in.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// policy is the health check that leads the repair.
	// +required
	Policy ObjectReference `json:"policy"`
	// owner is what replaces the target when it is deleted. Targets of one owner back off together.
	// +optional
	Owner *ObjectReference `json:"owner,omitempty"`
	// ownerTemplate tells the templates of the owner apart by which it makes replacements, as the owner had it when the repair
	// started; empty where it was not known.
	// +optional
	OwnerTemplate string `json:"ownerTemplate,omitempty"`
	// reason is why the target is unhealthy, in one word.
	// +kubebuilder:validation:MinLength=1
	// +required
	Reason string `json:"reason"`
	// message is why the target is unhealthy, in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// unhealthySince is when the reason began, where that is known.
	// +optional
	UnhealthySince *metav1.Time `json:"unhealthySince,omitempty"`
	// ladder are the steps of the repair, in order.
	// +kubebuilder:validation:MinItems=1
	// +listType=atomic
	// +required
	Ladder []RepairStep `json:"ladder"`
	// startedAt is when the repair was decided, to the microsecond.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +required
	StartedAt metav1.MicroTime `json:"startedAt"`
	// requestedAt is when a person asked for the repair, as the annotation fettle.io/repair-requested-at of the target had it when
	// the repair started; missing where none did. A request serves for one repair.
	// +optional
	RequestedAt *metav1.Time `json:"requestedAt,omitempty"`
	// holder is the name under which the lease of the node is held while the repair runs, if it is.
	// +optional
	Holder string `json:"holder,omitempty"`
	// retry counts the replacements in the same pool that failed in a row before this repair.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Retry int32 `json:"retry,omitempty"`
}

// RepairTarget names one target for ever, by its UID.
type RepairTarget struct {
	ObjectReference `json:",inline"`
	// node is the name of the target's node, if it has one.
	// +optional
	Node string `json:"node,omitempty"`
}

// ObjectReference names one object for ever, by its UID.
type ObjectReference struct {
	// kind of the object.
	// +kubebuilder:validation:MinLength=1
	// +required
	Kind string `json:"kind"`
	// namespace of the object, if it has one.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
	// uid of the object.
	// +kubebuilder:validation:MinLength=1
	// +required
	UID string `json:"uid"`
}

// RepairStep is one rung of the ladder.
type RepairStep struct {
	// remedy names how the step repairs.
	// +kubebuilder:validation:MinLength=1
	// +required
	Remedy string `json:"remedy"`
	// nature is what the step does: Delete (it deletes the target, and the owner replaces that; a step
	// without a nature does this), CreateRequest (it creates an object that asks a remediator, and that
	// stands until it is withdrawn), Annotate (it annotates the target, and an outside remediator removes
	// the annotation) or AskOwner (it asks the target's owner to replace it, by a mark that stands until
	// it is withdrawn). Earlier versions of Fettle recorded these as Destroys, Requests, HandsOver and
	// Delegates.
	// +optional
	Nature StepNature `json:"nature,omitempty"`
	// template is what the remedy makes its request from, where it needs one.
	// +optional
	Template *TemplateReference `json:"template,omitempty"`
	// timeout is how long the step may take before the next one is taken, such as 5m0s. Without one there
	// is no limit.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// TemplateReference names a template as the health check does, by its name alone.
type TemplateReference struct {
	// apiVersion of the template.
	// +required
	APIVersion string `json:"apiVersion"`
	// kind of the template.
	// +required
	Kind string `json:"kind"`
	// namespace of the template, if it has one.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the template.
	// +required
	Name string `json:"name"`
}

// RepairAttempt is a step that was taken to no avail.
type RepairAttempt struct {
	// outcome is why the step was given up: TimedOut, or Failed when the remediator said so.
	// +required
	Outcome StepOutcome `json:"outcome"`
	// endedAt is when the step was given up, to the microsecond. The next one is counted from then.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +required
	EndedAt metav1.MicroTime `json:"endedAt"`
	// message says in a sentence why the step was given up.
	// +optional
	Message string `json:"message,omitempty"`
}

// RepairStatus is how far a repair has come.
type RepairStatus struct {
	// phase is Running until the repair has ended.
	// +kubebuilder:default=Running
	// +optional
	Phase RepairPhase `json:"phase,omitempty"`
	// message says in a sentence what happened last.
	// +optional
	Message string `json:"message,omitempty"`
	// step is the index, in spec.ladder, of the step under way. It is the number of steps when all have
	// been taken to no avail.
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Step int32 `json:"step,omitempty"`
	// steps are those that were taken to no avail, in their order.
	// +listType=atomic
	// +optional
	Steps []RepairAttempt `json:"steps,omitempty"`
	// recoveredAt is since when the target has been healthy again while the repair is not over, to the
	// microsecond.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +optional
	RecoveredAt *metav1.MicroTime `json:"recoveredAt,omitempty"`
	// begunAt is when the target was handed over in the step under way, for a step of that nature, to the
	// microsecond.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +optional
	BegunAt *metav1.MicroTime `json:"begunAt,omitempty"`
	// answer is what whoever was asked in the step under way has said last, such as why the target's owner does
	// not replace it yet, or for how long there has been no answer.
	// +optional
	Answer string `json:"answer,omitempty"`

	// attempts counts the calls of the remedy that were refused.
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// lastAttempt is when the last refused call was made, to the microsecond.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +optional
	LastAttempt *metav1.MicroTime `json:"lastAttempt,omitempty"`
	// lastError is what the last refused call was refused with.
	// +optional
	LastError string `json:"lastError,omitempty"`
	// finishedAt is when the repair ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// RepairList is a list of repairs.
// +kubebuilder:object:root=true
type RepairList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Repair `json:"items"`
}
