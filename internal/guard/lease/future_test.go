package lease

import (
	"testing"
	"time"
	"unsafe"

	"github.com/fettle-io/fettle/internal/core"
)

// TestLeaseRenewedInTheFuture: it is held, since its holder's clock is ahead, and for its duration from when it was seen.
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

// TestLeaseOutlivesNoClockThatIsSetBack: a record was valid when it was seen, and then Fettle's clock is set back. The time that
// has passed since counts all the same.
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

// setBack returns what a clock shows that is set back by a number of seconds: its wall clock differs, and its monotonic one
// does not. Only the runtime can make such a time, so this goes by how the runtime lays it out, and checks that.
func setBack(t *testing.T, at time.Time, seconds int) time.Time {
	t.Helper()
	moved := at
	*(*uint64)(unsafe.Pointer(&moved)) -= uint64(seconds) << 30 // 30 bits of nanoseconds are below the seconds
	if by := at.Round(0).Sub(moved.Round(0)); by != time.Duration(seconds)*time.Second || moved.Sub(at) != 0 {
		t.Fatalf("the clock is set back by %s, and %s have passed", by, moved.Sub(at))
	}
	return moved
}
