package capi

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/messages"
	"github.com/fettle-io/fettle/internal/specparse"
)

// policy returns the policy of aCheck("check") with changes.
func policy(changes ...func(*core.Policy)) core.Policy {
	p := core.Policy{
		Advice:  messages.Advice(),
		ID:      core.ID{Kind: "MachineHealthCheck", Namespace: "clusters", Name: "check", UID: "check-uid"},
		Created: time.Date(2026, time.August, 1, 0, 0, 0, 0, time.UTC).Local(),
		Criteria: core.Criteria{
			NodeStartup: 10 * time.Minute,
			Conditions:  []core.ConditionCriterion{{Type: "Ready", Status: "False", For: 5 * time.Minute}, {Type: "Ready", Status: "Unknown", For: 5 * time.Minute}},
		},
		ShortCircuit:        core.ShortCircuit{MaxUnhealthy: core.Percent(100)},
		StormCooldown:       5 * time.Second,
		MaxInFlight:         core.Unlimited(),
		Backoff:             core.DefaultBackoff(),
		Steps:               []core.Step{{Remedy: MarkOwner, Nature: core.AskOwner}},
		IgnoresRequests:     true,
		QuietWhileNoneFails: true,
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func TestHealthCheckBecomesPolicy(t *testing.T) {
	cases := map[string]struct {
		change string
		want   core.Policy
	}{
		"as it is": {"{}", policy()},
		"a limit of a number": {
			"spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 2}}}", policy(func(p *core.Policy) { p.ShortCircuit.MaxUnhealthy = core.Count(2) }),
		},
		"a limit of a share": {
			"spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}}}", policy(func(p *core.Policy) { p.ShortCircuit.MaxUnhealthy = core.Percent(40) }),
		},
		"a share of more than all, which the API takes": {
			"spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 150%}}}", policy(func(p *core.Policy) { p.ShortCircuit.MaxUnhealthy = core.Percent(150) }),
		},
		"a share of less than nothing, which the API takes": {
			"spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: -5%}}}", policy(func(p *core.Policy) { p.ShortCircuit = core.ShortCircuit{MaxUnhealthy: core.Percent(-5), Shut: true} }),
		},
		"a number below zero, which the API takes": {
			"spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: -1}}}", policy(func(p *core.Policy) { p.ShortCircuit = core.ShortCircuit{MaxUnhealthy: core.Count(-1), Shut: true} }),
		},
		"a range without an end": {
			`spec: {remediation: {triggerIf: {unhealthyInRange: "[0-4294967295]"}}}`,
			policy(func(p *core.Policy) {
				p.ShortCircuit = core.ShortCircuit{Range: &core.Range{From: 0, To: math.MaxUint32}}
			}),
		},
		"a range, which goes before a number": {
			`spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 2, unhealthyInRange: "[3-5]"}}}`,
			policy(func(p *core.Policy) { p.ShortCircuit = core.ShortCircuit{Range: &core.Range{From: 3, To: 5}} }),
		},
		"no startup timeout": {"spec: {checks: {nodeStartupTimeoutSeconds: 0}}", policy(func(p *core.Policy) { p.Criteria.NodeStartup = 0 })},
		"a startup timeout":  {"spec: {checks: {nodeStartupTimeoutSeconds: 90}}", policy(func(p *core.Policy) { p.Criteria.NodeStartup = 90 * time.Second })},
		"no checks":          {"spec: {checks: null}", policy(func(p *core.Policy) { p.Criteria.Conditions = nil })},
		"conditions of machines": {
			`spec: {checks: {unhealthyMachineConditions: [{type: NodeHealthy, status: "False", timeoutSeconds: 0}]}}`,
			policy(func(p *core.Policy) {
				p.Criteria.TargetConditions = []core.ConditionCriterion{{Type: "NodeHealthy", Status: "False"}}
			}),
		},
		"a template": {
			"spec: {remediation: {templateRef: {apiVersion: x.example/v1, kind: XTemplate, name: t}}}",
			policy(func(p *core.Policy) {
				p.Steps = []core.Step{
					{Remedy: RequestMachineRemediation, Nature: core.CreateRequest, Template: core.Reference{APIVersion: "x.example/v1", Kind: "XTemplate", Namespace: "clusters", Name: "t"}},
					{Remedy: MarkOwner, Nature: core.AskOwner},
				}
			}),
		},
		"paused":               {`metadata: {annotations: {cluster.x-k8s.io/paused: "false"}}`, policy(func(p *core.Policy) { p.Paused = true })},
		"a dry run":            {`metadata: {annotations: {fettle.io/dry-run: "true"}}`, policy(func(p *core.Policy) { p.DryRun = true })},
		"a wait for upgrades":  {`metadata: {annotations: {fettle.io/wait-for-upgrades: "true"}}`, policy(func(p *core.Policy) { p.WaitsForUpgrades = true })},
		"no wait for upgrades": {`metadata: {annotations: {fettle.io/wait-for-upgrades: "false"}}`, policy(func(*core.Policy) {})},
		"conditions that hold together": {
			`metadata: {annotations: {fettle.io/unhealthy-conditions: "[{all: [{type: AgentReady, missing: true}], for: 10m}]"}}`,
			policy(func(p *core.Policy) {
				p.Criteria.Groups = []core.ConditionGroup{{Tests: []core.ConditionTest{{Type: "AgentReady", Missing: true}}, For: 10 * time.Minute}}
			}),
		},
		"a delay for nodes that are gone": {
			`metadata: {annotations: {fettle.io/node-gone-delay: 5m}}`, policy(func(p *core.Policy) { p.Criteria.NodeGoneDelay = 5 * time.Minute }),
		},
		"all of Fettle's own": {
			`metadata: {annotations: {fettle.io/max-in-flight: 25%, fettle.io/storm-cooldown: 0s, fettle.io/backoff-base: 1h, fettle.io/backoff-limit: 20m}}`,
			policy(func(p *core.Policy) {
				p.MaxInFlight, p.StormCooldown, p.Backoff = core.Percent(25), 0, core.Backoff{Base: 20 * time.Minute, Limit: 20 * time.Minute, GiveUpAfter: 10}
			}),
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			h := readHealthCheck(aCheck(t, "check", tc.change))
			if diff := cmp.Diff(tc.want, h.policy, asTranslated()); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			if h.cluster != "blue" || !h.labelled || h.generation != 4 || h.revision != "5" {
				t.Errorf("cluster %q (labelled: %t), generation %d, revision %s", h.cluster, h.labelled, h.generation, h.revision)
			}
		})
	}
}

// nonsense is a change that can't be followed.
type nonsense struct {
	change string
	says   []string
	// unparsable is set if the selector or a criterion can't be read.
	unparsable bool
}

func unfollowable() map[string]nonsense {
	return map[string]nonsense{
		"no cluster":              {"spec: {clusterName: null}", []string{"spec.clusterName is missing"}, false},
		"no selector":             {"spec: {selector: {matchLabels: null}}", []string{"spec.selector is empty"}, true},
		"a selector that is none": {"spec: {selector: {matchExpressions: [{key: a, operator: Is}]}}", []string{"spec.selector is not a label selector"}, true},
		"half a condition":        {"spec: {checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown}]}}", []string{"spec.checks.unhealthyNodeConditions[0] lacks", "timeoutSeconds: 300"}, true},
		"a condition of no time":  {"spec: {checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: -1}]}}", []string{"unhealthyNodeConditions[0].timeoutSeconds is -1"}, true},
		"what follows from the check": {
			`spec: {checks: {unhealthyMachineConditions: [{type: OwnerRemediated, status: "False", timeoutSeconds: 1}]}}`,
			[]string{"spec.checks.unhealthyMachineConditions[0].type is OwnerRemediated"}, true,
		},
		"a startup timeout of no time": {"spec: {checks: {nodeStartupTimeoutSeconds: -1}}", []string{"nodeStartupTimeoutSeconds is -1"}, false},
		"a limit that is none":         {"spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: many}}}", []string{`unhealthyLessThanOrEqualTo is "many"`}, false},
		"a range that nothing is in":   {`spec: {remediation: {triggerIf: {unhealthyInRange: "[5-3]"}}}`, []string{`unhealthyInRange is "[5-3]", which no number is in`}, false},
		"a range beyond all numbers":   {`spec: {remediation: {triggerIf: {unhealthyInRange: "[0-4294967296]"}}}`, []string{`unhealthyInRange is "[0-4294967296]", with a number above 4294967295; give`}, false},
		"a range that is none":         {"spec: {remediation: {triggerIf: {unhealthyInRange: 3-5}}}", []string{`unhealthyInRange is "3-5"; give`}, false},
		"half a template":              {"spec: {remediation: {templateRef: {kind: XTemplate}}}", []string{"spec.remediation.templateRef lacks apiVersion and name"}, false},
		"no template": {
			"spec: {remediation: {templateRef: {apiVersion: a/b/c, kind: X, name: x/y}}}",
			[]string{`apiVersion is "a/b/c"`, `kind is "X"`, `name is "x/y"`}, false,
		},
		"an odd word for a dry run":  {`metadata: {annotations: {fettle.io/dry-run: "yes"}}`, []string{`annotation fettle.io/dry-run is "yes"`}, false},
		"an odd word for a takeover": {`metadata: {annotations: {fettle.io/takes-over: "yes"}}`, []string{`annotation fettle.io/takes-over is "yes"`}, false},
		"a base of back-off":         {`metadata: {annotations: {fettle.io/backoff-base: soon}}`, []string{`annotation fettle.io/backoff-base is "soon"`}, false},
		"a cooldown that is none":    {`metadata: {annotations: {fettle.io/storm-cooldown: soon}}`, []string{`annotation fettle.io/storm-cooldown is "soon"`}, false},
		"a condition of no status":   {"spec: {checks: {unhealthyNodeConditions: [{type: Ready, timeoutSeconds: 5}]}}", []string{"unhealthyNodeConditions[0] lacks a type, a status or timeoutSeconds"}, true},
		"a condition of no type":     {"spec: {checks: {unhealthyNodeConditions: [{status: Unknown, timeoutSeconds: 5}]}}", []string{"unhealthyNodeConditions[0] lacks a type, a status or timeoutSeconds"}, true},
		"conditions without end":     {"spec: {checks: {unhealthyNodeConditions: [" + strings.Repeat("{type: Ready, status: Unknown, timeoutSeconds: 5},", 101) + "]}}", []string{"spec.checks.unhealthyNodeConditions has 101 entries; give at most 100"}, true},
		"a range that begins beyond": {`spec: {remediation: {triggerIf: {unhealthyInRange: "[4294967296-4294967295]"}}}`, []string{"with a number above 4294967295"}, false},
		"a template of no kind":      {"spec: {remediation: {templateRef: {apiVersion: x.example/v1, kind: Template, name: t}}}", []string{`kind is "Template"; give a kind that ends in Template`}, false},
		"a template of no version":   {"spec: {remediation: {templateRef: {apiVersion: x.example/, kind: XTemplate, name: t}}}", []string{`apiVersion is "x.example/"; give a group and a version`}, false},
		"a template that lacks one":  {"spec: {remediation: {templateRef: {apiVersion: x.example/v1, kind: XTemplate}}}", []string{"spec.remediation.templateRef lacks name; give all"}, false},
		"an annotation that is none": {"metadata: {annotations: {fettle.io/max-in-flight: all}}", []string{"annotation fettle.io/max-in-flight"}, false},
		"a wait that is none":        {`metadata: {annotations: {fettle.io/wait-for-upgrades: "yes"}}`, []string{`annotation fettle.io/wait-for-upgrades is "yes"; give "true" or "false"`}, false},
		"a criterion that is none": {
			`metadata: {annotations: {fettle.io/unhealthy-conditions: "[{all: [{type: Ready, status: False}], for: 5m}]"}}`,
			[]string{`annotation fettle.io/unhealthy-conditions [0].all[0].status is false; give "True", "False" or "Unknown"`}, true,
		},
		"a delay that is none":       {`metadata: {annotations: {fettle.io/node-gone-delay: "5"}}`, []string{`annotation fettle.io/node-gone-delay is "5"; give a duration such as 5m`}, false},
		"a word for the spec":        {"spec: broken", []string{"spec is \"broken\""}, true},
		"a word for the checks":      {"spec: {checks: broken}", []string{"spec.checks is \"broken\""}, true},
		"a word for the remediation": {"spec: {remediation: broken}", []string{"spec.remediation is \"broken\""}, false},
		"a number for the selector":  {"spec: {selector: 7}", []string{"spec.selector is 7"}, true},
	}
}

// TestUnusableFieldsAreReported: the policy has a problem, and starts no repair.
func TestUnusableFieldsAreReported(t *testing.T) {
	for sentence, tc := range unfollowable() {
		t.Run(sentence, func(t *testing.T) {
			h := readHealthCheck(aCheck(t, "check", tc.change))
			for _, words := range tc.says {
				if !strings.Contains(h.policy.Problem, words) {
					t.Errorf("the problem does not say %q: %s", words, h.policy.Problem)
				}
			}
			if h.policy.Unparsable != tc.unparsable {
				t.Errorf("unparsable: %t", h.policy.Unparsable)
			}
			if strings.Contains(h.policy.Problem, "\n") || h.cluster != "blue" {
				t.Errorf("it is told to %q: %q", h.cluster, h.policy.Problem)
			}
			p := h.policy
			p.Members = []int{0}
			failed := core.Target{ID: core.ID{Kind: "Machine", UID: "u"}, Owner: core.ID{UID: "o"}, Failed: true, Node: core.Node{State: core.NodeAwaited}}
			if d := core.Decide([]core.Policy{p}, core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Targets: []core.Target{failed}}, noon); len(d.Starts) > 0 {
				t.Error("something is repaired")
			}
		})
	}
}

