package nhc

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

func happened(kind core.EventKind) core.Event {
	return core.Event{Kind: kind, Policy: checkID("w"), Target: nodeID("a"), Node: "a", Text: "why"}
}

func happenedAt(step int, kind core.EventKind) core.Event {
	h := happened(kind)
	h.Step = step
	return h
}

func heldBy(gate core.Gate) core.Event {
	h := happened(core.EventHeldBack)
	h.Gate = gate
	return h
}

func several(kind core.EventKind, names ...string) core.Event {
	h := core.Event{Kind: kind, Policy: checkID("w"), Text: "why"}
	for _, name := range names {
		h.Targets = append(h.Targets, nodeID(name))
	}
	return h
}

// line returns an event as kubectl shows it.
func line(e event) string {
	related, _ := e.Related.(*corev1.ObjectReference)
	if related == nil {
		related = &corev1.ObjectReference{}
	}
	return strings.Join([]string{e.Type(), e.Reason, e.Action, e.Regarding.Name, related.Name, e.BoundedNote()}, "|")
}

func TestEventBecomesKubernetesEvent(t *testing.T) {
	const unremediated = "|Remediate|w|a|[remediation] node a is unhealthy and not remediated: why"
	restricted := core.Event{Kind: core.EventShortCircuited, Policy: checkID("w"), Text: "why"}
	var dozen []string
	for i := range 12 {
		dozen = append(dozen, fmt.Sprint("n", i))
	}
	cases := map[string]struct {
		event core.Event
		want  string
	}{
		"a suspicion":            {happened(core.EventSuspected), "Normal|DetectedUnhealthy|HealthCheck|w|a|[remediation] node a is not healthy: why"},
		"an unreadable node":     {happened(core.EventUnreadable), "Warning|NodeUnreadable|HealthCheck|w|a|[remediation] node a is left alone: why"},
		"a short circuit":        {restricted, "Warning|RemediationSkipped|Remediate|w||[remediation] no remediation begins: why"},
		"a remediation":          {happened(core.EventStarted), "Normal|RemediationCreated|Remediate|w|a|[remediation] node a is to be remediated: why"},
		"its first step":         {happenedAt(1, core.EventStarted), "Normal|RemediationCreated|Remediate|w|a|[remediation] node a is to be remediated: why"},
		"its second step":        {happenedAt(2, core.EventStarted), "Normal|RemediationCreated|Remediate|w|a|[remediation] node a is to be remediated by step 2: why"},
		"its end":                {happened(core.EventWithdrawn), "Normal|RemediationRemoved|Remediate|w|a|[remediation] node a is not to be remediated any more, and the request for that is withdrawn: why"},
		"an object that stays":   {happened(core.EventStuck), "Warning|RemediationStuck|Remediate|w|a|[remediation] node a is not to be remediated any more, and the object for that does not go away: why"},
		"a step given up":        {happenedAt(2, core.EventEscalated), "Warning|RemediationGivenUp|Remediate|w|a|[remediation] node a is still unhealthy, and step 2 of its remediation is given up: why"},
		"a refusal":              {happened(core.EventRefused), "Warning|RemediationFailed|Remediate|w|a|[remediation] node a is not remediated yet, since that was refused; it is tried again after a pause: why"},
		"a rehearsal":            {happened(core.EventDryRun), "Normal|DryRun|Remediate|w|a|[remediation] were it not for the annotation fettle.io/dry-run, remediation would begin now: node a is unhealthy: why"},
		"a pause":                {heldBy(core.PolicyPaused), "Normal|RemediationSkipped" + unremediated},
		"an upgrade":             {heldBy(core.ClusterUpgrading), "Normal|RemediationSkipped" + unremediated},
		"an upgrade of the node": {heldBy(core.TargetUpgrading), "Normal|RemediationSkipped" + unremediated},
		"a back-off":             {heldBy(core.BackingOff), "Normal|RemediationSkipped" + unremediated},
		"a node given up":        {heldBy(core.PoolGivenUp), "Warning|RemediationSkipped" + unremediated},
		"a threshold":            {heldBy(core.TooManyUnhealthy), "Warning|RemediationSkipped" + unremediated},
		"a storm":                {heldBy(core.StormCooldown), "Warning|RemediationSkipped" + unremediated},
		"an exclusion":           {heldBy(core.Excluded), "Warning|RemediationSkipped" + unremediated},
		"a control-plane node":   {heldBy(core.ControlPlaneBusy), "Warning|RemediationSkipped" + unremediated},
		"a quorum":               {heldBy(core.QuorumLost), "Warning|RemediationSkipped" + unremediated},
		"an unknown quorum":      {heldBy(core.QuorumUnknown), "Warning|RemediationSkipped" + unremediated},
		"a lease":                {heldBy(core.LeaseHeld), "Warning|RemediationSkipped" + unremediated},
		"the end of all steps":   {heldBy(core.StepsExhausted), "Warning|NoTemplateLeft" + unremediated},
		"several":                {several(core.EventStarted, "a", "b"), "Normal|RemediationCreated|Remediate|w|a|[remediation] 2 nodes (a, b) are to be remediated; of the first, why"},
		"more than fit a note":   {several(core.EventWithdrawn, dozen...), "Normal|RemediationRemoved|Remediate|w|n0|[remediation] 12 nodes (n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and 2 more) are not to be remediated any more, and the request for that is withdrawn; of the first, why"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			e, emitted := eventFor(tc.event)
			if diff := cmp.Diff(tc.want, line(e)); diff != "" || !emitted {
				t.Errorf("emitted: %t; event (-want +got):\n%s", emitted, diff)
			}
		})
	}
}

