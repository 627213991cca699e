package powercycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
)

// secretReads counts the reads of Secrets, and may have them fail.
func (w *world) secretReads(err error) *int {
	count := 0
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*corev1.Secret); is && verb == "get" {
			count++
			return err
		}
		return nil
	})
	return &count
}

// TestCredentialsAreUsedForAWhile: the Secret is read again after thirty seconds, and not before.
func TestCredentialsAreUsedForAWhile(t *testing.T) {
	w, _ := newRack(t, 1)
	bmc := w.bmc(t, hostKey(0).Name)
	reads := w.secretReads(nil)
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {29 * time.Second, 1}, {time.Second, 2}} {
		w.forward(step.after)
		if _, found := w.readPower(t.Context(), bmc); found.found() || *reads != step.want {
			t.Errorf("after %v more the Secret was read %d times, want %d (%+v)", step.after, *reads, step.want, found)
		}
	}
}

// TestCredentialsThatCanNotBeUsed: the message says why, and names neither the request nor what is in the Secret.
func TestCredentialsThatCanNotBeUsed(t *testing.T) {
	kind := schema.GroupResource{Resource: "secrets"}
	long := secret(strings.Repeat("p", 3000))
	for sentence, tc := range map[string]struct {
		secret *corev1.Secret
		err    error
		cut    bool
		want   problem
	}{
		"there is none":          {secret(testPassword), apierrors.NewNotFound(kind, "secret"), false, problem{reason: secretNotFound, message: "there is no Secret bmcs/secret; create it with the keys username and password"}},
		"it is hidden":           {secret(testPassword), apierrors.NewForbidden(kind, "secret", errors.New("hidden text")), false, problem{reason: secretNotRead, message: "Secret bmcs/secret could not be read (Forbidden); grant Fettle the right by kubectl apply -k config/power, or for another namespace by a RoleBinding there"}},
		"other work comes first": {secret(testPassword), errors.New("x"), true, problem{reason: secretNotRead, message: "reading Secret bmcs/secret was interrupted", interrupted: true}},
		"it is not usable":       {long, nil, false, problem{reason: credentialsInvalid}},
	} {
		w := newWorld(t, tc.secret, bmcFor("a", "node-a", "redfish://10.0.0.1"))
		w.secretReads(tc.err)
		bmc := w.bmc(t, "a")
		h, found := w.opens(t, bmc)
		if found.found() {
			t.Fatal(found)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if tc.cut {
			cancel()
		}
		got := w.loadCredentials(ctx, bmc, h)
		cancel()
		if tc.want.message == "" {
			if !strings.HasPrefix(got.message, "Secret bmcs/secret can't be used: ") {
				t.Errorf("%s: it says %q", sentence, got.message)
			}
			got.message = ""
		}
		if got != tc.want || h.secret != "" || !h.secretAt.IsZero() {
			t.Errorf("%s: the problem is %+v", sentence, got)
		}
	}
}

// TestTheHoldOfAnEarlierProcess lasts no longer than fifteen minutes, whatever its clock was.
func TestTheHoldOfAnEarlierProcess(t *testing.T) {
	for recorded, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, maxHold: maxHold, maxHold + time.Second: maxHold, 24 * time.Hour: maxHold} {
		w := newWorld(t)
		bmc := bmcFor("a", "node-a", "redfish://10.0.0.1", refusedBefore(2, noon.Add(recorded)))
		h, found := w.opens(t, bmc)
		if found.found() {
			t.Fatal(found)
		}
		h.resume(bmc, noon)
		if got := h.power.HeldUntil(); !got.Equal(noon.Add(want)) {
			t.Errorf("recorded for %v, it is held until %v after noon, want %v", recorded, got.Sub(noon), want)
		}
	}
}

// TestAnInterruptedOperationIsNotSeen: it says nothing of the BMC. A refusal of the credentials has the Secret read before the next login.
func TestAnInterruptedOperationIsNotSeen(t *testing.T) {
	for _, tc := range []struct {
		found problem
		seen  bool
		again bool
	}{
		{problem{reason: "x", interrupted: true}, false, false}, {problem{reason: "x"}, true, false}, {problem{}, true, false},
		{problem{reason: string(power.AuthenticationRefused)}, true, true}, {problem{reason: string(power.AuthenticationHeld)}, true, true},
	} {
		w := newWorld(t, bmcFor("a", "node-a", "redfish://10.0.0.1"))
		bmc := w.bmc(t, "a")
		h, _ := w.opens(t, bmc)
		h.secretAt = noon
		noted := false
		w.noteOperation(bmc, h, tc.found, func(*observation) { noted = true })
		if noted != (tc.found == problem{}) || !h.seen.at.IsZero() != tc.seen || tc.seen && h.seen.problem != tc.found || h.secretAt.IsZero() != tc.again || taken(w.probes)[bmcKey("a")] != tc.seen {
			t.Errorf("%+v: noted %t, and seen is %+v", tc.found, noted, h.seen)
		}
	}
}

