package powercycle

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// Reasons of a remediation that waits because a call to the API server has failed.
const (
	// notRead: its node or its machine can't be read, and nothing was done yet.
	notRead = "NotRead"
	// notChanged: a change of its node or of its machine has failed.
	notChanged = "NotChanged"
)

// Reasons of the condition Succeeded at the end.
const (
	nodeIsBack = "NodeIsBack"
	hostIsOff  = "HostIsOff"
	// statusInvalid: the status is not as Fettle writes it.
	statusInvalid = "StatusInvalid"
)

// conditionsOf returns the conditions of a phase.
func conditionsOf(s *v1alpha1.PowerRemediationStatus) []fencednode.Condition {
	if !fencing.Phase(s.Phase).Final() {
		return fencednode.ProgressConditions(&s.FencingStatus, phaseMessage(s))
	}
	succeeded, reason := outcome(s)
	return fencednode.EndConditions(succeeded, reason, phaseMessage(s)+evidence(s))
}

// outcome returns the status and the reason of the condition Succeeded at the end.
func outcome(s *v1alpha1.PowerRemediationStatus) (metav1.ConditionStatus, string) {
	switch phase := fencing.Phase(s.Phase); {
	case phase == fencing.Aborted:
		return metav1.ConditionFalse, v1alpha1.RemediationStoppedReason
	case phase == fencing.Failed:
		return metav1.ConditionFalse, s.Reason
	case s.Reason == string(fencing.MachineGone):
		return metav1.ConditionTrue, v1alpha1.MachineDeletedReason
	case s.PoweredOff:
		return metav1.ConditionTrue, hostIsOff
	}
	return metav1.ConditionTrue, nodeIsBack
}

// phaseMessage says what a phase does, and why it began.
func phaseMessage(s *v1alpha1.PowerRemediationStatus) string {
	node, why := s.Node.Name, whyBegan(s)
	switch fencing.Phase(s.Phase) { //nolint:exhaustive // a fencing by power is never Condemning
	case fencing.Preparing:
		return "the boot ID of node " + node + " is recorded, the node gets the taint that keeps its pods from starting again, and then its host is commanded off"
	case fencing.PoweringOff:
		return fmt.Sprintf("the host of node %s is powered off%s (attempt %d)%s", node, revokes(s), s.Attempt, why)
	case fencing.Releasing:
		return "node " + node + " is proven to have stopped, and its workload may start elsewhere" + why
	case fencing.PoweringOn:
		return "the host of node " + node + " is powered on" + why
	case fencing.Booting:
		return "node " + node + " boots, and must become Ready under another boot ID" + why
	case fencing.Restoring:
		return "node " + node + " is back, and what was changed on it is changed back"
	case fencing.Aborting:
		return "what was done to node " + node + " is taken back" + why
	case fencing.DeletingMachine:
		return "no power cycle has brought node " + node + " back, and its machine is deleted" + why
	case fencing.Succeeded:
		return successMessage(s) + why
	case fencing.Failed:
		return failure(s) + why + advise(s)
	case fencing.Aborted:
		return "what was done to node " + node + " was taken back" + why + hostLeft(s)
	}
	return "node " + node
}

// failure says what has failed. With strategy PowerOff, the time for the release may be over.
func failure(s *v1alpha1.PowerRemediationStatus) string {
	if fencing.Reason(s.Reason) == fencing.ReleaseTimedOut {
		return "the host of node " + s.Node.Name + " was proven to be off"
	}
	return "node " + s.Node.Name + " was not brought back"
}

// needsBoth reports whether an attempt needs both power and promise.
func needsBoth(s *v1alpha1.PowerRemediationStatus) bool {
	return s.RequiredProof == v1alpha1.PowerAndPromise
}

// revokes says that the promise of a node is revoked too, to append to a message.
func revokes(s *v1alpha1.PowerRemediationStatus) string {
	if !needsBoth(s) {
		return ""
	}
	return ", and its promise is revoked, since its FencePolicy requires both"
}

// hostLeft says that a host may be off, to append to a message.
func hostLeft(s *v1alpha1.PowerRemediationStatus) string {
	if !s.PoweredOff {
		return ""
	}
	return "; its host was not observed on again and may be off: power it on by hand" + byMetal3(s)
}

func successMessage(s *v1alpha1.PowerRemediationStatus) string {
	switch _, reason := outcome(s); reason {
	case v1alpha1.MachineDeletedReason:
		return "no power cycle has brought node " + s.Node.Name + " back, and its machine was deleted"
	case hostIsOff:
		return "the host of node " + s.Node.Name + " is off, and stays off until this remediation is deleted and a user powers it on" + byMetal3(s) + fencednode.NotReleased(&s.FencingStatus)
	}
	return "node " + s.Node.Name + " is back"
}

