package openshift

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

var (
	aCheck  = core.ID{Kind: "MachineHealthCheck", Namespace: "machines", Name: "workers", UID: "check-uid"}
	aTarget = core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
)

func coreEvent(kind core.EventKind, text string) core.Event {
	return core.Event{Kind: kind, Policy: aCheck, Target: aTarget, Node: "m-node", Text: text}
}

func held(gate core.Gate) core.Event {
	h := coreEvent(core.EventHeldBack, "why")
	h.Gate = gate
	return h
}

func by(remedy string, h core.Event) core.Event {
	h.Remedy = remedy
	return h
}

func TestEventBecomesKubernetesEvent(t *testing.T) {
	of := func(kind core.EventKind) core.Event {
		return core.Event{Kind: kind, Policy: aCheck, Text: "why"}
	}
	cases := map[string]struct {
		event core.Event
		kind  string
		want  event
	}{
		"a suspicion": {
			coreEvent(core.EventSuspected, "why"), "Normal",
			event{Regarding: aTarget, Reason: "DetectedUnhealthy", Action: "HealthCheck", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is not healthy: why"},
		},
		"a machine that can't be read": {
			coreEvent(core.EventUnreadable, "why"), "Warning",
			event{Regarding: aTarget, Warning: true, Reason: "MachineUnreadable", Action: "HealthCheck", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is left alone: why"},
		},
		"a short circuit": {
			of(core.EventShortCircuited), "Warning",
			event{Regarding: aCheck, Warning: true, Reason: "RemediationRestricted", Action: "Remediate", Note: "Repairs are stopped: why"},
		},
		"a health check that can't be followed": {
			of(core.EventMisconfigured), "Warning",
			event{Regarding: aCheck, Warning: true, Reason: "InvalidSpec", Action: "Remediate", Note: "Nothing is repaired, since this health check can't be followed: why"},
		},
		"an object that does not go away": {
			coreEvent(core.EventStuck, "why"), "Warning",
			event{Regarding: aTarget, Warning: true, Reason: "RemediationStuck", Action: "Remediate", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is not to be remediated any more, and the object for that does not go away: why"},
		},
		"a machine without an owner": {
			held(core.NoOwner), "Normal",
			event{Regarding: aTarget, Reason: "SkippedNoController", Action: "Remediate", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is unhealthy and not repaired: why"},
		},
		"a machine that a gate holds": {
			held(core.QuorumUnknown), "Normal",
			event{Regarding: aTarget, Reason: "RemediationHeldQuorumUnknown", Action: "Remediate", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is unhealthy and not repaired: why"},
		},
		"a machine for which there is no remedy": {
			held(core.NoRemedy), "Normal",
			event{Regarding: aTarget, Reason: "RemediationHeldNoRemedy", Action: "Remediate", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is unhealthy and not repaired: why"},
		},
		"a repair that begins": {
			coreEvent(core.EventStarted, "why"), "Normal",
			event{Regarding: aTarget, Reason: "MachineDeleted", Action: "Remediate", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is being deleted, for the owner to replace: why"},
		},
		"a deletion that is refused": {
			coreEvent(core.EventRefused, "why"), "Warning",
			event{Regarding: aTarget, Warning: true, Reason: "MachineDeletionFailed", Action: "Remediate", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is not deleted yet, since that was refused; it is tried again after a pause: why"},
		},
		"a deletion that begins": {
			by(DeleteMachine, coreEvent(core.EventStarted, "why")), "Normal",
			event{Regarding: aTarget, Reason: "MachineDeleted", Action: "Remediate", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is being deleted, for the owner to replace: why"},
		},
		"a machine that is marked": {
			by(AnnotateMachine, coreEvent(core.EventStarted, "why")), "Normal",
			event{Regarding: aTarget, Reason: "ExternalAnnotationAdded", Action: "Remediate", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is left to an outside remediator, for whom it is marked by the annotation host.metal3.io/external-remediation: why"},
		},
		"a mark that is refused": {
			by(AnnotateMachine, coreEvent(core.EventRefused, "why")), "Warning",
			event{Regarding: aTarget, Warning: true, Reason: "ExternalAnnotationFailed", Action: "Remediate", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is not marked for an outside remediator yet, since that was refused; it is tried again after a pause: why"},
		},
		"a machine with a remediation request": {
			by(RequestMachineRemediation, coreEvent(core.EventStarted, "why")), "Normal",
			event{Regarding: aTarget, Reason: "ExternalRemediationRequested", Action: "Remediate", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is left to an outside remediator, for whom a remediation object was created: why"},
		},
		"a remediation object that is refused": {
			by(RequestMachineRemediation, coreEvent(core.EventRefused, "why")), "Warning",
			event{Regarding: aTarget, Warning: true, Reason: "ExternalRemediationRequestCreationFailed", Action: "Remediate", Note: "MachineHealthCheck machines/workers: machine m (node m-node) is not handed to an outside remediator yet, since that was refused; it is tried again after a pause: why"},
		},
		"a rehearsal with a remediator": {
			by(AnnotateMachine, coreEvent(core.EventDryRun, "why")), "Normal",
			event{Regarding: aTarget, Reason: "DryRun", Action: "Remediate", Note: "MachineHealthCheck machines/workers: were it not for the annotation fettle.io/dry-run, a repair by an outside remediator would begin now: machine m (node m-node) is unhealthy: why"},
		},
		"a rehearsal": {
			coreEvent(core.EventDryRun, "why"), "Normal",
			event{Regarding: aTarget, Reason: "DryRun", Action: "Remediate", Note: "MachineHealthCheck machines/workers: were it not for the annotation fettle.io/dry-run, a deletion would begin now: machine m (node m-node) is unhealthy: why"},
		},
	}
	several := core.Event{Kind: core.EventStarted, Policy: aCheck, Text: "why"}
	for i := range 12 {
		several.Targets = append(several.Targets, core.ID{Kind: "Machine", Namespace: "machines", Name: fmt.Sprint("m", i)})
	}
	cases["several that begin together"] = struct {
		event core.Event
		kind  string
		want  event
	}{several, "Normal", event{
		Regarding: aCheck, Reason: "MachineDeleted", Action: "Remediate",
		Note: "MachineHealthCheck machines/workers: 12 machines (m0, m1, m2, m3, m4, m5, m6, m7, m8, m9 and 2 more) are being deleted, for the owner to replace; of the first, why",
	}}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got := eventFor(tc.event)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			if got.Type() != tc.kind {
				t.Errorf("its type is %s, want %s", got.Type(), tc.kind)
			}
		})
	}
}

// TestEveryKindHasAnEvent covers also kinds that are added later.
func TestEveryKindHasAnEvent(t *testing.T) {
	known := 0
	for kind := core.EventKind(1); kind.String() != "unnamed"; kind++ {
		known++
		if e := eventFor(coreEvent(kind, "why")); e.Reason == "" || e.Action == "" || e.Regarding == (core.ID{}) || !strings.HasSuffix(e.Note, "why") {
			t.Errorf("%s has the event %+v", kind, e)
		}
	}
	if known < 7 {
		t.Errorf("only %d kinds are known", known)
	}
}

func TestEventsOfAMachineWithoutNode(t *testing.T) {
	h := coreEvent(core.EventSuspected, "why")
	h.Node = ""
	want := "MachineHealthCheck machines/workers: machine m is not healthy: why"
	if got := eventFor(h).Note; got != want {
		t.Errorf("the note is %q, want %q", got, want)
	}
}

// TestNoteFitsTheAPI: the API server accepts 1024 bytes, and a note must be valid text to its end.
func TestNoteFitsTheAPI(t *testing.T) {
	cases := map[string]struct{ note, want string }{
		"a short note":              {"short", "short"},
		"a note that just fits":     {strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		"a note that is too long":   {strings.Repeat("x", 1025), strings.Repeat("x", 1021) + "…"},
		"a cut within a letter":     {strings.Repeat("x", 1020) + strings.Repeat("ü", 10), strings.Repeat("x", 1020) + "…"},
		"a cut within a pictograph": {strings.Repeat("x", 1018) + strings.Repeat("🔧", 10), strings.Repeat("x", 1018) + "…"},
		"a cut between letters":     {strings.Repeat("x", 1019) + strings.Repeat("ü", 10), strings.Repeat("x", 1019) + "ü…"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if got := (event{Note: tc.note}).BoundedNote(); got != tc.want {
				t.Errorf("got %d bytes ending in %q, want %d ending in %q", len(got), ending(got), len(tc.want), ending(tc.want))
			}
		})
	}
}

func ending(s string) string { return s[max(0, len(s)-8):] }

func TestAnyNoteFitsTheAPI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		note := strings.Repeat("é", rapid.IntRange(490, 515).Draw(t, "filler")) + rapid.StringOfN(rapid.RuneFrom(nil, unicode.L, unicode.P), 0, 60, -1).Draw(t, "text")
		got := event{Note: note}.BoundedNote()
		if len(got) > 1024 || !utf8.ValidString(got) {
			t.Errorf("%d bytes, valid: %t", len(got), utf8.ValidString(got))
		}
		if kept := strings.TrimSuffix(got, "…"); !strings.HasPrefix(note, kept) {
			t.Errorf("the note was changed, not shortened: %q", ending(kept))
		}
	})
}