// TestFaultsOfTemplatesAreTold once each, and a kind that is no template's is not looked up among the reserved ones.
func TestFaultsOfTemplatesAreTold(t *testing.T) {
	for reference, want := range map[clusterv1.MachineHealthCheckRemediationTemplateReference][]string{
		{APIVersion: "x.example/v1", Kind: "XTemplate", Name: "t"}: nil,
		{APIVersion: "v1", Kind: "XTemplate", Name: "t"}:           {`spec.remediation.templateRef.kind is "XTemplate" of "v1"`},
		{APIVersion: "v1", Kind: "X", Name: "t"}:                   {`spec.remediation.templateRef.kind is "X"; give a kind that ends in Template`},
		{APIVersion: "a/b/c", Kind: "XTemplate", Name: "t"}:        {`spec.remediation.templateRef.apiVersion is "a/b/c"; give a group`},
	} {
		if got := specparse.ErrorLines(checkTemplate(&reference)); !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%+v: it tells %q, want %q", reference, got, want)
		}
	}
}

// TestFieldsOfTheWrongType: such a field has neither its intended effect nor the default, and all other fields are read.
func TestFieldsOfTheWrongType(t *testing.T) {
	const whole = `spec: {checks: {nodeStartupTimeoutSeconds: 90}, remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 2}}}`
	startup := func(p *core.Policy) {
		p.Criteria.NodeStartup, p.ShortCircuit.MaxUnhealthy = 90*time.Second, core.Count(2)
	}
	unparsable := func(p *core.Policy) { p.Unparsable = true }
	unchecked := func(p *core.Policy) { p.Unparsable, p.Criteria = true, core.Criteria{} }
	unlimited := func(p *core.Policy) { p.Steps, p.ShortCircuit = nil, core.ShortCircuit{} }
	for change, tc := range map[string]struct {
		want    core.Policy
		selects bool
	}{
		"spec: {selector: 7}":                 {policy(startup, unparsable), false},
		"spec: {checks: 7}":                   {policy(startup, unchecked), true},
		"spec: {remediation: 7}":              {policy(startup, unlimited), true},
		"spec: {clusterName: [7]}":            {policy(startup), true},
		"spec: 7":                             {policy(unchecked, unlimited), false},
		"spec: {other: 7}":                    {policy(startup), true},
		"status: {conditions: 7}":             {policy(startup, func(p *core.Policy) { p.WasStopped = true }), true},
		"spec: {remediation: {triggerIf: 7}}": {policy(startup, unlimited), true},
	} {
		h := readHealthCheck(aCheck(t, "check", whole, change))
		if wrong := change != "spec: {other: 7}" && change != "status: {conditions: 7}"; wrong != (h.policy.Problem != "") {
			t.Errorf("%s: the problem is %q", change, h.policy.Problem)
		}
		tc.want.Problem = h.policy.Problem
		if diff := cmp.Diff(tc.want, h.policy, asTranslated()); diff != "" {
			t.Errorf("%s: policy (-want +got):\n%s", change, diff)
		}
		if got := h.selector.Matches(labels.Set{"role": "worker"}); got != tc.selects || h.cluster != "blue" {
			t.Errorf("%s: it selects a machine of %q: %t", change, h.cluster, got)
		}
	}
}

