package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// These say whether repairs go on.
const (
	repairsAllowed = "Allowed"
	repairsStopped = "Stopped"
	repairsUnknown = "Unknown"
)

// useWrittenStatus fills in the status that a controller last wrote, where targets can't be judged from here.
func (w *assessment) useWrittenStatus(policy int, h *HealthCheck) {
	h.AsWritten, h.Next = true, nil
	written := w.writtenStatus(w.policies[policy].ID)
	if written.Total != nil && written.Healthy != nil {
		h.Total, h.Healthy = int(*written.Total), int(*written.Healthy)
	}
	switch {
	case w.blocked.Halted:
		h.Repairs, h.Reason, h.Message = repairsStopped, w.blocked.Reason, w.blocked.Message
	case written.Allowed == core.Yes:
	case written.Allowed == core.No:
		h.Repairs, h.Reason, h.Message = repairsStopped, written.Reason, written.Message
	case written.Reason != "":
		h.Repairs, h.Reason, h.Message = repairsUnknown, written.Reason, written.Message
	default:
		h.Repairs, h.Reason, h.Message = repairsUnknown, w.blocked.Reason, w.blocked.Message
	}
}

// mostAtOdds bounds the health checks that notes name.
const mostAtOdds = 10

// notesAtOdds returns sentences about health checks in a namespace, or in all, that the controller can't follow though
// they can be judged from here. The controller lacks a right, or meets a bound. It also returns those about another
// controller.
func (w *assessment) notesAtOdds(namespace string) []string {
	var notes []string
	for i := range w.policies {
		if isIn(w.policies[i].ID, namespace) && len(notes) < mostAtOdds {
			notes = append(notes, w.notesOn(i)...)
		}
	}
	return notes
}

// notesAtOddsOn returns such sentences about the health checks that judge some targets.
func (w *assessment) notesAtOddsOn(targets []int) []string {
	var notes []string
	for _, i := range targets {
		for _, v := range w.verdictsOf[i] {
			for _, note := range w.notesOn(v.Policy) {
				if !slices.Contains(notes, note) {
					notes = append(notes, note)
				}
			}
		}
	}
	return notes
}

// notesOn returns such sentences about one health check.
func (w *assessment) notesOn(policy int) []string {
	var notes []string
	if note := w.noteAtOdds(policy); note != "" {
		notes = append(notes, note)
	}
	if message := w.foreignWriters[w.policies[policy].ID]; message != "" {
		notes = append(notes, fmt.Sprintf("%s: %s", w.policies[policy].ID, sentence(message)))
	}
	return notes
}

// noteAtOdds returns such a sentence about one health check, or nothing where the controller agrees.
func (w *assessment) noteAtOdds(policy int) string {
	p := &w.policies[policy]
	if w.healthCheck(policy).Repairs != repairsAllowed {
		return ""
	}
	written := w.writtenStatus(p.ID)
	if written.Allowed == core.Yes || written.Message == "" {
		return ""
	}
	return fmt.Sprintf("%s: its controller has written %s, which can't be seen from here: %s", p.ID, written.Reason, sentence(written.Message))
}

func (w *assessment) writtenStatus(check core.ID) WrittenStatus {
	for _, reader := range w.statusReaders {
		if written := reader.StatusOf(check); written != (WrittenStatus{}) {
			return written
		}
	}
	return WrittenStatus{}
}

// writtenHealth returns the health in a target's conditions, and false without one.
func (w *assessment) writtenHealth(target int) (WrittenHealth, bool) {
	for _, reader := range w.statusReaders {
		if health, says := reader.HealthOf(w.cluster.Targets[target].ID); says {
			return health, true
		}
	}
	return WrittenHealth{}, false
}

// useWrittenHealth replaces verdicts that can't be made from here by the health in the target's conditions. While the
// controller doesn't judge either, that health is out of date too.
func (w *assessment) useWrittenHealth(target int, t *Target) {
	message := inSentence(w.blocked.Message)
	t.Health, t.Reason, t.Since, t.Until = core.Undetermined.String(), w.blocked.Reason, nil, nil
	if health, says := w.writtenHealth(target); says && !w.blocked.Halted {
		t.Health, t.Reason, t.Since = core.Unhealthy.String(), health.Reason, instant(health.Since)
		if health.Healthy {
			t.Health = core.Healthy.String()
		}
		message = fmt.Sprintf("as the machine itself says: %s (%s)", health.Reason, strings.Join(strings.Fields(health.Message), " "))
		if health.Message == "" {
			message = "as the machine itself says: " + health.Reason
		}
	}
	if w.cluster.Targets[target].Deleting {
		t.Health = core.Gone.String()
	}
	for i := range t.Verdicts {
		v := &t.Verdicts[i]
		v.Health, v.Reason, v.Message, v.Since, v.Until, v.Leads = t.Health, t.Reason, message, t.Since, nil, false
	}
	t.HeldBy, t.Lead = nil, nil
}

// nextUnjudged says what happens next to a target that can't be judged from here.
func (w *assessment) nextUnjudged() Next {
	if w.blocked.Halted {
		return Next{Text: sentence(w.blocked.Message)}
	}
	return Next{Text: "It is not known, since " + w.blocked.Message + "."}
}

// skippedBy returns the annotation that takes a target out of all health checking.
func (w *assessment) skippedBy(target int) (string, bool) {
	for _, reader := range w.statusReaders {
		if by, out := reader.SkippedBy(w.cluster.Targets[target].ID); out {
			return by, true
		}
	}
	return "", false
}
