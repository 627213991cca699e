package promiselease_test

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

const (
	boot    = "0f8fad5b-d9cb-469f-a165-70867728950e"
	uid     = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
	longest = time.Hour
)

var renewed = time.Date(2026, 3, 1, 12, 0, 0, 5000, time.FixedZone("", 3600))

// timed returns the record of a timed promise, with one change.
func timed(change func(*promiselease.Record)) promiselease.Record {
	r := promiselease.Record{Device: "i6300ESB timer", Lease: selffence.Lease{Revision: 7, State: selffence.Promised, Promise: selffence.Promise{
		Boot: boot, Timed: true, Times: selffence.Times{Validity: 20 * time.Second, Watchdog: 10 * time.Second},
		Witnesses: selffence.Members{"a", "b.example", "c"},
	}}}
	if change != nil {
		change(&r)
	}
	return r
}

// untimed returns the record of a promise that is not timed, with one change.
func untimed(change func(*promiselease.Record)) promiselease.Record {
	return timed(func(r *promiselease.Record) {
		r.Promise.Timed = false
		change(r)
	})
}

// condemned returns the record of a condemned Lease.
func condemned(by string) promiselease.Record {
	return timed(func(r *promiselease.Record) { r.State, r.By = selffence.Condemned, by })
}

func TestLeaseOfPromise(t *testing.T) {
	t.Parallel()
	got, err := promiselease.Encode("node-1", timed(func(r *promiselease.Record) { r.Witnessed = 99 }), renewed)
	if err != nil {
		t.Fatal(err)
	}
	want := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fettle-agents", Name: "node-1", ResourceVersion: "7", Annotations: map[string]string{
			"fettle.io/promise-state": "Promised", "fettle.io/promise-boot": boot, "fettle.io/promise-timed": "true",
			"fettle.io/promise-validity": "20s", "fettle.io/promise-watchdog": "10s", "fettle.io/promise-device": "i6300ESB timer",
			"fettle.io/promise-witnesses": "a,b.example,c", "fettle.io/witnessed": "99",
		}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(boot), LeaseDurationSeconds: new(int32(20)),
			RenewTime: new(metav1.NewMicroTime(time.Date(2026, 3, 1, 11, 0, 0, 5000, time.UTC))),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A field that a record doesn't have has no annotation.
func TestShortestLease(t *testing.T) {
	t.Parallel()
	got := leaseOf(t, promiselease.Record{Lease: selffence.Lease{State: selffence.Withdrawn, Promise: selffence.Promise{Boot: boot}}})
	want := map[string]string{"fettle.io/promise-state": "Withdrawn", "fettle.io/promise-boot": boot, "fettle.io/promise-timed": "false"}
	if diff := cmp.Diff(want, got.Annotations); diff != "" {
		t.Error(diff)
	}
}

