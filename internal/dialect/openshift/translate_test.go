package openshift

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/messages"
	"github.com/fettle-io/fettle/internal/specparse"
)

// deletion returns the steps of a health check that sets no other remedy.
func deletion() []core.Step { return []core.Step{{Remedy: "DeleteMachine", Nature: core.Delete}} }

// plain returns the policy of an empty spec, with changes.
func plain(changes ...func(*core.Policy)) core.Policy {
	p := core.Policy{
		Advice:                    messages.Advice(),
		ID:                        core.ID{Kind: "MachineHealthCheck", Namespace: "machines", Name: "check", UID: "check-uid"},
		Created:                   ago(24 * time.Hour),
		Criteria:                  core.Criteria{NodeStartup: 10 * time.Minute, Conditions: []core.ConditionCriterion{}},
		ShortCircuit:              core.ShortCircuit{MaxUnhealthy: core.Percent(100)},
		StormCooldown:             core.DefaultStormCooldown,
		MaxInFlight:               core.Count(1),
		ReclaimsBypassMaxInFlight: true,
		Backoff:                   core.Backoff{Base: 5 * time.Second, Limit: 20 * time.Minute, GiveUpAfter: 10},
		Steps:                     deletion(),

		IgnoresRequests: true,
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func startup(d time.Duration) func(*core.Policy) {
	return func(p *core.Policy) { p.Criteria.NodeStartup = d }
}

func conditions(c ...core.ConditionCriterion) func(*core.Policy) {
	return func(p *core.Policy) { p.Criteria.Conditions = c }
}

func maxUnhealthy(a core.Amount) func(*core.Policy) {
	return func(p *core.Policy) { p.ShortCircuit.MaxUnhealthy = a }
}

func maxInFlight(a core.Amount) func(*core.Policy) {
	return func(p *core.Policy) { p.MaxInFlight, p.ReclaimsBypassMaxInFlight = a, false }
}

func backoff(base, limit time.Duration) func(*core.Policy) {
	return func(p *core.Policy) { p.Backoff = core.Backoff{Base: base, Limit: limit, GiveUpAfter: 10} }
}

func stormCooldown(d time.Duration) func(*core.Policy) {
	return func(p *core.Policy) { p.StormCooldown = d }
}

func noRemedy(p *core.Policy) { p.Steps, p.FailedSteps = nil, nil }

func requests(apiVersion, kind, name string) func(*core.Policy) {
	return func(p *core.Policy) {
		p.Steps = []core.Step{{
			Remedy: "RequestMachineRemediation", Nature: core.CreateRequest,
			Template: core.Reference{APIVersion: apiVersion, Kind: kind, Namespace: p.ID.Namespace, Name: name},
		}}
		p.MaxInFlight = core.Unlimited()
	}
}

func handsOver(p *core.Policy) {
	p.Steps, p.FailedSteps = []core.Step{{Remedy: "AnnotateMachine", Nature: core.Annotate}}, deletion()
	p.MaxInFlight = core.Unlimited()
}

func paused(p *core.Policy) { p.Paused = true }
func dryRun(p *core.Policy) { p.DryRun = true }

func waitsForUpgrades(p *core.Policy) { p.WaitsForUpgrades = true }

type translation struct {
	reason      string
	spec        string
	annotations map[string]string
	want        core.Policy
}

func TestHealthCheckBecomesPolicy(t *testing.T) {
	for _, cases := range []map[string]translation{specCases(), annotationCases(), stepCases()} {
		for sentence, tc := range cases {
			t.Run(sentence, func(t *testing.T) {
				got := readHealthCheck(check(t, "check", "12", tc.spec, tc.annotations))
				if diff := cmp.Diff(tc.want, got.policy, asTranslated()); diff != "" {
					t.Errorf("%s\npolicy (-want +got):\n%s", tc.reason, diff)
				}
				if got.revision != "12" {
					t.Errorf("the revision is %q, want 12: a status is written against it", got.revision)
				}
			})
		}
	}
}

func specCases() map[string]translation {
	ready := core.ConditionCriterion{Type: "Ready", Status: "Unknown", For: 5 * time.Minute}
	return map[string]translation{
		"an empty specification": {
			reason: "the defaults of today's controller, one machine at a time, and back-off from 5s to 10m",
			spec:   `{}`, want: plain(),
		},
		"null is the same as nothing": {
			reason: "an explicit null is an absent field",
			spec:   `{selector: null, unhealthyConditions: null, maxUnhealthy: null, nodeStartupTimeout: null, remediationTemplate: null}`,
			want:   plain(),
		},
		"one condition": {
			reason: "type, status and timeout", spec: `{unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]}`,
			want: plain(conditions(ready)),
		},
		"several conditions in their order": {
			reason: "all of them, in the order in which they are written",
			spec:   `{unhealthyConditions: [{type: Disk, status: "True", timeout: 1h30m}, {type: Ready, status: Unknown, timeout: 300s}]}`,
			want:   plain(conditions(core.ConditionCriterion{Type: "Disk", Status: "True", For: 90 * time.Minute}, ready)),
		},
		"a condition without timeout": {
			reason: "an omitted timeout is 0", spec: `{unhealthyConditions: [{type: Terminating, status: "True"}]}`,
			want: plain(conditions(core.ConditionCriterion{Type: "Terminating", Status: "True", Reclaims: true})),
		},
		"a condition with a timeout of 0s": {
			reason: "as the stock health check of spot machines has it", spec: `{unhealthyConditions: [{type: Terminating, status: "True", timeout: 0s}]}`,
			want: plain(conditions(core.ConditionCriterion{Type: "Terminating", Status: "True", Reclaims: true})),
		},
		"fractions of a unit": {
			reason: "the pattern of the schema allows decimals", spec: `{unhealthyConditions: [{type: Ready, status: Unknown, timeout: 1.5h}], nodeStartupTimeout: 0.5m}`,
			want: plain(startup(30*time.Second), conditions(core.ConditionCriterion{Type: "Ready", Status: "Unknown", For: 90 * time.Minute})),
		},
		"a startup timeout":          {reason: "as written", spec: `{nodeStartupTimeout: 25m}`, want: plain(startup(25 * time.Minute))},
		"a startup timeout of 0":     {reason: "0 disables it", spec: `{nodeStartupTimeout: "0"}`, want: plain(startup(0))},
		"an empty startup timeout":   {reason: "an empty duration is 0", spec: `{nodeStartupTimeout: ""}`, want: plain(startup(0))},
		"maxUnhealthy as integer":    {reason: "an absolute number", spec: `{maxUnhealthy: 2}`, want: plain(maxUnhealthy(core.Count(2)))},
		"maxUnhealthy as digits":     {reason: "a string of digits is a number", spec: `{maxUnhealthy: "2"}`, want: plain(maxUnhealthy(core.Count(2)))},
		"maxUnhealthy as percentage": {reason: "a share", spec: `{maxUnhealthy: 40%}`, want: plain(maxUnhealthy(core.Percent(40)))},
		"maxUnhealthy of 0":          {reason: "0 stops all repairs", spec: `{maxUnhealthy: 0}`, want: plain(maxUnhealthy(core.Count(0)))},
		"maxUnhealthy of 0%":         {reason: "so does 0%", spec: `{maxUnhealthy: 0%}`, want: plain(maxUnhealthy(core.Percent(0)))},
		"maxUnhealthy of 100%":       {reason: "never stops repairs", spec: `{maxUnhealthy: 100%}`, want: plain()},
		"a negative integer":         {reason: "counts as 0, as in today's controller", spec: `{maxUnhealthy: -3}`, want: plain(maxUnhealthy(core.Count(-3)))},
		"unknown fields":             {reason: "are ignored", spec: `{somethingNew: {a: 1}}`, want: plain()},
	}
}

func annotationCases() map[string]translation {
	with := func(reason, key, value string, want core.Policy) translation {
		return translation{reason: reason, spec: `{}`, annotations: map[string]string{key: value}, want: want}
	}
	return map[string]translation{
		"paused with a value":       with("any value pauses", v1beta1.PausedAnnotation, "true", plain(paused)),
		"paused with an empty one":  with("any value pauses", v1beta1.PausedAnnotation, "", plain(paused)),
		"paused said to be false":   with("any value pauses, this one too", v1beta1.PausedAnnotation, "false", plain(paused)),
		"a dry run":                 with("requested", annotation.DryRun, "true", plain(dryRun)),
		"no dry run":                with("declined", annotation.DryRun, "false", plain()),
		"two in flight":             with("a number", annotation.MaxInFlight, "2", plain(maxInFlight(core.Count(2)))),
		"none in flight":            with("0 holds back everything", annotation.MaxInFlight, "0", plain(maxInFlight(core.Count(0)))),
		"a share in flight":         with("a percentage", annotation.MaxInFlight, "25%", plain(maxInFlight(core.Percent(25)))),
		"any number in flight":      with("unlimited", annotation.MaxInFlight, "unlimited", plain(maxInFlight(core.Unlimited()))),
		"a base of back-off":        with("base", annotation.BackoffBase, "1m", plain(backoff(time.Minute, 20*time.Minute))),
		"a limit of back-off":       with("limit", annotation.BackoffLimit, "1h", plain(backoff(5*time.Second, time.Hour))),
		"a limit below the default": with("the limit holds", annotation.BackoffLimit, "3s", plain(backoff(3*time.Second, 3*time.Second))),
		"a storm cooldown":          with("as written", annotation.StormCooldown, "30s", plain(stormCooldown(30*time.Second))),
		"no storm cooldown":         with("0s is no wait", annotation.StormCooldown, "0s", plain(stormCooldown(0))),
		"both parts of back-off": {
			reason: "base and limit", spec: `{}`, want: plain(backoff(time.Minute, 2*time.Minute)),
			annotations: map[string]string{annotation.BackoffBase: "1m", annotation.BackoffLimit: "2m"},
		},
		"a wait for upgrades":  with("requested", annotation.WaitForUpgrades, "true", plain(waitsForUpgrades)),
		"no wait for upgrades": with("declined", annotation.WaitForUpgrades, "false", plain()),
		"conditions that hold together": with("as written", annotation.UnhealthyConditions, `[{all: [{type: Ready, status: "False", reason: Kubelet*}], for: 5m}]`,
			plain(func(p *core.Policy) {
				p.Criteria.Groups = []core.ConditionGroup{{Tests: []core.ConditionTest{{Type: "Ready", Status: "False", Reason: "Kubelet*"}}, For: 5 * time.Minute}}
			})),
		"a delay for nodes that are gone": with("as written", annotation.NodeGoneDelay, "5m", plain(func(p *core.Policy) { p.Criteria.NodeGoneDelay = 5 * time.Minute })),
		"annotations of others":           with("are passed over", "fettle.io/unheard-of", "x", plain()),
	}
}

func stepCases() map[string]translation {
	strategy := func(v string, more ...string) map[string]string {
		annotations := map[string]string{v1beta1.RemediationStrategyAnnotation: v}
		for i := 0; i < len(more); i += 2 {
			annotations[more[i]] = more[i+1]
		}
		return annotations
	}
	reference := `apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: reboot`
	template := `{remediationTemplate: {` + reference + `}}`
	metal := requests("infrastructure.cluster.x-k8s.io/v1beta1", "Metal3RemediationTemplate", "reboot")
	return map[string]translation{
		"a remediation template": {
			reason: "all machines get remediation requests, without a limit", spec: template, want: plain(metal),
		},
		"a template with a namespace": {
			reason: "it is not looked at, as in today's controller", spec: `{remediationTemplate: {` + reference + `, namespace: elsewhere}}`, want: plain(metal),
		},
		"a template and a strategy": {
			reason: "the template takes all machines, Failed ones too", spec: template, annotations: strategy("external-baremetal"), want: plain(metal),
		},
		"a template and a limit": {
			reason: "the annotation overrides the default", spec: template, annotations: map[string]string{annotation.MaxInFlight: "2"}, want: plain(metal, maxInFlight(core.Count(2))),
		},
		"power-based repair": {
			reason: "hosts are rebooted, and failed machines are deleted", spec: `{}`, annotations: strategy("external-baremetal"), want: plain(handsOver),
		},
		"power-based repair and a limit": {
			reason: "the annotation overrides the default", spec: `{}`, annotations: strategy("external-baremetal", annotation.MaxInFlight, "1"),
			want: plain(handsOver, maxInFlight(core.Count(1))),
		},
		"another strategy": {reason: "other values are ignored, as in today's controller", spec: `{}`, annotations: strategy("other"), want: plain()},
		"no strategy":      {reason: "so is an empty one", spec: `{}`, annotations: strategy(""), want: plain()},
	}
}

func TestPublishedExamples(t *testing.T) {
	unknown := core.ConditionCriterion{Type: "Ready", Status: "Unknown", For: 5 * time.Minute}
	down := core.ConditionCriterion{Type: "Ready", Status: "False", For: 5 * time.Minute}
	okd := map[string]string{
		"machine.openshift.io/cluster-api-machine-role": "worker",
		"machine.openshift.io/cluster-api-machine-type": "worker",
		"machine.openshift.io/cluster-api-machineset":   "prod-node-us-east-1a",
	}
	cases := map[string]struct {
		reason, file string
		want         core.Policy
		selects      map[string]string
		healthy      int
	}{
		"the proposal's": {
			reason: "no startup timeout is the default of 10m, and a status in the manifest is a status", file: "proposal.yaml",
			want: plain(conditions(unknown, down), maxUnhealthy(core.Percent(40))), selects: map[string]string{"role": "worker"}, healthy: 5,
		},
		"the guide's for clouds": {
			reason: "deletes machines", file: "cloud.yaml",
			want: plain(conditions(down, unknown), maxUnhealthy(core.Percent(40))), selects: okd,
		},
		"the guide's for bare metal": {
			reason: "deletes only machines that failed", file: "baremetal.yaml",
			want: plain(conditions(down, unknown), maxUnhealthy(core.Percent(40)), handsOver), selects: okd,
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got := readHealthCheck(manifestFile(t, tc.file))
			tc.want.ID = core.ID{Kind: "MachineHealthCheck", Namespace: "openshift-machine-api", Name: "example"}
			tc.want.Created = time.Time{}
			if diff := cmp.Diff(tc.want, got.policy, asTranslated()); diff != "" {
				t.Errorf("%s\npolicy (-want +got):\n%s", tc.reason, diff)
			}
			if !got.selector.Matches(labels.Set(tc.selects)) || got.selector.Matches(labels.Set{"role": "other"}) {
				t.Errorf("the selector is %q; it must select %v and not others", got.selector, tc.selects)
			}
			if healthy := got.status.CurrentHealthy; tc.healthy > 0 && (healthy == nil || *healthy != tc.healthy) {
				t.Errorf("the status has %v healthy machines, want %d", healthy, tc.healthy)
			}
		})
	}
}

func TestSelector(t *testing.T) {
	worker := labels.Set{"role": "worker", "zone": "a"}
	cases := map[string]struct {
		reason, selector string
		want             bool
	}{
		"an empty selector":       {"selects every machine, as in today's controller", `{}`, true},
		"a label that matches":    {"", `{matchLabels: {role: worker}}`, true},
		"a label that differs":    {"", `{matchLabels: {role: master}}`, false},
		"one of two labels":       {"all of them must match", `{matchLabels: {role: worker, zone: b}}`, false},
		"in a set":                {"", `{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}`, true},
		"not in a set":            {"", `{matchExpressions: [{key: role, operator: NotIn, values: [master]}]}`, true},
		"a label that exists":     {"", `{matchExpressions: [{key: role, operator: Exists}]}`, true},
		"a label that must not":   {"", `{matchExpressions: [{key: role, operator: DoesNotExist}]}`, false},
		"labels and expressions":  {"both must match", `{matchLabels: {role: worker}, matchExpressions: [{key: zone, operator: In, values: [b]}]}`, false},
		"an unknown operator":     {"what can't be read selects nothing", `{matchExpressions: [{key: role, operator: Near}]}`, false},
		"an expression of no key": {"what can't be read selects nothing", `{matchExpressions: [{operator: Exists}]}`, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			h := readHealthCheck(check(t, "check", "1", `{selector: `+tc.selector+`}`, nil))
			if got := h.selector.Matches(worker); got != tc.want {
				t.Errorf("%s selects a worker: %t, want %t. %s", tc.selector, got, tc.want, tc.reason)
			}
		})
	}
}