// TestFaultyConditionsHideNoOthers: the other conditions are judged.
func TestFaultyConditionsHideNoOthers(t *testing.T) {
	h := readHealthCheck(aCheck(t, "check", `spec: {checks: {unhealthyNodeConditions: [{type: Ready, timeoutSeconds: 5}, {type: Ready, status: Unknown, timeoutSeconds: 5}]}}`))
	if got := h.policy.Criteria.Conditions; len(got) != 1 || got[0].Status != "Unknown" || !h.policy.Unparsable {
		t.Errorf("conditions are %+v", got)
	}
	many := make([]writtenCondition, 100)
	for i := range many {
		five := int32(5)
		many[i] = writtenCondition{"T", "S", &five}
	}
	if got, err := readConditions("field", many, nil); len(got) != 100 || err != nil {
		t.Errorf("%d conditions are read: %v", len(got), err)
	}
}

// TestRanges: both ends belong to it.
func TestRanges(t *testing.T) {
	for text, want := range map[string]core.Range{"[0-0]": {}, "[3-3]": {From: 3, To: 3}, "[08-010]": {From: 8, To: 10}, "[2147483648-4294967295]": {From: 1 << 31, To: math.MaxUint32}} {
		if got, err := readRange(text); got != want || err != nil {
			t.Errorf("%s is %+v: %v", text, got, err)
		}
	}
	if _, err := readRange("[4294967296-4294967296]"); err == nil || !strings.Contains(err.Error(), "with a number above") {
		t.Errorf("it tells %v", err)
	}
}

