package pass_test

import (
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// staleWorld plays commands, one a line.
func staleWorld(t *testing.T, commands string) *world {
	t.Helper()
	w := newWorld()
	w.play(t, commands)
	return w
}

func (w *world) play(t *testing.T, commands string) {
	t.Helper()
	for line := range strings.Lines(commands) {
		if err := w.do(&strings.Builder{}, strings.Fields(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

func (w *world) runningTargets() []string {
	var names []string
	for i := range w.stored {
		if w.stored[i].Running() {
			names = append(names, w.stored[i].Target.Name)
		}
	}
	return names
}

// TestStaleWithdrawalEndsWithTheTimeOfItsStep: a watch of requests that brings nothing keeps no repair for ever. Once the time of
// the step is over, the withdrawal depends on no report.
func TestStaleWithdrawalEndsWithTheTimeOfItsStep(t *testing.T) {
	w := staleWorld(t, "policy workers ask limit=5m\nmachine a sick\nmachine b\npass\nsee\nreplace a\nlose-target a\npass")
	if len(w.runningTargets()) != 1 {
		t.Fatal("the repair ends before its time is over")
	}
	gone := false
	w.grant = func(c pass.Call) { gone = c.Kind == pass.WithdrawRequest && c.Request.OnlyAsReported || gone }
	w.play(t, "wait 24h\npass")
	if got := w.runningTargets(); len(got) > 0 || gone {
		t.Errorf("a day later the repairs of %v run, and a withdrawal depends on a report: %t", got, gone)
	}
}

// TestRepairWhoseRequestCantBeReadGoesOn: the node is gone, its remediator replaces it, the caches don't show that, and one read
// fails. The repair must not end as withdrawn, nor lose its place among the limits (I3).
func TestRepairWhoseRequestCantBeReadGoesOn(t *testing.T) {
	w := staleWorld(t, "policy workers ask in-flight=1\nmachine a sick\nmachine b\npass\nsee\nreplace a\nlose-target a\nfail WithdrawRequest a\npass")
	for i := range w.stored {
		if r := &w.stored[i]; r.Outcome == core.Withdrawn {
			t.Errorf("the repair of %s ended as %s while its remediator replaces it", r.Target.Name, r.Outcome)
		}
	}
	w.play(t, "mend WithdrawRequest a\nsee\nmachine c sick\npass")
	if n := len(w.requests); n != 1 {
		t.Errorf("one at a time is allowed, and %d remediators are at work", n)
	}
}

// TestStaleWithdrawalHoldsItsOwnRepairAlone: another repair whose target is gone ends once its request is withdrawn.
func TestStaleWithdrawalHoldsItsOwnRepairAlone(t *testing.T) {
	w := staleWorld(t, "policy workers ask\nmachine a sick\nmachine b sick\nmachine c\npass\nsee\nreplace a\nlose-target a\nlose-target b\npass")
	w.play(t, "pass")
	if got := w.runningTargets(); len(got) != 1 || got[0] != "a" {
		t.Errorf("the repairs of %v run, want that of a", got)
	}
}

// TestStaleWithdrawalOfAnOrphanedRequest: the repair of a target that is gone was deleted, and its remediator replaces it. The
// request stays.
func TestStaleWithdrawalOfAnOrphanedRequest(t *testing.T) {
	w := staleWorld(t, "policy workers ask\nmachine a sick\nmachine b\npass\nsee\nerase a\nreplace a\nlose-target a")
	var depends []bool
	w.grant = func(c pass.Call) {
		if c.Kind == pass.WithdrawRequest {
			depends = append(depends, c.Request.OnlyAsReported)
		}
	}
	w.play(t, "pass")
	if len(depends) != 1 || !depends[0] || len(w.requests) != 1 {
		t.Errorf("the withdrawals depend on reports: %t, and %d requests are left", depends, len(w.requests))
	}
}

// TestI3StaleWithdrawalFreesNoPlace: while the caches lack what remediators report, the places of targets that are gone and that
// are being replaced stay taken once the API server has shown so.
func TestI3StaleWithdrawalFreesNoPlace(t *testing.T) {
	w := staleWorld(t, "policy workers ask in-flight=1\nmachine a sick\nmachine b sick\nmachine c sick\npass")
	w.play(t, "replace a\nlose-target a\npass")
	w.play(t, "pass") // the API server has answered by now that a is being replaced
	w.play(t, "replace b\nlose-target b\npass")
	w.play(t, "pass")
	if got := w.runningTargets(); len(got) > 1 {
		t.Errorf("one at a time is allowed, and the remediators of %v are at work", got)
	}
}
