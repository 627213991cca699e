package selffence_test

import (
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
	for name, c := range map[string]struct {
		change       func(*selffence.Lease)
		acknowledged time.Time
		want         time.Time
	}{
		"without witnesses":          {func(*selffence.Lease) {}, time.Time{}, at(0).Add(wait)},
		"witnesses have not read":    {func(l *selffence.Lease) { l.Promise.Witnesses[2] = "x" }, time.Time{}, time.Time{}},
		"witnesses have read":        {func(l *selffence.Lease) { l.Promise.Witnesses[2] = "x" }, at(9), at(9).Add(wait)},
		"witnesses had read before":  {func(l *selffence.Lease) { l.Promise.Witnesses[2] = "x" }, at(-9), at(0).Add(wait)},
		"of another remediation":     {func(l *selffence.Lease) { l.By = "other" }, time.Time{}, time.Time{}},
		"not condemned":              {func(l *selffence.Lease) { l.State = selffence.Promised }, time.Time{}, time.Time{}},
		"withdrawn":                  {func(l *selffence.Lease) { l.State = selffence.Withdrawn }, time.Time{}, time.Time{}},
		"not timed":                  {func(l *selffence.Lease) { l.Promise.Timed = false }, time.Time{}, time.Time{}},
		"a time that is not allowed": {func(l *selffence.Lease) { l.Promise.Times.Validity = -time.Hour }, time.Time{}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := condemnedLease(c.change)
			sight := selffence.Sight{}.Observe(l, at(0)).Observe(l, at(30))
			got, ok := sight.Expiry("uid", c.acknowledged)
			if ok == c.want.IsZero() || !got.Equal(c.want) {
				t.Errorf("it expires at %s (%t), want %s", got, ok, c.want)
			}
			if !ok && sight.Expired("uid", c.acknowledged, l, at(1000)) {
				t.Error("a promise that does not expire has expired")
			}
			if ok && (sight.Expired("uid", c.acknowledged, l, got.Add(-1)) || !sight.Expired("uid", c.acknowledged, l, got)) {
				t.Error("a read at the expiry proves it, and none before")
			}
			later := l
			later.Revision++
			if ok && sight.Expired("uid", c.acknowledged, later, got.Add(time.Hour)) {
				t.Error("a Lease that was written since proves nothing")
			}
		})
	}
	unseen := selffence.Sight{Lease: condemnedLease(func(*selffence.Lease) {})}
	if _, ok := unseen.Expiry("uid", time.Time{}); ok {
		t.Error("a Lease that was never seen expires")
	}
}

func TestCondemn(t *testing.T) {
	t.Parallel()
	promised := selffence.Lease{Revision: 5, State: selffence.Promised, Promise: timed()}
	l, ok := selffence.Sight{}.Observe(promised, at(0)).Condemn("uid")
	if want := (selffence.Lease{Revision: 5, State: selffence.Condemned, Promise: timed(), By: "uid"}); !ok || l != want {
		t.Errorf("the manager writes %+v (%t), want %+v", l, ok, want)
	}
	renewed := promised
	renewed.Revision++
	if got := (selffence.Sight{}).Observe(promised, at(0)).Observe(renewed, at(3)); got != (selffence.Sight{Lease: renewed, At: at(3)}) {
		t.Errorf("after a renewal the sight is %+v", got)
	}
	sight := selffence.Sight{}.Observe(promised, at(0)).Condemned("uid", 6)
	if want := (selffence.Sight{Lease: condemnedLease(func(l *selffence.Lease) { l.Promise = timed() }), At: at(0)}); sight != want {
		t.Errorf("after the write the sight is %+v, want %+v", sight, want)
	}
	for name, s := range map[string]selffence.Sight{
		"never seen":        {Lease: promised},
		"condemned already": selffence.Sight{}.Observe(condemnedLease(func(*selffence.Lease) {}), at(0)),
		"withdrawn":         selffence.Sight{}.Observe(selffence.Lease{Revision: 5, State: selffence.Withdrawn}, at(0)),
	} {
		if l, ok := s.Condemn("uid"); ok {
			t.Errorf("%s: the manager writes %+v", name, l)
		}
	}
}

func TestAcknowledged(t *testing.T) {
	t.Parallel()
	l := condemnedLease(func(l *selffence.Lease) { l.Promise.Witnesses = selffence.Members{"x", "y", "z"} })
	for name, c := range map[string]struct {
		read map[string]uint64
		want bool
	}{
		"two of three":              {map[string]uint64{"x": 6, "z": 9}, true},
		"one of three":              {map[string]uint64{"x": 6, "z": 5}, false},
		"one, and others of no use": {map[string]uint64{"x": 6, "v": 9, "": 9}, false},
	} {
		if got := l.Acknowledged(c.read); got != c.want {
			t.Errorf("%s: acknowledged is %t, want %t", name, got, c.want)
		}
	}
	only := condemnedLease(func(l *selffence.Lease) { l.Promise.Witnesses = selffence.Members{"x"} })
	if !only.Acknowledged(map[string]uint64{"x": 6}) || only.Acknowledged(nil) {
		t.Error("the only witness is a majority")
	}
	if condemnedLease(func(*selffence.Lease) {}).Acknowledged(map[string]uint64{"": 9}) {
		t.Error("no witnesses have acknowledged")
	}
}

// TestLyingWitness shows what one witness can do that lies. It acknowledges with another one, so the clock of the manager begins. It agrees with the
// third, which is cut off, so the node goes on. Two majorities share one witness, which must be honest.
func TestLyingWitness(t *testing.T) {
	t.Parallel()
	promised := selffence.Lease{Revision: 5, State: selffence.Promised, Promise: timed()}
	promised.Promise.Witnesses = selffence.Members{"cut", "honest", "liar"}
	condemned := promised
	condemned.Revision, condemned.State, condemned.By = 6, selffence.Condemned, "uid"
	if !condemned.Acknowledged(map[string]uint64{"honest": 6, "liar": 6}) {
		t.Error("the manager waits for the third witness")
	}
	if cut := (selffence.Witness{Read: 5, Away: true}); !cut.Agrees(promised, promised.Promise.Boot) {
		t.Error("the witness that is cut off does not agree")
	}
	if votes := 2; votes < promised.Promise.Witnesses.Majority() {
		t.Error("the liar and the witness that is cut off are no majority")
	}
}