// nonsense is a health check that can't be followed, and words that its problem must have: the
// field, and a valid value.
type nonsense struct {
	spec        string
	annotations map[string]string
	says        []string
}

func TestNonsenseBecomesProblem(t *testing.T) {
	for _, cases := range []map[string]nonsense{unfollowable(), wronglyTyped()} {
		for sentence, tc := range cases {
			t.Run(sentence, func(t *testing.T) {
				got := readHealthCheck(check(t, "check", "1", tc.spec, tc.annotations)).policy
				if got.Problem == "" {
					t.Fatalf("no problem was found")
				}
				for _, words := range tc.says {
					if !strings.Contains(got.Problem, words) {
						t.Errorf("the problem does not say %q:\n%s", words, got.Problem)
					}
				}
				if strings.Contains(got.Problem, "\n") || len(got.Problem) > specparse.MaxProblems+len("…") {
					t.Errorf("the problem is not one line of some length, but %d bytes:\n%.500s", len(got.Problem), got.Problem)
				}
				if want := plain().ID; got.ID != want {
					t.Errorf("the policy is %v, want %v", got.ID, want)
				}
			})
		}
	}
}

func unfollowable() map[string]nonsense {
	duration := func(field string) []string { return []string{field, "300s, 10m or 1h30m"} }
	amount := []string{"spec.maxUnhealthy", "a number such as 2", "a percentage such as 40%"}
	with := func(key, value string, says ...string) nonsense {
		return nonsense{spec: `{}`, annotations: map[string]string{key: value}, says: append(says, key, `"`+value+`"`)}
	}
	first := "spec.unhealthyConditions[0].timeout"
	return map[string]nonsense{
		"a word for a timeout":         {spec: `{unhealthyConditions: [{type: Ready, status: "False", timeout: soon}]}`, says: append(duration(first), `"soon"`)},
		"a timeout without unit":       {spec: `{unhealthyConditions: [{type: Ready, status: "False", timeout: "300"}]}`, says: duration(first)},
		"a negative timeout":           {spec: `{unhealthyConditions: [{type: Ready, status: "False", timeout: "-5m"}]}`, says: duration(first)},
		"the second timeout":           {spec: `{unhealthyConditions: [{type: Ready, status: "False", timeout: 5m}, {type: Ready, status: Unknown, timeout: x}]}`, says: duration("spec.unhealthyConditions[1].timeout")},
		"a timeout beyond all time":    {spec: `{unhealthyConditions: [{type: Ready, status: "False", timeout: 99999999999h}]}`, says: duration(first)},
		"a startup timeout in words":   {spec: `{nodeStartupTimeout: 0 whatever}`, says: duration("spec.nodeStartupTimeout")},
		"a negative startup timeout":   {spec: `{nodeStartupTimeout: "-10m"}`, says: duration("spec.nodeStartupTimeout")},
		"a word for a number":          {spec: `{maxUnhealthy: many}`, says: append(amount, `"many"`)},
		"a word for a percentage":      {spec: `{maxUnhealthy: a%}`, says: amount},
		"a digit after the percentage": {spec: `{maxUnhealthy: 1%0}`, says: amount},
		"a percentage above 100":       {spec: `{maxUnhealthy: 101%}`, says: amount},
		"a negative percentage":        {spec: `{maxUnhealthy: "-1%"}`, says: amount},
		"a negative number in quotes":  {spec: `{maxUnhealthy: "-1"}`, says: amount},
		"a plus sign":                  {spec: `{maxUnhealthy: "+1"}`, says: amount},
		"a fraction in quotes":         {spec: `{maxUnhealthy: "1.5"}`, says: amount},
		"nothing in quotes":            {spec: `{maxUnhealthy: ""}`, says: amount},
		"nothing but a percent sign":   {spec: `{maxUnhealthy: "%"}`, says: amount},
		"a number beyond all fleets":   {spec: `{maxUnhealthy: "99999999999"}`, says: amount},
		"an unknown operator":          {spec: `{selector: {matchExpressions: [{key: role, operator: Near}]}}`, says: []string{"spec.selector", "Near"}},
		"In without values":            {spec: `{selector: {matchExpressions: [{key: role, operator: In}]}}`, says: []string{"spec.selector"}},
		"Exists with values":           {spec: `{selector: {matchExpressions: [{key: role, operator: Exists, values: [a]}]}}`, says: []string{"spec.selector"}},
		"a percentage in wide digits":  {spec: `{maxUnhealthy: "１０%"}`, says: append(amount, `"１０%"`)},
		"a percentage with a blank":    {spec: `{maxUnhealthy: "40 %"}`, says: amount},
		"a percentage in two parts":    {spec: `{maxUnhealthy: "4 0%"}`, says: amount},
		"a hexadecimal number":         {spec: `{maxUnhealthy: "0x10"}`, says: amount},
		"a number with an exponent":    {spec: `{maxUnhealthy: "1e2"}`, says: amount},
		"a number of two lines":        {spec: `{maxUnhealthy: "1\n2"}`, says: append(amount, `"1\n2"`)},
		"a number of a megabyte":       {spec: `{maxUnhealthy: "` + strings.Repeat("9", 1<<20) + `"}`, says: append(amount, `999"… (1048576 bytes)`)},
		"a timeout with a blank":       {spec: `{nodeStartupTimeout: "5 m"}`, says: duration("spec.nodeStartupTimeout")},
		"a timeout in days":            {spec: `{nodeStartupTimeout: 1d}`, says: duration("spec.nodeStartupTimeout")},
		"a timeout without end":        {spec: `{nodeStartupTimeout: ∞}`, says: append(duration("spec.nodeStartupTimeout"), `"∞"`)},
		"a condition of null":          {spec: `{unhealthyConditions: [null]}`, says: []string{"spec.unhealthyConditions[0] lacks", "{type: Ready, status: Unknown, timeout: 300s}"}},
		"a condition without a type":   {spec: `{unhealthyConditions: [{status: "False"}]}`, says: []string{"spec.unhealthyConditions[0] lacks"}},
		"a condition of no status":     {spec: `{unhealthyConditions: [{type: Ready, status: ""}]}`, says: []string{"spec.unhealthyConditions[0] lacks"}},
		"conditions without end":       {spec: `{unhealthyConditions: [` + strings.Repeat(`{type: a, status: b},`, 101) + `]}`, says: []string{"spec.unhealthyConditions has 101 entries; give at most 100"}},
		"a hundred mistakes":           {spec: `{unhealthyConditions: [` + strings.Repeat(`{type: a, status: b, timeout: soon},`, 100) + `]}`, says: duration(first)},
		"an empty template":            {spec: `{remediationTemplate: {}}`, says: []string{"spec.remediationTemplate lacks apiVersion and kind and name", "Metal3RemediationTemplate"}},
		"a template without name":      {spec: `{remediationTemplate: {apiVersion: a.example/v1, kind: RebootTemplate}}`, says: []string{"spec.remediationTemplate lacks name;"}},
		"a template of odd version":    {spec: `{remediationTemplate: {apiVersion: a/b/c, kind: RebootTemplate, name: r}}`, says: []string{"spec.remediationTemplate.apiVersion is \"a/b/c\""}},
		"a template of another kind":   {spec: `{remediationTemplate: {apiVersion: a.example/v1, kind: Reboot, name: r}}`, says: []string{"spec.remediationTemplate.kind is \"Reboot\"", "ends in Template"}},
		"a template of no kind":        {spec: `{remediationTemplate: {apiVersion: a.example/v1, kind: Template, name: r}}`, says: []string{"spec.remediationTemplate.kind is \"Template\""}},
		"a template of Kubernetes":     {spec: `{remediationTemplate: {apiVersion: v1, kind: PodTemplate, name: r}}`, says: []string{"spec.remediationTemplate.kind is \"PodTemplate\" of \"v1\"", "Kubernetes itself"}},
		"a template of infrastructure": {spec: `{remediationTemplate: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: DockerMachineTemplate, name: r}}`, says: []string{"spec.remediationTemplate.kind is \"DockerMachineTemplate\"", "machines and clusters"}},
		"a template with a path":       {spec: `{remediationTemplate: {apiVersion: a.example/v1, kind: RebootTemplate, name: a/b}}`, says: []string{"spec.remediationTemplate.name is \"a/b\""}},
		"a label that can't exist":     {spec: `{selector: {matchLabels: {"a b": c}}}`, says: []string{"spec.selector"}},
		"a word in flight":             with(annotation.MaxInFlight, "lots", "a number such as 2", "40%", "unlimited"),
		"an empty number in flight":    with(annotation.MaxInFlight, "", "a number such as 2", "unlimited"),
		"a negative number in flight":  with(annotation.MaxInFlight, "-1", "unlimited"),
		"an odd word for a dry run":    with(annotation.DryRun, "yes", `"true" or "false"`),
		"an odd word for a wait":       with(annotation.WaitForUpgrades, "yes", `annotation fettle.io/wait-for-upgrades is "yes"`, `"true" or "false"`),
		"an empty word for a wait":     with(annotation.WaitForUpgrades, "", `"true" or "false"`),
		"a criterion that is none":     {spec: `{}`, annotations: map[string]string{annotation.UnhealthyConditions: "[Ready]"}, says: []string{"annotation fettle.io/unhealthy-conditions [0] is \"Ready\"; give an object"}},
		"a delay that is none":         with(annotation.NodeGoneDelay, "5", "annotation fettle.io/node-gone-delay is \"5\"; give a duration such as 5m"),
		"a base without unit":          with(annotation.BackoffBase, "10", "above zero", "10s or 10m"),
		"a base of zero":               with(annotation.BackoffBase, "0s", "above zero"),
		"an empty storm cooldown":      with(annotation.StormCooldown, "", "a duration such as 30s", "0s for no wait"),
		"a negative storm cooldown":    with(annotation.StormCooldown, "-30s", "a duration such as 30s"),
		"a storm cooldown in words":    with(annotation.StormCooldown, "a while", "a duration such as 30s"),
		"a negative limit":             with(annotation.BackoffLimit, "-1m", "above zero"),
	}
}

