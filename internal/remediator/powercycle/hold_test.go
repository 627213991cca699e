package powercycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/power"
)

const wrongPassword = "wrong-never-seen"

// refusedBefore has an earlier process have counted refused logins, with a Secret that was changed since.
func refusedBefore(count int32, until time.Time) func(*v1alpha1.BMC) {
	return func(b *v1alpha1.BMC) {
		b.Status = v1alpha1.BMCStatus{RefusedLogins: count, CredentialsVersion: "another"}
		if !until.IsZero() {
			held := metav1.NewTime(until)
			b.Status.AuthenticationHeldUntil = &held
		}
	}
}

// reads checks how a read of the power ends, and how many logins the BMC has counted after it.
func (w *world) reads(t *testing.T, b *redfish, bmc *v1alpha1.BMC, want power.Reason, logins int32) {
	t.Helper()
	if _, found := w.readPower(t.Context(), bmc); found.reason != string(want) || b.logins.Load() != logins {
		t.Errorf("the problem is %+v after %d logins, want %s after %d", found, b.logins.Load(), want, logins)
	}
}

// update changes the Secret, and its content where the password differs.
func (w *world) update(t *testing.T, password string) {
	t.Helper()
	changed := read(t, w, bmcNamespace, "secret", secret(""))
	changed.Annotations = map[string]string{"touched": password}
	changed.Data[v1alpha1.PasswordKey] = []byte(password)
	if err := w.api.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
}

// TestHoldAfterARestart stands whatever happened to the Secret meanwhile: a changed revision doesn't show changed credentials.
func TestHoldAfterARestart(t *testing.T) {
	b := startRedfish(t)
	w := newWorld(t, secret(wrongPassword), b.bmc(refusedBefore(2, noon.Add(10*time.Minute))))
	bmc := w.bmc(t, "a")
	w.reads(t, b, bmc, power.AuthenticationHeld, 0)
	w.update(t, wrongPassword) // it is touched, and the password is the same
	w.reads(t, b, bmc, power.AuthenticationHeld, 0)
	w.forward(10 * time.Minute)
	w.reads(t, b, bmc, power.AuthenticationRefused, 1)
	w.reads(t, b, bmc, power.AuthenticationHeld, 1)
	w.update(t, testPassword)
	w.reads(t, b, bmc, "", 2)
}

// TestCountAfterARestart: one login was refused before, so that one more suffices.
func TestCountAfterARestart(t *testing.T) {
	b := startRedfish(t)
	w := newWorld(t, secret(wrongPassword), b.bmc(refusedBefore(1, time.Time{})))
	w.reads(t, b, w.bmc(t, "a"), power.AuthenticationRefused, 1)
	w.reads(t, b, w.bmc(t, "a"), power.AuthenticationHeld, 1)
}

// TestHoldAfterAChangeOfTheSpec stands for the same credentials, and ends for others.
func TestHoldAfterAChangeOfTheSpec(t *testing.T) {
	for _, tc := range []struct {
		password string
		want     power.Reason
		logins   int32
	}{{wrongPassword, power.AuthenticationHeld, 2}, {testPassword, "", 3}} {
		b := startRedfish(t)
		other := secret(tc.password)
		other.Name = "other"
		w := newWorld(t, secret(wrongPassword), other, b.bmc())
		w.reads(t, b, w.bmc(t, "a"), power.AuthenticationRefused, 1)
		w.reads(t, b, w.bmc(t, "a"), power.AuthenticationRefused, 2)
		if err := w.probe(t.Context(), bmcKey("a")); err != nil { // it writes the status
			t.Fatal(err)
		}
		changed := w.bmc(t, "a")
		if changed.Status.AuthenticationHeldUntil == nil {
			t.Fatalf("the status is %+v", changed.Status)
		}
		for range 2 { // the first of these specs is never used
			changed.Spec.CredentialsName, changed.Generation = other.Name, changed.Generation+1
			if _, found := w.opens(t, changed); found.found() {
				t.Fatal(found)
			}
		}
		w.reads(t, b, changed, tc.want, tc.logins)
		if h := w.hosts.of(changed); h == nil || h.before != nil {
			t.Errorf("the host of the earlier spec is kept: %+v", h)
		}
	}
}

// TestHoldOfADeletedBMC is not that of another with its name.
func TestHoldOfADeletedBMC(t *testing.T) {
	b := startRedfish(t)
	w := newWorld(t, secret(testPassword), b.bmc(refusedBefore(2, noon.Add(10*time.Minute))))
	w.reads(t, b, w.bmc(t, "a"), power.AuthenticationHeld, 0)
	again := b.bmc(func(b *v1alpha1.BMC) { b.UID = "another" })
	if err := w.api.Delete(t.Context(), w.bmc(t, "a")); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Create(t.Context(), client.Object(again)); err != nil {
		t.Fatal(err)
	}
	w.bmcs.put(again)
	w.reads(t, b, again, "", 1)
}
