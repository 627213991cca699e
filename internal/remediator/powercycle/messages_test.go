package powercycle

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
)

// TestEachPhaseHasAMessage of its own, which names the node.
func TestEachPhaseHasAMessage(t *testing.T) {
	seen := map[string]fencing.Phase{}
	for _, p := range phases {
		text := phaseMessage(&remediation(in(p)).Status)
		if other, twice := seen[text]; twice || !strings.Contains(text, "node-a") || text == "node node-a" {
			t.Errorf("phase %s says %q, as %q does", p, text, other)
		}
		seen[text] = p
	}
}

// TestEachReasonHasAMessage: the reasons to wait and the reasons of a phase each have one of their own.
func TestEachReasonHasAMessage(t *testing.T) {
	waits := []fencing.Reason{
		fencing.NodeNotRead, fencing.PowerNotRead, fencing.PowerNotOff, fencing.PowerOffOnce, fencing.NodeReady, fencing.WorkloadLeft,
		fencing.WorkloadNotCounted, fencing.NodeNotGone, fencing.PowerNotOn, fencing.PowerOnNotDue, fencing.MachineNotRead, fencing.MachineNotGone, fencing.NodeNotBack,
	}
	begins := []fencing.Reason{
		fencing.ProofVoid, fencing.BootedUntainted, fencing.PoweredOnByOthers, fencing.PowerOffTimedOut, fencing.FenceTimedOut, fencing.PowerOnTimedOut, fencing.BootTimedOut,
		fencing.ReleaseTimedOut, fencing.NodeReplaced, fencing.Stopped, fencing.Deleted,
		fencing.TaintTimedOut, fencing.MachineDeletionTimedOut, fencing.HostNotLeft, statusNotKept,
		fencing.KeptControlPlane, fencing.KeptNoController, fencing.KeptOtherNode, fencing.KeptExternallyProvisioned, fencing.KeptHostUnknown, fencing.NoMachine,
	}
	seen := map[string]bool{"": true, "node node-a waits": true}
	for _, why := range waits {
		text := waitsFor("node-a", why)
		if seen[text] || !strings.Contains(text, "node-a") || reasonMessage(why) != "" {
			t.Errorf("waiting for %s says %q, and its phase %q", why, text, reasonMessage(why))
		}
		seen[text] = true
	}
	for _, why := range begins {
		text := reasonMessage(why)
		if seen[text] || waitsFor("node-a", why) != "node node-a waits" {
			t.Errorf("a phase because of %s says %q", why, text)
		}
		seen[text] = true
	}
}

// TestFailureSaysWhatToDo: without a proof the workload is held, whatever became of the machine.
func TestFailureSaysWhatToDo(t *testing.T) {
	const held, console = "its workload is held, since it may still run", "look at the console of the host"
	proven, unproven := &v1alpha1.FencingProof{Kind: "PowerOff"}, (*v1alpha1.FencingProof)(nil)
	for _, c := range []struct {
		why   fencing.Reason
		proof *v1alpha1.FencingProof
		want  string
	}{
		{fencing.PowerOffTimedOut, unproven, held}, {fencing.FenceTimedOut, unproven, held}, {fencing.PoweredOnByOthers, unproven, held}, {fencing.BootedUntainted, unproven, held}, {fencing.KeptControlPlane, unproven, held}, {fencing.NoMachine, unproven, held},
		{fencing.PowerOnTimedOut, proven, console}, {fencing.BootTimedOut, proven, console}, {fencing.KeptControlPlane, proven, ""}, {fencing.NoMachine, proven, ""},
		{fencing.NodeReplaced, unproven, ""}, {fencing.TaintTimedOut, unproven, held}, {fencing.TaintTimedOut, proven, ""},
		{fencing.MachineDeletionTimedOut, unproven, held}, {fencing.MachineDeletionTimedOut, proven, ""}, {fencing.ReleaseTimedOut, proven, ""},
	} {
		s := remediation(in(fencing.Failed)).Status
		s.Reason, s.Proof = string(c.why), c.proof
		text := phaseMessage(&s)
		if strings.Contains(text, held) != (c.want == held) || strings.Contains(text, console) != (c.want == console) {
			t.Errorf("%s with the proof %v says %q, want %q", c.why, c.proof, text, c.want)
		}
	}
}