// wronglyTyped returns health checks whose fields have the wrong type, which a schema may admit.
func wronglyTyped() map[string]nonsense {
	return map[string]nonsense{
		"a number for a list":            {spec: `{unhealthyConditions: 7}`, says: []string{"unhealthyConditions", "kubectl explain machinehealthcheck.spec"}},
		"a list for a selector":          {spec: `{selector: [a]}`, says: []string{"selector", "kubectl explain machinehealthcheck.spec"}},
		"a word for a selector":          {spec: `{selector: all}`, says: []string{"selector", "kubectl explain machinehealthcheck.spec"}},
		"a number for a timeout":         {spec: `{nodeStartupTimeout: 10}`, says: []string{"nodeStartupTimeout", "kubectl explain machinehealthcheck.spec"}},
		"a number for a condition":       {spec: `{unhealthyConditions: [{type: Ready, status: "False", timeout: 300}]}`, says: []string{"timeout", "kubectl explain machinehealthcheck.spec"}},
		"a truth value for a status":     {spec: `{unhealthyConditions: [{type: Ready, status: true}]}`, says: []string{"status", "kubectl explain machinehealthcheck.spec"}},
		"a list for a number":            {spec: `{maxUnhealthy: [1]}`, says: []string{"maxUnhealthy", "kubectl explain machinehealthcheck.spec"}},
		"a fraction":                     {spec: `{maxUnhealthy: 1.5}`, says: []string{"maxUnhealthy", "kubectl explain machinehealthcheck.spec"}},
		"an integer beyond all fleets":   {spec: `{maxUnhealthy: 99999999999}`, says: []string{"maxUnhealthy", "kubectl explain machinehealthcheck.spec"}},
		"a word for a template":          {spec: `{remediationTemplate: reboot}`, says: []string{"remediationTemplate", "kubectl explain machinehealthcheck.spec"}},
		"a word for the specification":   {spec: `many`, says: []string{"spec", "kubectl explain machinehealthcheck.spec"}},
		"a word for a list":              {spec: `{selector: {matchExpressions: all}}`, says: []string{"spec.selector.matchExpressions is", "kubectl explain machinehealthcheck.spec.selector.matchExpressions"}},
		"an empty map for a number":      {spec: `{maxUnhealthy: {}}`, says: []string{"spec.maxUnhealthy is {}"}},
		"a truth value for a number":     {spec: `{maxUnhealthy: true}`, says: []string{"spec.maxUnhealthy is true"}},
		"a number of 309 digits":         {spec: `{maxUnhealthy: 1e308}`, says: []string{"spec.maxUnhealthy is 1e+308"}},
		"2 to the power of 63":           {spec: `{maxUnhealthy: 9223372036854775808}`, says: []string{"spec.maxUnhealthy is 922337203685477"}},
		"a truth value for a timeout":    {spec: `{nodeStartupTimeout: false}`, says: []string{"spec.nodeStartupTimeout is false"}},
		"a list for the specification":   {spec: `[1]`, says: []string{"spec is [1]", "kubectl explain machinehealthcheck.spec"}},
		"a number for a label's value":   {spec: `{selector: {matchLabels: {role: 1}}}`, says: []string{"matchLabels", "kubectl explain machinehealthcheck.spec"}},
		"a word for an expression":       {spec: `{selector: {matchExpressions: [role]}}`, says: []string{"matchExpressions", "kubectl explain machinehealthcheck.spec"}},
		"a map for a list of conditions": {spec: `{unhealthyConditions: {type: Ready}}`, says: []string{"unhealthyConditions", "kubectl explain machinehealthcheck.spec"}},
	}
}

