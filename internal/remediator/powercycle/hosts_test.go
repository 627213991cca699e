package powercycle

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
)

// redfish is a BMC on the loopback, of a host that is on. It counts logins, and repeats the credentials where it refuses them.
type redfish struct {
	*httptest.Server

	logins atomic.Int32
}

func startRedfish(t *testing.T) *redfish {
	t.Helper()
	const sessions = "/redfish/v1/SessionService/Sessions"
	b := &redfish{}
	answer := func(w http.ResponseWriter, body map[string]any) {
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}
	b.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/redfish/v1/":
			answer(w, map[string]any{"Links": map[string]any{"Sessions": map[string]any{"@odata.id": sessions}}})
		case r.URL.Path == sessions:
			b.logins.Add(1)
			var given struct{ UserName, Password string }
			if err := json.NewDecoder(r.Body).Decode(&given); err != nil || given.Password != testPassword {
				w.WriteHeader(http.StatusUnauthorized)
				answer(w, map[string]any{"error": map[string]any{"message": given.UserName + " " + given.Password}})
				return
			}
			w.Header().Set("X-Auth-Token", "token")
			w.Header().Set("Location", sessions+"/1")
			w.WriteHeader(http.StatusCreated)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case r.Header.Get("X-Auth-Token") != "token":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			answer(w, map[string]any{"@odata.id": "/redfish/v1/Systems/1", "PowerState": "On"})
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// bmc returns the BMC of node-a, with the certificate of the server as its authority.
func (b *redfish) bmc(changes ...func(*v1alpha1.BMC)) *v1alpha1.BMC {
	made := bmcFor("a", "node-a", "redfish+"+b.URL+"/redfish/v1/Systems/1", changes...)
	made.Spec.TLS = &v1alpha1.BMCTLS{CABundle: certificateOf(b.Server)}
	return made
}

// TestCredentialsAreReadAgainAfterARefusal: a corrected Secret ends the hold at once. No message has the password.
func TestCredentialsAreReadAgainAfterARefusal(t *testing.T) {
	const wrong = "wrong-never-seen"
	b := startRedfish(t)
	w := newWorld(t, b.bmc(), secret(wrong))
	for _, want := range []power.Reason{power.AuthenticationRefused, power.AuthenticationRefused, power.AuthenticationHeld} {
		_, found := w.readPower(t.Context(), w.bmc(t, "a"))
		if found.reason != string(want) || strings.Contains(found.message, wrong) || strings.Contains(found.message, testUser) {
			t.Errorf("the problem is %+v, want %s", found, want)
		}
	}
	tried := b.logins.Load()
	corrected := read(t, w, bmcNamespace, "secret", secret(""))
	corrected.Data[v1alpha1.PasswordKey] = []byte(testPassword)
	if err := w.api.Update(t.Context(), corrected); err != nil {
		t.Fatal(err)
	}
	reading, found := w.readPower(t.Context(), w.bmc(t, "a"))
	if found.found() || reading.State != fencing.IsOn || b.logins.Load() != tried+1 {
		t.Errorf("with the corrected Secret: %+v with problem %+v after %d logins", reading, found, b.logins.Load())
	}
}

// TestHoldIsResumed from the status that an earlier process has written, for no longer than a hold may be.
func TestHoldIsResumed(t *testing.T) {
	b := startRedfish(t)
	w := newWorld(t, secret(testPassword))
	stored := read(t, w, bmcNamespace, "secret", secret(""))
	held := metav1.NewTime(noon.Add(time.Hour))
	bmc := b.bmc(func(b *v1alpha1.BMC) {
		b.Status = v1alpha1.BMCStatus{RefusedLogins: 2, CredentialsVersion: stored.ResourceVersion, AuthenticationHeldUntil: &held}
	})
	w.bmcs.put(bmc)
	if _, found := w.readPower(t.Context(), bmc); found.reason != string(power.AuthenticationHeld) || b.logins.Load() != 0 {
		t.Errorf("the problem is %+v after %d logins", found, b.logins.Load())
	}
	w.forward(maxHold)
	if _, found := w.readPower(t.Context(), bmc); found.found() {
		t.Errorf("after the hold, the problem is %+v", found)
	}
}

// TestStatusOfABMC is written once, and shows when a BMC that could not be used can be.
func TestStatusOfABMC(t *testing.T) {
	b := startRedfish(t)
	w := newWorld(t, b.bmc(func(b *v1alpha1.BMC) { b.Spec.NodeName = "node-a" }), secret(testPassword))
	other := bmcFor("b", "node-a", "redfish://10.0.0.9")
	w.bmcs.put(other)
	for _, want := range []string{v1alpha1.CannotStartAmbiguousBMCReason, reachable} {
		w.forward(probeEvery)
		var revision string
		for range 2 {
			if err := w.probe(t.Context(), bmcKey("a")); err != nil {
				t.Fatal(err)
			}
			got := w.bmc(t, "a")
			c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ReachableCondition)
			if c == nil || c.Reason != want || (got.Status.Power == v1alpha1.HostOn) != (want == reachable) {
				t.Errorf("the status is %+v, want %s", got.Status, want)
			}
			if revision != "" && got.ResourceVersion != revision {
				t.Error("the same status was written again")
			}
			revision = got.ResourceVersion
		}
		w.bmcs.drop(bmcKey("b"))
	}
}

