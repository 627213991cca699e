package clusterapi

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

const (
	yes = string(metav1.ConditionTrue)
	no  = string(metav1.ConditionFalse)

	warning = string(clusterv1.ConditionSeverityWarning)
)

// inBothLists changes a condition in both lists.
func inBothLists(kind string, current, deprecated ConditionContent) []Change {
	return []Change{{Current, kind, &current}, {Deprecated, kind, &deprecated}}
}

// healthyContent are those of a health check that has succeeded, in both lists.
var healthyContent = [...]ConditionContent{Current: {Status: yes, Reason: clusterv1.MachineHealthCheckSucceededReason}, Deprecated: {Status: yes}}

// HealthCheckSucceeded has a machine say that its health check has succeeded.
func HealthCheckSucceeded() []Change {
	return inBothLists(clusterv1.MachineHealthCheckSucceededCondition, healthyContent[Current], healthyContent[Deprecated])
}

// HealthCheckFailed has a machine say that its health check has failed, and by what. The node is the name of the machine's.
func HealthCheckFailed(m *Machine, node string, findings []core.Verdict) []Change {
	if len(findings) == 0 {
		return nil
	}
	reasons := reasonsOf(findings[0].Reason)
	current := ConditionContent{Status: no, Reason: reasons.current}
	deprecated := ConditionContent{Status: no, Reason: reasons.deprecated, Severity: warning}
	var texts []string
	for i := range findings {
		texts = append(texts, sanitize.Line(sanitize.MaxMessage, m.findingText(&findings[i], node)))
	}
	current.Message = "Health check failed:\n  * " + strings.Join(texts, "\n  * ")
	if findings[0].Reason != core.NodeNotFound { // of which the deprecated condition never said more
		deprecated.Message = strings.Join(texts, "; ")
	}
	return inBothLists(clusterv1.MachineHealthCheckSucceededCondition, current, deprecated)
}

// reasons are why a health check has failed, as each list calls it.
type reasons struct{ current, deprecated string }

// reasonsOf gives the reasons of a finding. The first of several counts: what the machine says goes before what its
// node does.
func reasonsOf(of core.Reason) reasons {
	switch of { //nolint:exhaustive // those by which a target is unhealthy
	case core.RemediationRequested:
		return reasons{clusterv1.MachineHealthCheckHasRemediateAnnotationReason, clusterv1.HasRemediateMachineAnnotationV1Beta1Reason}
	case core.TargetFailed: // Cluster API has no current reason any more
		return reasons{clusterv1.MachineHasFailureV1Beta1Reason, clusterv1.MachineHasFailureV1Beta1Reason}
	case core.TargetConditionMet:
		return reasons{clusterv1.MachineHealthCheckUnhealthyMachineReason, clusterv1.UnhealthyMachineConditionV1Beta1Reason}
	case core.NodeStartupTimeout:
		return reasons{clusterv1.MachineHealthCheckNodeStartupTimeoutReason, clusterv1.NodeStartupTimeoutV1Beta1Reason}
	case core.NodeNotFound:
		return reasons{clusterv1.MachineHealthCheckNodeDeletedReason, clusterv1.NodeNotFoundV1Beta1Reason}
	}
	return reasons{clusterv1.MachineHealthCheckUnhealthyNodeReason, clusterv1.UnhealthyNodeConditionV1Beta1Reason}
}

// findingText says what was found. It names no time, so that it stays the same as long as the finding does.
func (m *Machine) findingText(v *core.Verdict, node string) string {
	switch v.Reason { //nolint:exhaustive // those by which a target is unhealthy
	case core.RemediationRequested:
		if !v.Since.IsZero() {
			return "A person has asked for remediation by the annotation " + annotation.RepairRequestedAt
		}
		return "A person has asked for remediation by the annotation " + clusterv1.RemediateMachineAnnotation
	case core.TargetFailed:
		if m.Failure == "" {
			return "Machine has failed for good"
		}
		return "Machine has failed for good: " + oneLine(m.Failure)
	case core.TargetConditionMet:
		return fmt.Sprintf("Condition %s on Machine has been %s for at least %s", v.Criterion.Type, v.Criterion.Status, v.Criterion.For)
	case core.NodeStartupTimeout:
		return fmt.Sprintf("No Node has joined within %s", v.Limit)
	case core.NodeNotFound:
		return fmt.Sprintf("Node %s has been deleted", node)
	case core.ConditionsMet:
		return fmt.Sprintf("The %s for at least %s", v.Detail, v.Limit)
	case core.ConditionMet:
		return fmt.Sprintf("Condition %s on Node has been %s for at least %s", v.Criterion.Type, v.Criterion.Status, v.Criterion.For)
	}
	return v.Text()
}