// TestSeveralProblemsAreAllReported: a user who corrects one problem must not find the next by applying
// again.
func TestSeveralProblemsAreAllReported(t *testing.T) {
	u := check(t, "check", "1", `{
		selector: {matchExpressions: [{key: role, operator: Near}]},
		unhealthyConditions: [{type: Ready, status: "False", timeout: soon}, {type: Ready, status: Unknown, timeout: later}],
		maxUnhealthy: many, nodeStartupTimeout: sometime}`,
		map[string]string{
			annotation.MaxInFlight: "lots", annotation.DryRun: "perhaps",
			annotation.BackoffBase: "short", annotation.BackoffLimit: "long",
			annotation.StormCooldown: "a while", annotation.WaitForUpgrades: "maybe",
			annotation.UnhealthyConditions: "[{all: [{type: Ready, status: off}], for: ever}]", annotation.NodeGoneDelay: "wait",
		})
	got := readHealthCheck(u).policy
	for _, words := range []string{"Near", "soon", "later", "many", "sometime", "lots", "perhaps", "short", "long", "a while", "maybe", "[0].for is \"ever\"", "[0].all[0].status is false", "wait"} {
		if !strings.Contains(got.Problem, words) {
			t.Errorf("the problem leaves out %q:\n%s", words, got.Problem)
		}
	}
	if !got.DryRun {
		t.Error("a dry run that can't be read must not act")
	}
	if !got.WaitsForUpgrades {
		t.Error("a wait that can't be read is none")
	}
}

