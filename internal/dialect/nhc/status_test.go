package nhc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// found returns the report of a health check with ten nodes, nine of them healthy.
func found(changes ...func(*core.PolicyReport)) core.PolicyReport {
	r := core.PolicyReport{
		Policy: core.Policy{ID: checkID("w"), Steps: []core.Step{{Remedy: "RequestNodeRemediation", Nature: core.CreateRequest}}},
		Tally:  core.Tally{Total: 10, Healthy: 9, MaxUnhealthy: 4, Permitted: true},
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func healthy(n int) func(*core.PolicyReport) {
	return func(r *core.PolicyReport) { r.Tally.Healthy, r.Tally.Permitted = n, n >= 6 }
}

func cooling(r *core.PolicyReport) {
	r.Tally.CoolingDown, r.Tally.ResumeAt = true, dawn.Add(time.Minute)
}

func hasCooldown(r *core.PolicyReport) {
	r.Policy.StormCooldown, r.Policy.FixedCooldown = time.Minute, true
}

func isPaused(r *core.PolicyReport) { r.Policy.Paused = true }

func isBroken(r *core.PolicyReport) { r.Policy.Problem, r.Tally.Permitted = "spec.x is wrong", false }

func lacks(template string) func(*core.PolicyReport) {
	return func(r *core.PolicyReport) {
		r.Policy.Steps = append(r.Policy.Steps, core.Step{Problem: template + " does not exist", Missing: true})
	}
}

func dislikes(template string) func(*core.PolicyReport) {
	return func(r *core.PolicyReport) {
		r.Policy.Steps = append(r.Policy.Steps, core.Step{Problem: template + " has no spec.template"})
	}
}

func concerned(name, text string) func(*core.PolicyReport) {
	return func(r *core.PolicyReport) {
		r.Concerns = append(r.Concerns, core.Concern{Target: nodeID(name), Text: text})
	}
}

// ails adds the case of an unhealthy node with these requests.
func ails(name string, health core.Health, requests ...core.Request) func(*core.PolicyReport) {
	return func(r *core.PolicyReport) {
		r.Members = append(r.Members, core.MemberReport{Target: nodeID(name), Health: health, Requests: requests})
	}
}

// requestOfAge returns a request of this age.
func requestOfAge(name string, age time.Duration) core.Request {
	return core.Request{
		ID: core.ID{Kind: "Reboot", Namespace: "n", Name: name, UID: name + "-uid"}, APIVersion: "t.example/v1",
		Template: core.Reference{APIVersion: "t.example/v1", Kind: "RebootTemplate", Namespace: "n", Name: "r"}, Created: before(age),
	}
}

func statusFor(changes ...func(*core.PolicyReport)) v1alpha1.NodeHealthCheckStatus {
	s, _ := statusOf(v1alpha1.NodeHealthCheckStatus{}, found(changes...), dawn)
	return s
}

const (
	disabledFalse = "Disabled=False NodeHealthCheckEnabled: "
	pausedText    = "No remediation begins while spec.pauseRequests has entries; remove them to go on"
	brokenText    = "Nothing is remediated, since this health check can't be followed: spec.x is wrong"
	tooMany       = "No remediation begins, since more nodes are not healthy than maxUnhealthy or minHealthy allows, " +
		"which points to a fault that they share; it resumes when enough are healthy again "
	unusable = "No remediation begins, since a template can't be used: "
)

func TestConditionsAndPhase(t *testing.T) {
	cases := map[string]struct {
		reason     string
		status     v1alpha1.NodeHealthCheckStatus
		conditions []string
		phase      string
	}{
		"nothing is done": {
			"", statusFor(), []string{disabledFalse, "RemediationAllowed=True Allowed: "}, "Enabled: No node is under remediation",
		},
		"who is unhealthy": {
			"a description of the health check says what goes on",
			statusFor(healthy(7), concerned("a", "is being repaired"), concerned("b", "may become unhealthy")),
			[]string{disabledFalse, "RemediationAllowed=True Allowed: 3 of 10 nodes are not healthy: a is being repaired; b may become unhealthy; and 1 more"},
			"Enabled: No node is under remediation",
		},
		"one is remediated": {
			"", statusFor(ails("a", core.Unhealthy, requestOfAge("a", 0), requestOfAge("b", 0)), ails("b", core.Unhealthy)),
			[]string{disabledFalse, "RemediationAllowed=True Allowed: "}, "Remediating: 1 node is under remediation",
		},
		"two are remediated": {
			"also when one is healthy again", statusFor(ails("a", core.Unhealthy, requestOfAge("a", 0)), ails("b", core.Suspect, requestOfAge("b", 0))),
			[]string{disabledFalse, "RemediationAllowed=True Allowed: "}, "Remediating: 2 nodes are under remediation",
		},
		"paused": {
			"before what is under way", statusFor(isPaused, healthy(2), ails("a", core.Unhealthy, requestOfAge("a", 0))),
			[]string{disabledFalse, "RemediationAllowed=False Paused: " + pausedText}, "Paused: " + pausedText,
		},
		"too many are unhealthy": {
			"which is no phase", statusFor(healthy(5)),
			[]string{disabledFalse, "RemediationAllowed=False TooManyUnhealthy: " + tooMany + "(observed: 10, unhealthy: 5, at most: 4)"},
			"Enabled: No node is under remediation",
		},
		"a cooldown": {
			"", statusFor(cooling),
			[]string{disabledFalse, "RemediationAllowed=False StormCooldown: Remediation was stopped until just now; it resumes when nodes have had time to recover " +
				"(spec.stormCooldownDuration)"}, "Enabled: No node is under remediation",
		},
		"it can't be followed": {
			"before everything else", statusFor(isBroken, isPaused, lacks("t")),
			[]string{"Disabled=True InvalidSpec: " + brokenText, "RemediationAllowed=False InvalidSpec: " + brokenText}, "Disabled: " + brokenText,
		},
		"a template is missing": {
			"", statusFor(lacks("t"), isPaused), []string{
				"Disabled=True RemediationTemplateNotFound: " + unusable + "t does not exist",
				"RemediationAllowed=False RemediationTemplateNotFound: " + unusable + "t does not exist",
			}, "Disabled: " + unusable + "t does not exist",
		},
		"a template is no template": {
			"the first one gives the reason, all are told", statusFor(dislikes("u"), lacks("t")), []string{
				"Disabled=True RemediationTemplateInvalid: " + unusable + "u has no spec.template; t does not exist",
				"RemediationAllowed=False RemediationTemplateInvalid: " + unusable + "u has no spec.template; t does not exist",
			}, "Disabled: " + unusable + "u has no spec.template; t does not exist",
		},
		"a missing one before an unusable one": {
			"", statusFor(lacks("t"), dislikes("u")), []string{
				"Disabled=True RemediationTemplateNotFound: " + unusable + "t does not exist; u has no spec.template",
				"RemediationAllowed=False RemediationTemplateNotFound: " + unusable + "t does not exist; u has no spec.template",
			}, "Disabled: " + unusable + "t does not exist; u has no spec.template",
		},
	}
	cases["one is given up"] = struct {
		reason     string
		status     v1alpha1.NodeHealthCheckStatus
		conditions []string
		phase      string
	}{
		"remediation of others is allowed", statusFor(func(r *core.PolicyReport) { r.GivenUp = []core.ID{nodeID("a")} }),
		[]string{disabledFalse, "RemediationAllowed=True PoolGivenUp: Given up, since repairs in a row have not helped: a; find out why and mend that, then resume by " +
			"kubectl annotate --overwrite nodehealthchecks.remediation.medik8s.io w fettle.io/resumed-at=$(date -u +%FT%TZ) ; "}, "Enabled: No node is under remediation",
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(tc.conditions, conditionTexts(tc.status.Conditions)); diff != "" {
				t.Errorf("%s\nconditions (-want +got):\n%s", tc.reason, diff)
			}
			if got := string(tc.status.Phase) + ": " + tc.status.Reason; got != tc.phase {
				t.Errorf("the phase is %q, want %q. %s", got, tc.phase, tc.reason)
			}
		})
	}
}

