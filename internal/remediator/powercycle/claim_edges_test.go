package powercycle

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// TestReleaseOfAClaim reads the machine that the remediation names, and none where it names none.
func TestReleaseOfAClaim(t *testing.T) {
	for value, reads := range map[string]bool{"machines/m": true, "machines": false, "/m": false, "machines/": false, "": false} {
		w := newWorld(t, machine(with(annotation.ClaimedBy, ourClaim)))
		requested := false
		w.refuses(func(string, runtime.Object) error { requested = true; return nil })
		r := remediation(claiming)
		r.Annotations[annotation.ClaimedMachine] = value
		if err := w.machines.Release(t.Context(), r); err != nil || requested != reads || (w.claimOfM(t) == "") != reads {
			t.Errorf("%q: the API server got a request: %t, and the claim is %q (%v)", value, requested, w.claimOfM(t), err)
		}
	}
}

// TestAMachineThatGoesHasNoClaim: it is deleted between the read and the patch.
func TestAMachineThatGoesHasNoClaim(t *testing.T) {
	w := newWorld(t, machine(with(annotation.ClaimedBy, ourClaim)))
	w.refuses(func(verb string, _ runtime.Object) error {
		if verb == "patch" {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, "m")
		}
		return nil
	})
	if err := w.machines.Release(t.Context(), remediation(claiming)); err != nil {
		t.Errorf("releasing it returns %v", err)
	}
}

// TestTheClaimOfTheOwnMachineStays while a remediation begins.
func TestTheClaimOfTheOwnMachineStays(t *testing.T) {
	for _, own := range []bool{true, false} {
		w := newWorld(t, machine(with(annotation.ClaimedBy, ourClaim)))
		m := machine()
		if !own {
			m.SetNamespace("other")
		}
		if err := w.machines.ReleaseOthers(t.Context(), remediation(claiming), m); err != nil || (w.claimOfM(t) == ourClaim) != own {
			t.Errorf("own %t: the claim is %q (%v)", own, w.claimOfM(t), err)
		}
	}
}

// TestWhoHasClaimedAMachine: a remediation that is under way keeps its machine, and the message names it with its node. A record
// without a phase or without a node keeps nothing.
func TestWhoHasClaimedAMachine(t *testing.T) {
	const says = "PowerRemediation checks/another has claimed machine machines/m, which node node-b names too, and this one waits until it has ended; " +
		"correct the annotation machine.openshift.io/machine of one of the nodes"
	const unread = "PowerRemediation checks/another has claimed machine machines/m and can't be read, and this one waits until it can"
	for sentence, tc := range map[string]struct {
		other func(*v1alpha1.PowerRemediation)
		fault error
		want  string
	}{
		"under way":             {in(fencing.Booting, ofNode("node-b")), nil, says},
		"without a phase":       {in("", ofNode("node-b")), nil, ""},
		"without a node":        {in(fencing.Booting, func(s *v1alpha1.PowerRemediationStatus) { s.Node = nil }), nil, ""},
		"it has failed":         {in(fencing.Failed, ofNode("node-b")), nil, ""},
		"it was taken back":     {in(fencing.Aborted, ofNode("node-b")), nil, ""},
		"it can't be read":      {in(fencing.Failed, ofNode("node-b")), errors.New("no"), unread},
		"there is no such kind": {in(fencing.Booting, ofNode("node-b")), &meta.NoKindMatchError{}, ""},
	} {
		w := newWorld(t, remediation(called(keyB), tc.other))
		w.refuses(func(string, runtime.Object) error { return tc.fault })
		found := w.machines.TakenBy(t.Context(), remediation(), machine(with(annotation.ClaimedBy, "checks/another/another-uid")), w.Works)
		if found.Message != tc.want || found.Found() != (tc.want != "") {
			t.Errorf("%s: the problem is %+v", sentence, found)
		}
	}
}

// TestWhenAClaimIsGivenBack: at an end after which the power is commanded no more.
func TestWhenAClaimIsGivenBack(t *testing.T) {
	for _, phase := range phases {
		for _, off := range []bool{false, true} {
			for _, why := range []fencing.Reason{"", fencing.NodeReplaced, fencing.BootTimedOut} {
				s := &v1alpha1.PowerRemediationStatus{FencingStatus: v1alpha1.FencingStatus{Phase: string(phase), Reason: string(why)}, PoweredOff: off}
				want := (phase == fencing.Succeeded || phase == fencing.Aborted) && !off || phase == fencing.Failed && why == fencing.NodeReplaced
				if got := isDone(s); got != want {
					t.Errorf("phase %s (%s), powered off %t: done %t", phase, why, off, got)
				}
			}
		}
	}
}

// TestKinds: all definitions have to be there before this remediator starts.
func TestKinds(t *testing.T) {
	if got := strings.Join(Kinds, " "); got != "powerremediations.fettle.io bmcs.fettle.io fencepolicies.fettle.io" {
		t.Errorf("it needs %s", got)
	}
}