// TestClocksThatHeld: only the condition of repairs tells that a clock held them.
func TestClocksThatHeld(t *testing.T) {
	for condition, want := range map[string]bool{mark("RemediationAllowed", "False", "ClockSkewed"): true, mark("Other", "False", "ClockSkewed"): false, mark("RemediationAllowed", "True", "ClockSkewed"): false} {
		if got := readHealthCheck(aCheck(t, "check", "status: {conditions: ["+condition+"]}")).policy.ClockGate; (got != 0) != want {
			t.Errorf("%s: held by %s", condition, got)
		}
	}
}

// TestStatusesThatCannotBeRead are written anew, whatever they have.
func TestStatusesThatCannotBeRead(t *testing.T) {
	for status, anew := range map[string]bool{"status: {expectedMachines: 3}": false, "status: {expectedMachines: 3, conditions: 7}": true} {
		if h := readHealthCheck(aCheck(t, "check", status)); (h.status.ExpectedMachines == nil) != anew || h.policy.WasStopped != anew {
			t.Errorf("%s: it has %v, and repairs were stopped: %t", status, h.status.ExpectedMachines, h.policy.WasStopped)
		}
	}
}

// TestWasHeld: a new process knows from the status that repairs were stopped, or that nothing was known.
func TestWasHeld(t *testing.T) {
	condition := func(kind, status, reason string) string {
		return `status: {conditions: [{type: ` + kind + `, status: "` + status + `", reason: ` + reason + `, message: "", lastTransitionTime: "2026-08-02T00:00:00Z"}]}`
	}
	for status, want := range map[string]bool{
		"{}": false,
		condition("RemediationAllowed", "True", "RemediationAllowed"): false,
		condition("RemediationAllowed", "False", "TooManyUnhealthy"):  true,
		condition("RemediationAllowed", "Unknown", "ConnectionDown"):  true,
		condition("RemediationAllowed", "False", "TemplateUnusable"):  false,
		condition("RemediationAllowed", "False", "ClockSkewed"):       false,
		condition("Paused", "True", "Paused"):                         true,
		condition("Paused", "False", "NotPaused"):                     false,
		condition("SoleController", "False", "AnotherController"):     false,
		"status: {conditions: broken}":                                true,
	} {
		if h := readHealthCheck(aCheck(t, "check", status)); h.policy.WasStopped != want {
			t.Errorf("%s: held: %t", status, h.policy.WasStopped)
		}
	}
}

