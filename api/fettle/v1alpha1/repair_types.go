package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phases of a Repair.
const (
	// RepairRunning: the repair has been recorded and has not ended.
	RepairRunning RepairPhase = "Running"
	// RepairSucceeded: the remedy has succeeded.
	RepairSucceeded RepairPhase = "Succeeded"
	// RepairRecovered: the target became healthy before the remedy began, and nothing was done.
	RepairRecovered RepairPhase = "Recovered"
	// RepairWithdrawn: no health check requires the repair any more. Fettle withdrew its requests,
	// or lets them be.
	RepairWithdrawn RepairPhase = "Withdrawn"
)

// Natures of a step.
const (
	// StepDelete deletes the target, for its owner to replace.
	StepDelete StepNature = "Delete"
	// StepCreateRequest creates a remediation object, which stands until it is withdrawn.
	StepCreateRequest StepNature = "CreateRequest"
	// StepAnnotate annotates the target for an outside remediator, which removes the annotation.
	StepAnnotate StepNature = "Annotate"
	// StepAskOwner requests from the target's owner that it replaces the target, by a mark that
	// stands until it is withdrawn.
	StepAskOwner StepNature = "AskOwner"
)

// StepNature is what a step does with the target. Earlier versions of Fettle recorded Destroys, Requests, HandsOver and Delegates;
// Repairs that they left behind are still valid, so that their status can be updated.
// +kubebuilder:validation:Enum=Delete;CreateRequest;Annotate;AskOwner;Destroys;Requests;HandsOver;Delegates
type StepNature string

// Outcomes of a step that was given up.
const (
	// StepTimedOut: its time was over, and the target was not healthy.
	StepTimedOut StepOutcome = "TimedOut"
	// StepFailed: the remediator reported that it can't repair the target.
	StepFailed StepOutcome = "Failed"
)

// StepOutcome is why a step was given up.
// +kubebuilder:validation:Enum=TimedOut;Failed
type StepOutcome string

// RepairPhase says whether a repair is running, and else how it ended.
// +kubebuilder:validation:Enum=Running;Succeeded;Recovered;Withdrawn
type RepairPhase string

// Repair is the repair of one target, from the decision to the outcome. Fettle creates it before it
// touches the target. Its name follows from the target, so that two repairs can't start for one
// fault. Only Fettle writes it. Finished Repairs are deleted in time.
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
// +kubebuilder:printcolumn:name="Proof",type=string,priority=1,JSONPath=`.status.evidence[*].method`
// +kubebuilder:printcolumn:name="Progress",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Why",type=string,priority=1,JSONPath=`.spec.message`
type Repair struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is repaired, why and how. It never changes.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Repair's spec can't be changed: it records what was decided"
	// +required
	Spec RepairSpec `json:"spec"`
	// status is the progress of the repair.
	// +kubebuilder:default={phase: Running}
	// +optional
	Status RepairStatus `json:"status,omitempty"`
}

// RepairSpec says what is repaired, why and how.
type RepairSpec struct {
	// target is the repaired object.
	// +required
	Target RepairTarget `json:"target"`
	// cluster is the workload cluster that the target belongs to, by the name of its Cluster in the same
	// namespace. It is empty for targets of the cluster that Fettle itself runs in.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// policy is the health check that leads the repair.
	// +required
	Policy ObjectReference `json:"policy"`
	// owner is the object that replaces the target when it is deleted. Targets of one owner back
	// off together.
	// +optional
	Owner *ObjectReference `json:"owner,omitempty"`
	// ownerTemplate identifies the owner's template for replacements when the repair started. It is
	// empty where the template was unknown.
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
	// ladder has the steps of the repair, in order.
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
	// requestedAt is when a user requested the repair, by the annotation
	// fettle.io/repair-requested-at of the target. It is missing where no user did. A request
	// serves for one repair.
	// +optional
	RequestedAt *metav1.Time `json:"requestedAt,omitempty"`
	// holder is the name that holds the node's lease while the repair runs, if it does.
	// +optional
	Holder string `json:"holder,omitempty"`
	// retry counts the replacements in the same pool that failed in a row before this repair.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Retry int32 `json:"retry,omitempty"`
}

// RepairTarget names one target by its UID, so that it never names another.
type RepairTarget struct {
	ObjectReference `json:",inline"`
	// node is the name of the target's node, if it has one.
	// +optional
	Node string `json:"node,omitempty"`
}

// ObjectReference names one object by its UID, so that it never names another.
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