func TestLeasesOfRecords(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		record  promiselease.Record
		seconds int32
	}{
		"timed": {timed(nil), 20},
		"shortest and longest": {timed(func(r *promiselease.Record) {
			r.Promise.Times = selffence.Times{Validity: time.Second, Watchdog: longest}
		}), 1},
		"longest and shortest": {timed(func(r *promiselease.Record) {
			r.Promise.Times = selffence.Times{Validity: longest, Watchdog: time.Second}
		}), 3600},
		"part of a second":         {timed(func(r *promiselease.Record) { r.Promise.Times.Validity += time.Nanosecond }), 21},
		"first revision":           {timed(func(r *promiselease.Record) { r.Revision, r.Witnessed = 1, 1 }), 20},
		"largest numbers":          {timed(func(r *promiselease.Record) { r.Revision, r.Witnessed = 1<<64-1, 1<<64-1 }), 20},
		"no device":                {timed(func(r *promiselease.Record) { r.Device = "" }), 20},
		"longest device":           {timed(func(r *promiselease.Record) { r.Device = strings.Repeat("~", 64) }), 20},
		"no witnesses":             {timed(func(r *promiselease.Record) { r.Promise.Witnesses = selffence.Members{} }), 20},
		"five witnesses":           {timed(func(r *promiselease.Record) { r.Promise.Witnesses = selffence.Members{"a", "b", "c", "d", "e"} }), 20},
		"not timed":                {untimed(func(*promiselease.Record) {}), 20},
		"not timed, no times":      {untimed(func(r *promiselease.Record) { r.Promise.Times = selffence.Times{} }), 0},
		"not timed, a timeout":     {untimed(func(r *promiselease.Record) { r.Promise.Times.Validity = 0 }), 0},
		"not timed, a validity":    {untimed(func(r *promiselease.Record) { r.Promise.Times.Watchdog = 0 }), 20},
		"withdrawn":                {timed(func(r *promiselease.Record) { r.State = selffence.Withdrawn }), 20},
		"condemned":                {condemned(uid), 20},
		"condemned by a long UID":  {condemned(strings.Repeat("!", 64)), 20},
		"a promise of no seconds":  {untimed(func(r *promiselease.Record) { r.Promise.Times.Validity = time.Second }), 1},
		"an address":               {timed(func(r *promiselease.Record) { r.Address = netip.MustParseAddrPort("192.0.2.1:1") }), 20},
		"a long address":           {timed(func(r *promiselease.Record) { r.Address = netip.MustParseAddrPort("[2001:db8::1]:65535") }), 20},
		"condemned, and a witness": {timed(func(r *promiselease.Record) { r.State, r.By, r.Witnessed = selffence.Condemned, uid, 10 }), 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lease, err := promiselease.Encode("node-1", test.record, renewed)
			if err != nil {
				t.Fatal(err)
			}
			if got := lease.Spec.LeaseDurationSeconds; (got == nil) != (test.seconds == 0) || got != nil && *got != test.seconds {
				t.Errorf("the Lease shows a duration of %v, want %d", got, test.seconds)
			}
			got, err := promiselease.Decode(lease)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.record, got, sameAddress()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRecordsWithoutLeases(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		record promiselease.Record
		want   promiselease.Reason
	}{
		"zero":                        {promiselease.Record{}, promiselease.State},
		"no boot":                     {timed(func(r *promiselease.Record) { r.Promise.Boot = "" }), promiselease.Boot},
		"short validity":              {timed(func(r *promiselease.Record) { r.Promise.Times.Validity = time.Second - 1 }), promiselease.Times},
		"long validity":               {timed(func(r *promiselease.Record) { r.Promise.Times.Validity = longest + 1 }), promiselease.Times},
		"short timeout":               {timed(func(r *promiselease.Record) { r.Promise.Times.Watchdog = time.Second - 1 }), promiselease.Times},
		"long timeout":                {timed(func(r *promiselease.Record) { r.Promise.Times.Watchdog = longest + 1 }), promiselease.Times},
		"no validity":                 {timed(func(r *promiselease.Record) { r.Promise.Times.Validity = 0 }), promiselease.Times},
		"no timeout":                  {timed(func(r *promiselease.Record) { r.Promise.Times.Watchdog = 0 }), promiselease.Times},
		"negative, though not timed":  {untimed(func(r *promiselease.Record) { r.Promise.Times.Validity = -time.Second }), promiselease.Times},
		"too long, though not timed":  {untimed(func(r *promiselease.Record) { r.Promise.Times.Watchdog = longest + 1 }), promiselease.Times},
		"long device":                 {timed(func(r *promiselease.Record) { r.Device = strings.Repeat("x", 65) }), promiselease.Device},
		"device with a line":          {timed(func(r *promiselease.Record) { r.Device = "a\nb" }), promiselease.Device},
		"device beyond ASCII":         {timed(func(r *promiselease.Record) { r.Device = "a\x7f" }), promiselease.Device},
		"witnesses out of order":      {timed(func(r *promiselease.Record) { r.Promise.Witnesses = selffence.Members{"b", "a"} }), promiselease.Witnesses},
		"a witness twice":             {timed(func(r *promiselease.Record) { r.Promise.Witnesses = selffence.Members{"a", "a"} }), promiselease.Witnesses},
		"an empty name first":         {timed(func(r *promiselease.Record) { r.Promise.Witnesses = selffence.Members{"", "a"} }), promiselease.Witnesses},
		"an empty name in the middle": {timed(func(r *promiselease.Record) { r.Promise.Witnesses = selffence.Members{"a", "", "c"} }), promiselease.Witnesses},
		"a witness that is no node":   {timed(func(r *promiselease.Record) { r.Promise.Witnesses = selffence.Members{"A"} }), promiselease.Witnesses},
		"condemned by none":           {condemned(""), promiselease.Condemner},
		"a UID that is too long":      {condemned(strings.Repeat("x", 65)), promiselease.Condemner},
		"a UID with a space":          {condemned("a b"), promiselease.Condemner},
		"a UID beyond ASCII":          {condemned("ä"), promiselease.Condemner},
		"promised with a condemner":   {timed(func(r *promiselease.Record) { r.By = uid }), promiselease.Condemner},
		"promised with a reason":      {timed(func(r *promiselease.Record) { r.Why = promiselease.NoWatchdog }), promiselease.Why},
		"condemned with a reason": {timed(func(r *promiselease.Record) {
			r.State, r.By, r.Why = selffence.Condemned, uid, promiselease.NoWatchdog
		}), promiselease.Why},
		"withdrawn with a reason of none": {timed(func(r *promiselease.Record) { r.State, r.Why = selffence.Withdrawn, "NoTime" }), promiselease.Why},
		"withdrawn with a condemner":      {timed(func(r *promiselease.Record) { r.State, r.By = selffence.Withdrawn, uid }), promiselease.Condemner},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lease, err := promiselease.Encode("node-1", test.record, renewed)
			wantReason(t, err, test.want)
			if lease != nil {
				t.Errorf("the Lease is %v", lease)
			}
		})
	}
}

