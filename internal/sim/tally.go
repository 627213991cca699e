package sim

import (
	"fmt"
	"strings"
)

// Tally sums up stories.
type Tally struct {
	worlds, steps, ticks, violations, deletions, requests int
	happened                                              [kinds]int
}

// Add takes in a story.
func (t *Tally) Add(r *Result) {
	t.worlds++
	t.steps += r.Steps
	t.deletions += r.Deletions
	t.requests += r.Requests
	t.ticks += r.Ticks
	if r.Complaint != "" {
		t.violations++
	}
	for _, s := range r.Trace {
		t.happened[s.Kind]++
	}
}

// String returns what has happened, in words.
func (t *Tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d worlds, %d steps, %.1f simulated hours, %d deletions, %d requests, %d violations",
		t.worlds, t.steps, Ticks(t.ticks).Hours(), t.deletions, t.requests, t.violations)
	for k, n := range &t.happened {
		if name := Kind(k).fault(); name != "" && n > 0 {
			fmt.Fprintf(&b, "\n%8d %s", n, name)
		}
	}
	return b.String()
}

// fault returns the name of a kind of fault, and "" for a kind that is no fault.
func (k Kind) fault() string {
	switch k { //nolint:exhaustive // the others are no faults
	case CrashingPass:
		return "crashes in a pass"
	case Restart:
		return "restarts"
	case RefusedPass:
		return "passes whose remedies are refused"
	case LosingPass:
		return "passes that lose an answer"
	case FailingPass:
		return "passes with a call that fails"
	case LoseAnswer:
		return "lost answers between other events"
	case FailCall:
		return "failed calls between other events"
	case Flap:
		return "nodes that turn from Ready to not, or back"
	case Vanish:
		return "nodes that are deleted, or register again"
	case Fail:
		return "machines that fail"
	case Pause:
		return "pauses of policies, and their ends"
	case Defeat:
		return "remediators that give up"
	case Defer:
		return "owners that refuse"
	}
	return ""
}