// TestProblemKeepsTheRest: a policy with a problem judges what it still can, so that the tally
// stays right.
func TestProblemKeepsTheRest(t *testing.T) {
	h := readHealthCheck(check(t, "check", "1", `{selector: {matchLabels: {role: worker}}, maxUnhealthy: many,
		unhealthyConditions: [{type: Ready, status: "False", timeout: soon}, {type: Ready, status: Unknown, timeout: 5m}]}`, nil))
	want := []core.ConditionCriterion{{Type: "Ready", Status: "Unknown", For: 5 * time.Minute}}
	if diff := cmp.Diff(want, h.policy.Criteria.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if !h.selector.Matches(labels.Set{"role": "worker"}) {
		t.Error("the selector is fine and must still select")
	}
	if h.policy.ShortCircuit.MaxUnhealthy != (core.Amount{}) {
		t.Errorf("maxUnhealthy is %v; an unreadable one must permit nothing", h.policy.ShortCircuit.MaxUnhealthy)
	}
}

func unparsable(p *core.Policy) { p.Unparsable = true }

// TestWrongTypeHidesNothingElse: a field of the wrong type gets neither a value nor the default,
// and all other fields are read.
func TestWrongTypeHidesNothingElse(t *testing.T) {
	whole := func(field string) string {
		return `{selector: {matchLabels: {role: worker}}, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}],
			maxUnhealthy: 2, nodeStartupTimeout: 25m, ` + field + `}`
	}
	ready := conditions(core.ConditionCriterion{Type: "Ready", Status: "Unknown", For: 5 * time.Minute})
	cases := map[string]struct {
		spec    string
		want    core.Policy
		selects bool
	}{
		"all is well":         {whole(`other: 1`), plain(ready, maxUnhealthy(core.Count(2)), startup(25*time.Minute)), true},
		"the selector":        {whole(`selector: all`), plain(unparsable, ready, maxUnhealthy(core.Count(2)), startup(25*time.Minute)), false},
		"the conditions":      {whole(`unhealthyConditions: 7`), plain(unparsable, maxUnhealthy(core.Count(2)), startup(25*time.Minute)), true},
		"the short circuit":   {whole(`maxUnhealthy: [2]`), plain(ready, maxUnhealthy(core.Amount{}), startup(25*time.Minute)), true},
		"the startup timeout": {whole(`nodeStartupTimeout: 25`), plain(ready, maxUnhealthy(core.Count(2)), startup(0)), true},
		"the template's name": {whole(`remediationTemplate: {apiVersion: a.example/v1, kind: RebootTemplate, name: 7}`), plain(ready, maxUnhealthy(core.Count(2)), startup(25*time.Minute), noRemedy), true},
		"the template":        {whole(`remediationTemplate: reboot`), plain(ready, maxUnhealthy(core.Count(2)), startup(25*time.Minute), noRemedy), true},
		"everything":          {`many`, plain(unparsable, startup(0), maxUnhealthy(core.Amount{}), noRemedy), false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			h := readHealthCheck(check(t, "check", "1", tc.spec, nil))
			if broken := sentence != "all is well"; broken != (h.policy.Problem != "") {
				t.Errorf("the problem is %q", h.policy.Problem)
			}
			tc.want.Problem = h.policy.Problem
			if diff := cmp.Diff(tc.want, h.policy, asTranslated()); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			if got := h.selector.Matches(labels.Set{"role": "worker"}); got != tc.selects {
				t.Errorf("it selects a worker: %t, want %t", got, tc.selects)
			}
		})
	}
}

