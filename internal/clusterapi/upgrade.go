package clusterapi

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// Upgrade is whether a cluster is being upgraded. The zero value is unknown.
type Upgrade struct {
	Is core.Tri
	// Why is the sign of an upgrade, or what is missing to know. It is a clause without its full stop.
	Why string
}

// upgradeSigns are the fields of a Cluster that show upgrades.
type upgradeSigns struct {
	name       string
	generation int64
	conditions []condition
	// managed is set if the cluster comes from a ClusterClass.
	managed bool
	// controlPlane is status.controlPlane.
	controlPlane rawField
}

// upgrade combines all signs. A sign of an upgrade outweighs a sign that can't be read.
func (s *upgradeSigns) upgrade() Upgrade {
	found := s.rollout()
	for _, sign := range [...]Upgrade{found, s.topology(), s.versions()} {
		if sign.Is == core.Yes {
			return sign
		}
		if sign.Is == core.Unknown && found.Is == core.No {
			found = sign
		}
	}
	return found
}

// rollout reads the condition that says whether the control plane or a MachineDeployment replaces its machines.
func (s *upgradeSigns) rollout() Upgrade {
	c := s.condition(clusterv1.ClusterRollingOutCondition)
	if c == nil {
		return s.missing(clusterv1.ClusterRollingOutCondition)
	}
	switch metav1.ConditionStatus(c.Status) {
	case metav1.ConditionTrue:
		return Upgrade{core.Yes, s.says(c)}
	case metav1.ConditionFalse:
		return Upgrade{core.No, s.says(c)}
	case metav1.ConditionUnknown:
	}
	return Upgrade{core.Unknown, s.says(c)}
}

// topology reads the condition of a cluster from a ClusterClass. Its upgrade goes from one part to the next, and
// waits for hooks in between. If a user defers the rest, the upgrade is over for now.
func (s *upgradeSigns) topology() Upgrade {
	if !s.managed {
		return Upgrade{Is: core.No}
	}
	c := s.condition(clusterv1.ClusterTopologyReconciledCondition)
	switch {
	case c == nil:
		return s.missing(clusterv1.ClusterTopologyReconciledCondition)
	case c.Status == string(metav1.ConditionFalse) && c.Reason == clusterv1.ClusterTopologyReconciledClusterUpgradingReason:
		return Upgrade{core.Yes, s.says(c)}
	case c.ObservedGeneration != 0 && c.ObservedGeneration < s.generation:
		return Upgrade{core.Unknown, "condition " + c.Type + " of Cluster " + s.name + " is about an earlier specification"}
	case c.Status == string(metav1.ConditionTrue):
		return Upgrade{Is: core.No}
	case c.Status == string(metav1.ConditionFalse) && slices.Contains(deferred[:], c.Reason):
		return Upgrade{Is: core.No}
	}
	return Upgrade{core.Unknown, s.says(c)}
}

// deferred are the reasons of a topology that is not reconciled since a user has deferred the rest of its upgrade.
var deferred = [...]string{
	clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason, clusterv1.ClusterTopologyReconciledMachinePoolsUpgradeDeferredReason,
}

// versions compares the versions of the control plane's members. A control plane without a rollout condition still
// reports these.
func (s *upgradeSigns) versions() Upgrade {
	if !s.controlPlane.given() {
		return Upgrade{Is: core.No}
	}
	var reported struct {
		Versions []clusterv1.StatusVersion `json:"versions"`
	}
	if utiljson.Unmarshal(s.controlPlane.body, &reported) != nil {
		return Upgrade{core.Unknown, "status.controlPlane of Cluster " + s.name + " can't be read"}
	}
	different := func(v clusterv1.StatusVersion) bool { return v.Version != reported.Versions[0].Version }
	if slices.ContainsFunc(reported.Versions, different) {
		return Upgrade{core.Yes, "the control plane of Cluster " + s.name + " has several versions (status.controlPlane.versions)"}
	}
	return Upgrade{Is: core.No}
}

func (s *upgradeSigns) condition(kind string) *condition {
	i := slices.IndexFunc(s.conditions, func(c condition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &s.conditions[i]
}

func (s *upgradeSigns) missing(kind string) Upgrade {
	return Upgrade{core.Unknown, "Cluster " + s.name + " has no condition " + kind}
}

// says returns a text about a condition, whose content may be anything.
func (s *upgradeSigns) says(c *condition) string {
	text := fmt.Sprintf("condition %s of Cluster %s is %s", c.Type, s.name, lenient.Prefix(c.Status, maxQuoted))
	if c.Reason != "" && c.Type == clusterv1.ClusterTopologyReconciledCondition {
		text += " (" + lenient.Prefix(c.Reason, maxQuoted) + ")"
	}
	return text
}

// maxQuoted bounds how much of a word is quoted, in bytes.
const maxQuoted = 64