// TestASlowBMCGivesItsSlotBack after a second, so that others go on.
func TestASlowBMCGivesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(nil, nil)
		begun := time.Now() //nolint:forbidigo // the clock of the bubble
		var ends []func()
		for i := range maxOperations + 1 {
			done, ok := h.slot(t.Context())
			if !ok {
				t.Fatal("no slot")
			}
			ends = append(ends, done)
			waited := time.Since(begun) //nolint:forbidigo // the same
			if (waited == 0) != (i < maxOperations) || waited > slowAfter {
				t.Errorf("operation %d waited for %v", i, waited)
			}
		}
		for _, end := range ends {
			end() // a slot that was given back twice would block for ever
		}
	})
}

// TestOneHostOfABMC: two reconciles that open the host of a BMC at the same time use one host, so that its operations take turns.
func TestOneHostOfABMC(t *testing.T) {
	t.Parallel()
	bmc := bmcFor("a", "node-a", "", throughMetal3("host-a"))
	h := newHosts(func() time.Time { return noon }, func(types.NamespacedName) *v1alpha1.BMC { return bmc })
	var other *host
	h.metal = func(b *v1alpha1.BMC) *baremetalhost.Host {
		if other == nil {
			other = &host{} // the other reconcile opens it while this one does
			other, _ = h.open(t.Context(), b)
		}
		return baremetalhost.New(baremetalhost.Config{})
	}
	opened, found := h.open(t.Context(), bmc)
	if found.found() || opened != other || h.of(bmc) != other {
		t.Errorf("problem %+v, and hosts %p, %p and %p", found, opened, other, h.of(bmc))
	}
}

// TestNoHostOfAGoneBMC: a reconcile that has read a BMC which is gone by now gets no host, whose session would never end.
func TestNoHostOfAGoneBMC(t *testing.T) {
	t.Parallel()
	bmc := bmcFor("a", "node-a", "redfish://10.0.0.1")
	h := newHosts(func() time.Time { return noon }, func(types.NamespacedName) *v1alpha1.BMC { return nil })
	if got, found := h.open(t.Context(), bmc); got != nil || found.reason != string(power.Busy) || len(h.byKey) > 0 {
		t.Errorf("it has host %p with problem %+v, and %d are stored", got, found, len(h.byKey))
	}
}

// TestANewerHostStays: a reconcile that has read an earlier BMC, or an earlier spec of it, gets no host and replaces none.
func TestANewerHostStays(t *testing.T) {
	t.Parallel()
	at := func(uid string, created time.Time, generation int64) *v1alpha1.BMC {
		return bmcFor("a", "node-a", "redfish://10.0.0.1", func(b *v1alpha1.BMC) {
			b.UID, b.CreationTimestamp, b.Generation = types.UID(uid), metav1.NewTime(created), generation
		})
	}
	for name, c := range map[string]struct {
		stored, given *v1alpha1.BMC
		stays         bool
	}{
		"an earlier spec":                 {at("u", noon, 2), at("u", noon, 1), true},
		"the same spec":                   {at("u", noon, 2), at("u", noon, 2), true},
		"a later spec":                    {at("u", noon, 2), at("u", noon, 3), false},
		"an earlier BMC":                  {at("u", noon, 2), at("v", noon.Add(-time.Second), 3), true},
		"a later BMC":                     {at("u", noon, 2), at("v", noon.Add(time.Second), 1), false},
		"another BMC of the same second":  {at("u", noon, 2), at("v", noon, 1), false},
		"the same BMC with another clock": {at("u", noon, 2), at("u", noon.Add(-time.Second), 3), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			current := c.stored
			h := newHosts(func() time.Time { return noon }, func(types.NamespacedName) *v1alpha1.BMC { return current })
			first, found := h.open(t.Context(), c.stored)
			if found.found() {
				t.Fatal(found)
			}
			if !c.stays {
				current = c.given
			}
			got, found := h.open(t.Context(), c.given)
			switch current := h.byKey[bmcKey("a")]; {
			case (current == first) != c.stays:
				t.Errorf("the host stays: %t", current == first)
			case c.given.Generation == c.stored.Generation || !c.stays:
				if got != current || found.found() {
					t.Errorf("it has host %p with problem %+v, want %p", got, found, current)
				}
			case got != nil || found.reason != string(power.Busy) || found.interrupted:
				t.Errorf("it has host %p with problem %+v", got, found)
			}
		})
	}
}
