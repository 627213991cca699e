package cli

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// TestRemedyWords: a person reads what happens to the machine, whoever does it.
func TestRemedyWords(t *testing.T) {
	template := core.Reference{APIVersion: "a.example/v1", Kind: "RebootTemplate", Namespace: "machines", Name: "fast"}
	for want, ladder := range map[string][]core.Step{
		"is not repaired, since its health check names no remedy that Fettle knows": nil,
		"is deleted, and its owner makes a new machine":                             {{Remedy: "DeleteMachine", Nature: core.Destroys}, {Remedy: "Other", Nature: core.Requests}},
		"is marked for an outside remediator and left to it":                        {{Remedy: "AnnotateMachine", Nature: core.HandsOver}},
		"is left to an outside remediator, which is asked by an object made from RebootTemplate machines/fast": {
			{Remedy: "RequestMachineRemediation", Nature: core.Requests, Template: template},
		},
		"is left to an outside remediator, which is asked by an object made from RebootTemplate machines/fast, and to its owner once that remediator has given it up": {
			{Remedy: "RequestClusterMachineRemediation", Nature: core.Requests, Template: template}, {Remedy: "MarkOwner", Nature: core.Delegates},
		},
	} {
		if got := remedyWords(ladder, "machine"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