// TestAReleaseThatNeverCame: the time for the release may be over before it has begun, as where the BMC doesn't answer. No end conceals that.
func TestAReleaseThatNeverCame(t *testing.T) {
	for _, released := range []bool{false, true} {
		s := remediation(in(fencing.PoweringOn)).Status
		s.Node.UID, s.WorkloadReleased, s.Proof = "node-uid", released, &v1alpha1.FencingProof{Kind: "PowerOff"}
		s.Reason = string(fencing.ReleaseTimedOut)
		if text := phaseMessage(&s); strings.Contains(text, "pods or volumes were still on the node") != released || strings.Contains(text, "could not be released") == released {
			t.Errorf("released: %t, and it says %q", released, text)
		}
		for _, end := range []struct {
			phase fencing.Phase
			why   fencing.Reason
			off   bool
		}{
			{fencing.Failed, fencing.PowerOnTimedOut, true}, {fencing.Failed, fencing.BootTimedOut, false},
			{fencing.Failed, fencing.KeptControlPlane, true}, {fencing.Succeeded, fencing.ReleaseTimedOut, true},
			{fencing.Failed, fencing.ReleaseTimedOut, true}, {fencing.Failed, fencing.MachineDeletionTimedOut, true}, {fencing.Failed, fencing.TaintTimedOut, true},
		} {
			s.Phase, s.Reason, s.PoweredOff = string(end.phase), string(end.why), end.off
			if text := conditionsOf(&s)[1].Message; strings.Contains(text, "Fettle has not released its workload") == released {
				t.Errorf("released: %t, and %s with %s says %q", released, end.phase, end.why, text)
			}
		}
		s.Phase, s.Reason = string(fencing.Failed), string(fencing.NodeReplaced)
		if text := phaseMessage(&s); strings.Contains(text, "not released") {
			t.Errorf("where nothing was done it says %q", text)
		}
	}
}

// TestAKeptMachineHasOneCause: the message says which one applied, and what to do about it, with a proof and without.
func TestAKeptMachineHasOneCause(t *testing.T) {
	causes := map[fencing.Reason][2]string{
		fencing.KeptControlPlane:          {"it is of the control plane", "by the procedure of your platform for the control plane"},
		fencing.KeptNoController:          {"no controller would replace it", "create another machine"},
		fencing.KeptOtherNode:             {"the machine has another node by now", "find out which node the machine runs"},
		fencing.KeptExternallyProvisioned: {"its BareMetalHost is externally provisioned", "provision it anew by hand"},
		fencing.KeptHostUnknown:           {"it is not known how its host was provisioned", "correct annotation metal3.io/BareMetalHost"},
		fencing.NoMachine:                 {"it had none when the remediation began", machineAnnotation},
	}
	for why := range causes {
		for _, proof := range []*v1alpha1.FencingProof{{Kind: "PowerOff"}, nil} {
			s := remediation(in(fencing.Failed)).Status
			s.Reason, s.Proof = string(why), proof
			said := conditionsOf(&s)[1]
			for other, parts := range causes {
				for _, part := range parts {
					if said.Reason != string(why) || strings.Contains(said.Message, part) != (other == why) {
						t.Errorf("%s: it is %+v, with %q", why, said, part)
					}
				}
			}
		}
	}
}

// TestAFailureDoesNotLeaveAHostOffSilently: the message says that it may be off, and how to power it on.
func TestAFailureDoesNotLeaveAHostOffSilently(t *testing.T) {
	for _, why := range []fencing.Reason{fencing.MachineDeletionTimedOut, fencing.HostNotLeft} {
		for _, off := range []bool{false, true} {
			s := remediation(in(fencing.Failed)).Status
			s.Reason, s.PoweredOff, s.BMC = string(why), off, &v1alpha1.FencingBMC{Name: "a", HostUID: "host-uid"}
			if text := conditionsOf(&s)[1].Message; strings.Contains(text, "its host may be off: power it on by hand, by removing annotation reboot.metal3.io/fettle") != off {
				t.Errorf("%s, and it may be off: %t: %s", why, off, text)
			}
		}
	}
}

// TestAFailedReleaseOfAHostThatIsOff says that the host is off, and not that it has not come back.
func TestAFailedReleaseOfAHostThatIsOff(t *testing.T) {
	for why, want := range map[fencing.Reason]string{
		fencing.ReleaseTimedOut: "the host of node node-a was proven to be off; its workload could not be released",
		fencing.BootTimedOut:    "node node-a was not brought back, since",
	} {
		s := remediation(in(fencing.Failed)).Status
		s.Reason, s.Proof = string(why), &v1alpha1.FencingProof{Kind: "PowerOff"}
		if text := phaseMessage(&s); !strings.HasPrefix(text, want) {
			t.Errorf("%s says %q, want %q", why, text, want)
		}
	}
}

