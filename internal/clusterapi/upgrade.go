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

// Upgrade is whether a cluster is being upgraded. The zero one is not known.
type Upgrade struct {
	Is core.Tri
	// Why is the sign of that, or what is missing to know it, as a clause without its full stop.
	Why string
}

// upgradeSigns are what a Cluster shows of upgrades.
type upgradeSigns struct {
	name       string
	generation int64
	conditions []condition
	// managed is set where Cluster API derives the cluster from a ClusterClass.
	managed bool
	// controlPlane is the part of the status that is about the control plane.
	controlPlane rawField
}

// upgrade judges all signs. One of an upgrade counts more than one that can't be read.
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

// rollout: Cluster API gathers in one condition whether the control plane or a MachineDeployment replaces its machines.
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

// topology: an upgrade of a ClusterClass's cluster goes from one part to the next, and waits for hooks in between. A person
// who defers the rest has ended it for now.
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

// deferred are the reasons for which a topology is not reconciled since a person has put off the rest of its upgrade.
var deferred = [...]string{
	clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason, clusterv1.ClusterTopologyReconciledMachinePoolsUpgradeDeferredReason,
}

// versions: a control plane that reports no rollout still reports each version that its members have.
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

// says repeats a condition, whose words may be anything.
func (s *upgradeSigns) says(c *condition) string {
	text := fmt.Sprintf("condition %s of Cluster %s is %s", c.Type, s.name, lenient.Prefix(c.Status, maxQuoted))
	if c.Reason != "" && c.Type == clusterv1.ClusterTopologyReconciledCondition {
		text += " (" + lenient.Prefix(c.Reason, maxQuoted) + ")"
	}
	return text
}

// maxQuoted bounds what is repeated of a word, in bytes.
const maxQuoted = 64
