package messages

import (
	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// Advice returns what a user does about the gates of a health check. It is the same for all APIs.
func Advice() core.Advice {
	return core.Advice{
		core.PolicyPaused: "remove its pause annotation, or its pause requests, to go on",
		core.QuorumUnknown: "where no node has a vote, say so with the annotation " + annotation.ControlPlaneQuorum +
			": external on the namespace kube-system (docs/guards.md)",
		core.InFlightLimit:    "annotation " + annotation.MaxInFlight + " changes the limit",
		core.Excluded:         "remove the label " + v1alpha1.ExcludeLabel + " to go on",
		core.ClusterUpgrading: "without the annotation " + annotation.WaitForUpgrades + " the health check does not wait",
		core.PoolGivenUp:      "set the annotation " + annotation.ResumedAt + " of the health check to the present time",
	}
}
