package clusterapi

import (
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestWhyAHealthCheckHasFailed: reasons and messages are those that Cluster API's users look for
// (docs/reference/cluster-api.md#conditions), and the first finding gives the reason.
func TestWhyAHealthCheckHasFailed(t *testing.T) {
	ready := core.ConditionCriterion{Type: "Ready", Status: "False", For: 5 * time.Minute}
	disk := core.ConditionCriterion{Type: "DiskPressure", Status: "True", For: time.Minute}
	cases := map[string]struct {
		findings            []core.Verdict
		current, deprecated Words
	}{
		"a person's word": {
			[]core.Verdict{{Reason: core.PersonAsked}},
			Words{"False", "", "HasRemediateAnnotation", "Health check failed:\n  * A person has asked for remediation by the annotation cluster.x-k8s.io/remediate-machine"},
			Words{"False", "Warning", "HasRemediateMachineAnnotation", "A person has asked for remediation by the annotation cluster.x-k8s.io/remediate-machine"},
		},
		"a person's request": {
			[]core.Verdict{{Reason: core.PersonAsked, Since: time.Unix(1, 0)}},
			Words{"False", "", "HasRemediateAnnotation", "Health check failed:\n  * A person has asked for remediation by the annotation fettle.io/repair-requested-at"},
			Words{"False", "Warning", "HasRemediateMachineAnnotation", "A person has asked for remediation by the annotation fettle.io/repair-requested-at"},
		},
		"a failure": {
			[]core.Verdict{{Reason: core.TargetFailed}},
			Words{"False", "", "MachineHasFailure", "Health check failed:\n  * Machine has failed for good: CreateError: no quota"},
			Words{"False", "Warning", "MachineHasFailure", "Machine has failed for good: CreateError: no quota"},
		},
		"a node that never came": {
			[]core.Verdict{{Reason: core.NodeStartupTimeout, Limit: 10 * time.Minute}},
			Words{"False", "", "NodeStartupTimeout", "Health check failed:\n  * No Node has joined within 10m0s"},
			Words{"False", "Warning", "NodeStartupTimeout", "No Node has joined within 10m0s"},
		},
		"a node that is gone": {
			[]core.Verdict{{Reason: core.NodeNotFound}},
			Words{"False", "", "NodeDeleted", "Health check failed:\n  * Node w has been deleted"},
			Words{"False", "Warning", "NodeNotFound", ""},
		},
		"two conditions of the node": {
			[]core.Verdict{{Reason: core.ConditionMet, Criterion: ready}, {Reason: core.ConditionMet, Criterion: disk}},
			Words{"False", "", "UnhealthyNode", "Health check failed:\n  * Condition Ready on Node has been False for at least 5m0s\n  * Condition DiskPressure on Node has been True for at least 1m0s"},
			Words{"False", "Warning", "UnhealthyNode", "Condition Ready on Node has been False for at least 5m0s; Condition DiskPressure on Node has been True for at least 1m0s"},
		},
		"conditions that hold together": {
			[]core.Verdict{{Reason: core.ConditionsMet, Detail: "node condition AgentReady has been missing", Limit: 10 * time.Minute, Since: time.Unix(1, 0)}},
			Words{"False", "", "UnhealthyNode", "Health check failed:\n  * The node condition AgentReady has been missing for at least 10m0s"},
			Words{"False", "Warning", "UnhealthyNode", "The node condition AgentReady has been missing for at least 10m0s"},
		},
		"the machine's own condition, which goes first": {
			[]core.Verdict{{Reason: core.TargetConditionMet, Criterion: disk}, {Reason: core.ConditionMet, Criterion: ready}},
			Words{"False", "", "UnhealthyMachine", "Health check failed:\n  * Condition DiskPressure on Machine has been True for at least 1m0s\n  * Condition Ready on Node has been False for at least 5m0s"},
			Words{"False", "Warning", "UnhealthyMachine", "Condition DiskPressure on Machine has been True for at least 1m0s; Condition Ready on Node has been False for at least 5m0s"},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got := Failed(&Machine{Failure: "CreateError:\n no  quota"}, "w", tc.findings)
			if len(got) != 2 || *got[Current].Words != tc.current || *got[Deprecated].Words != tc.deprecated {
				t.Errorf("it says\n%+v\n%+v\nwant\n%+v\n%+v", *got[Current].Words, *got[Deprecated].Words, tc.current, tc.deprecated)
			}
		})
	}
	if got := Failed(&Machine{}, "w", nil); got != nil {
		t.Errorf("nothing is wrong, and it says %v", got)
	}
}