// TestStatusOfOthersIsNoMistakeOfTheSpec: a health check with any status is followed, and its
// status is written anew.
func TestStatusOfOthersIsNoMistakeOfTheSpec(t *testing.T) {
	for _, status := range []string{
		`many`, `[1]`, `{conditions: 7}`, `{conditions: [{type: RemediationAllowed, status: "True", lastTransitionTime: yesterday}]}`,
		`{conditions: [{type: 5}]}`, `{expectedMachines: many, currentHealthy: 1, conditions: []}`, `{remediationsAllowed: 1e308}`,
		`{expectedMachines: 0, currentHealthy: 0, remediationsAllowed: many, conditions: [{type: RemediationAllowed, status: "True", lastTransitionTime: "2026-08-03T12:00:00Z"}]}`,
	} {
		h := readHealthCheck(manifest(t, "apiVersion: machine.openshift.io/v1beta1\nkind: MachineHealthCheck\nstatus: "+status))
		if h.policy.Problem != "" || !h.policy.WasStopped {
			t.Errorf("%s: the problem is %q, and repairs may have been stopped: %t", status, h.policy.Problem, h.policy.WasStopped)
		}
		report := core.PolicyReport{Policy: h.policy, Tally: core.Tally{Permitted: true}}
		fresh, changed := statusOf(h.status, report, noon)
		if !changed {
			t.Errorf("%s: it is left as it is", status)
		}
		if _, changed = statusOf(fresh, report, noon); changed {
			t.Errorf("%s: it is written again and again", status)
		}
	}
}

