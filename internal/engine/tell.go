package engine

import (
	"fmt"

	"github.com/fettle-io/fettle/internal/core"
)

// mostLines is how many happenings of one kind are logged in one pass. An outage has thousands.
const mostLines = 20

// tell logs what has begun, one line each. That repairs begin and are refused is logged where it
// happens.
func (e *Engine) tell(happenings []core.Happening) {
	lines := map[core.HappeningKind]int{}
	for _, h := range happenings {
		text := lineOf(h.Kind)
		if text == "" {
			continue
		}
		lines[h.Kind]++
		if lines[h.Kind] > mostLines {
			continue
		}
		log := e.Log.WithValues("policy", h.Policy.String(), "why", h.Text)
		if h.Target != (core.ID{}) {
			log = log.WithValues("target", h.Target.String(), "node", h.Node)
		}
		if h.Kind == core.Held {
			log = log.WithValues("gate", h.Gate.String())
		}
		log.Info(text)
	}
	for kind, n := range lines {
		if n > mostLines {
			e.Log.Info("more of the same", "what", lineOf(kind), "more", n-mostLines)
		}
	}
}

func lineOf(k core.HappeningKind) string {
	switch k {
	case core.Suspected:
		return "target is not healthy"
	case core.Unreadable:
		return "target can't be read and is left alone"
	case core.Restricted:
		return "repairs are stopped by the short circuit"
	case core.Misconfigured:
		return "health check can't be followed"
	case core.Held:
		return "unhealthy target is not repaired"
	case core.Rehearsed:
		return "dry run: a repair would begin"
	case core.Escalated:
		return "step of a repair is given up"
	case core.Relieved:
		return "request to a remediator is withdrawn"
	case core.Lingering:
		return "request to a remediator was withdrawn long ago and is still there"
	case core.Begun, core.Refused:
	}
	return ""
}

// afterStep says what follows the step of a repair that was given up last.
func afterStep(r *core.Repair) string {
	if next := len(r.Rungs) + 1; next <= len(r.Ladder) {
		return fmt.Sprintf("; step %d of %d is next", next, len(r.Ladder))
	}
	return "; no step is left, so repair it by hand"
}
