package selffence_test

import (
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

// condemnedLease returns a Lease as a remediation has condemned it.
func condemnedLease(change func(*selffence.Lease)) selffence.Lease {
	l := selffence.Lease{Revision: 6, State: selffence.Condemned, Promise: timed(), By: "uid"}
	l.Promise.Witnesses = selffence.Members{}
	change(&l)
	return l
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	const wait = 57750 * time.Millisecond // of 10s and three times 15s
	witness := func(l *selffence.Lease) { l.Promise.Witnesses[2] = "x" }
	for name, c := range map[string]struct {
		change func(*selffence.Lease)
		// heard is when the witness is known to have read revision 6, after so many seconds, or negative.
		heard int
		want  time.Time
	}{
		"without witnesses":          {func(*selffence.Lease) {}, -1, at(0).Add(wait)},
		"witnesses have not read":    {witness, -1, time.Time{}},
		"witnesses have read":        {witness, 9, at(9).Add(wait)},
		"of another remediation":     {func(l *selffence.Lease) { l.By = "other" }, -1, time.Time{}},
		"not condemned":              {func(l *selffence.Lease) { l.State = selffence.Promised }, -1, time.Time{}},
		"withdrawn":                  {func(l *selffence.Lease) { l.State = selffence.Withdrawn }, -1, time.Time{}},
		"not timed":                  {func(l *selffence.Lease) { l.Promise.Timed = false }, -1, time.Time{}},
		"not timed, with witnesses":  {func(l *selffence.Lease) { witness(l); l.Promise.Timed = false }, 9, time.Time{}},
		"a time that is not allowed": {func(l *selffence.Lease) { l.Promise.Times.Validity = -time.Hour }, -1, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := condemnedLease(c.change)
			observed := selffence.Observation{}.Observe(l, at(0)).ReadWitnesses(map[string]uint64{"x": 5}, at(1)).Observe(l, at(30))
			if !l.Promise.Timed && observed.Unwitnessed() {
				t.Error("a promise that is not timed waits for witnesses")
			}
			if c.heard >= 0 {
				observed = observed.ReadWitnesses(map[string]uint64{"x": 6}, at(c.heard)).ReadWitnesses(map[string]uint64{"x": 7}, at(50))
			}
			got, ok := observed.Expiry("uid")
			if ok == c.want.IsZero() || !got.Equal(c.want) {
				t.Errorf("it expires at %s (%t), want %s", got, ok, c.want)
			}
			if !ok && observed.Expired("uid", l, at(1000)) {
				t.Error("a promise that does not expire has expired")
			}
			if ok && (observed.Expired("uid", l, got.Add(-1)) || !observed.Expired("uid", l, got)) {
				t.Error("a read at the expiry proves it, and none before")
			}
			later := l
			later.Revision++
			if ok && observed.Expired("uid", later, got.Add(time.Hour)) {
				t.Error("a Lease that was written since proves nothing")
			}
			other := l
			other.Promise.Times.Validity += time.Second
			if ok && observed.Expired("uid", other, got.Add(time.Hour)) {
				t.Error("a Lease of another history of the cluster proves nothing")
			}
		})
	}
	unseen := selffence.Observation{Lease: condemnedLease(func(*selffence.Lease) {})}
	if _, ok := unseen.Expiry("uid"); ok {
		t.Error("a Lease that was never seen expires")
	}
}

// TestWitnessesHeardBefore: the clock begins no earlier than the observation of the last grant.
func TestWitnessesHeardBefore(t *testing.T) {
	t.Parallel()
	l := condemnedLease(func(l *selffence.Lease) { l.Promise.Witnesses[0] = "x" })
	s := selffence.Observation{Lease: l, At: at(9), Acknowledged: at(1)}
	if got, ok := s.Expiry("uid"); !ok || !got.Equal(at(9).Add(l.Promise.Times.Wait())) {
		t.Errorf("it expires at %s (%t)", got, ok)
	}
}