// TestPauseOfTheOtherHoldsNothing: Cluster API's controller reports that the health check is paused while Fettle takes
// over. Repairs start without a cooldown all the same.
func TestPauseOfTheOtherHoldsNothing(t *testing.T) {
	const (
		over     = `metadata: {annotations: {cluster.x-k8s.io/paused: "", fettle.io/takes-over: "true"}}`
		theirs   = `{type: Paused, status: "True", reason: Paused, message: "", lastTransitionTime: "2026-08-02T00:00:00Z"}`
		stopped  = `{type: RemediationAllowed, status: "False", reason: TooManyUnhealthy, message: "", lastTransitionTime: "2026-08-02T00:00:00Z"}`
		statuses = `status: {conditions: [%s]}`
	)
	if h := readHealthCheck(aCheck(t, "check", over, fmt.Sprintf(statuses, theirs))); h.policy.WasStopped {
		t.Error("a pause of the built-in health check holds repairs")
	}
	if h := readHealthCheck(aCheck(t, "check", over, fmt.Sprintf(statuses, theirs+","+stopped))); !h.policy.WasStopped {
		t.Error("repairs were stopped, and that is forgotten")
	}
	s := settle(t, over, fmt.Sprintf(statuses, theirs))
	s.pass()
	s.nodes.has("False", ago(time.Hour), "a-node")
	if _, d := s.pass(); len(d.Starts) != 1 {
		t.Errorf("it starts %+v, refused is %+v", d.Starts, d.Refusals)
	}
}

// TestFollowsWhatPeopleWrite: the example of docs/reference/proposals.md#cluster-api-guide, as the API server converts
// it.
func TestFollowsWhatPeopleWrite(t *testing.T) {
	u := object(t, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: capi-quickstart-node-unhealthy-5m, namespace: default}
spec:
  clusterName: capi-quickstart
  selector: {matchLabels: {nodepool: nodepool-0}}
  checks:
    nodeStartupTimeoutSeconds: 600
    unhealthyNodeConditions:
    - {type: Ready, status: Unknown, timeoutSeconds: 300}
    - {type: Ready, status: "False", timeoutSeconds: 300}
  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}}
`)
	h := readHealthCheck(u)
	if h.policy.Problem != "" || h.cluster != "capi-quickstart" || h.policy.ShortCircuit.MaxUnhealthy != core.Percent(40) || h.labelled {
		t.Errorf("problem %q, cluster %q, limit %v, labelled: %t", h.policy.Problem, h.cluster, h.policy.ShortCircuit.MaxUnhealthy, h.labelled)
	}
}