// whyBegan returns why a phase began, to append to a message. The time for the release may be over before anything was released.
func whyBegan(s *v1alpha1.PowerRemediationStatus) string {
	switch why := fencing.Reason(s.Reason); {
	case why == fencing.ProofVoid && needsBoth(s):
		return ", since just before the release it was not off any more, or its promise was not revoked any more, or a pod that tolerates Fettle's taint may run in its new boot"
	case why == fencing.PoweredOnByOthers && needsBoth(s):
		return ", since it was on again, had booted again, or its promise was changed by others, several times just before the release"
	case why == fencing.ReleaseTimedOut && !s.WorkloadReleased:
		return "; its workload could not be released within spec.releaseTimeout"
	}
	return reasonMessage(fencing.Reason(s.Reason))
}

// statusNotKept: the definition of the kind is older than this version of Fettle, so that an attempt can't record that it needs both proofs.
const statusNotKept fencing.Reason = "StatusNotKept"

// reasonMessage returns why a phase began, to append to a message.
//
//nolint:cyclop // a table
func reasonMessage(why fencing.Reason) string {
	switch why { //nolint:exhaustive // the others are reasons of a fencing by promise
	case fencing.BootedUntainted:
		return ", since the node has booted, and others had removed the taint that keeps its pods from starting"
	case fencing.ProofVoid:
		return ", since just before the release it was not off any more, or a pod that tolerates Fettle's taint may run in its new boot"
	case fencing.PoweredOnByOthers:
		return ", since it was on again, or had booted again, several times just before the release, so another controller or a user powers it on"
	case statusNotKept:
		return ", since the API server did not keep status.requiredProof or status.condemned of this remediation"
	case fencing.TaintTimedOut:
		return ", since the node could not be tainted within spec.powerOffTimeout"
	case fencing.PowerOffTimedOut:
		return ", since it was not proven to be off within spec.powerOffTimeout"
	case fencing.FenceTimedOut:
		return ", since its promise was not proven to have expired within spec.fenceTimeout"
	case fencing.PowerOnTimedOut:
		return ", since it was not observed on within spec.powerOnTimeout"
	case fencing.BootTimedOut:
		return ", since the node was not Ready under another boot ID within spec.bootTimeout"
	case fencing.ReleaseTimedOut:
		return "; pods or volumes were still on the node at the end of spec.releaseTimeout"
	case fencing.MachineDeletionTimedOut:
		return ", and its machine was not gone within spec.machineDeletionTimeout"
	case fencing.HostNotLeft:
		return "; its machine is gone, and an annotation of Fettle still keeps the host off"
	case fencing.NodeReplaced:
		return ", since another node of its name has registered before anything was done"
	case fencing.KeptControlPlane:
		return ", and its machine was kept, since it is of the control plane"
	case fencing.KeptNoController:
		return ", and its machine was kept, since no controller would replace it"
	case fencing.KeptOtherNode:
		return ", and its machine was kept, since the machine has another node by now (status.nodeRef)"
	case fencing.KeptExternallyProvisioned:
		return ", and its machine was kept, since its BareMetalHost is externally provisioned, and Metal3 can't provision that anew"
	case fencing.KeptHostUnknown:
		return ", and its machine was kept, since it is not known how its host was provisioned: the machine or the BMC names a BareMetalHost that does not exist, or that can't be used"
	case fencing.NoMachine:
		return ", and no machine was deleted, since it had none when the remediation began"
	case fencing.Stopped:
		return ", since the health checker has requested a stop"
	case fencing.Deleted:
		return ", since the remediation is being deleted"
	case fencing.MachineGone, fencing.NodeNotRead, fencing.PowerNotRead, fencing.PowerNotOff, fencing.PowerOffOnce, fencing.NodeReady,
		fencing.WorkloadLeft, fencing.WorkloadNotCounted, fencing.NodeNotGone, fencing.PowerNotOn, fencing.PowerOnNotDue, fencing.MachineNotRead,
		fencing.MachineNotGone, fencing.NodeNotBack:
	}
	return ""
}

// advise returns what a user can do after a failure, to append to a message.
func advise(s *v1alpha1.PowerRemediationStatus) string {
	const held = "; its workload is held, since it may still run: see to it that the host is off, and delete the node or set the taint node.kubernetes.io/out-of-service by hand"
	const console = "; look at the console of the host"
	switch why := fencing.Reason(s.Reason); why { //nolint:exhaustive // the others don't end a fencing
	case fencing.PowerOffTimedOut, fencing.FenceTimedOut, fencing.PoweredOnByOthers, fencing.BootedUntainted:
		return held
	case statusNotKept:
		return heldWithout(s, held) + mayBeOff(s) + "; apply the definitions of this version of Fettle (config/crd)"
	case fencing.TaintTimedOut:
		return "; nothing was commanded in this attempt" + heldWithout(s, held) + "; see whether a webhook or a missing right forbids the taint"
	case fencing.MachineDeletionTimedOut:
		return heldWithout(s, held) + mayBeOff(s) + "; look at the events and conditions of the machine"
	case fencing.HostNotLeft:
		return mayBeOff(s)
	case fencing.PowerOnTimedOut, fencing.BootTimedOut:
		return console + fencednode.NotReleased(&s.FencingStatus)
	case fencing.ReleaseTimedOut:
		return fencednode.NotReleased(&s.FencingStatus)
	default:
		kept := adviseOnKept(why)
		if kept != "" && s.Proof == nil {
			return held + kept
		}
		if kept != "" {
			return kept + fencednode.NotReleased(&s.FencingStatus)
		}
		return ""
	}
}