func TestLeaseOfNewNode(t *testing.T) {
	t.Parallel()
	lease, err := promiselease.Encode("node-1", timed(func(r *promiselease.Record) { r.Revision = 0 }), renewed)
	if err != nil || lease.ResourceVersion != "" {
		t.Fatalf("the resource version is %q, error %v", lease.ResourceVersion, err)
	}
	_, err = promiselease.Decode(lease)
	wantReason(t, err, promiselease.Revision)
}

func TestLeasesWithoutPromises(t *testing.T) {
	t.Parallel()
	const missing = "(missing)"
	for name, test := range map[string]struct {
		key, value string
		want       promiselease.Reason
	}{
		"no state":                      {annotation.PromiseState, missing, promiselease.State},
		"a state in lower case":         {annotation.PromiseState, "promised", promiselease.State},
		"no boot":                       {annotation.PromiseBoot, missing, promiselease.Boot},
		"a boot in upper case":          {annotation.PromiseBoot, strings.ToUpper(boot), promiselease.Boot},
		"a boot with a space":           {annotation.PromiseBoot, boot + " ", promiselease.Boot},
		"a boot that is cut off":        {annotation.PromiseBoot, boot[:35], promiselease.Boot},
		"a boot without a dash":         {annotation.PromiseBoot, "0f8fad5b0d9cb-469f-a165-70867728950e", promiselease.Boot},
		"a boot with a dash more":       {annotation.PromiseBoot, "-f8fad5b-d9cb-469f-a165-70867728950e", promiselease.Boot},
		"a boot with a wrong end":       {annotation.PromiseBoot, "0f8fad5b-d9cb-469f-a165-70867728950-", promiselease.Boot},
		"timed is missing":              {annotation.PromiseTimed, missing, promiselease.Timed},
		"timed is empty":                {annotation.PromiseTimed, "", promiselease.Timed},
		"timed is another word":         {annotation.PromiseTimed, "True", promiselease.Timed},
		"no validity":                   {annotation.PromiseValidity, missing, promiselease.Times},
		"a validity in another form":    {annotation.PromiseValidity, "20000ms", promiselease.Times},
		"a validity without a unit":     {annotation.PromiseValidity, "20", promiselease.Times},
		"no timeout":                    {annotation.PromiseWatchdog, missing, promiselease.Times},
		"a timeout in another form":     {annotation.PromiseWatchdog, "+10s", promiselease.Times},
		"an empty device":               {annotation.PromiseDevice, "", promiselease.Device},
		"empty witnesses":               {annotation.PromiseWitnesses, "", promiselease.Witnesses},
		"a comma":                       {annotation.PromiseWitnesses, ",", promiselease.Witnesses},
		"a comma at the end":            {annotation.PromiseWitnesses, "a,", promiselease.Witnesses},
		"six witnesses":                 {annotation.PromiseWitnesses, "a,b,c,d,e,f", promiselease.Witnesses},
		"five witnesses and a comma":    {annotation.PromiseWitnesses, "a,b,c,d,e,", promiselease.Witnesses},
		"a space between witnesses":     {annotation.PromiseWitnesses, "a, b", promiselease.Witnesses},
		"a condemner":                   {annotation.CondemnedBy, uid, promiselease.Condemner},
		"an empty condemner":            {annotation.CondemnedBy, "", promiselease.Condemner},
		"a revision that is empty":      {annotation.Witnessed, "", promiselease.Read},
		"revision zero":                 {annotation.Witnessed, "0", promiselease.Read},
		"a revision with a zero":        {annotation.Witnessed, "07", promiselease.Read},
		"a revision that is too large":  {annotation.Witnessed, "18446744073709551616", promiselease.Read},
		"an empty address":              {annotation.AgentAddress, "", promiselease.Address},
		"a name for an address":         {annotation.AgentAddress, "node-1:9643", promiselease.Address},
		"an address without a port":     {annotation.AgentAddress, "192.0.2.1", promiselease.Address},
		"an address with port zero":     {annotation.AgentAddress, "192.0.2.1:0", promiselease.Address},
		"an address with a zone":        {annotation.AgentAddress, "[fe80::1%eth0]:9643", promiselease.Address},
		"an address in a long form":     {annotation.AgentAddress, "[::ffff:192.0.2.1]:9643", promiselease.Address},
		"an address in another form":    {annotation.AgentAddress, "[2001:DB8::1]:9643", promiselease.Address},
		"a reason for no promise":       {annotation.NoPromiseReason, "NoWatchdog", promiselease.Why},
		"an empty reason":               {annotation.NoPromiseReason, "", promiselease.Why},
		"an annotation of a later time": {"fettle.io/promise-later", "x", promiselease.Unknown},
		"an annotation of health checks": {
			annotation.DryRun, "true", promiselease.Unknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lease := leaseOf(t, timed(nil))
			lease.Annotations[test.key] = test.value
			if test.value == missing {
				delete(lease.Annotations, test.key)
			}
			r, err := promiselease.Decode(lease)
			wantReason(t, err, test.want)
			if r != (promiselease.Record{}) {
				t.Errorf("a part of the Lease was decoded: %+v", r)
			}
		})
	}
}

