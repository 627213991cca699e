package openshift

import (
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
)

// noun names one target in messages.
const noun = "machine"

// resource names health checks in commands of kubectl.
const resource = "machinehealthchecks.machine.openshift.io"

// event is one event to emit. Where OpenShift's own controller emits such an event, ours has its
// reason and action (docs/reference/openshift.md#events).
type event = healthcheck.Event

// eventFor returns the Kubernetes event for an event of the core.
func eventFor(h core.Event) event {
	return healthcheck.EventTexts{Kind: healthCheckKind, Noun: noun, Unreadable: "MachineUnreadable", Held: heldReason, Remedy: remedyTexts}.Event(h)
}

// remedyTexts returns the reasons and texts for a remedy. Reasons are those of OpenShift's own
// controller where it has such an event. It has none for remediation objects
// (docs/reference/openshift.md#events).
func remedyTexts(remedy string) healthcheck.RemedyTexts {
	switch remedy {
	case AnnotateMachine:
		return healthcheck.RemedyTexts{
			Begun: "ExternalAnnotationAdded", Refused: "ExternalAnnotationFailed", Noun: "repair by an outside remediator",
			Does: "left to an outside remediator, for whom it is marked by the annotation " + externalAnnotation, Done: "marked for an outside remediator",
		}
	case RequestMachineRemediation:
		return healthcheck.RemedyTexts{
			Begun: "ExternalRemediationRequested", Refused: v1beta1.ExternalRemediationRequestCreationFailedReason, Noun: "repair by an outside remediator",
			Does: "left to an outside remediator, for whom a remediation object was created", Done: "handed to an outside remediator",
		}
	}
	return healthcheck.RemedyTexts{
		Begun: "MachineDeleted", Refused: "MachineDeletionFailed", Noun: "deletion",
		Does: "being deleted, for the owner to replace", Done: "deleted",
	}
}

func heldReason(g core.Gate) string {
	if g == core.NoOwner {
		return "SkippedNoController"
	}
	return "RemediationHeld" + g.String()
}
