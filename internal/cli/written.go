package cli

import (
	"fmt"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// What stands in the place of whether repairs go on.
const (
	repairsAllowed = "Allowed"
	repairsStopped = "Stopped"
	repairsUnknown = "Unknown"
)

// asWritten tells of a health check what its controller has written last, where it can't be judged from here.
func (w *world) asWritten(policy int, h *HealthCheck) {
	h.AsWritten, h.Next = true, nil
	written := w.writtenOf(w.policies[policy].ID)
	if written.Total != nil && written.Healthy != nil {
		h.Total, h.Healthy = int(*written.Total), int(*written.Healthy)
	}
	switch {
	case w.blind.Halted:
		h.Repairs, h.Reason, h.Message = repairsStopped, w.blind.Reason, w.blind.Message
	case written.Allowed == core.Yes:
	case written.Allowed == core.No:
		h.Repairs, h.Reason, h.Message = repairsStopped, written.Reason, written.Message
	case written.Reason != "":
		h.Repairs, h.Reason, h.Message = repairsUnknown, written.Reason, written.Message
	default:
		h.Repairs, h.Reason, h.Message = repairsUnknown, w.blind.Reason, w.blind.Message
	}
}

func (w *world) writtenOf(check core.ID) Written {
	for _, witness := range w.witnesses {
		if written := witness.WrittenOf(check); written != (Written{}) {
			return written
		}
	}
	return Written{}
}

// word gives what a target says of its health, false when it says nothing.
func (w *world) word(target int) (Word, bool) {
	for _, witness := range w.witnesses {
		if word, says := witness.Says(w.fleet.Targets[target].ID); says {
			return word, true
		}
	}
	return Word{}, false
}

// written takes what a target says of itself in the place of verdicts that can't be made from here. Where nobody judges,
// that too is out of date.
func (w *world) written(target int, t *Target) {
	message := inSentence(w.blind.Message)
	t.Health, t.Reason, t.Since, t.Until = core.Undetermined.String(), w.blind.Reason, nil, nil
	if word, says := w.word(target); says && !w.blind.Halted {
		t.Health, t.Reason, t.Since = core.Unhealthy.String(), word.Reason, instant(word.Since)
		if word.Healthy {
			t.Health = core.Healthy.String()
		}
		message = fmt.Sprintf("as the machine itself says: %s (%s)", word.Reason, strings.Join(strings.Fields(word.Message), " "))
		if word.Message == "" {
			message = "as the machine itself says: " + word.Reason
		}
	}
	if w.fleet.Targets[target].Deleting {
		t.Health = core.Gone.String()
	}
	for i := range t.Verdicts {
		v := &t.Verdicts[i]
		v.Health, v.Reason, v.Message, v.Since, v.Until, v.Leads = t.Health, t.Reason, message, t.Since, nil, false
	}
	t.HeldBy, t.Lead = nil, nil
}

// nextUnjudged says what comes next for a target that can't be judged from here.
func (w *world) nextUnjudged() Next {
	if w.blind.Halted {
		return Next{Text: sentence(w.blind.Message)}
	}
	return Next{Text: "It can't be told, since " + w.blind.Message + "."}
}

// leftOut says by what somebody has taken a target out of all health checking.
func (w *world) leftOut(target int) (string, bool) {
	for _, witness := range w.witnesses {
		if by, out := witness.LeftOut(w.fleet.Targets[target].ID); out {
			return by, true
		}
	}
	return "", false
}
