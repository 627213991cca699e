package lease

import (
	"testing"
	"time"
	"unsafe"

	"github.com/fettle-io/fettle/internal/core"
)

// TestLeaseRenewedInTheFuture: the clock of its holder is ahead. The lease is valid for its
// duration from when Fettle first saw it.
func TestLeaseRenewedInTheFuture(t *testing.T) {
	ahead := record{holder: "maintenance", acquired: noon, renewed: noon.Add(365 * 24 * time.Hour), duration: time.Hour}
	l := render(core.Node{Name: "n", UID: "n"}, &ahead)
	b := store{}
	b.put(l, noon)
	for _, tc := range []struct {
		after time.Duration
		held  bool
	}{{0, true}, {time.Minute, true}, {time.Hour - time.Second, true}, {time.Hour, false}, {1000 * time.Hour, false}} {
		now := noon.Add(tc.after)
		b.put(l, now) // a watch that begins anew shows it again
		cluster := core.Cluster{Targets: []core.Target{{Node: core.Node{Name: "n"}}}}
		b.addFacts(&cluster, now)
		if got := cluster.Targets[0].Lease; (got.Holder != "") != tc.held || (tc.held && !got.Until.Equal(noon.Add(time.Hour))) {
			t.Errorf("%s after it was seen it is %+v", tc.after, got)
		}
		if got := cluster.Leases[0].Renewed; !got.Equal(noon) {
			t.Errorf("%s after it was seen it counts as renewed at %s", tc.after, got)
		}
		live := read(l)
		if _, may := acquiredRecord(b.withFirstSeen("N", &live), "us", now, time.Minute); may == tc.held {
			t.Errorf("%s after it was seen it may be taken: %t", tc.after, may)
		}
	}
	live := read(l)
	if _, may := acquiredRecord((store{}).withFirstSeen("n", &live), "us", noon.Add(1000*time.Hour), time.Minute); may {
		t.Error("a lease that was never seen before may be taken")
	}
	again := record{holder: "maintenance", acquired: noon, renewed: noon.Add(366 * 24 * time.Hour), duration: time.Hour}
	b.put(render(core.Node{Name: "n", UID: "n"}, &again), noon.Add(2*time.Hour))
	cluster := core.Cluster{Targets: []core.Target{{Node: core.Node{Name: "n"}}}}
	b.addFacts(&cluster, noon.Add(2*time.Hour))
	if got := cluster.Targets[0].Lease; !got.Until.Equal(noon.Add(3 * time.Hour)) {
		t.Errorf("once its holder has renewed it, it is %+v", got)
	}
}

// TestLeaseOutlivesNoClockThatIsSetBack: Fettle's clock is set back after it saw a valid record.
// The time since still counts.
func TestLeaseOutlivesNoClockThatIsSetBack(t *testing.T) {
	seen := time.Now() //nolint:forbidigo // only the runtime makes a time with a monotonic reading
	l := render(core.Node{Name: "n", UID: "n"}, &record{holder: "dead", acquired: seen, renewed: seen, duration: time.Hour})
	b := store{}
	b.put(l, seen)
	for _, tc := range []struct {
		after time.Duration
		held  bool
	}{{time.Minute, true}, {59 * time.Minute, true}, {time.Hour + time.Second, false}} {
		now := setBack(t, seen.Add(tc.after), 24*60*60)
		b.put(l, now) // a watch that begins anew shows it again
		cluster := core.Cluster{Targets: []core.Target{{Node: core.Node{Name: "n"}}}}
		b.addFacts(&cluster, now)
		if got := cluster.Targets[0].Lease; (got.Holder != "") != tc.held {
			t.Errorf("%s after it was seen it is %+v; want it to be held: %t", tc.after, got, tc.held)
		}
		if idle := now.Sub(cluster.Leases[0].Renewed); idle < tc.after {
			t.Errorf("%s after it was renewed it counts as idle for %s", tc.after, idle)
		}
		live := read(l)
		if _, may := acquiredRecord(b.withFirstSeen("n", &live), "us", now, time.Minute); may == tc.held {
			t.Errorf("%s after it was seen it may be taken: %t", tc.after, may)
		}
	}
}

// setBack returns the time of a clock whose wall clock was set back by a number of seconds. Its
// monotonic clock is unchanged. Only the runtime makes such a time, so setBack relies on the
// runtime's layout, and checks it.
func setBack(t *testing.T, at time.Time, seconds int) time.Time {
	t.Helper()
	moved := at
	*(*uint64)(unsafe.Pointer(&moved)) -= uint64(seconds) << 30 // 30 bits of nanoseconds are below the seconds
	if by := at.Round(0).Sub(moved.Round(0)); by != time.Duration(seconds)*time.Second || moved.Sub(at) != 0 {
		t.Fatalf("the clock is set back by %s, and %s have passed", by, moved.Sub(at))
	}
	return moved
}
