package selffencing

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
)

// Reasons of conditions, besides those of package fencing.
const (
	// notRead: its node or its Lease can't be read, and nothing was done yet.
	notRead = "NotRead"
	// notChanged: a change of its node or its Lease has failed.
	notChanged = "NotChanged"
	// nodeIsBack: it has succeeded.
	nodeIsBack = "NodeIsBack"
	// statusInvalid: the status is not as Fettle writes it.
	statusInvalid = "StatusInvalid"
)

// conditionsOf returns the conditions of a phase.
func conditionsOf(s *v1alpha1.SelfFenceRemediationStatus) []fencednode.Condition {
	if !fencing.Phase(s.Phase).Final() {
		return fencednode.ProgressConditions(&s.FencingStatus, phaseMessage(s))
	}
	succeeded, reason := outcome(s)
	return fencednode.EndConditions(succeeded, reason, phaseMessage(s)+evidence(s))
}

// outcome returns the status and the reason of the condition Succeeded at the end.
func outcome(s *v1alpha1.SelfFenceRemediationStatus) (metav1.ConditionStatus, string) {
	switch fencing.Phase(s.Phase) { //nolint:exhaustive // the others are no ends
	case fencing.Aborted:
		return metav1.ConditionFalse, v1alpha1.RemediationStoppedReason
	case fencing.Failed:
		return metav1.ConditionFalse, s.Reason
	}
	return metav1.ConditionTrue, nodeIsBack
}

// phaseMessage says what a phase does, and why it began.
func phaseMessage(s *v1alpha1.SelfFenceRemediationStatus) string {
	node, why := s.Node.Name, whyBegan(&s.FencingStatus)
	switch fencing.Phase(s.Phase) { //nolint:exhaustive // the others are phases of a fencing by power
	case fencing.Preparing:
		return "the boot ID of node " + node + " is recorded, and the node gets the taint that keeps its pods from starting again"
	case fencing.Condemning:
		return fmt.Sprintf("the promise of node %s is revoked, so that the node resets itself (attempt %d)%s", node, s.Attempt, why)
	case fencing.Releasing:
		return "node " + node + " is proven to have stopped, and its workload may start elsewhere" + why
	case fencing.Booting:
		return "node " + node + " boots, and must become Ready under another boot ID" + why
	case fencing.Restoring:
		return "node " + node + " is back, and what was changed on it is changed back"
	case fencing.Aborting:
		return "what was done to node " + node + " is taken back" + why
	case fencing.Succeeded:
		return "node " + node + " is back" + why
	case fencing.Failed:
		return "node " + node + " was not brought back" + why + advise(s)
	case fencing.Aborted:
		return "what was done to node " + node + " was taken back" + why
	}
	return "node " + node
}

// whyBegan returns why a phase began, to append to a message. The time for the release may be over before anything was released.
func whyBegan(s *v1alpha1.FencingStatus) string {
	if fencing.Reason(s.Reason) == fencing.ReleaseTimedOut && !s.WorkloadReleased {
		return "; its workload could not be released within spec.releaseTimeout"
	}
	return reasonMessage(fencing.Reason(s.Reason))
}

// reasonMessage returns why a phase began, to append to a message.
func reasonMessage(why fencing.Reason) string {
	switch why { //nolint:exhaustive // the others are no reasons of a phase of a fencing by promise
	case fencing.BootedUntainted:
		return ", since the node has booted, and others had removed the taint that keeps its pods from starting"
	case fencing.ProofVoid:
		return ", since just before the release its promise was not revoked any more, or a pod that tolerates Fettle's taint may run in its new boot"
	case fencing.FreedByOthers:
		return ", since its promise was changed by others several times just before the release"
	case fencing.TaintTimedOut:
		return ", since the node could not be tainted within spec.fenceTimeout"
	case fencing.FenceTimedOut:
		return ", since it was not proven to have stopped within spec.fenceTimeout"
	case fencing.BootTimedOut:
		return ", since the node was not Ready under another boot ID within spec.bootTimeout"
	case fencing.ReleaseTimedOut:
		return "; pods or volumes were still on the node at the end of spec.releaseTimeout"
	case fencing.NodeReplaced:
		return ", since another node of its name has registered before anything was done"
	case fencing.Stopped:
		return ", since the health checker has requested a stop"
	case fencing.Deleted:
		return ", since the remediation is being deleted"
	}
	return ""
}

// advise returns what a user can do after a failure, to append to a message.
func advise(s *v1alpha1.SelfFenceRemediationStatus) string {
	switch fencing.Reason(s.Reason) { //nolint:exhaustive // the others don't end a fencing
	case fencing.FenceTimedOut, fencing.FreedByOthers, fencing.BootedUntainted:
		return "; its workload is held, since it may still run: see to it that the host is off, and delete the node or set the taint node.kubernetes.io/out-of-service by hand"
	case fencing.TaintTimedOut:
		return "; nothing was revoked, and its workload is held; see whether a webhook or a missing right forbids the taint"
	case fencing.BootTimedOut:
		return "; look at the console of the host" + fencednode.NotReleased(&s.FencingStatus)
	}
	return ""
}

// evidence returns the proof and the boot IDs, to append to a message.
func evidence(s *v1alpha1.SelfFenceRemediationStatus) string {
	if s.Proof == nil {
		return "; there is no proof that it has stopped"
	}
	text := fmt.Sprintf("; proof %s at %s, boot ID before %s", s.Proof.Kind, s.Proof.At.UTC().Format(time.RFC3339), s.Node.BootID)
	if s.Proof.BootID != "" {
		text += ", boot ID now " + s.Proof.BootID
	}
	return text
}

// waitMessage says what a remediation waits for, until when, and why.
func waitMessage(rec *reconciliation, step fencing.Step) string {
	if text := rec.s.promise.WaitMessage(step); text != "" {
		return text
	}
	text := waitsFor(rec.node, step.Reason)
	switch step.Reason { //nolint:exhaustive // the others are no failures
	case fencing.NodeNotRead, fencing.WorkloadNotCounted:
		return text + " " + nodepromise.WhyFailed(rec.unread)
	}
	return text
}

func waitsFor(node string, why fencing.Reason) string {
	switch why { //nolint:exhaustive // the others are no reasons to wait of a fencing by promise, or are about the promise
	case fencing.NodeNotRead:
		return "node " + node + " could not be read from the API server"
	case fencing.NodeReady:
		return "node " + node + " is proven to have stopped, and the API server still shows it as Ready; nothing is released before that changes"
	case fencing.WorkloadLeft:
		return "pods or volumes of node " + node + " are still there"
	case fencing.WorkloadNotCounted:
		return "the pods or the VolumeAttachments of node " + node + " could not be listed"
	case fencing.NodeNotGone:
		return "node " + node + " is being deleted, and its finalizers keep it"
	case fencing.NodeNotBack:
		return "node " + node + " is not Ready under another boot ID yet"
	}
	return "node " + node + " waits"
}
