package capi

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
)

// noun is what one target is called.
const noun = "machine"

// resource is what a health check is called by kubectl.
const resource = "machinehealthchecks.cluster.x-k8s.io"

const markedReason = "MachineMarkedUnhealthy"

// event is one event to emit, with the reasons of today's controller where it has one (docs/reference/cluster-api.md#events).
type event = healthcheck.Event

// eventFor renders a happening.
func eventFor(h core.Event) event {
	return healthcheck.EventTexts{Kind: healthCheckKind, Noun: noun, Unreadable: "MachineUnreadable", Remedy: remedyTexts}.Event(h)
}

// remedyTexts returns the words for a remedy. Today's controller has one reason for all that begins.
func remedyTexts(remedy string) healthcheck.RemedyTexts {
	if remedy == RequestMachineRemediation {
		return healthcheck.RemedyTexts{
			Begun: markedReason, Refused: clusterv1.ExternalRemediationRequestCreationFailedV1Beta1Reason, Noun: "repair by an outside remediator",
			Does: "left to an outside remediator, for whom a remediation object was created", Done: "handed to an outside remediator",
		}
	}
	return healthcheck.RemedyTexts{
		Begun: markedReason, Refused: "MachineMarkFailed", Noun: "replacement by the machine's owner",
		Does: "marked for its owner to replace it (condition " + clusterv1.MachineOwnerRemediatedCondition + ")", Done: "marked for its owner",
	}
}
