package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// What stands in the place of whether repairs go on.
const (
	repairsAllowed = "Allowed"
	repairsStopped = "Stopped"
	repairsUnknown = "Unknown"
)

// useWrittenStatus tells of a health check what its controller has written last, where it can't be judged from here.
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

// mostAtOdds bounds the health checks that are named in notes.
const mostAtOdds = 10

// notesAtOdds are sentences about health checks of which the controller says that it can't follow them, while from here they
// can be: it lacks a right or meets a bound that the person does not. So are those about another controller. Those of a namespace
// are told, or all for "".
func (w *assessment) notesAtOdds(namespace string) []string {
	var notes []string
	for i := range w.policies {
		if isIn(w.policies[i].ID, namespace) && len(notes) < mostAtOdds {
			notes = append(notes, w.notesOn(i)...)
		}
	}
	return notes
}

// notesAtOddsOn are such sentences about the health checks that judge some targets.
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

// notesOn are such sentences about one health check.
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

// noteAtOdds is such a sentence about one health check, empty where the controller agrees.
func (w *assessment) noteAtOdds(policy int) string {
	p := &w.policies[policy]
	if w.blocked != nil || p.Paused || w.healthCheck(policy).Repairs != repairsAllowed {
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

// writtenHealth gives what a target says of its health, false when it says nothing.
func (w *assessment) writtenHealth(target int) (WrittenHealth, bool) {
	for _, reader := range w.statusReaders {
		if health, says := reader.HealthOf(w.cluster.Targets[target].ID); says {
			return health, true
		}
	}
	return WrittenHealth{}, false
}

// useWrittenHealth takes what a target says of itself in the place of verdicts that can't be made from here. Where nobody judges,
// that too is out of date.
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

// nextUnjudged says what comes next for a target that can't be judged from here.
func (w *assessment) nextUnjudged() Next {
	if w.blocked.Halted {
		return Next{Text: sentence(w.blocked.Message)}
	}
	return Next{Text: "It is not known, since " + w.blocked.Message + "."}
}

// skippedBy says by what somebody has taken a target out of all health checking.
func (w *assessment) skippedBy(target int) (string, bool) {
	for _, reader := range w.statusReaders {
		if by, out := reader.SkippedBy(w.cluster.Targets[target].ID); out {
			return by, true
		}
	}
	return "", false
}
