package selffencing

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
)

// phases are all phases of a fencing by promise that has begun.
var phases = []fencing.Phase{
	fencing.Preparing, fencing.Condemning, fencing.Releasing, fencing.Booting, fencing.Restoring, fencing.Aborting,
	fencing.Succeeded, fencing.Failed, fencing.Aborted,
}

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
		fencing.NodeNotRead, fencing.PromiseNotRead, fencing.PromiseStands, fencing.PromiseNotTimed, fencing.WitnessesNotAcknowledged, fencing.PromiseOfOther,
		fencing.PromiseOfOtherBoot, fencing.NothingPromised, fencing.NodeReady, fencing.WorkloadLeft, fencing.WorkloadNotCounted, fencing.NodeNotGone, fencing.NodeNotBack,
	}
	begins := []fencing.Reason{
		fencing.ProofVoid, fencing.BootedUntainted, fencing.FreedByOthers, fencing.TaintTimedOut, fencing.FenceTimedOut, fencing.BootTimedOut, fencing.ReleaseTimedOut, fencing.NodeReplaced, fencing.Stopped, fencing.Deleted,
	}
	seen := map[string]bool{"": true, "node node-a waits": true}
	rec := &reconciliation{node: "node-a", s: &session{promise: nodepromise.Promise{Node: "node-a"}}}
	for _, why := range waits {
		text := waitMessage(rec, fencing.Step{Kind: fencing.Wait, Reason: why})
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

// TestFailureSaysWhatToDo: without a proof the workload is held, since it may still run.
func TestFailureSaysWhatToDo(t *testing.T) {
	const held, console, untainted = "its workload is held, since it may still run", "look at the console of the host", "nothing was revoked"
	for why, want := range map[fencing.Reason]string{
		fencing.FenceTimedOut: held, fencing.FreedByOthers: held, fencing.BootedUntainted: held, fencing.TaintTimedOut: untainted, fencing.BootTimedOut: console, fencing.NodeReplaced: "",
	} {
		s := remediation(in(fencing.Failed)).Status
		s.Reason = string(why)
		if text := phaseMessage(&s); strings.Contains(text, held) != (want == held) || strings.Contains(text, console) != (want == console) || strings.Contains(text, untainted) != (want == untainted) || strings.Contains(text, "could not be released") {
			t.Errorf("%s says %q, want %q", why, text, want)
		}
	}
}

// TestConditions: the conditions that the health checker reads at each end, and before.
func TestConditions(t *testing.T) {
	for phase, want := range map[fencing.Phase]struct {
		processing, succeeded metav1.ConditionStatus
		reason                string
	}{
		fencing.Booting:   {"True", "Unknown", "Booting"},
		fencing.Succeeded: {"False", "True", nodeIsBack},
		fencing.Failed:    {"False", "False", string(fencing.BootTimedOut)},
		fencing.Aborted:   {"False", "False", v1alpha1.RemediationStoppedReason},
	} {
		s := remediation(in(phase)).Status
		s.Reason = string(fencing.BootTimedOut)
		got := conditionsOf(&s)
		if len(got) != 3 || got[0].Kind != v1alpha1.ProcessingCondition || got[0].Status != want.processing || got[0].Reason != want.reason ||
			got[1].Kind != v1alpha1.SucceededCondition || got[1].Status != want.succeeded || got[1].Reason != want.reason ||
			got[2].Kind != v1alpha1.PermanentNodeDeletionExpectedCondition || got[2].Status != metav1.ConditionFalse {
			t.Errorf("%s: the conditions are %+v", phase, got)
		}
	}
}

// TestEvidence has the proof, its time and the boot IDs.
func TestEvidence(t *testing.T) {
	for proof, want := range map[*v1alpha1.FencingProof]string{
		nil: "; there is no proof that it has stopped",
		{Kind: "PromiseExpired", At: metav1.NewMicroTime(noon)}:         "; proof PromiseExpired at 2026-08-03T12:00:00Z, boot ID before " + boot1,
		{Kind: "NewBoot", At: metav1.NewMicroTime(noon), BootID: boot2}: "; proof NewBoot at 2026-08-03T12:00:00Z, boot ID before " + boot1 + ", boot ID now " + boot2,
	} {
		s := remediation(in(fencing.Releasing)).Status
		s.Proof = proof
		if got := evidence(&s); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
}

// TestEventsOfPhases: failures and a proof that is void are warnings. Ends and the release have the evidence.
func TestEventsOfPhases(t *testing.T) {
	for _, tc := range []struct {
		phase           fencing.Phase
		why             fencing.Reason
		warns, evidence bool
	}{
		{fencing.Condemning, "", false, false}, {fencing.Condemning, fencing.ProofVoid, true, false}, {fencing.Preparing, fencing.BootedUntainted, true, false}, {fencing.Releasing, "", false, true}, {fencing.Booting, "", false, false},
		{fencing.Succeeded, "", false, true}, {fencing.Failed, fencing.BootTimedOut, true, true}, {fencing.Aborted, fencing.Stopped, false, true},
	} {
		w := newWorld(t)
		r := remediation(in(tc.phase))
		r.Status.Reason, r.Status.Proof = string(tc.why), &v1alpha1.FencingProof{Kind: "NewBoot", At: metav1.NewMicroTime(noon)}
		w.announce(&reconciliation{key: keyA, node: "node-a", r: r}, &r.Status)
		event, want := <-w.events.Events, "Normal "
		if tc.warns {
			want = "Warning "
		}
		if !strings.HasPrefix(event, want+string(tc.phase)+" [remediation] ") || strings.Contains(event, "proof NewBoot") != tc.evidence {
			t.Errorf("phase %s because of %q: the event is %q", tc.phase, tc.why, event)
		}
	}
}