// conditionTexts returns conditions as "Type=Status Reason: message".
func conditionTexts(conditions []metav1.Condition) []string {
	var lines []string
	for _, c := range conditions {
		lines = append(lines, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return lines
}

// TestStorm goes through storms. Each line is a pass and its conditions.
func TestStorm(t *testing.T) {
	steps := []struct {
		sentence string
		report   core.PolicyReport
		storm    string
	}{
		{"all is well", found(hasCooldown), "-/-"},
		{"too many are unhealthy, and there is no cooldown", found(healthy(5)), "-/-"},
		{"too many are unhealthy", found(hasCooldown, healthy(5)), "True/False"},
		{"enough are healthy again", found(hasCooldown, healthy(6), cooling), "True/True"},
		{"too many once more", found(hasCooldown, healthy(5)), "True/False"},
		{"it can't be followed", found(isBroken), "True/False"},
		{"all recover", found(hasCooldown, healthy(10), cooling), "True/True"},
		{"the cooldown is over", found(hasCooldown, healthy(10)), "False/False"},
		{"a limit that forbids all, and one is unhealthy", found(hasCooldown, healthy(9), func(r *core.PolicyReport) { r.Tally.Permitted = false }), "True/False"},
		{"a limit that forbids all, and all are healthy", found(hasCooldown, healthy(10), func(r *core.PolicyReport) { r.Tally.Permitted = false }), "False/False"},
		{"a pause without a storm", found(hasCooldown, healthy(6), isPaused), "False/False"},
		{"a storm while paused", found(hasCooldown, healthy(5), isPaused), "True/False"},
		{"it subsides while paused", found(hasCooldown, healthy(6), isPaused), "True/False"},
		{"the cooldown after the pause", found(hasCooldown, healthy(6), cooling), "True/True"},
		{"the next storm while paused", found(hasCooldown, healthy(5), isPaused), "True/False"},
		{"all recover while paused", found(hasCooldown, healthy(10), isPaused), "False/False"},
		{"the last storm", found(hasCooldown, healthy(5)), "True/False"},
		{"the cooldown is taken out of the specification", found(healthy(5)), "-/-"},
	}
	says := map[string]string{
		"StormActiveTrue":          "Too many nodes were unhealthy at the same time, so no remediation begins until enough are healthy and spec.stormCooldownDuration is over",
		"StormActiveFalse":         "Remediation is not held back by a storm",
		"StormCooldownActiveTrue":  "Enough nodes are healthy again; remediation resumes when spec.stormCooldownDuration is over",
		"StormCooldownActiveFalse": "No cooldown is under way",
	}
	var s v1alpha1.NodeHealthCheckStatus
	for _, step := range steps {
		s, _ = statusOf(s, step.report, dawn)
		state := func(kind string) string {
			c := meta.FindStatusCondition(s.Conditions, kind)
			if c == nil {
				return "-"
			}
			if c.Reason != "HealthyNodeThresholdChange" || c.Message != says[kind+string(c.Status)] {
				t.Errorf("%s: %s=%s has the reason %q and the message %q", step.sentence, kind, c.Status, c.Reason, c.Message)
			}
			return string(c.Status)
		}
		if got := state("StormActive") + "/" + state("StormCooldownActive"); got != step.storm {
			t.Errorf("%s: storm and cooldown are %s, want %s", step.sentence, got, step.storm)
		}
	}
}

func TestUnhealthyNodes(t *testing.T) {
	second := requestOfAge("a-2", time.Minute)
	second.Stopped, second.Template.Name = dawn.Add(700*time.Millisecond), "second"
	recovering := func(r *core.PolicyReport) {
		r.Members = append(r.Members, core.MemberReport{
			Target: nodeID("c"), Health: core.Suspect, Requests: []core.Request{requestOfAge("c", time.Hour)}, HealthySince: before(time.Minute), Delayed: true,
		})
	}
	got := statusFor(
		ails("b", core.Unhealthy),
		ails("a", core.Unhealthy, second, requestOfAge("a-1", time.Hour)),
		recovering,
		ails("d", core.Healthy),
		ails("e", core.Healthy, requestOfAge("e", 61*time.Second)),
	)
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(before(d).UTC()) }
	resource := func(name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: "t.example/v1", Kind: "Reboot", Namespace: "n", Name: name, UID: types.UID(name + "-uid")}
	}
	yes, stopped, since := true, at(0), at(time.Minute)
	want := []v1alpha1.UnhealthyNode{
		{Name: "a", Remediations: []v1alpha1.Remediation{
			{Resource: resource("a-2"), Started: at(time.Minute), TimedOut: &stopped, TemplateName: "second"},
			{Resource: resource("a-1"), Started: at(time.Hour), TemplateName: "r"},
		}},
		{Name: "b"},
		{
			Name: "c", Remediations: []v1alpha1.Remediation{{Resource: resource("c"), Started: at(time.Hour), TemplateName: "r"}},
			ConditionsHealthyTimestamp: &since, HealthyDelayed: &yes,
		},
		{Name: "e", Remediations: []v1alpha1.Remediation{{Resource: resource("e"), Started: at(61 * time.Second), TemplateName: "r"}}},
	}
	if diff := cmp.Diff(want, got.UnhealthyNodes); diff != "" {
		t.Errorf("unhealthy nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]metav1.Time{"a": at(time.Hour), "c": at(time.Hour), "e": at(61 * time.Second)}, got.InFlightRemediations); diff != "" {
		t.Errorf("remediations in flight (-want +got):\n%s", diff)
	}
}

// TestTimedOutIsReported: also where Fettle did not tell the remediator to stop, since it had reported success
// (docs/reference/medik8s.md#remediating-a-node).
func TestTimedOutIsReported(t *testing.T) {
	step := func(template string) core.Step {
		return core.Step{Remedy: RequestRemediation, Nature: core.CreateRequest, Template: core.Reference{APIVersion: "t.example/v1", Kind: "RebootTemplate", Namespace: "n", Name: template}}
	}
	request := func(template, check string) core.Request {
		q := requestOfAge("a-"+template, time.Hour)
		q.Remedy, q.Template, q.Target, q.Policy, q.Succeeded = RequestRemediation, step(template).Template, nodeID("a"), checkID(check), core.Yes
		return q
	}
	repair := core.Repair{
		Target: nodeID("a"), Policy: checkID("w"), Steps: []core.Step{step("first"), step("second")},
		Tried: []core.StepRecord{{Ended: before(time.Minute), Outcome: core.TimedOut}},
	}
	conditionTexts := request("first", "w")
	conditionTexts.Stopped = before(time.Second)
	for sentence, tc := range map[string]struct {
		request core.Request
		repair  *core.Repair
		want    time.Time
	}{
		"its time was over":               {request("first", "w"), &repair, before(time.Minute)},
		"it was told to stop":             {conditionTexts, &repair, before(time.Second)},
		"the step under way":              {request("second", "w"), &repair, time.Time{}},
		"another template":                {request("third", "w"), &repair, time.Time{}},
		"no repair":                       {request("first", "w"), nil, time.Time{}},
		"another health check leads that": {request("first", "other"), &repair, time.Time{}},
	} {
		s := statusFor(func(r *core.PolicyReport) {
			r.Members = []core.MemberReport{{Target: nodeID("a"), Health: core.Unhealthy, Repair: tc.repair, Requests: []core.Request{tc.request}}}
		})
		if diff := cmp.Diff(timeOrNone(tc.want), s.UnhealthyNodes[0].Remediations[0].TimedOut); diff != "" {
			t.Errorf("%s; timed out (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestNodesOfOneNameShareAnEntry: the API keys the list by name, and requests of an earlier node are listed too.
func TestNodesOfOneNameShareAnEntry(t *testing.T) {
	s := statusFor(ails("a", core.Gone, requestOfAge("left", time.Hour)), ails("a", core.Unhealthy, requestOfAge("new", time.Minute)), ails("b", core.Gone, requestOfAge("other", time.Minute)))
	var got []string
	for _, n := range s.UnhealthyNodes {
		for _, r := range n.Remediations {
			got = append(got, n.Name+" "+r.Resource.Name)
		}
	}
	if diff := cmp.Diff([]string{"a left", "a new", "b other"}, got); diff != "" || len(s.UnhealthyNodes) != 2 {
		t.Errorf("remediations (-want +got):\n%s", diff)
	}
	if s.Phase != v1alpha1.PhaseRemediating || s.Reason != "2 nodes are under remediation" {
		t.Errorf("%s: %s", s.Phase, s.Reason)
	}
}

// TestConditionsNameTheDeparted: deleted nodes that count for a limit are named, whether or not it holds anything back.
func TestConditionsNameTheDeparted(t *testing.T) {
	const text = "node a is gone, and its repair goes on: X n/a has not said yet that it is replaced"
	behind := func(r *core.PolicyReport) { r.Tally.AwaitingReplacement, r.Tally.Waits = 1, text }
	for name, s := range map[string]v1alpha1.NodeHealthCheckStatus{
		"all others are healthy": statusFor(healthy(10), behind), "another is not": statusFor(concerned("b", "is being repaired"), behind), "too many": statusFor(healthy(5), behind),
	} {
		if c := meta.FindStatusCondition(s.Conditions, v1alpha1.RemediationAllowedCondition); !strings.Contains(c.Message, text) {
			t.Errorf("%s: the condition says %q", name, c.Message)
		}
		if *s.ObservedNodes != 10 {
			t.Errorf("%s: %d nodes are observed", name, *s.ObservedNodes)
		}
	}
}

// TestNumbersAreRightWhateverHolds: medik8s' operator reports 0 while paused or disabled.
func TestNumbersAreRightWhateverHolds(t *testing.T) {
	for sentence, s := range map[string]v1alpha1.NodeHealthCheckStatus{
		"enabled": statusFor(), "paused": statusFor(isPaused), "disabled": statusFor(lacks("t")), "broken": statusFor(isBroken),
	} {
		if *s.ObservedNodes != 10 || *s.HealthyNodes != 9 {
			t.Errorf("%s: %d of %d nodes are healthy, want 9 of 10", sentence, *s.HealthyNodes, *s.ObservedNodes)
		}
	}
}

// TestStatusFitsAnObject: among very many nodes, those with remediations are named first.
func TestStatusFitsAnObject(t *testing.T) {
	var many []func(*core.PolicyReport)
	for i := range 3 * maxListed {
		if name := fmt.Sprintf("n-%05d", i); i%3 == 2 && i < 3000 {
			many = append(many, ails(name, core.Unhealthy, requestOfAge(name, time.Hour)))
		} else {
			many = append(many, ails(name, core.Unhealthy))
		}
	}
	s := statusFor(many...)
	if len(s.UnhealthyNodes) != maxListed || len(s.InFlightRemediations) != maxListed || s.UnhealthyNodes[0].Name != "n-00002" {
		t.Errorf("%d nodes are named, the first %s, %d under remediation", len(s.UnhealthyNodes), s.UnhealthyNodes[0].Name, len(s.InFlightRemediations))
	}
	if want := fmt.Sprintf("no room here for the names of %d more nodes", 2*maxListed); !strings.Contains(s.Reason, want) || *s.ObservedNodes != 10 {
		t.Errorf("the reason is %q, want %q", s.Reason, want)
	}
	body, err := json.Marshal(s)
	if err != nil || len(body) > 1<<20 {
		t.Errorf("the status has %d bytes (%v), which must be below a mebibyte", len(body), err)
	}
	if c := meta.FindStatusCondition(statusFor(lacks(strings.Repeat("u", 5000))).Conditions, "Disabled"); len(c.Message) != maxMessage {
		t.Errorf("a message has %d bytes, want %d", len(c.Message), maxMessage)
	}
}

// TestNodesWithRequestsAreAlike: of too many nodes with requests the first are named, however many requests each has.
func TestNodesWithRequestsAreAlike(t *testing.T) {
	var many []func(*core.PolicyReport)
	for i := range maxListed {
		name := fmt.Sprintf("a-%05d", i)
		many = append(many, ails(name, core.Unhealthy, requestOfAge(name, time.Hour)))
	}
	s := statusFor(append(many, ails("z", core.Unhealthy, requestOfAge("z-1", time.Hour), requestOfAge("z-2", time.Hour)))...)
	if last := s.UnhealthyNodes[len(s.UnhealthyNodes)-1].Name; len(s.UnhealthyNodes) != maxListed || last != "a-00999" {
		t.Errorf("%d nodes are named, the last %s", len(s.UnhealthyNodes), last)
	}
}

// TestSizeOfANode: a status has room for the nodes that are counted, so no node may take more than its count.
func TestSizeOfANode(t *testing.T) {
	const bytesForLists = 512 << 10
	member := func(name, template string, requests int) core.MemberReport {
		m := core.MemberReport{Target: nodeID(name), Health: core.Unhealthy, HealthySince: dawn, Delayed: true}
		for range requests {
			q := requestOfAge(name, time.Hour)
			q.Template.Name, q.Stopped = template, dawn
			m.Requests = append(m.Requests, q)
		}
		return m
	}
	const ofRequest = 200 + len("t.example/v1") + len("Reboot") + len("n")
	for want, m := range map[int]core.MemberReport{
		150 + 2*3:                                   member("abc", "r", 0),
		150 + 2*3 + ofRequest + 3 + 7 + 1:           member("abc", "r", 1),
		150 + 2*3 + 2*(ofRequest+3+7+253):           member("abc", strings.Repeat("t", 254), 2),
		150 + 2*253 + 1*(ofRequest+253+(253+4)+253): member(strings.Repeat("n", 253), strings.Repeat("t", 253), 1),
	} {
		if got := sizeOf(&m); got != want {
			t.Errorf("%d bytes are counted, want %d", got, want)
		}
		body, err := json.Marshal(statusFor(func(r *core.PolicyReport) { r.Members = []core.MemberReport{m} }))
		empty, err2 := json.Marshal(statusFor())
		if took := len(body) - len(empty); errors.Join(err, err2) != nil || took > want {
			t.Errorf("%d bytes are counted, and the status has %d more (%v)", want, took, err)
		}
	}
	// The nodes that fit are as many as their counts allow, and not one more.
	m := member(strings.Repeat("n", 253), strings.Repeat("t", 253), 5)
	fits := bytesForLists / sizeOf(&m)
	if got := fitting(slices.Repeat([]core.MemberReport{m}, 2*fits)); got != fits {
		t.Errorf("%d nodes fit, want %d", got, fits)
	}
	for more, want := range map[int]int{0: 1, 1: 0} {
		exact := core.MemberReport{Requests: []core.Request{{ID: core.ID{Name: strings.Repeat("r", bytesForLists-150-200+more)}}}}
		if got := fitting([]core.MemberReport{exact}); got != want {
			t.Errorf("of %d bytes fit %d nodes, want %d", sizeOf(&exact), got, want)
		}
	}
	long := requestOfAge("a", time.Hour)
	long.Template.Name = strings.Repeat("t", 300)
	if got := remediationOf(&long, nil).TemplateName; len(got) != 253 {
		t.Errorf("the name of a template has %d bytes", len(got))
	}
}

// TestI15StatusFitsWhateverRequestsAreCalled: names have the greatest length, and each node has several requests.
func TestI15StatusFitsWhateverRequestsAreCalled(t *testing.T) {
	var many []func(*core.PolicyReport)
	for i := range 999 {
		name := fmt.Sprintf("%03d", i) + strings.Repeat("n", 250)
		request := requestOfAge(name, time.Hour)
		many = append(many, ails(name, core.Unhealthy, request, request, request, request), func(r *core.PolicyReport) {
			for j := range r.Members[i].Requests {
				q := &r.Members[i].Requests[j]
				q.ID.Namespace, q.ID.Name, q.Template.Name = strings.Repeat("s", 63), strings.Repeat("r", 253), "\x1b"+strings.Repeat("t", 1<<10)
			}
		})
	}
	s := statusFor(many...)
	body, err := json.Marshal(s)
	if err != nil || len(body) > 1<<20 || strings.Contains(string(body), "u001b") {
		t.Errorf("the status has %d bytes (%v), which must be below a mebibyte", len(body), err)
	}
	if n := len(s.UnhealthyNodes); n < 100 || n >= 999 || !strings.Contains(s.Reason, fmt.Sprintf("%d more nodes", 999-n)) || s.UnhealthyNodes[0].Name[:3] != "000" {
		t.Errorf("%d nodes are named, and the reason is %q", n, s.Reason)
	}
}

// TestI15StatusFitsWhenNodesWithRequestsComeLast: they displace nodes that take less room.
func TestI15StatusFitsWhenNodesWithRequestsComeLast(t *testing.T) {
	const without, with = 600, 399
	var many []func(*core.PolicyReport)
	for i := range without {
		many = append(many, ails(fmt.Sprintf("a-%03d", i), core.Unhealthy))
	}
	for i := range with {
		request := requestOfAge(fmt.Sprintf("z-%03d", i), time.Hour)
		request.ID.Name = strings.Repeat("r", 253)
		many = append(many, ails(fmt.Sprintf("z-%03d", i), core.Unhealthy, request, request, request, request, request, request))
	}
	s := statusFor(many...)
	body, err := json.Marshal(s)
	if err != nil || len(body) > 1<<20 {
		t.Errorf("the status has %d bytes (%v), which must be below a mebibyte", len(body), err)
	}
	if n := len(s.UnhealthyNodes); n < 100 || n >= with || len(s.InFlightRemediations) != n || !strings.Contains(s.Reason, fmt.Sprintf("%d more nodes", without+with-n)) {
		t.Errorf("%d nodes are named, %d under remediation, and the reason is %q", n, len(s.InFlightRemediations), s.Reason)
	}
}

// TestTransitionTimes: the time is that of the last change of the status.
func TestTransitionTimes(t *testing.T) {
	written, _ := statusOf(v1alpha1.NodeHealthCheckStatus{}, found(), before(time.Hour))
	odd := dawn.Add(time.Second)
	later := odd.Add(999 * time.Millisecond)
	cases := map[string]struct {
		reason string
		report core.PolicyReport
		since  time.Time
	}{
		"nothing differs": {"", found(), before(time.Hour)},
		"another message": {"it is allowed as before", found(concerned("a", "is unwell")), before(time.Hour)},
		"another status":  {"in whole seconds, as the API server keeps them", found(healthy(2)), odd},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s, _ := statusOf(written, tc.report, later)
			if c := meta.FindStatusCondition(s.Conditions, "RemediationAllowed"); !c.LastTransitionTime.Time.Equal(tc.since) {
				t.Errorf("since %s, want %s. %s", c.LastTransitionTime, tc.since, tc.reason)
			}
		})
	}
}

// TestConditionsOfOthersStay: they are kept unchanged, and all conditions are sorted by type.
func TestConditionsOfOthersStay(t *testing.T) {
	at := metav1.NewTime(before(time.Hour))
	z := metav1.Condition{Type: "Zoned", Status: "False", Reason: "Z", Message: "z", LastTransitionTime: at}
	a := metav1.Condition{Type: "Audited", Status: "True", Reason: "A", LastTransitionTime: at}
	old := []metav1.Condition{z, {Type: "RemediationAllowed", Status: "False"}, a}
	got, _ := statusOf(v1alpha1.NodeHealthCheckStatus{Conditions: old}, found(), dawn)
	want := []string{"Audited=True A: ", disabledFalse, "RemediationAllowed=True Allowed: ", "Zoned=False Z: z"}
	if diff := cmp.Diff(want, conditionTexts(got.Conditions)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if old[0].Type != "Zoned" || old[1].Status != "False" {
		t.Errorf("the old conditions were changed under their owner: %+v", old)
	}
}

// TestNoChangeNoWrite: an equal status is not written again, also after it was stored and read back. Its times then
// have another zone, and empty lists are absent.
func TestNoChangeNoWrite(t *testing.T) {
	uneven := requestOfAge("a", 90*time.Minute)
	uneven.Created, uneven.Stopped = uneven.Created.Add(123*time.Millisecond), dawn.Add(time.Microsecond)
	delayed := func(r *core.PolicyReport) {
		r.Members = append(r.Members, core.MemberReport{Target: nodeID("b"), Health: core.Suspect, Requests: []core.Request{uneven}, HealthySince: dawn.Add(-1), Delayed: true})
	}
	for sentence, r := range map[string]core.PolicyReport{
		"all is well": found(), "stopped": found(healthy(2)), "a storm": found(hasCooldown, healthy(2)), "cooling": found(hasCooldown, cooling),
		"paused": found(isPaused), "broken": found(isBroken), "no template": found(lacks("t")), "nothing at all": {},
		"remediating": found(ails("a", core.Unhealthy, uneven), delayed), "concerned": found(concerned("a", "is unwell")),
	} {
		t.Run(sentence, func(t *testing.T) {
			written, changed := statusOf(v1alpha1.NodeHealthCheckStatus{}, r, dawn.Add(300*time.Millisecond))
			if !changed || !written.LastUpdateTime.Time.Equal(dawn) {
				t.Errorf("an empty status was taken for this one: %t, %s", changed, written.LastUpdateTime)
			}
			u := posted(t, "w", "2", selectsWorkers)
			u.Object["status"] = storedAs(t, written)
			again, changed := statusOf(readHealthCheck(u).status, r, dawn.Add(time.Hour))
			if changed || !again.LastUpdateTime.Time.Equal(dawn) {
				t.Errorf("it is written again (-written +again):\n%s", cmp.Diff(written, again))
			}
		})
	}
}

// TestWhatIsOverIsWritten: a node that is healthy again is in no list.
func TestWhatIsOverIsWritten(t *testing.T) {
	old := statusFor(ails("a", core.Unhealthy, requestOfAge("a", time.Hour)), hasCooldown, healthy(2))
	fresh, changed := statusOf(old, found(healthy(10)), dawn.Add(time.Hour))
	if !changed || !fresh.LastUpdateTime.Time.Equal(dawn.Add(time.Hour)) {
		t.Errorf("changed: %t, at %s", changed, fresh.LastUpdateTime)
	}
	if len(fresh.UnhealthyNodes)+len(fresh.InFlightRemediations) > 0 || fresh.Phase != "Enabled" {
		t.Errorf("it still says %+v", fresh)
	}
}

// storedAs returns a status as the API server returns it.
func storedAs(t *testing.T, s v1alpha1.NodeHealthCheckStatus) map[string]any {
	t.Helper()
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("encoding the status: %v", err)
	}
	var status map[string]any
	if err := json.Unmarshal(body, &status); err != nil {
		t.Fatalf("decoding the status: %v", err)
	}
	return status
}

// TestMessagesAreStable: a message has no time in it, or the condition would change in every pass.
func TestMessagesAreStable(t *testing.T) {
	for _, s := range []v1alpha1.NodeHealthCheckStatus{
		statusFor(healthy(2)), statusFor(cooling, hasCooldown), statusFor(isPaused), statusFor(isBroken), statusFor(ails("a", core.Unhealthy, requestOfAge("a", 0))),
	} {
		if all := strings.Join(conditionTexts(s.Conditions), " ") + s.Reason; strings.Contains(all, "2026") {
			t.Errorf("the text %q has a time in it", all)
		}
	}
}

// TestBrief: a brief status has the numbers of the full one and none of its lists, and leaves its original unchanged.
func TestBrief(t *testing.T) {
	const mostBrief = 128 // bytes of a message
	long := statusFor(isBroken, func(r *core.PolicyReport) { r.Policy.Problem = strings.Repeat("wrong ", 200) }, ails("a", core.Unhealthy, requestOfAge("a", 0)), ails("b", core.Unhealthy))
	message := long.Conditions[0].Message
	short := brief(long)
	if len(long.UnhealthyNodes) != 2 || len(short.UnhealthyNodes)+len(short.InFlightRemediations) > 0 || *short.ObservedNodes != *long.ObservedNodes {
		t.Errorf("it has %+v", short)
	}
	if long.Conditions[0].Message != message || len(short.Conditions[0].Message) > mostBrief || len(message) <= mostBrief {
		t.Errorf("it says %q, and the long one says %q", short.Conditions[0].Message, long.Conditions[0].Message)
	}
	if !strings.Contains(short.Reason, "no room here for the names of 2 more nodes") {
		t.Errorf("the reason is %q", short.Reason)
	}
}
