package capi

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
)

// noun is the word for a target in messages.
const noun = "machine"

// resource is the name of health checks for kubectl.
const resource = "machinehealthchecks.cluster.x-k8s.io"

const markedReason = "MachineMarkedUnhealthy"

// event is one event to emit. It has the reason of Cluster API's controller where that has one
// (docs/reference/cluster-api.md#events).
type event = healthcheck.Event

// eventFor renders an event of the core.
func eventFor(h core.Event) event {
	return healthcheck.EventTexts{Kind: healthCheckKind, Noun: noun, Unreadable: "MachineUnreadable", Remedy: remedyTexts}.Event(h)
}

// remedyTexts returns the texts for a remedy. Cluster API's controller has one reason for the start of any remedy.
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
