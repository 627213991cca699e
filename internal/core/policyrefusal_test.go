package core

import (
	"testing"
	"time"
)

// TestStopped: the gate that stops a whole policy is the first to refuse each of its members.
func TestStopped(t *testing.T) {
	resume := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		policy Policy
		tally  Tally
		want   Gate
	}{
		"nothing stops it":                      {Policy{}, Tally{Permitted: true}, 0},
		"it can't be followed":                  {Policy{Problem: "so", Paused: true}, Tally{}, PolicyInvalid},
		"it is paused":                          {Policy{Paused: true}, Tally{}, PolicyPaused},
		"too many are not healthy":              {Policy{}, Tally{CoolingDown: true}, TooManyUnhealthy},
		"fewer than the range are":              {Policy{ShortCircuit: ShortCircuit{Range: &Range{From: 3, To: 5}}}, Tally{Total: 9, Healthy: 8}, TooManyUnhealthy},
		"the short circuit has opened just now": {Policy{}, Tally{Permitted: true, CoolingDown: true, ResumeAt: resume}, StormCooldown},
	}
	for sentence, tc := range cases {
		r, stopped := PolicyRefusal(&tc.policy, tc.tally)
		if r.Gate != tc.want || stopped != (tc.want != 0) {
			t.Errorf("%s: %s, %t; want %s", sentence, r.Gate, stopped, tc.want)
		}
		if stopped && r.Text() == "refused" {
			t.Errorf("%s: the gate says nothing", sentence)
		}
	}
	if r, _ := PolicyRefusal(&Policy{}, Tally{Permitted: true, CoolingDown: true, ResumeAt: resume}); !r.Until.Equal(resume) {
		t.Errorf("a cooldown is over at %s, want %s", r.Until, resume)
	}
}
