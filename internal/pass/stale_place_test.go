package pass_test

import "testing"

// TestI3StaleWithdrawalFreesNoPlace: while the caches lack what remediators report, the places of targets that are gone and that
// are being replaced stay taken once the API server has shown so.
func TestI3StaleWithdrawalFreesNoPlace(t *testing.T) {
	w := staleWorld(t, "policy workers ask in-flight=1\nmachine a sick\nmachine b sick\nmachine c sick\npass")
	w.play(t, "replace a\nlose-target a\npass")
	w.play(t, "pass") // the API server has answered by now that a is being replaced
	w.play(t, "replace b\nlose-target b\npass\npass")
	if got := w.runningTargets(); len(got) > 1 {
		t.Errorf("one at a time is allowed, and the remediators of %v are at work", got)
	}
}
