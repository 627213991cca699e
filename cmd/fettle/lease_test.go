package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fettle-io/fettle/internal/engine"
)

// lock is a Lease in an API server that may refuse writes.
type lock struct {
	resourcelock.Interface

	refuse error
	took   time.Duration
}

func (*lock) Identity() string { return "me" }

func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.write() }

func (l *lock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.write() }

func (l *lock) write() error {
	<-time.After(l.took)
	return l.refuse
}

var errAway = errors.New("the API server is away")

// TestLeaderActsWhileItsLeaseIsRenewed, and no longer, whatever the elector does.
func TestLeaderActsWhileItsLeaseIsRenewed(t *testing.T) {
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	cases := map[string]struct {
		reason string
		lock   lock
		writes resourcelock.LeaderElectionRecord
		want   time.Duration // from the first renewal
	}{
		"no renewal":              {"it is not counted on for longer", lock{}, resourcelock.LeaderElectionRecord{HolderIdentity: "another"}, 10 * time.Second},
		"a renewal":               {"it counts from there", lock{}, mine, 14 * time.Second},
		"a renewal that was slow": {"others may have seen it at its beginning", lock{took: time.Second}, mine, 14 * time.Second},
		"a renewal refused":       {"it was not renewed", lock{refuse: errAway}, mine, 10 * time.Second},
		"a release":               {"it renews nothing", lock{}, resourcelock.LeaderElectionRecord{}, 10 * time.Second},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				l := &leaderLease{Interface: &lock{}, now: time.Now, deadline: 10 * time.Second}
				if err := l.Create(t.Context(), mine); err != nil {
					t.Fatalf("creating: %v", err)
				}
				held, end := l.whileHeld(t.Context())
				defer end()
				<-time.After(4 * time.Second)
				l.Interface = &tc.lock
				if err := l.Update(t.Context(), tc.writes); !errors.Is(err, tc.lock.refuse) {
					t.Errorf("updating: %v", err)
				}
				<-held.Done()
				if got := time.Since(began); got != tc.want || !errors.Is(context.Cause(held), errLeaseLost) {
					t.Errorf("%s: held for %s, want %s (%v)", tc.reason, got, tc.want, context.Cause(held))
				}
			})
		})
	}
}

// TestI2SuspendedLeaderHasLostItsLease: only the wall clock shows that the computer was suspended
// while another replica took the lease.
func TestI2SuspendedLeaderHasLostItsLease(t *testing.T) {
	now := time.Now()
	l := &leaderLease{Interface: &lock{}, now: func() time.Time { return now }, deadline: 10 * time.Second}
	if err := l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
		t.Fatal(err)
	}
	for seconds, lost := range map[int]bool{9: false, 10: true, 3600: true, -3600: false} {
		now = set(t, l.renewed, seconds)
		if l.lost() != lost || (l.remaining() <= 0) != lost {
			t.Errorf("%d seconds later by the wall clock the lease is lost: %t, with %s left; want %t", seconds, l.lost(), l.remaining(), lost)
		}
	}
}

// set returns the time of a clock whose wall clock was set by a number of seconds. Its monotonic
// clock is unchanged. Only the runtime makes such a time, so set relies on the runtime's layout,
// and checks it.
func set(t *testing.T, at time.Time, seconds int) time.Time {
	t.Helper()
	moved := at
	*(*uint64)(unsafe.Pointer(&moved)) += uint64(seconds) << 30 // 30 bits of nanoseconds are below the seconds
	if by := moved.Round(0).Sub(at.Round(0)); by != time.Duration(seconds)*time.Second || moved.Sub(at) != 0 {
		t.Fatalf("the clock is set by %s, and %s have passed", by, moved.Sub(at))
	}
	return moved
}

// startFunc is a part of the controller.
type startFunc func(context.Context) error

func (f startFunc) Start(ctx context.Context) error { return f(ctx) }

// TestOtherPartsActNoLongerThanTheLease. Without leader election they act until the shutdown.
func TestOtherPartsActNoLongerThanTheLease(t *testing.T) {
	for _, held := range []*leaderLease{nil, {Interface: &lock{}, now: time.Now, deadline: 10 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			want := time.Minute
			if held != nil {
				want = 10 * time.Second
				if err := held.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
					t.Fatalf("creating: %v", err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := leaderOnly{startFunc(func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}), held}.Start(ctx)
			if took := time.Since(began); took != want || err != nil {
				t.Errorf("it acted for %s, want %s: %v", took, want, err)
			}
		})
	}
}

// TestLeaderThatLosesItsLeaseEnds with an error, so that the process ends. After a signal it ends
// without an error.
func TestLeaderThatLosesItsLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leads := func(ctx context.Context, held *leaderLease) error {
			loop := engine.NewLoop(logr.Discard(), time.Now)
			loop.Add("cluster", func(context.Context) (time.Time, error) { return time.Time{}, nil })
			return (&leader{loop: loop, log: logr.Discard(), lease: held}).Start(ctx)
		}
		held := &leaderLease{Interface: &lock{}, now: time.Now, deadline: 10 * time.Second, renewed: time.Now()}
		if err := leads(t.Context(), held); !errors.Is(err, errLeaseLost) {
			t.Errorf("the lease is lost: %v", err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		held.renewed = time.Now()
		if err := leads(ctx, held); err != nil {
			t.Errorf("a signal: %v", err)
		}
		if err := leads(ctx, nil); err != nil {
			t.Errorf("without election: %v", err)
		}
	})
}