func TestAnswersOfOwners(t *testing.T) {
	answered := func(status, reason, message string) string {
		return strings.NewReplacer(
			`{type: OwnerRemediated, status: "False", reason: WaitingForRemediation, message: Waiting for remediation,`,
			`{type: OwnerRemediated, status: "`+status+`", reason: `+reason+`, message: "`+message+`",`,
		).Replace(running)
	}
	cases := map[string]struct {
		machine string
		asked   bool
		answer  string
		// spared is set when what is asked can be taken back.
		spared bool
	}{
		"it has not answered":            {running, true, "", true},
		"it defers":                      {answered("False", "RemediationDeferred", "* one\\n* two"), true, "MachineSet workers says RemediationDeferred: * one * two", true},
		"it can't, and does not say why": {answered("False", "CannotBeRemediated", ""), true, "MachineSet workers says CannotBeRemediated", true},
		"it does it":                     {answered("False", "MachineDeleting", "Machine deletionTimestamp set"), true, "MachineSet workers says MachineDeleting: Machine deletionTimestamp set", false},
		"it has done it":                 {answered("True", "Remediated", ""), false, "", false},
		"it does not know":               {answered("Unknown", "InternalError", ""), false, "", false},
		"nobody was asked":               {plainMeta, false, "", false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			m := read(t, tc.machine)
			if (m.Asked() != nil) != tc.asked || m.Answer() != tc.answer {
				t.Errorf("asked: %t, answer: %q", m.Asked() != nil, m.Answer())
			}
			if spares := SpareOwner(m); (spares != nil) != tc.spared {
				t.Errorf("taking it back changes %v", spares)
			}
		})
	}
}

// TestRemediatorHandsBack: the deprecated condition says that a remediator gave the machine up, unless owners can read that too.
func TestRemediatorHandsBack(t *testing.T) {
	const current = `{type: OwnerRemediated, status: "False", reason: WaitingForRemediation,`
	const deprecated = `{type: OwnerRemediated, status: "False", severity: Warning`
	alone := strings.Replace(running, current, `{type: OwnerRemediated, status: "True", reason: Remediated,`, 1)
	for name, c := range map[string]struct {
		machine string
		want    string
	}{
		"both stand":         {running, ""},
		"the deprecated one": {alone, "2026-08-03T00:00:02Z"},
		"it is true":         {strings.Replace(alone, deprecated, `{type: OwnerRemediated, status: "True", severity: ""`, 1), ""},
		"another reason":     {strings.ReplaceAll(alone, "WaitingForRemediation", "RemediationFailed"), ""},
		"none":               {plainMeta, ""},
	} {
		at := read(t, c.machine).HandedBack()
		got := ""
		if !at.IsZero() {
			got = at.UTC().Format(time.RFC3339)
		}
		if got != c.want {
			t.Errorf("%s: it was handed back at %q, want %q", name, got, c.want)
		}
	}
}

// TestMarksAreToldApart: a later call for the same machine is another.
func TestMarksAreToldApart(t *testing.T) {
	first := read(t, running)
	later := read(t, strings.Replace(running, "00:00:01Z", "00:00:09Z", 1))
	if a, b := first.Asked().ID(first), later.Asked().ID(later); a != "m-uid@2026-08-03T00:00:01Z" || b != "m-uid@2026-08-03T00:00:09Z" {
		t.Errorf("they are %s and %s", a, b)
	}
}