// TestHeldIsReadFromStatus: a new process knows from the status whether repairs were stopped.
func TestHeldIsReadFromStatus(t *testing.T) {
	cases := map[string]struct {
		conditions string
		want       bool
	}{
		"no condition yet":           {`[]`, false},
		"repairs allowed":            {`[{type: RemediationAllowed, status: "True"}]`, false},
		"too many unhealthy":         {`[{type: RemediationAllowed, status: "False", reason: TooManyUnhealthy}]`, true},
		"cooling down":               {`[{type: RemediationAllowed, status: "False", reason: StormCooldown}]`, true},
		"paused":                     {`[{type: RemediationAllowed, status: "False", reason: Paused}]`, true},
		"another writer's condition": {`[{type: Other, status: "False", reason: TooManyUnhealthy}]`, false},
		"ours after another's":       {`[{type: Other, status: "True"}, {type: RemediationAllowed, status: "False", reason: StormCooldown}]`, true},
		"an older one of no reason":  {`[{type: RemediationAllowed, status: "False"}]`, true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			u := manifest(t, "apiVersion: machine.openshift.io/v1beta1\nkind: MachineHealthCheck\nstatus: {conditions: "+tc.conditions+"}")
			if got := readHealthCheck(u).policy.WasStopped; got != tc.want {
				t.Errorf("held is %t, want %t", got, tc.want)
			}
		})
	}
}