// Each reason of an agent, and none, is read as it was written.
func TestReasons(t *testing.T) {
	t.Parallel()
	all := promiselease.AllNoPromises()
	if sorted := slices.Compact(slices.Sorted(slices.Values(all))); len(sorted) != len(all) || len(all) != 11 {
		t.Errorf("the reasons are %v", all)
	}
	for _, why := range append(all, "") {
		r := promiselease.Record{Why: why, Lease: selffence.Lease{Revision: 1, State: selffence.Withdrawn, Promise: selffence.Promise{Boot: boot}}}
		if got, err := promiselease.Decode(leaseOf(t, r)); got != r || err != nil {
			t.Errorf("%q is read as %+v (%v)", why, got, err)
		}
	}
}

// Each reason has a text of its own, and so has each error.
func TestTexts(t *testing.T) {
	t.Parallel()
	said := map[string]string{promiselease.NoPromise("").Text(): "no reason", promiselease.Error{}.Error(): "no error"}
	wantNew := func(what, text string) {
		t.Helper()
		if other, is := said[text]; is {
			t.Errorf("%s has the text of %s: %s", what, other, text)
		}
		said[text] = what
	}
	for _, why := range promiselease.AllNoPromises() {
		wantNew(string(why), why.Text())
	}
	for _, reason := range []promiselease.Reason{
		promiselease.Revision, promiselease.Unknown, promiselease.State, promiselease.Boot, promiselease.Timed, promiselease.Times, promiselease.Device,
		promiselease.Witnesses, promiselease.Condemner, promiselease.Why, promiselease.Read, promiselease.Address, promiselease.Change,
	} {
		wantNew(string(reason), promiselease.Error{Reason: reason}.Error())
	}
}

func TestCondemnedLeaseWithoutCondemner(t *testing.T) {
	t.Parallel()
	lease := leaseOf(t, condemned(uid))
	delete(lease.Annotations, annotation.CondemnedBy)
	_, err := promiselease.Decode(lease)
	wantReason(t, err, promiselease.Condemner)
}

func TestRevisions(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"", "0", "07", "-1", "+1", "1_0", "0x1", "a", "18446744073709551616"} {
		lease := leaseOf(t, timed(nil))
		lease.ResourceVersion = revision
		_, err := promiselease.Decode(lease)
		wantReason(t, err, promiselease.Revision)
	}
}

