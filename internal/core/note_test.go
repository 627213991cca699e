package core_test

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// TestNotes: the reason of a note follows from the change, and not from its text.
func TestNotes(t *testing.T) {
	for name, c := range map[string]struct {
		note   core.Note
		before core.Repair
		want   core.NoteReason
		says   string
	}{
		"a recovery":               {core.Note{Recovered: noon}, core.Repair{}, core.NotedRecovery, "the target is healthy again; its requests are withdrawn when that has lasted, or when a user confirms it"},
		"a recovery and an answer": {core.Note{Recovered: noon, Answer: "wait"}, core.Repair{}, core.NotedRecovery, "the target is healthy again; its requests are withdrawn when that has lasted, or when a user confirms it"},
		"a relapse":                {core.Note{Answer: "wait"}, core.Repair{Recovered: noon}, core.NotedRelapse, "the target is not healthy after all; its repair goes on"},
		"an answer":                {core.Note{Answer: "wait"}, core.Repair{}, core.NotedAnswer, "wait"},
		"an answer while healthy":  {core.Note{Recovered: noon, Answer: "wait"}, core.Repair{Recovered: noon}, core.NotedAnswer, "wait"},
		"a proof":                  {core.Note{}, core.Repair{EvidenceUnrecorded: true, Evidence: []core.Evidence{{Method: "NewBoot"}, {Method: "PowerOff"}, {}}}, core.NotedProof, "the node is proven to have stopped, by PowerOff"},
		"an answer beside a proof": {core.Note{Answer: "wait"}, core.Repair{EvidenceUnrecorded: true}, core.NotedAnswer, "wait"},
		"a proof while healthy":    {core.Note{Recovered: noon}, core.Repair{Recovered: noon, EvidenceUnrecorded: true}, core.NotedProof, "the node is proven to have stopped, by "},
		"a proof, and an answer stays": {
			core.Note{Answer: "wait"}, core.Repair{StepState: core.StepState{Answer: "wait"}, EvidenceUnrecorded: true, Evidence: []core.Evidence{{Method: "NewBoot"}}},
			core.NotedProof, "the node is proven to have stopped, by NewBoot",
		},
		"the same answer":    {core.Note{Answer: "wait"}, core.Repair{StepState: core.StepState{Answer: "wait"}}, core.NotedAnswer, "wait"},
		"no answer any more": {core.Note{}, core.Repair{StepState: core.StepState{Answer: "wait"}}, core.NotedNoAnswer, "the request has no answer yet"},
	} {
		if got := c.note.Reason(&c.before); got != c.want {
			t.Errorf("%s is noted as %s, want %s", name, got, c.want)
		}
		if got := c.note.Text(&c.before); got != c.says {
			t.Errorf("%s is told as %q, want %q", name, got, c.says)
		}
	}
}
