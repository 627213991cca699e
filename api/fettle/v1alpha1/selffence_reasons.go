package v1alpha1

// Reasons of the condition Succeeded of a SelfFenceRemediation, besides those of a PowerRemediation and
// those in docs/remedies/self-fencing.md.
const (
	// CannotStartNoPromiseReason: the node has promised nothing, so its agent would not have it reset.
	CannotStartNoPromiseReason = "RemediationCannotStartNoPromise"
	// CannotStartPromiseNotTimedReason: a FencePolicy requires that the promise of the node expires, and no time proves anything of it.
	CannotStartPromiseNotTimedReason = "RemediationCannotStartPromiseNotTimed"
	// CannotStartPowerRequiredReason: a FencePolicy requires that the power of the node is observed off too, which no
	// SelfFenceRemediation does.
	CannotStartPowerRequiredReason = "RemediationCannotStartPowerRequired"
	// CannotStartWorkloadClusterReason: the node is of a workload cluster, whose agents promise nothing to this Fettle.
	CannotStartWorkloadClusterReason = "RemediationCannotStartWorkloadCluster"
)
