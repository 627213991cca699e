package selffence_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

// TestWaitOutlastsEveryClock: whatever the rates of the clocks within five percent, the manager's wait is not over before the node was reset.
func TestWaitOutlastsEveryClock(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		times := selffence.Times{
			Validity: time.Second + rand64(random, time.Hour-time.Second), Watchdog: time.Second + rand64(random, time.Hour-time.Second),
		}
		if !times.Valid() {
			t.Fatalf("%+v is not valid", times)
		}
		// The clock of the manager is faster than that of the node by up to five percent.
		percent := random.IntN(6)
		shown := times.Longest() + times.Longest()*time.Duration(percent)/100
		if wait := times.Wait(); shown > wait || wait > times.Longest()+times.Longest()/20+1 {
			t.Errorf("the node is reset after %s of its clock, %s of the manager's, which waits for %s", times.Longest(), shown, wait)
		}
	}
}

func rand64(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most) + 1))
}

func TestTimes(t *testing.T) {
	t.Parallel()
	if got := (selffence.Times{Validity: 10 * time.Second, Watchdog: 15 * time.Second}).Longest(); got != 55*time.Second {
		t.Errorf("the longest time is %s, want 55s", got)
	}
	for longest, want := range map[time.Duration]time.Duration{40: 42, 41: 44, 60: 63} { // rounded up
		if got := (selffence.Times{Validity: longest}).Wait(); got != want {
			t.Errorf("the wait for %d is %d, want %d", longest, got, want)
		}
	}
	for times, valid := range map[selffence.Times]bool{
		{Validity: time.Second, Watchdog: time.Second}:              true,
		{Validity: time.Hour, Watchdog: time.Hour}:                  true,
		{Validity: time.Second - 1, Watchdog: time.Second}:          false,
		{Validity: time.Second, Watchdog: time.Second - 1}:          false,
		{Validity: time.Hour + 1, Watchdog: time.Hour}:              false,
		{Validity: time.Hour, Watchdog: time.Hour + 1}:              false,
		{Validity: -time.Second, Watchdog: time.Second}:             false,
		{Validity: time.Duration(1<<63 - 1), Watchdog: time.Second}: false,
	} {
		if times.Valid() != valid {
			t.Errorf("%+v: valid is %t, want %t", times, !valid, valid)
		}
	}
}

func TestMajority(t *testing.T) {
	t.Parallel()
	for members, want := range map[selffence.Members]int{
		{}:                        0,
		{"a"}:                     1,
		{"a", "b"}:                2,
		{"", "b", "", "d", "e"}:   2,
		{"a", "b", "c", "d"}:      3,
		{"a", "b", "c", "d", "e"}: 3,
	} {
		if got := members.Majority(); got != want {
			t.Errorf("the majority of %q is %d, want %d", members, got, want)
		}
	}
}