// TestEventsRelateToTheRepair, or to the first node where there is none: the recorder merges events that differ in
// nothing else.
func TestEventsRelateToTheRepair(t *testing.T) {
	repaired := happened(core.EventStarted)
	repaired.Repair = core.RepairKey{Namespace: "fettle", Name: "repair"}
	for want, h := range map[string]core.Event{"Repair repair": repaired, "Node a": happened(core.EventStarted), "Node b": several(core.EventStarted, "b")} {
		e, _ := eventFor(h)
		if r, is := e.Related.(*corev1.ObjectReference); !is || r.Kind+" "+r.Name != want {
			t.Errorf("it relates to %+v, want %s", e.Related, want)
		}
	}
}

// TestEveryEventHasAKubernetesEvent: new kinds too, but for what the status reports.
func TestEveryEventHasAKubernetesEvent(t *testing.T) {
	known := 0
	for kind := core.EventKind(1); kind.String() != "unnamed"; kind++ {
		known++
		e, emitted := eventFor(happened(kind))
		if emitted != (kind != core.EventMisconfigured) {
			t.Errorf("%s is emitted as an event: %t", kind, emitted)
		}
		if emitted && (e.Reason == "" || e.Action == "" || e.Regarding != checkID("w") || !strings.HasSuffix(e.Note, "why")) {
			t.Errorf("%s has the event %+v", kind, e)
		}
	}
	if known < 10 {
		t.Errorf("only %d kinds of events are known", known)
	}
}

// TestEveryGateIsAWarningOrNot: gates that are added later are warnings.
func TestEveryGateIsAWarningOrNot(t *testing.T) {
	calm := 0
	for gate := core.Gate(1); gate.String() != "Unnamed"; gate++ {
		if !isWarning(gate) {
			calm++
		}
	}
	if calm != 7 || !isWarning(core.Gate(99)) {
		t.Errorf("%d gates are no warning, want 7", calm)
	}
}

