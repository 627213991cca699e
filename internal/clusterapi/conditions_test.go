package clusterapi

import (
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestWhyAHealthCheckHasFailed: reasons and messages are the texts that Cluster API's users look for
// (docs/reference/cluster-api.md#conditions), and the first finding gives the reason.
func TestWhyAHealthCheckHasFailed(t *testing.T) {
	ready := core.ConditionCriterion{Type: "Ready", Status: "False", For: 5 * time.Minute}
	disk := core.ConditionCriterion{Type: "DiskPressure", Status: "True", For: time.Minute}
	cases := map[string]struct {
		findings            []core.Verdict
		current, deprecated ConditionContent
	}{
		"a person's word": {
			[]core.Verdict{{Reason: core.RemediationRequested}},
			ConditionContent{"False", "", "HasRemediateAnnotation", "Health check failed:\n  * A person has requested remediation by the annotation cluster.x-k8s.io/remediate-machine"},
			ConditionContent{"False", "Warning", "HasRemediateMachineAnnotation", "A person has requested remediation by the annotation cluster.x-k8s.io/remediate-machine"},
		},
		"a person's request": {
			[]core.Verdict{{Reason: core.RemediationRequested, Since: time.Unix(1, 0)}},
			ConditionContent{"False", "", "HasRemediateAnnotation", "Health check failed:\n  * A person has requested remediation by the annotation fettle.io/repair-requested-at"},
			ConditionContent{"False", "Warning", "HasRemediateMachineAnnotation", "A person has requested remediation by the annotation fettle.io/repair-requested-at"},
		},
		"a failure": {
			[]core.Verdict{{Reason: core.TargetFailed}},
			ConditionContent{"False", "", "MachineHasFailure", "Health check failed:\n  * Machine has failed for good: CreateError: no quota"},
			ConditionContent{"False", "Warning", "MachineHasFailure", "Machine has failed for good: CreateError: no quota"},
		},
		"a node that never came": {
			[]core.Verdict{{Reason: core.NodeStartupTimeout, Limit: 10 * time.Minute}},
			ConditionContent{"False", "", "NodeStartupTimeout", "Health check failed:\n  * No Node has joined within 10m0s"},
			ConditionContent{"False", "Warning", "NodeStartupTimeout", "No Node has joined within 10m0s"},
		},
		"a node that is gone": {
			[]core.Verdict{{Reason: core.NodeNotFound}},
			ConditionContent{"False", "", "NodeDeleted", "Health check failed:\n  * Node w has been deleted"},
			ConditionContent{"False", "Warning", "NodeNotFound", ""},
		},
		"two conditions of the node": {
			[]core.Verdict{{Reason: core.ConditionMet, Criterion: ready}, {Reason: core.ConditionMet, Criterion: disk}},
			ConditionContent{"False", "", "UnhealthyNode", "Health check failed:\n  * Condition Ready on Node has been False for at least 5m0s\n  * Condition DiskPressure on Node has been True for at least 1m0s"},
			ConditionContent{"False", "Warning", "UnhealthyNode", "Condition Ready on Node has been False for at least 5m0s; Condition DiskPressure on Node has been True for at least 1m0s"},
		},
		"conditions that hold together": {
			[]core.Verdict{{Reason: core.ConditionsMet, Detail: "node condition AgentReady has been missing", Limit: 10 * time.Minute, Since: time.Unix(1, 0)}},
			ConditionContent{"False", "", "UnhealthyNode", "Health check failed:\n  * The node condition AgentReady has been missing for at least 10m0s"},
			ConditionContent{"False", "Warning", "UnhealthyNode", "The node condition AgentReady has been missing for at least 10m0s"},
		},
		"the machine's own condition, which goes first": {
			[]core.Verdict{{Reason: core.TargetConditionMet, Criterion: disk}, {Reason: core.ConditionMet, Criterion: ready}},
			ConditionContent{"False", "", "UnhealthyMachine", "Health check failed:\n  * Condition DiskPressure on Machine has been True for at least 1m0s\n  * Condition Ready on Node has been False for at least 5m0s"},
			ConditionContent{"False", "Warning", "UnhealthyMachine", "Condition DiskPressure on Machine has been True for at least 1m0s; Condition Ready on Node has been False for at least 5m0s"},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got := HealthCheckFailed(&Machine{Failure: "CreateError:\n no  quota"}, "w", tc.findings)
			if len(got) != 2 || *got[Current].Content != tc.current || *got[Deprecated].Content != tc.deprecated {
				t.Errorf("it says\n%+v\n%+v\nwant\n%+v\n%+v", *got[Current].Content, *got[Deprecated].Content, tc.current, tc.deprecated)
			}
		})
	}
	if got := HealthCheckFailed(&Machine{}, "w", nil); got != nil {
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
		machine   string
		requested bool
		answer    string
		// spared is set if the request can be withdrawn.
		spared bool
	}{
		"it has not answered":            {running, true, "", true},
		"it defers":                      {answered("False", "RemediationDeferred", "* one\\n* two"), true, "MachineSet workers says RemediationDeferred: * one * two", true},
		"it can't, and does not say why": {answered("False", "CannotBeRemediated", ""), true, "MachineSet workers says CannotBeRemediated", true},
		"it does it":                     {answered("False", "MachineDeleting", "Machine deletionTimestamp set"), true, "MachineSet workers says MachineDeleting: Machine deletionTimestamp set", false},
		"it has done it":                 {answered("True", "Remediated", ""), false, "", false},
		"it does not know":               {answered("Unknown", "InternalError", ""), false, "", false},
		"no owner has a request":         {plainMeta, false, "", false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			m := read(t, tc.machine)
			if (m.OwnerRequest() != nil) != tc.requested || m.Answer() != tc.answer {
				t.Errorf("requested: %t, answer: %q", m.OwnerRequest() != nil, m.Answer())
			}
			if spares := WithdrawOwnerRequest(m); (spares != nil) != tc.spared {
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

// TestMarksAreDistinguished: a later call for the same machine is another.
func TestMarksAreDistinguished(t *testing.T) {
	first := read(t, running)
	later := read(t, strings.Replace(running, "00:00:01Z", "00:00:09Z", 1))
	if a, b := first.OwnerRequest().ID(first), later.OwnerRequest().ID(later); a != "m-uid@2026-08-03T00:00:01Z" || b != "m-uid@2026-08-03T00:00:09Z" {
		t.Errorf("they are %s and %s", a, b)
	}
}
