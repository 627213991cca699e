package selffencing

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
)

// TestAPromiseHasExpiredAtItsOwnTime: the end of the wait is no such time. A user who took it for one would release a node that runs.
func TestAPromiseHasExpiredAtItsOwnTime(t *testing.T) {
	expires := noon.Add(time.Hour)
	rec := &reconciliation{node: "node-a", s: &session{promise: nodepromise.Promise{Node: "node-a", Facts: fencing.Promise{Expires: expires}}}}
	const raise = "spec.fenceTimeout is over before that, at 2026-08-03T12:05:00Z: raise it"
	for until, want := range map[time.Time]bool{expires: false, noon.Add(5 * time.Minute): true} {
		got := waitMessage(rec, fencing.Step{Kind: fencing.Wait, Reason: fencing.PromiseStands, Until: until})
		if !strings.Contains(got, "has reset itself at 2026-08-03T13:00:00Z at the latest") || strings.Contains(got, raise) != want {
			t.Errorf("with a wait until %s it says %q", until, got)
		}
	}
}

// TestAReleaseThatNeverCame: the time for the release may be over before it has begun, and then the workload is still held.
func TestAReleaseThatNeverCame(t *testing.T) {
	for _, released := range []bool{false, true} {
		s := v1alpha1.SelfFenceRemediationStatus{FencingStatus: v1alpha1.FencingStatus{
			Phase: string(fencing.Booting), Reason: string(fencing.ReleaseTimedOut), WorkloadReleased: released,
			Node: &v1alpha1.FencedNode{Name: "node-a", UID: "node-uid"}, Proof: &v1alpha1.FencingProof{Kind: "PromiseExpired"},
		}}
		if text := phaseMessage(&s); strings.Contains(text, "pods or volumes were still on the node") != released || strings.Contains(text, "could not be released") == released {
			t.Errorf("released: %t, and it says %q", released, text)
		}
		s.Phase, s.Reason = string(fencing.Failed), string(fencing.BootTimedOut)
		if text := phaseMessage(&s); strings.Contains(text, "Fettle has not released its workload") == released {
			t.Errorf("released: %t, and the failure says %q", released, text)
		}
	}
}

// TestAMessageSaysWhatWasNotRead, and why.
func TestAMessageSaysWhatWasNotRead(t *testing.T) {
	rec := &reconciliation{node: "node-a", s: &session{}, unread: errors.New("no route")}
	for reason, want := range map[fencing.Reason]string{
		fencing.NodeNotRead:        "node node-a could not be read from the API server (the API server gave no answer); it is tried again",
		fencing.WorkloadNotCounted: "the pods or the VolumeAttachments of node node-a could not be listed (the API server gave no answer); it is tried again",
	} {
		if got := waitMessage(rec, fencing.Step{Kind: fencing.Wait, Reason: reason}); got != want {
			t.Errorf("%s: it says %q", reason, got)
		}
	}
}