func TestTransitionsBecomeEvents(t *testing.T) {
	const (
		started  = "Warning|StormRecoveryStarted|HealthCheck|w||[remediation] too many nodes are unhealthy, so no remediation begins until enough are healthy and the cooldown is over"
		cooldown = "Warning|StormRecoveryCooldownStarted|HealthCheck|w||[remediation] enough nodes are healthy again; remediation resumes when the cooldown is over"
		ended    = "Normal|StormRecoveryEnded|HealthCheck|w||[remediation] the storm is over, and remediation resumes"
		enabled  = "Normal|Enabled|HealthCheck|w||[remediation] nodes are checked, and remediated when they are unhealthy"
		missing  = "Warning|Disabled|HealthCheck|w||[remediation] RemediationTemplateNotFound: " + unusable
		paused   = "Normal|RemediationSkipped|HealthCheck|w||[remediation] no remediation begins while spec.pauseRequests has entries; remove them to go on"
	)
	steps := []struct {
		sentence string
		report   core.PolicyReport
		want     []string
	}{
		{"it has never been seen", found(), []string{enabled}},
		{"nothing has happened", found(healthy(8)), nil},
		{"a template is missing", found(lacks("t")), []string{missing + "t does not exist"}},
		{"it still is", found(lacks("t"), healthy(7)), nil},
		{"another one is missing too", found(lacks("t"), lacks("u")), []string{missing + "t does not exist; u does not exist"}},
		{"it can't even be followed", found(isBroken), []string{"Warning|Disabled|HealthCheck|w||[remediation] InvalidSpec: " + brokenText}},
		{"all is mended", found(), []string{enabled}},
		{"it is paused", found(isPaused), []string{paused}},
		{"it still is", found(isPaused, healthy(3)), nil},
		{"the pause ends", found(), nil},
		{"a storm", found(hasCooldown, healthy(2)), []string{started}},
		{"it goes on", found(hasCooldown, healthy(3)), nil},
		{"it calms down", found(hasCooldown, cooling), []string{cooldown}},
		{"it is calm still", found(hasCooldown, cooling, healthy(8)), nil},
		{"it is back", found(hasCooldown, healthy(3)), nil},
		{"it calms down again", found(hasCooldown, cooling), []string{cooldown}},
		{"it is over", found(hasCooldown), []string{ended}},
	}
	var s v1alpha1.NodeHealthCheckStatus
	for i, step := range steps {
		fresh, _ := statusOf(s, step.report, dawn.Add(time.Duration(i)*time.Second))
		var got []string
		for _, e := range transitions(checkID("w"), s, fresh) {
			got = append(got, line(e))
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s; events (-want +got):\n%s", step.sentence, diff)
		}
		s = fresh
	}
	// Conditions of which one field differs alone.
	with := func(status, reason, message string) v1alpha1.NodeHealthCheckStatus {
		return v1alpha1.NodeHealthCheckStatus{Conditions: []metav1.Condition{{Type: "Disabled", Status: metav1.ConditionStatus(status), Reason: reason, Message: message}}}
	}
	for sentence, tc := range map[string]struct {
		old, fresh v1alpha1.NodeHealthCheckStatus
		want       int
	}{
		"the status":                {with("False", "R", "m"), with("True", "R", "m"), 1},
		"the reason":                {with("True", "R", "m"), with("True", "S", "m"), 1},
		"the message":               {with("True", "R", "m"), with("True", "R", "n"), 1},
		"nothing":                   {with("True", "R", "m"), with("True", "R", "m"), 0},
		"the message of an enabled": {with("False", "R", "m"), with("False", "R", "n"), 0},
		"the reason of an enabled":  {with("False", "R", "m"), with("False", "S", "m"), 0},
		"the end of a disabled":     {with("True", "R", "m"), with("False", "R", "m"), 1},
	} {
		if got := transitions(checkID("w"), tc.old, tc.fresh); len(got) != tc.want {
			t.Errorf("%s differs, and the events are %+v", sentence, got)
		}
	}
	broken := v1alpha1.NodeHealthCheckStatus{Conditions: []metav1.Condition{{Type: "Disabled", Status: "True", Reason: "R", Message: "m"}}}
	if got := transitions(checkID("w"), v1alpha1.NodeHealthCheckStatus{}, broken); len(got) != 1 || got[0].Reason != "Disabled" {
		t.Errorf("a health check that is disabled from the beginning has the events %+v", got)
	}
}

func TestAnyNoteFitsTheAPI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		note := strings.Repeat("é", rapid.IntRange(480, 515).Draw(t, "filler")) + rapid.StringOfN(rapid.RuneFrom(nil, unicode.L, unicode.P), 0, 60, -1).Draw(t, "text")
		got := eventAbout(core.ID{}, event{Note: note}).BoundedNote()
		if len(got) > 1024 || !utf8.ValidString(got) {
			t.Errorf("%d bytes, valid: %t", len(got), utf8.ValidString(got))
		}
		if kept := strings.TrimSuffix(got, "…"); !strings.HasPrefix("[remediation] "+note, kept) {
			t.Errorf("the note was changed, not shortened: %q", kept)
		}
	})
}
