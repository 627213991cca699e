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

// inBothLists returns the change of a condition in both lists.
func inBothLists(kind string, current, deprecated ConditionContent) []Change {
	return []Change{{Current, kind, &current}, {Deprecated, kind, &deprecated}}
}

// healthyContent is the content of a successful health check in both lists.
var healthyContent = [...]ConditionContent{Current: {Status: yes, Reason: clusterv1.MachineHealthCheckSucceededReason}, Deprecated: {Status: yes}}

// HealthCheckSucceeded returns the changes for a machine that passes its health check.
func HealthCheckSucceeded() []Change {
	return inBothLists(clusterv1.MachineHealthCheckSucceededCondition, healthyContent[Current], healthyContent[Deprecated])
}

// HealthCheckFailed returns the changes for a machine that fails its health check, with the findings. Node is the
// name of the machine's node.
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
	if findings[0].Reason != core.NodeNotFound { // the deprecated condition never had a message for it
		deprecated.Message = strings.Join(texts, "; ")
	}
	return inBothLists(clusterv1.MachineHealthCheckSucceededCondition, current, deprecated)
}

// reasons are the reasons of a failed health check in both lists.
type reasons struct{ current, deprecated string }

// reasonsOf returns the reasons of a finding. The first of several findings counts, and findings about the machine
// come before findings about its node.
func reasonsOf(of core.Reason) reasons {
	switch of { //nolint:exhaustive // the other reasons make no target unhealthy
	case core.RemediationRequested:
		return reasons{clusterv1.MachineHealthCheckHasRemediateAnnotationReason, clusterv1.HasRemediateMachineAnnotationV1Beta1Reason}
	case core.TargetFailed: // Cluster API has no reason of v1beta2 for it
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

// findingText returns the text of a finding. It has no time, so that it stays the same while the finding does.
func (m *Machine) findingText(v *core.Verdict, node string) string {
	switch v.Reason { //nolint:exhaustive // the other reasons make no target unhealthy
	case core.RemediationRequested:
		if !v.Since.IsZero() {
			return "A person has requested remediation by the annotation " + annotation.RepairRequestedAt
		}
		return "A person has requested remediation by the annotation " + clusterv1.RemediateMachineAnnotation
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

// AskOwner returns the changes that ask the owner of a machine to replace it. A condition that is False belongs to
// the owner, so its answer to an earlier request is never overwritten. This holds for each list.
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

// machineDeleting is the reason of an owner that is already replacing the machine.
const machineDeleting = "MachineDeleting"

// OwnerRequest returns the condition that requests the replacement of a machine from its owner, or by which the owner
// answers. It is nil without a request.
func (m *Machine) OwnerRequest() *Mark {
	mark := m.Mark(Current, clusterv1.MachineOwnerRemediatedCondition)
	if mark == nil || mark.Status != no {
		return nil
	}
	return mark
}

// HandedBack returns when a remediator gave the machine up by the deprecated condition OwnerRemediated, as Metal3's
// does. Owners read only the condition of v1beta2. HandedBack returns zero if no remediator gave the machine up, or
// if the condition of v1beta2 stands too.
func (m *Machine) HandedBack() time.Time {
	mark := m.Mark(Deprecated, clusterv1.MachineOwnerRemediatedCondition)
	if mark == nil || mark.Status != no || mark.Reason != clusterv1.WaitingForRemediationV1Beta1Reason || m.OwnerRequest() != nil {
		return time.Time{}
	}
	return mark.Since
}

// InProgress reports whether the owner has begun the replacement that the condition requests.
func (k *Mark) InProgress() bool { return k.Reason == machineDeleting }

// Answer returns the owner's answer to a request, or nothing if it has not answered.
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

// oneLine returns a text of another writer as one line. It reads no more than it returns.
func oneLine(said string) string {
	return strings.Join(strings.Fields(sanitize.Line(sanitize.MaxMessage, said)), " ")
}

// WithdrawOwnerRequest returns the changes that withdraw a request to the owner, unless the owner has begun.
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

// ID identifies the mark among the marks of its type on the machine.
func (k *Mark) ID(m *Machine) string {
	return string(m.UID) + "@" + k.Since.UTC().Format(time.RFC3339)
}
