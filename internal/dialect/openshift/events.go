package openshift

import (
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
)

// noun is what one target is called.
const noun = "machine"

// resource is what a health check is called by kubectl.
const resource = "machinehealthchecks.machine.openshift.io"

// event is one event to emit, with the reasons and actions of today's controller where it has one
// (docs/reference/openshift.md#events).
type event = healthcheck.Event

// eventFor renders a happening.
func eventFor(h core.Event) event {
	return healthcheck.EventTexts{Kind: healthCheckKind, Noun: noun, Unreadable: "MachineUnreadable", Held: heldReason, Remedy: remedyTexts}.Event(h)
}

// remedyTexts gives today's reasons where today's controller has an event; for remediation objects it has
// none (docs/reference/openshift.md#events).
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
