package cli

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// TestRemedyWords: the text says what happens to the machine.
func TestRemedyWords(t *testing.T) {
	template := core.Reference{APIVersion: "a.example/v1", Kind: "RebootTemplate", Namespace: "machines", Name: "fast"}
	for want, steps := range map[string][]core.Step{
		"is not repaired, since its health check names no remedy that Fettle knows": nil,
		"is deleted, and its owner makes a new machine":                             {{Remedy: "DeleteMachine", Nature: core.Delete}, {Remedy: "Other", Nature: core.CreateRequest}},
		"is marked for an outside remediator and left to it":                        {{Remedy: "AnnotateMachine", Nature: core.Annotate}},
		"is left to an outside remediator, by an object that Fettle creates from RebootTemplate machines/fast": {
			{Remedy: "RequestMachineRemediation", Nature: core.CreateRequest, Template: template},
		},
		"is left to an outside remediator, by an object that Fettle creates from RebootTemplate machines/fast, and to its owner once that remediator has given it up": {
			{Remedy: "RequestClusterMachineRemediation", Nature: core.CreateRequest, Template: template}, {Remedy: "MarkOwner", Nature: core.AskOwner},
		},
	} {
		if got := remedyWords(steps, "machine"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