// AskOwner has a machine ask its owner to replace it. What the owner has answered to an earlier call is never
// overwritten: the condition is the owner's as long as it is False. Each list is asked apart.
func AskOwner(m *Machine) []Change {
	const kind = clusterv1.MachineOwnerRemediatedCondition
	ask := inBothLists(kind,
		ConditionContent{Status: no, Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, Message: "Waiting for remediation"},
		ConditionContent{Status: no, Reason: clusterv1.WaitingForRemediationV1Beta1Reason, Severity: warning})
	return slices.DeleteFunc(ask, func(c Change) bool {
		mark := m.Mark(c.In, kind)
		return mark != nil && mark.Status != yes
	})
}

// machineDeleting is the reason of an owner that is replacing the machine already.
const machineDeleting = "MachineDeleting"

// OwnerRequest gives the condition by which a machine asks its owner to replace it, or by which the owner answers. It is nil
// when nothing is asked.
func (m *Machine) OwnerRequest() *Mark {
	mark := m.Mark(Current, clusterv1.MachineOwnerRemediatedCondition)
	if mark == nil || mark.Status != no {
		return nil
	}
	return mark
}

// HandedBack returns when a remediator gave the machine up by the deprecated condition OwnerRemediated, as Metal3's does: owners
// read the condition of v1beta2 alone. It is zero when no remediator has, or the condition of v1beta2 stands too.
func (m *Machine) HandedBack() time.Time {
	mark := m.Mark(Deprecated, clusterv1.MachineOwnerRemediatedCondition)
	if mark == nil || mark.Status != no || mark.Reason != clusterv1.WaitingForRemediationV1Beta1Reason || m.OwnerRequest() != nil {
		return time.Time{}
	}
	return mark.Since
}

// InProgress tells whether the owner has begun to do what it was asked by the mark.
func (k *Mark) InProgress() bool { return k.Reason == machineDeleting }

// Answer is what the owner says to being asked, and empty while it says nothing.
func (m *Machine) Answer() string {
	mark := m.OwnerRequest()
	if mark == nil || mark.Reason == clusterv1.MachineOwnerRemediatedWaitingForRemediationReason {
		return ""
	}
	of := "the machine's owner"
	if m.Owner != nil {
		of = m.Owner.Kind + " " + m.Owner.Name
	}
	said := oneLine(mark.Message)
	if said == "" {
		return sanitize.Line(sanitize.MaxMessage, of+" says "+mark.Reason)
	}
	return sanitize.Line(sanitize.MaxMessage, sanitize.Line(sanitize.MaxPart, of+" says "+mark.Reason)+": "+said)
}

// oneLine is what others have said, which may have several lines. It looks at no more than it returns.
func oneLine(said string) string {
	return strings.Join(strings.Fields(sanitize.Line(sanitize.MaxMessage, said)), " ")
}

// WithdrawOwnerRequest takes back what a machine asks of its owner, unless the owner does it already.
func WithdrawOwnerRequest(m *Machine) []Change {
	if mark := m.OwnerRequest(); mark == nil || mark.InProgress() {
		return nil
	}
	changes := []Change{{In: Current, Type: clusterv1.MachineOwnerRemediatedCondition}}
	if old := m.Mark(Deprecated, clusterv1.MachineOwnerRemediatedCondition); old != nil && old.Status == no {
		changes = append(changes, Change{In: Deprecated, Type: clusterv1.MachineOwnerRemediatedCondition})
	}
	return changes
}

// ID tells the mark from later ones of its type on the same machine.
func (k *Mark) ID(m *Machine) string {
	return string(m.UID) + "@" + k.Since.UTC().Format(time.RFC3339)
}