// Only annotations of the group fettle.io are read, and the spec never is.
func TestTheRestIsNotRead(t *testing.T) {
	t.Parallel()
	lease := leaseOf(t, timed(nil))
	lease.Annotations["example.org/promise-state"] = "Condemned"
	lease.Annotations["fettle.io"] = "x"
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("another"), LeaseDurationSeconds: new(int32(5)), RenewTime: new(metav1.NewMicroTime(time.Time{}))}
	r, err := promiselease.Decode(lease)
	if diff := cmp.Diff(timed(nil), r, sameAddress()); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestCondemnAndFree(t *testing.T) {
	t.Parallel()
	promised := leaseOf(t, timed(func(r *promiselease.Record) { r.Witnessed = 5 }))
	promised.Annotations["example.org/a"] = "b"
	promised.UID = "1"
	before := promised.DeepCopy()

	got, err := promiselease.Condemn(promised, uid)
	if err != nil {
		t.Fatal(err)
	}
	want := before.DeepCopy()
	want.Annotations[annotation.PromiseState], want.Annotations[annotation.CondemnedBy] = "Condemned", uid
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	condemned := got.DeepCopy()
	freed, err := promiselease.Free(got)
	if err != nil {
		t.Fatal(err)
	}
	want = before.DeepCopy()
	want.Annotations[annotation.PromiseState] = "Withdrawn"
	if diff := cmp.Diff(want, freed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, promised); diff != "" {
		t.Error("the Lease that was read has changed:", diff)
	}
	if diff := cmp.Diff(condemned, got); diff != "" {
		t.Error("the condemned Lease has changed:", diff)
	}
}

func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	withdrawn := leaseOf(t, timed(func(r *promiselease.Record) { r.State = selffence.Withdrawn }))
	unread := leaseOf(t, timed(nil))
	unread.Annotations[annotation.PromiseBoot] = "?"
	for name, test := range map[string]struct {
		change func() (*coordinationv1.Lease, error)
		want   promiselease.Reason
	}{
		"condemned twice":     {func() (*coordinationv1.Lease, error) { return promiselease.Condemn(leaseOf(t, condemned(uid)), uid) }, promiselease.Change},
		"condemned withdrawn": {func() (*coordinationv1.Lease, error) { return promiselease.Condemn(withdrawn, uid) }, promiselease.Change},
		"condemned by none":   {func() (*coordinationv1.Lease, error) { return promiselease.Condemn(leaseOf(t, timed(nil)), "") }, promiselease.Condemner},
		"condemned unread":    {func() (*coordinationv1.Lease, error) { return promiselease.Condemn(unread, uid) }, promiselease.Boot},
		"freed promise":       {func() (*coordinationv1.Lease, error) { return promiselease.Free(leaseOf(t, timed(nil))) }, promiselease.Change},
		"freed withdrawn":     {func() (*coordinationv1.Lease, error) { return promiselease.Free(withdrawn) }, promiselease.Change},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lease, err := test.change()
			wantReason(t, err, test.want)
			if lease != nil {
				t.Errorf("the Lease is %v", lease)
			}
		})
	}
}

// Each reason has a text of its own, without anything of the Lease.
func TestErrorsSayWhatIsWanted(t *testing.T) {
	t.Parallel()
	for reason, part := range map[promiselease.Reason]string{
		promiselease.Revision: "resource version", promiselease.Unknown: "unknown annotation", promiselease.State: "promise-state",
		promiselease.Boot: "promise-boot", promiselease.Timed: "promise-timed", promiselease.Times: "promise-validity",
		promiselease.Device: "promise-device", promiselease.Witnesses: "promise-witnesses", promiselease.Condemner: "condemned-by",
		promiselease.Read: "witnessed", promiselease.Change: "another state", "": "no promise",
	} {
		if text := (promiselease.Error{Reason: reason}).Error(); !strings.Contains(text, part) {
			t.Errorf("%q says %q, want %q in it", reason, text, part)
		}
	}
}

func leaseOf(t *testing.T, r promiselease.Record) *coordinationv1.Lease {
	t.Helper()
	lease, err := promiselease.Encode("node-1", r, renewed)
	if err != nil {
		t.Fatal(err)
	}
	lease.Annotations = maps.Clone(lease.Annotations)
	return lease
}

func wantReason(t *testing.T, err error, want promiselease.Reason) {
	t.Helper()
	if got, is := errors.AsType[promiselease.Error](err); !is || got.Reason != want {
		t.Errorf("the error is %v, want the reason %s", err, want)
	}
}

// TestHasRead: a revision that a witness has read is older than the Lease that says so. Anything else is of another history of the cluster.
func TestHasRead(t *testing.T) {
	t.Parallel()
	for witnessed, want := range map[uint64]uint64{0: 0, 8: 8, 9: 0, 10: 0} {
		if got := (promiselease.Record{Lease: selffence.Lease{Revision: 9}, Witnessed: witnessed}).HasRead(); got != want {
			t.Errorf("a Lease of revision 9 that says %d has read %d, want %d", witnessed, got, want)
		}
	}
}