// heldWithout returns what to do about the workload after a failure: it is held without a proof.
func heldWithout(s *v1alpha1.PowerRemediationStatus, held string) string {
	if s.Proof == nil {
		return held
	}
	return fencednode.NotReleased(&s.FencingStatus)
}

// mayBeOff says that a host may be off although nothing is done about it any more, to append to a message.
func mayBeOff(s *v1alpha1.PowerRemediationStatus) string {
	if !s.PoweredOff {
		return ""
	}
	return "; its host may be off: power it on by hand" + byMetal3(s)
}

// adviseOnKept returns what a user can do about a machine that was kept, to append to a message.
func adviseOnKept(why fencing.Reason) string {
	switch why { //nolint:exhaustive // the others are not about machines
	case fencing.KeptControlPlane:
		return "; repair the host, or replace the machine by the procedure of your platform for the control plane"
	case fencing.KeptNoController:
		return "; repair the host, or create another machine and delete this one by hand"
	case fencing.KeptOtherNode:
		return "; find out which node the machine runs, and delete the node that no host runs"
	case fencing.KeptExternallyProvisioned:
		return "; repair the host, or provision it anew by hand"
	case fencing.KeptHostUnknown:
		return "; correct annotation " + hostAnnotation + " of the machine and spec.bareMetalHost of the BMC, or repair the host"
	case fencing.NoMachine:
		return "; repair the host; where the node should have a machine, see that its annotation " + machineAnnotation + " and status.nodeRef of the machine name each other"
	}
	return ""
}

// evidence returns the proof and the boot IDs, to append to a message.
func evidence(s *v1alpha1.PowerRemediationStatus) string {
	if s.Proof == nil {
		return "; there is no proof that it has stopped"
	}
	text := fmt.Sprintf("; proof %s at %s", s.Proof.Kind, s.Proof.At.UTC().Format(time.RFC3339))
	if s.BMC != nil {
		text += " through BMC " + s.BMC.Name
	}
	if s.Node.BootID != "" {
		text += ", boot ID before " + s.Node.BootID
	}
	if s.Proof.BootID != "" {
		text += ", boot ID now " + s.Proof.BootID
	}
	return text
}

// waitMessage says what a remediation waits for, until when, and why.
func waitMessage(node string, step fencing.Step, found problem) string {
	text := waitsFor(node, step.Reason)
	if step.Reason == fencing.PowerNotRead && found.found() {
		text += " (" + found.reason + "): " + found.message
	}
	return text
}

func waitsFor(node string, why fencing.Reason) string {
	switch why { //nolint:exhaustive // the others are no reasons to wait
	case fencing.NodeNotRead:
		return "node " + node + " could not be read from the API server; it is read again"
	case fencing.PowerNotRead:
		return "the power of the host of node " + node + " can't be read or commanded"
	case fencing.PowerNotOff:
		return "the power-off of the host of node " + node + " was acknowledged, and the host is not off yet"
	case fencing.PowerOffOnce:
		return "the host of node " + node + " was off once, and is read again five seconds later"
	case fencing.NodeReady:
		return "node " + node + " is proven to have stopped, and the API server still shows it as Ready; nothing is released before that changes"
	case fencing.WorkloadLeft:
		return "pods or volumes of node " + node + " are still there"
	case fencing.WorkloadNotCounted:
		return "the pods or the VolumeAttachments of node " + node + " could not be listed; they are listed again"
	case fencing.NodeNotGone:
		return "node " + node + " is being deleted, and its finalizers keep it"
	case fencing.PowerNotOn:
		return "the power-on of the host of node " + node + " was acknowledged, and the host is not on yet"
	case fencing.PowerOnNotDue:
		return "other hosts of the domain are powered on before that of node " + node
	case fencing.NodeNotBack:
		return "node " + node + " is not Ready under another boot ID yet"
	case fencing.MachineNotRead:
		return "the machine of node " + node + ", or its BareMetalHost, could not be read; it is read again"
	case fencing.MachineNotGone:
		return "the machine of node " + node + " is being deleted, or its owner got the request to replace it"
	}
	return "node " + node + " waits"
}

// whyUnread returns why the node of a subject could not be read. The errors of workload clusters are fit to show.
func whyUnread(s subject, err error) string {
	if s.nodes == nil {
		return whyFailed(err)
	}
	return "(" + err.Error() + "); it is read again"
}

// whyFailed returns why the API server failed a call, to append to a message.
func whyFailed(err error) string { return fencednode.WhyFailed(err, "config/power") }