func TestCondemn(t *testing.T) {
	t.Parallel()
	promised := selffence.Lease{Revision: 5, State: selffence.Promised, Promise: timed()}
	l, ok := selffence.Observation{}.Observe(promised, at(0)).Condemn("uid")
	if want := (selffence.Lease{Revision: 5, State: selffence.Condemned, Promise: timed(), By: "uid"}); !ok || l != want {
		t.Errorf("the manager writes %+v (%t), want %+v", l, ok, want)
	}
	renewed := promised
	renewed.Revision++
	if got := (selffence.Observation{}).Observe(promised, at(0)).Observe(renewed, at(3)); got != (selffence.Observation{Lease: renewed, At: at(3)}) {
		t.Errorf("after a renewal the observation is %+v", got)
	}
	heard := selffence.Observation{}.Observe(promised, at(0))
	heard.Acknowledged = at(0)
	observed := heard.Condemned("uid", 6)
	if want := (selffence.Observation{Lease: condemnedLease(func(l *selffence.Lease) { l.Promise = timed() }), At: at(0)}); observed != want {
		t.Errorf("after the write the observation is %+v, want %+v", observed, want)
	}
	restored := promised
	restored.Promise.Boot = "b"
	if got := (selffence.Observation{}).Observe(promised, at(0)).Observe(restored, at(3)); got != (selffence.Observation{Lease: restored, At: at(3)}) {
		t.Errorf("after another Lease of the same revision the observation is %+v", got)
	}
	for name, s := range map[string]selffence.Observation{
		"never seen":        {Lease: promised},
		"condemned already": selffence.Observation{}.Observe(condemnedLease(func(*selffence.Lease) {}), at(0)),
		"withdrawn":         selffence.Observation{}.Observe(selffence.Lease{Revision: 5, State: selffence.Withdrawn}, at(0)),
	} {
		if l, ok := s.Condemn("uid"); ok {
			t.Errorf("%s: the manager writes %+v", name, l)
		}
	}
}

// TestAcknowledged: the clock of a manager begins once so many witnesses have read the condemned Lease that each majority has an honest one of
// them, also beside one liar, where one may have ended.
func TestAcknowledged(t *testing.T) {
	t.Parallel()
	names := []string{"v", "w", "x", "y", "z"}
	for count, want := range []int{0, 1, 2, 2, 3, 4} {
		l := condemnedLease(func(l *selffence.Lease) { copy(l.Promise.Witnesses[:], names[:count]) })
		if got := l.Promise.Witnesses.Acknowledgements(); got != want {
			t.Errorf("%d of %d witnesses suffice, want %d", got, count, want)
		}
		read := map[string]uint64{"": 9, "stranger": 9}
		for i := range count {
			s := selffence.Observation{}.Observe(l, at(0)).ReadWitnesses(read, at(1))
			if heard := !s.Acknowledged.IsZero(); heard != (i >= want) || s.Unwitnessed() == heard {
				t.Errorf("with %d of %d witnesses, acknowledged is %t", i, count, heard)
			}
			if unread := l.Unread(read); !slices.Equal(unread, names[i:count]) {
				t.Errorf("with %d of %d witnesses, %q have not read it", i, count, unread)
			}
			read[names[i]] = l.Revision
		}
		s := selffence.Observation{}.Observe(l, at(0)).ReadWitnesses(read, at(1))
		if s.Acknowledged.IsZero() != (count == 0) || s.Unwitnessed() {
			t.Errorf("all of %d witnesses have read it, and the observation is %+v", count, s)
		}
	}
}

// TestOneLiar: for each number of witnesses with one liar, no majority of the others and the liar can grant once the clock of the manager has
// begun. With one or three witnesses one liar suffices.
func TestOneLiar(t *testing.T) {
	t.Parallel()
	for count := range 6 {
		var m selffence.Members
		for i := range count {
			m[i] = string(rune('a' + i))
		}
		released := false
		for read := range 1 << count {
			acknowledged, agree := bits.OnesCount(uint(read)|1), bits.OnesCount((1<<count-1)&^uint(read)|1) // the first lies
			released = released || count > 0 && acknowledged >= m.Acknowledgements() && agree >= m.Majority()
		}
		if want := count == 1 || count == 3; released != want {
			t.Errorf("with %d witnesses one liar can have a node released that runs: %t, want %t", count, released, want)
		}
	}
}