// TestUnparsableCriteria: where the selector or a criterion can't be read, a machine that seems healthy may not be. Other fields
// say nothing about that.
func TestUnparsableCriteria(t *testing.T) {
	for spec, want := range map[string]bool{
		`{selector: {matchExpressions: [{key: role, operator: Near}]}}`:                            true,
		`{unhealthyConditions: [{type: Ready, status: "False", timeout: soon}]}`:                   true,
		`{unhealthyConditions: [{status: "False", timeout: 5m}]}`:                                  true,
		`{nodeStartupTimeout: soon}`:                                                               false,
		`{maxUnhealthy: many}`:                                                                     false,
		`{unhealthyConditions: [{type: Ready, status: "False", timeout: 5m}], maxUnhealthy: many}`: false,
	} {
		p := readHealthCheck(check(t, "check", "1", spec, nil)).policy
		if p.Unparsable != want || p.Problem == "" {
			t.Errorf("%s: it is unparsable: %t, want %t; the problem is %q", spec, p.Unparsable, want, p.Problem)
		}
		for _, c := range p.Criteria.Conditions {
			if c.Type == "" || c.Status == "" {
				t.Errorf("%s: half a condition is a criterion: %+v", spec, c)
			}
		}
	}
}

// TestReclaims: only the condition of the termination handler, and only while it is True, says that the cloud takes back the
// instance.
func TestReclaims(t *testing.T) {
	for c, want := range map[v1beta1.UnhealthyCondition]bool{
		{Type: "Terminating", Status: "True"}: true, {Type: "Terminating", Status: "False"}: false, {Type: "Ready", Status: "True"}: false,
	} {
		if got := reclaims(c); got != want {
			t.Errorf("%+v reclaims: %t, want %t", c, got, want)
		}
	}
}

// TestUnparsableGroups: where a criterion can't be read, a machine that seems healthy may not be.
func TestUnparsableGroups(t *testing.T) {
	for text, want := range map[string]bool{"soon": true, `[{all: [{type: A, missing: true}], for: 10m}]`: false} {
		p := readHealthCheck(check(t, "check", "1", `{}`, map[string]string{annotation.UnhealthyConditions: text})).policy
		if p.Unparsable != want || (p.Problem != "") != want || (p.Criteria.Groups == nil) != want {
			t.Errorf("%s: unparsable is %t, the problem is %q, the groups are %v", text, p.Unparsable, p.Problem, p.Criteria.Groups)
		}
	}
}