// TestAdvice says for each failure what a user can do.
func TestAdvice(t *testing.T) {
	bmc := bmcFor("a", "node-a", "redfish://10.0.0.1")
	const secrets, check, network, address = "correct Secret bmcs/secret", "run fettle bmc check node-a", "check the address and the network", "correct spec.address or spec.system"
	for reason, want := range map[power.Reason]string{
		power.AuthenticationRefused: secrets, power.AuthenticationHeld: secrets, power.CredentialsUnusable: secrets,
		power.PermissionDenied: "give the account the right", power.CertificateNotTrusted: "compare the fingerprint", power.CipherSuitesRefused: "enable cipher suite 17",
		power.NoSessionLeft: "end sessions of other clients", power.UnsupportedSystem: address, power.ResetNotAllowed: "see whether the BMC allows", power.OtherSystem: otherSystemAdvice,
		power.Unreachable: network, power.TimedOut: network, power.Busy: check, power.Interrupted: check, power.CommandRefused: check, power.UnexpectedAnswer: check,
	} {
		if got := advice(bmc, reason); !strings.HasPrefix(got, want) {
			t.Errorf("%s: it says %q, want %q", reason, got, want)
		}
	}
}

// TestASlotIsAwaited until the context ends. A slot that was not given is not given back.
func TestASlotIsAwaited(t *testing.T) {
	w := newWorld(t, bmcFor("a", "node-a", "redfish://10.0.0.1"))
	for range maxOperations {
		w.hosts.slots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, found := w.readPower(ctx, w.bmc(t, "a")); found.reason != string(power.Busy) || !found.interrupted || len(w.hosts.slots) != maxOperations {
		t.Errorf("the problem is %+v, and %d slots are taken", found, len(w.hosts.slots))
	}
}

// TestProbesAreDueEveryFiveMinutes: a BMC that was spoken to meanwhile is left alone until then.
func TestProbesAreDueEveryFiveMinutes(t *testing.T) {
	w, r := newRack(t, 1)
	r.set(func(r *rack) { r.on["host-0"] = true })
	bmc, key := w.bmc(t, "host-0"), bmcKey("host-0")
	reads := 0
	r.set(func(r *rack) { r.read = func() { reads++ } })
	if _, found := w.readPower(t.Context(), bmc); found.found() {
		t.Fatal(found)
	}
	seen := w.seenOf(bmc)
	if seen.power != v1alpha1.HostOn {
		t.Errorf("seen is %+v", seen)
	}
	for _, step := range []struct {
		at   time.Duration
		read bool
	}{{time.Second, false}, {probeEvery - time.Second, false}, {probeEvery, true}} {
		before := reads
		w.forward(seen.at.Add(step.at).Sub(w.now()))
		if err := w.probe(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		if (reads > before) != step.read {
			t.Errorf("%v after an operation, it was read: %t", step.at, reads > before)
		}
		r.mu.Unlock()
	}
	if s := w.bmc(t, "host-0").Status; s.Power != v1alpha1.HostOn {
		t.Errorf("the status is %+v", s)
	}
}

// TestTheNextProbe comes five minutes after what was seen last, and at the earliest after a second.
func TestTheNextProbe(t *testing.T) {
	for seen, want := range map[time.Duration]time.Duration{0: probeEvery, -time.Minute: probeEvery - time.Minute, -probeEvery + time.Millisecond: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, bmcFor("a", "node-a", "", throughMetal3("host-a")))
			bmc := w.bmc(t, "a")
			h, _ := w.opens(t, bmc)
			h.seen.at = w.now().Add(seen)
			if err := w.probe(t.Context(), bmcKey("a")); err != nil {
				t.Fatal(err)
			}
			<-time.After(want - 2*time.Millisecond)
			synctest.Wait()
			if early := taken(w.probes); len(early) != 0 {
				t.Errorf("seen %v ago, it is probed too early", -seen)
			}
			<-time.After(2 * time.Millisecond)
			synctest.Wait()
			if probed := taken(w.probes); !probed[bmcKey("a")] {
				t.Errorf("seen %v ago, it is not probed after %v", -seen, want)
			}
		})
	}
}

