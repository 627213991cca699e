package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestClockOfTheController: the status of a health check tells that the controller's clock holds back what it leads, and which
// gate that is.
func TestClockOfTheController(t *testing.T) {
	words := map[core.Gate]string{0: "", core.ClockSkewed: "clocks of Fettle and of the API server", core.ClockUnknown: "not known"}
	for gate, message := range words {
		s := newScene()
		s.check("another", 0)
		s.ready(0, "False", time.Hour)
		s.Policies[0].ClockGate = gate
		w := s.assessment()
		if starts := len(w.decision.Starts) > 0; starts != (gate == 0) {
			t.Errorf("the gate of the clock is %v, and a repair is about to start: %t", gate, starts)
		}
		reason := ""
		if gate != 0 {
			reason = gate.String()
		}
		if h := w.healthCheck(0); h.Reason != reason || !strings.Contains(h.Message, message) {
			t.Errorf("the gate of the clock is %v, and the health check says %q: %s", gate, h.Reason, h.Message)
		}
	}
}

// TestI14ClockOfOneStatus: a person who may write the status of one health check stops no other with it.
func TestI14ClockOfOneStatus(t *testing.T) {
	s := newScene()
	s.check("another", 0)
	s.ready(0, "False", time.Hour)
	s.Policies[1].ClockGate = core.ClockSkewed
	w := s.assessment()
	if len(w.decision.Starts) != 1 {
		t.Errorf("%d repairs are about to start, want 1; held back by %+v", len(w.decision.Starts), w.decision.Refusals)
	}
	for i, want := range []string{repairsAllowed, repairsStopped} {
		if h := w.healthCheck(i); h.Repairs != want {
			t.Errorf("repairs of %s are %s (%s), want %s", h.Name, h.Repairs, h.Reason, want)
		}
	}
}
