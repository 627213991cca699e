package promiselease_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// FuzzDecode: any Lease is decoded without a panic. If it states a promise, then the promise is encoded to a Lease that states the same, and a
// timed promise has valid times.
func FuzzDecode(f *testing.F) {
	f.Add("5", "Promised", boot, "true", "20s", "10s", "i6300ESB timer", "a,b,c", "", "4", "192.0.2.1:9643", "", "")
	f.Add("5", "Condemned", boot, "false", "", "1h0m0s", "", "", "u", "", "[2001:db8::1%eth0]:1", "", "fettle.io/x")
	f.Add("5", "Withdrawn", boot, "false", "", "", "", "", "", "", "", "VirtualMachine", "")
	f.Add("", "", "", "", "", "", "", "", "", "", "", "", "example.org/x")
	f.Fuzz(func(t *testing.T, revision, state, boot, timed, validity, watchdog, device, witnesses, by, read, address, why, key string) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: revision, Annotations: map[string]string{key: "x"}}}
		for key, value := range map[string]string{
			annotation.PromiseState: state, annotation.PromiseBoot: boot, annotation.PromiseTimed: timed, annotation.PromiseValidity: validity,
			annotation.PromiseWatchdog: watchdog, annotation.PromiseDevice: device, annotation.PromiseWitnesses: witnesses,
			annotation.CondemnedBy: by, annotation.Witnessed: read, annotation.AgentAddress: address, annotation.NoPromiseReason: why,
		} {
			if value != "" {
				lease.Annotations[key] = value
			}
		}
		r, err := promiselease.Decode(lease)
		if err != nil {
			if r != (promiselease.Record{}) {
				t.Errorf("a part was decoded: %+v", r)
			}
			return
		}
		if r.Promise.Timed && !r.Promise.Times.Valid() {
			t.Errorf("a timed promise has the times %+v", r.Promise.Times)
		}
		wantSame(t, r)
	})
}

// FuzzEncode: any record is encoded or refused without a panic, and what is encoded is decoded to the same record.
func FuzzEncode(f *testing.F) {
	f.Add(uint64(5), uint64(0), "Promised", boot, true, int64(20*time.Second), int64(10*time.Second), "i6300ESB timer", "a", "b", "", "192.0.2.1:9643", "")
	f.Add(uint64(1<<64-1), uint64(7), "Condemned", boot, false, int64(0), int64(time.Hour), "", "", "", "u", "", "")
	f.Add(uint64(5), uint64(0), "Withdrawn", boot, false, int64(0), int64(0), "", "", "", "", "", "NoWatchdog")
	f.Fuzz(func(t *testing.T, revision, read uint64, state, boot string, timed bool, validity, watchdog int64, device, first, second, by, address, why string) {
		at, _ := netip.ParseAddrPort(address)
		r := promiselease.Record{Device: device, Why: promiselease.NoPromise(why), Witnessed: read, Address: at, Lease: selffence.Lease{
			Revision: max(1, revision), State: selffence.State(state), By: by,
			Promise: selffence.Promise{
				Boot: boot, Timed: timed, Witnesses: selffence.Members{first, second},
				Times: selffence.Times{Validity: time.Duration(validity), Watchdog: time.Duration(watchdog)},
			},
		}}
		if _, err := promiselease.Encode("node-1", r, time.Time{}); err == nil {
			wantSame(t, r)
		}
	})
}

// sameAddress compares addresses.
func sameAddress() cmp.Option {
	return cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
}

func wantSame(t *testing.T, r promiselease.Record) {
	t.Helper()
	lease, err := promiselease.Encode("node-1", r, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := promiselease.Decode(lease)
	if diff := cmp.Diff(r, got, sameAddress()); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
