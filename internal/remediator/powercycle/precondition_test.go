package powercycle

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
)

// TestWhenANodeIsReleased: its own out-of-service taint is recorded and there. Only then a change of the node interrupts what is under way.
func TestWhenANodeIsReleased(t *testing.T) {
	there, absent := &fencing.Node{OutOfService: true}, &fencing.Node{}
	for _, tc := range []struct {
		record fencing.Record
		node   *fencing.Node
		want   bool
	}{
		{fencing.Record{Released: true}, there, true}, {fencing.Record{}, there, false}, {fencing.Record{Released: true}, absent, false},
		{fencing.Record{Released: true}, nil, false}, {fencing.Record{Released: true, ForeignOutOfService: true}, there, false},
		{fencing.Record{ReleasedBefore: true}, there, true}, {fencing.Record{ReleasedBefore: true}, absent, true}, {fencing.Record{ReleasedBefore: true}, nil, false},
		{fencing.Record{ReleasedBefore: true, ForeignOutOfService: true}, there, false},
	} {
		if got := (&reconciliation{record: tc.record, facts: fencing.Facts{Node: tc.node}}).releases(); got != tc.want {
			t.Errorf("%+v with node %+v: released %t", tc.record, tc.node, got)
		}
	}
}

// TestOutcomesOfOperations: an interrupted operation has the node read again, a failure delays the next, and a success ends the delays.
func TestOutcomesOfOperations(t *testing.T) {
	w := newWorld(t)
	rec := &reconciliation{s: w.sessions.of(keyA, "r-uid", "node-a"), bmc: bmcFor("a", "node-a", "redfish://h")}
	rec.facts.Node, rec.facts.Workload = &fencing.Node{}, &fencing.Workload{}
	w.note(rec, problem{reason: string(power.Interrupted), interrupted: true})
	if rec.facts.Node != nil || rec.facts.Workload != nil || rec.s.failures != 0 || rec.s.failure.found() {
		t.Errorf("after an interruption, the facts are %+v, and %d have failed", rec.facts, rec.s.failures)
	}
	failed := problem{reason: string(power.TimedOut), message: "x"}
	for i := range 2 {
		w.note(rec, failed)
		if rec.s.failures != i+1 || rec.s.failure != failed || rec.s.power.RetryAt.Sub(w.now()).Round(time.Second) != firstRetry<<i {
			t.Errorf("after failure %d: %+v", i+1, rec.s)
		}
	}
	w.note(rec, problem{})
	if rec.s.failures != 0 || rec.s.failure.found() {
		t.Errorf("after a success: %+v", rec.s)
	}
}

// TestAFailedPowerOnMayHaveTakenEffect: nothing that was read before it proves that the host is off.
func TestAFailedPowerOnMayHaveTakenEffect(t *testing.T) {
	w := newWorld(t, noBMC())
	off := fencing.Reading{Begun: noon.Add(time.Second), Ended: noon.Add(time.Second), State: fencing.IsOff}
	for kind, kept := range map[fencing.StepKind]bool{fencing.CommandOn: false, fencing.CommandOff: true, fencing.ReadPower: true} {
		rec := &reconciliation{s: w.sessions.of(keyA, "r-uid", "node-a"), bmc: w.bmc(t, "a")}
		rec.s.power = fencing.Power{Off: noon, FirstOff: off, Last: off}
		if found := w.tryHost(t.Context(), rec, kind); !found.found() || rec.s.power.Off.Equal(noon) != kept || (rec.s.power.FirstOff == off) != kept {
			t.Errorf("step %d ends with %+v, and the power is %+v", kind, found, rec.s.power)
		}
	}
}

// TestWhoIsBehind: a remediation that has begun to wait, while another one has claimed its node.
func TestWhoIsBehind(t *testing.T) {
	w := newWorld(t)
	s := w.sessions
	s.of(keyA, "1", "node-a")
	s.of(keyB, "2", "node-a")
	s.claims.Claim("node-a", holderOf(keyB))
	if s.isBehind(keyA, "1") {
		t.Error("a remediation that has not begun to wait is behind")
	}
	s.wait(keyA)
	s.wait(keyB)
	if !s.isBehind(keyA, "1") || s.isBehind(keyB, "2") {
		t.Errorf("the waiting one is behind: %t, and the holder: %t", s.isBehind(keyA, "1"), s.isBehind(keyB, "2"))
	}
	if holder, held := s.waitFor("node-a", keyB); held || holder.Name != "" {
		t.Errorf("the holder waits for %v", holder)
	}
}