func TestWaitMessageSaysWhyThePowerIsNotRead(t *testing.T) {
	found := problem{reason: "Unreachable", message: "the BMC can't be reached"}
	for why, want := range map[fencing.Reason]bool{fencing.PowerNotRead: true, fencing.PowerNotOff: false} {
		if got := strings.HasSuffix(waitMessage("node-a", fencing.Step{Reason: why}, found), " (Unreachable): "+found.message); got != want {
			t.Errorf("%s says why: %t", why, got)
		}
	}
	if got := waitMessage("node-a", fencing.Step{Reason: fencing.PowerNotRead}, problem{}); !strings.HasSuffix(got, "commanded") {
		t.Errorf("without a problem it says %q", got)
	}
}

// TestConditionsAtTheEnd: the conditions that the health checker reads at each end, and before.
func TestConditionsAtTheEnd(t *testing.T) {
	off := func(s *v1alpha1.PowerRemediationStatus) { s.PoweredOff = true }
	because := func(why fencing.Reason) func(*v1alpha1.PowerRemediationStatus) {
		return func(s *v1alpha1.PowerRemediationStatus) { s.Reason = string(why) }
	}
	type want struct {
		processing, succeeded metav1.ConditionStatus
		reason                string
	}
	for sentence, tc := range map[string]struct {
		r    *v1alpha1.PowerRemediation
		want want
	}{
		"on the way":      {remediation(in(fencing.Booting)), want{"True", "Unknown", "Booting"}},
		"back":            {remediation(in(fencing.Succeeded)), want{"False", "True", nodeIsBack}},
		"off":             {remediation(in(fencing.Succeeded, off)), want{"False", "True", hostIsOff}},
		"machine deleted": {remediation(in(fencing.Succeeded, because(fencing.MachineGone))), want{"False", "True", v1alpha1.MachineDeletedReason}},
		"failed":          {remediation(in(fencing.Failed, because(fencing.BootTimedOut))), want{"False", "False", "BootTimedOut"}},
		"aborted":         {remediation(in(fencing.Aborted, because(fencing.Stopped))), want{"False", "False", v1alpha1.RemediationStoppedReason}},
	} {
		got := conditionsOf(&tc.r.Status)
		if got[0].Status != tc.want.processing || got[1].Status != tc.want.succeeded || got[0].Reason != tc.want.reason || got[1].Reason != tc.want.reason {
			t.Errorf("%s: the conditions are %+v", sentence, got)
		}
		if got[2].Kind != v1alpha1.PermanentNodeDeletionExpectedCondition || got[2].Status != metav1.ConditionFalse {
			t.Errorf("%s: the node is gone for good: %+v", sentence, got[2])
		}
	}
}

// TestNoSecretInAProblem: no failure of a BMC shows the credentials, and each says what to do next.
func TestNoSecretInAProblem(t *testing.T) {
	b := bmcFor("a", "node-a", "redfish://10.0.0.1")
	for _, reason := range []power.Reason{
		power.AuthenticationRefused, power.AuthenticationHeld, power.CredentialsUnusable, power.PermissionDenied, power.CertificateNotTrusted,
		power.CipherSuitesRefused, power.Unreachable, power.TimedOut, power.Interrupted, power.Busy, power.NoSessionLeft, power.ResetNotAllowed, power.UnsupportedSystem,
		power.CommandRefused, power.UnexpectedAnswer,
	} {
		found := ofFailure(b, power.Failure{Reason: reason})
		if found.reason != string(reason) || found.interrupted != (reason == power.Interrupted) || !strings.HasPrefix(found.message, "BMC a: ") {
			t.Errorf("%s is %+v", reason, found)
		}
		if strings.Contains(found.message, b.Spec.Address) || strings.HasSuffix(found.message, "; ") {
			t.Errorf("%s says %q", reason, found.message)
		}
	}
	if found := ofFailure(b, power.Failure{}); found != (problem{}) {
		t.Errorf("no failure is %+v", found)
	}
	for _, given := range []string{"redfish://" + testUser + ":" + testPassword + "@10.0.0.1", "telnet://" + testPassword, testPassword + "://x:y:z"} {
		w := newWorld(t)
		if _, found := w.opens(t, bmcFor("a", "node-a", given)); found.reason != addressInvalid || strings.Contains(found.message, testPassword) {
			t.Errorf("an invalid address is %+v", found)
		}
	}
}