// RepairStep is one step of a repair.
type RepairStep struct {
	// remedy names how the step repairs.
	// +kubebuilder:validation:MinLength=1
	// +required
	Remedy string `json:"remedy"`
	// nature is what the step does. Delete deletes the target, and the owner replaces it; a step
	// without a nature does this. CreateRequest creates a remediation object, which stands until it
	// is withdrawn. Annotate annotates the target, and an outside remediator removes the
	// annotation. AskOwner requests from the target's owner that it replaces the target, by a mark
	// that stands until it is withdrawn. Earlier versions of Fettle recorded these as Destroys,
	// Requests, HandsOver and Delegates.
	// +optional
	Nature StepNature `json:"nature,omitempty"`
	// template is the template of the remedy's request, where it needs one.
	// +optional
	Template *TemplateReference `json:"template,omitempty"`
	// timeout is how long the step may take before the next step begins, such as 5m0s. Without a
	// timeout there is no limit.
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

// RepairAttempt is a step that was given up.
type RepairAttempt struct {
	// outcome is why the step was given up: TimedOut, or Failed when the remediator reported a
	// failure.
	// +required
	Outcome StepOutcome `json:"outcome"`
	// endedAt is when the step was given up, to the microsecond. The time of the next step runs
	// from then.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +required
	EndedAt metav1.MicroTime `json:"endedAt"`
	// message says in a sentence why the step was given up.
	// +optional
	Message string `json:"message,omitempty"`
}

// RepairStatus is the progress of a repair.
type RepairStatus struct {
	// phase is Running until the repair has ended.
	// +kubebuilder:default=Running
	// +optional
	Phase RepairPhase `json:"phase,omitempty"`
	// message says in a sentence what happened last.
	// +optional
	Message string `json:"message,omitempty"`
	// step is the index, in spec.ladder, of the current step. It is the number of steps when all
	// were given up.
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Step int32 `json:"step,omitempty"`
	// steps are the steps that were given up, in order.
	// +listType=atomic
	// +optional
	Steps []RepairAttempt `json:"steps,omitempty"`
	// recoveredAt is since when the target has been healthy again while the repair is running, to
	// the microsecond.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +optional
	RecoveredAt *metav1.MicroTime `json:"recoveredAt,omitempty"`
	// begunAt is when the current step handed over the target, for a step that does so, to the
	// microsecond.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +optional
	BegunAt *metav1.MicroTime `json:"begunAt,omitempty"`
	// answer is the last answer to the current step. It says for example why the target's owner
	// does not replace it yet, or for how long there has been no answer.
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
	// lastError is the error of the last refused call.
	// +optional
	LastError string `json:"lastError,omitempty"`
	// evidence is how the node was fenced, by each power cycle that was commanded for this repair. It
	// is copied from the PowerRemediations, which don't outlast the repair. It is written when there is
	// a proof, and the rest of it when the repair is written next, at its end at the latest. The last
	// 16 power cycles are kept.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Evidence []FencingEvidence `json:"evidence,omitempty"`
	// finishedAt is when the repair ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// FencingEvidence is how one power cycle fenced the node, as the PowerRemediation reports it.
type FencingEvidence struct {
	// remediation is the PowerRemediation.
	// +required
	Remediation ObjectReference `json:"remediation"`
	// powerCycle counts the power cycles of the remediation from 1.
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	PowerCycle int32 `json:"powerCycle,omitempty"`
	// method is the kind of the proof that the node had stopped: PowerOff, NewBoot or PowerOffAndPromiseExpired. It is missing
	// where there was no proof.
	// +optional
	Method string `json:"method,omitempty"`
	// bmc is the name of the BMC.
	// +optional
	BMC string `json:"bmc,omitempty"`
	// protocol is how Fettle spoke to the BMC: Redfish or IPMI.
	// +optional
	Protocol string `json:"protocol,omitempty"`
	// bootIDBefore is the boot ID under which the node ran before the first command.
	// +optional
	BootIDBefore string `json:"bootIDBefore,omitempty"`
	// bootIDAfter is the boot ID under which the node came back, or ran when NewBoot was observed.
	// +optional
	BootIDAfter string `json:"bootIDAfter,omitempty"`
	// commandedAt is when the power was first commanded off, to the microsecond.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +optional
	CommandedAt *metav1.MicroTime `json:"commandedAt,omitempty"`
	// provenAt is when the observation began that completed the proof, to the microsecond.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +optional
	ProvenAt *metav1.MicroTime `json:"provenAt,omitempty"`
	// releasedAt is when the workload of the node was released, to the microsecond.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +optional
	ReleasedAt *metav1.MicroTime `json:"releasedAt,omitempty"`
	// backAt is when the node was seen to be Ready under another boot ID, to the microsecond.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$`
	// +optional
	BackAt *metav1.MicroTime `json:"backAt,omitempty"`
}

// RepairList is a list of repairs.
// +kubebuilder:object:root=true
type RepairList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Repair `json:"items"`
}