// TestAProbeWithoutASlot writes nothing, and is made again.
func TestAProbeWithoutASlot(t *testing.T) {
	w := newWorld(t, bmcFor("a", "node-a", "", throughMetal3("host-a")))
	w.apiSlots = newAPISlots(0, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.probe(ctx, bmcKey("a")); !errors.Is(err, context.Canceled) || len(w.bmc(t, "a").Status.Conditions) != 0 {
		t.Errorf("%v, and the status is %+v", err, w.bmc(t, "a").Status)
	}
}

// TestStatusOfWhatWasSeen: nothing is written before anything was seen, nor twice. A write that fails is an error. The
// next reconcile reads what was written.
func TestStatusOfWhatWasSeen(t *testing.T) {
	w := newWorld(t, bmcFor("a", "node-a", "redfish://10.0.0.1"))
	bmc := w.bmc(t, "a")
	writes := 0
	var failure error
	w.refuses(func(verb string, _ runtime.Object) error {
		if verb == "patch status" {
			writes++
			return failure
		}
		return nil
	})
	if err := w.writeBMC(t.Context(), bmc, observation{}); err != nil || writes != 0 {
		t.Errorf("before anything was seen: %v after %d writes", err, writes)
	}
	failure = errors.New("down")
	seen := observation{at: noon.Add(1234 * time.Millisecond), power: v1alpha1.HostOff}
	if err := w.writeBMC(t.Context(), bmc, seen); !errors.Is(err, failure) || w.bmcs.get(bmcKey("a")) != nil && w.bmcs.get(bmcKey("a")).Status.Power != "" {
		t.Errorf("a write that fails: %v", err)
	}
	failure = nil
	if err := w.writeBMC(t.Context(), bmc, seen); err != nil {
		t.Fatal(err)
	}
	stored := w.bmcs.get(bmcKey("a"))
	if c := stored.Status.Conditions; stored.Status.Power != v1alpha1.HostOff || len(c) != 1 || c[0].Status != metav1.ConditionTrue || c[0].Reason != reachable ||
		c[0].Message != "the last operation succeeded" || c[0].ObservedGeneration != 1 || !c[0].LastTransitionTime.Time.Equal(noon.Add(time.Second)) {
		t.Errorf("the status is %+v", stored.Status)
	}
	if err := w.writeBMC(t.Context(), stored, seen); err != nil || writes != 2 {
		t.Errorf("the same: %v after %d writes", err, writes)
	}
	if s := w.statusOf(stored, observation{at: noon, power: v1alpha1.HostOn, problem: problem{reason: "TimedOut", message: "it took\nlong"}}); s.Power != v1alpha1.HostPowerUnknown || s.Conditions[0].Status != metav1.ConditionFalse || strings.Contains(s.Conditions[0].Message, "\n") {
		t.Errorf("after a failure the status is %+v", s)
	}
}

// TestStatusOfAHold: it begins when it is recorded first, stays as it is, and ends.
func TestStatusOfAHold(t *testing.T) {
	w := newWorld(t)
	h, _ := w.opens(t, bmcFor("a", "node-a", "redfish://10.0.0.1"))
	s := v1alpha1.BMCStatus{RefusedLogins: 7, CredentialsVersion: "6"}
	h.writeHold(&s, noon)
	if s.RefusedLogins != 7 || s.CredentialsVersion != "6" {
		t.Errorf("before a login was tried: %+v", s)
	}
	h.secret = "8"
	h.power.Resume(2, noon.Add(10*time.Minute+time.Millisecond))
	for _, now := range []time.Time{noon.Add(time.Millisecond), noon.Add(time.Minute)} {
		h.writeHold(&s, now)
		if s.RefusedLogins != 2 || s.CredentialsVersion != "8" || s.AuthenticationHeldSince == nil || !s.AuthenticationHeldSince.Time.Equal(noon) || s.AuthenticationHeldUntil == nil || !s.AuthenticationHeldUntil.Time.Equal(noon.Add(10*time.Minute)) {
			t.Errorf("at %v: %+v", now, s)
		}
	}
	h.power.Resume(3, noon.Add(20*time.Minute))
	h.writeHold(&s, noon.Add(2*time.Minute))
	if s.RefusedLogins != 3 || !s.AuthenticationHeldSince.Time.Equal(noon.Add(2*time.Minute)) || !s.AuthenticationHeldUntil.Time.Equal(noon.Add(20*time.Minute)) {
		t.Errorf("another hold: %+v", s)
	}
	h.power.Resume(1<<30+2, time.Time{})
	h.writeHold(&s, noon)
	if s.RefusedLogins != 1<<30 {
		t.Errorf("after very many refused logins: %+v", s)
	}
}

// TestUnusableBMCs are remembered until they can be used.
func TestUnusableBMCs(t *testing.T) {
	w := newWorld(t)
	bmc := bmcFor("a", "node-a", "telnet://x")
	if seen := w.seenOf(bmc); seen != (observation{}) {
		t.Errorf("at first seen is %+v", seen)
	}
	found := observation{at: noon, problem: problem{reason: addressInvalid, message: "x"}}
	w.hosts.note(bmc, found)
	if seen := w.seenOf(bmc); seen != found {
		t.Errorf("seen is %+v", seen)
	}
	w.hosts.note(bmc, observation{at: noon})
	if seen := w.seenOf(bmc); seen != (observation{}) || len(w.hosts.unusable) != 0 {
		t.Errorf("in the end seen is %+v", seen)
	}
}

// TestDefaultLimits are the same as in the definition of the kind.
func TestDefaultLimits(t *testing.T) {
	want := fencing.Config{Retries: 1, Limits: fencing.Limits{PowerOff: 2 * time.Minute, Release: 10 * time.Minute, PowerOn: 2 * time.Minute, Boot: 15 * time.Minute, MachineDeletion: time.Hour, Fence: 5 * time.Minute}}
	if got := configOf(&v1alpha1.PowerRemediationSpec{}); got != want {
		t.Errorf("they are %+v, want %+v", got, want)
	}
}
