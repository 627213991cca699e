package nhc

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/messages"
	"github.com/fettle-io/fettle/internal/specparse"
)

// objectOf parses an object as a watch delivers it.
func objectOf(t *testing.T, yaml string) *unstructured.Unstructured {
	t.Helper()
	body, err := utilyaml.ToJSON([]byte(yaml))
	if err != nil {
		t.Fatalf("reading a manifest: %v", err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(body); err != nil {
		t.Fatalf("reading a manifest: %v", err)
	}
	return u
}

// specified returns a health check with this specification, as YAML in one line.
func specified(t *testing.T, spec string, annotations map[string]string) *unstructured.Unstructured {
	t.Helper()
	u := objectOf(t, `
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: check, uid: check-uid, resourceVersion: "12", creationTimestamp: "2026-08-02T12:00:00Z"}
spec: `+spec)
	u.SetAnnotations(annotations)
	return u
}

const (
	rebootYAML = `{apiVersion: example.org/v1, kind: RebootTemplate, namespace: remediators, name: soft}`
	fenceYAML  = `{apiVersion: example.org/v1, kind: FenceTemplate, namespace: remediators, name: ipmi}`
	moverYAML  = `{apiVersion: example.org/v1, kind: MachineDELETIONRemediationTemplate, namespace: remediators, name: delete}`
)

// withReboot returns a specification that names a template, and more.
func withReboot(more string) string { return `{remediationTemplate: ` + rebootYAML + `, ` + more + `}` }

// escalating returns a specification of several steps, each with an order, a timeout and a template.
func escalating(steps ...[3]string) string {
	var all []string
	for _, s := range steps {
		all = append(all, `{order: `+s[0]+`, timeout: `+s[1]+`, remediationTemplate: `+s[2]+`}`)
	}
	return `{escalatingRemediations: [` + strings.Join(all, ", ") + `]}`
}

func stepRecord(kind, name string, limit time.Duration) core.Step {
	return core.Step{
		Remedy: "RequestNodeRemediation", Nature: core.CreateRequest, Limit: limit,
		Template: core.Reference{APIVersion: "example.org/v1", Kind: kind, Namespace: "remediators", Name: name},
	}
}

func readiness(duration time.Duration) []core.ConditionCriterion {
	return []core.ConditionCriterion{{Type: "Ready", Status: "False", For: duration}, {Type: "Ready", Status: "Unknown", For: duration}}
}

// plainPolicy returns the policy of a health check that names a template and sets nothing else.
func plainPolicy(changes ...func(*core.Policy)) core.Policy {
	p := core.Policy{
		Advice:               messages.Advice(),
		ID:                   core.ID{Kind: "NodeHealthCheck", Name: "check", UID: "check-uid"},
		Created:              time.Date(2026, time.August, 2, 12, 0, 0, 0, time.UTC).Local(),
		Criteria:             core.Criteria{Conditions: readiness(5 * time.Minute)},
		ShortCircuit:         core.ShortCircuit{MaxUnhealthy: core.Percent(49)},
		StormCooldown:        core.DefaultStormCooldown,
		MaxInFlight:          core.Unlimited(),
		Steps:                []core.Step{stepRecord("RebootTemplate", "soft", 0)},
		EmitsUnhealthyEvents: true,
		WaitsForUpgrades:     true,
		Holder:               "fettle.io/NodeHealthCheck-check",
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func atMost(a core.Amount) func(*core.Policy) {
	return func(p *core.Policy) { p.ShortCircuit = core.ShortCircuit{MaxUnhealthy: a} }
}

func atLeast(a core.Amount) func(*core.Policy) {
	return func(p *core.Policy) { p.ShortCircuit = core.ShortCircuit{MinHealthy: &a} }
}

func finds(c ...core.ConditionCriterion) func(*core.Policy) {
	return func(p *core.Policy) { p.Criteria.Conditions = c }
}

func withSteps(steps ...core.Step) func(*core.Policy) {
	return func(p *core.Policy) { p.Steps = steps }
}

func delayed(d time.Duration) func(*core.Policy) { return func(p *core.Policy) { p.HealthyDelay = d } }

func coolsFor(d time.Duration) func(*core.Policy) {
	return func(p *core.Policy) { p.StormCooldown, p.FixedCooldown = d, true }
}

func backingOff(base, limit time.Duration) func(*core.Policy) {
	return func(p *core.Policy) { p.Backoff = core.Backoff{Base: base, Limit: limit, GiveUpAfter: 10} }
}

func inFlightMost(a core.Amount) func(*core.Policy) {
	return func(p *core.Policy) { p.MaxInFlight = a }
}

func unparsable(p *core.Policy)  { p.Unparsable = true }
func pausing(p *core.Policy)     { p.Paused = true }
func isRehearsed(p *core.Policy) { p.DryRun = true }

type rendition struct {
	reason      string
	spec        string
	annotations map[string]string
	want        core.Policy
}

func TestNodeHealthCheckBecomesPolicy(t *testing.T) {
	for _, cases := range []map[string]rendition{fieldCases(), annotatedCases(), stepCases()} {
		for sentence, tc := range cases {
			t.Run(sentence, func(t *testing.T) {
				got := readHealthCheck(specified(t, tc.spec, tc.annotations))
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

func fieldCases() map[string]rendition {
	return map[string]rendition{
		"a template and nothing else": {
			reason: "the proposal's defaults: unready for 300s, at most 49 % unhealthy", spec: `{remediationTemplate: ` + rebootYAML + `}`, want: plainPolicy(),
		},
		"null is the same as nothing": {
			reason: "an explicit null is an absent field",
			spec: withReboot(`selector: null, unhealthyConditions: null, minHealthy: null, maxUnhealthy: null, escalatingRemediations: null, pauseRequests: null,
				healthyDelay: null, stormCooldownDuration: null, backoff: null`),
			want: plainPolicy(),
		},
		"conditions in their order": {
			reason: "as they are written, and no default beside them",
			spec:   withReboot(`unhealthyConditions: [{type: Disk, status: "True", duration: 1h30m}, {type: Ready, status: Unknown, duration: 0s}]`),
			want:   plainPolicy(finds(core.ConditionCriterion{Type: "Disk", Status: "True", For: 90 * time.Minute}, core.ConditionCriterion{Type: "Ready", Status: "Unknown"})),
		},
		"maxUnhealthy as integer":    {"an absolute number", withReboot(`maxUnhealthy: 2`), nil, plainPolicy(atMost(core.Count(2)))},
		"maxUnhealthy as digits":     {"a string of digits is a number", withReboot(`maxUnhealthy: "2"`), nil, plainPolicy(atMost(core.Count(2)))},
		"maxUnhealthy as percentage": {"a share", withReboot(`maxUnhealthy: 40%`), nil, plainPolicy(atMost(core.Percent(40)))},
		"maxUnhealthy of 0":          {"0 stops all remediation", withReboot(`maxUnhealthy: 0`), nil, plainPolicy(atMost(core.Count(0)))},
		"maxUnhealthy of thousands":  {"more than there are nodes is no mistake", withReboot(`maxUnhealthy: 5000`), nil, plainPolicy(atMost(core.Count(5000)))},
		"minHealthy as integer":      {"an absolute number, and no default of maxUnhealthy", withReboot(`minHealthy: 3`), nil, plainPolicy(atLeast(core.Count(3)))},
		"minHealthy as percentage":   {"a share of the nodes, which must be healthy", withReboot(`minHealthy: 51%`), nil, plainPolicy(atLeast(core.Percent(51)))},
		"minHealthy of 0":            {"never stops", withReboot(`minHealthy: 0`), nil, plainPolicy(atLeast(core.Count(0)))},
		"a request to pause":         {"any entry pauses", withReboot(`pauseRequests: [because]`), nil, plainPolicy(pausing)},
		"an empty request to pause":  {"any entry pauses", withReboot(`pauseRequests: [""]`), nil, plainPolicy(pausing)},
		"no requests to pause":       {"a list without entries does not", withReboot(`pauseRequests: []`), nil, plainPolicy()},
		"a healthy delay":            {"as written", withReboot(`healthyDelay: 5m`), nil, plainPolicy(delayed(5 * time.Minute))},
		"a healthy delay of 0":       {"none", withReboot(`healthyDelay: "0"`), nil, plainPolicy()},
		"a negative healthy delay":   {"until a person confirms it", withReboot(`healthyDelay: -1s`), nil, plainPolicy(delayed(-time.Second))},
		"a storm cooldown":           {"lasts as long as it says", withReboot(`stormCooldownDuration: 10m`), nil, plainPolicy(coolsFor(10 * time.Minute))},
		"a storm cooldown of 0":      {"none, not the default", withReboot(`stormCooldownDuration: 0s`), nil, plainPolicy(coolsFor(0))},
		"back-off":                   {"from the default base", withReboot(`backoff: {type: exponential, limit: 10m}`), nil, plainPolicy(backingOff(5*time.Second, 10*time.Minute))},
		"back-off with a low limit":  {"the limit holds", withReboot(`backoff: {type: exponential, limit: 3s}`), nil, plainPolicy(backingOff(3*time.Second, 3*time.Second))},
		"unknown fields":             {"are passed over", withReboot(`somethingNew: {a: 1}`), nil, plainPolicy()},
	}
}

func annotatedCases() map[string]rendition {
	with := func(reason, key, value string, want core.Policy) rendition {
		return rendition{reason, withReboot(``), map[string]string{key: value}, want}
	}
	return map[string]rendition{
		"a dry run":            with("requested", annotation.DryRun, "true", plainPolicy(isRehearsed)),
		"no dry run":           with("declined", annotation.DryRun, "false", plainPolicy()),
		"two in flight":        with("a number", annotation.MaxInFlight, "2", plainPolicy(inFlightMost(core.Count(2)))),
		"a share in flight":    with("a percentage", annotation.MaxInFlight, "25%", plainPolicy(inFlightMost(core.Percent(25)))),
		"any number in flight": with("the default, said aloud", annotation.MaxInFlight, "unlimited", plainPolicy()),
		"a base alone":         with("without spec.backoff there is no back-off", annotation.BackoffBase, "1m", plainPolicy()),
		"a base of back-off": {
			"the first pause", withReboot(`backoff: {type: exponential, limit: 10m}`), map[string]string{annotation.BackoffBase: "1m"}, plainPolicy(backingOff(time.Minute, 10*time.Minute)),
		},
		"conditions that hold together": with("beside the defaults", annotation.UnhealthyConditions, `[{"all":[{"type":"AgentReady","missing":true}],"for":"10m"}]`,
			plainPolicy(func(p *core.Policy) {
				p.Criteria.Groups = []core.ConditionGroup{{Tests: []core.ConditionTest{{Type: "AgentReady", Missing: true}}, For: 10 * time.Minute}}
			})),
		"a delay for nodes that are gone": with("they are not remediated anyway", "fettle.io/node-gone-delay", "5m", plainPolicy()),
		"the pause of others":             with("pauseRequests pause, and nothing else", "cluster.x-k8s.io/paused", "", plainPolicy()),
		"annotations of others":           with("are passed over", "fettle.io/unheard-of", "x", plainPolicy()),
	}
}

func stepCases() map[string]rendition {
	bad := func(s core.Step, problem string) core.Step {
		s.Problem = problem
		return s
	}
	const wrongYAML = `{apiVersion: example.org/v1, kind: Reboot, namespace: remediators, name: soft}`
	wrong := func(i int) string {
		return fmt.Sprintf(`spec.escalatingRemediations[%d].remediationTemplate.kind is "Reboot"; give the kind of a template, which ends in Template, such as SelfNodeRemediationTemplate`, i)
	}
	lacking := func(yaml string) string { return `{remediationTemplate: ` + yaml + `}` }
	const lacks = "spec.remediationTemplate lacks an apiVersion, a kind or a name; give all three, such as " +
		"{apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediationTemplate, namespace: NAMESPACE, name: NAME}"
	var twenty [][3]string
	var steps []core.Step
	for i := range 20 {
		name := fmt.Sprint("t", i)
		twenty = append(twenty, [3]string{fmt.Sprint(i), "60s", strings.Replace(rebootYAML, "soft", name, 1)})
		steps = append(steps, stepRecord("RebootTemplate", name, time.Minute))
	}
	versionless, kindless := stepRecord("RebootTemplate", "soft", 0), stepRecord("", "soft", 0)
	versionless.Template.APIVersion = ""
	metal := stepRecord("Metal3RemediationTemplate", "power", 0)
	metal.Template.Namespace = "openshift-machine-api"
	return map[string]rendition{
		"an escalation in another order": {
			"lower orders go first, whatever their place",
			escalating([3]string{"20", "60s", fenceYAML}, [3]string{"-1", "5m", rebootYAML}), nil,
			plainPolicy(withSteps(stepRecord("RebootTemplate", "soft", 5*time.Minute), stepRecord("FenceTemplate", "ipmi", time.Minute))),
		},
		"an escalation within one kind": {
			"whether that works is for the remedy to say",
			escalating([3]string{"1", "60s", rebootYAML}, [3]string{"2", "60s", strings.Replace(rebootYAML, "soft", "hard", 1)}), nil,
			plainPolicy(withSteps(stepRecord("RebootTemplate", "soft", time.Minute), stepRecord("RebootTemplate", "hard", time.Minute))),
		},
		"an escalation with the same template twice": {
			"what failed once is not tried again", escalating([3]string{"1", "60s", rebootYAML}, [3]string{"2", "60s", rebootYAML}), nil,
			plainPolicy(withSteps(stepRecord("RebootTemplate", "soft", time.Minute), bad(stepRecord("RebootTemplate", "soft", time.Minute),
				"spec.escalatingRemediations[1].remediationTemplate is that of an earlier entry too; remove one of them, since what failed once is not tried again"))),
		},
		"a template, and an escalation without steps": {"an empty list is none", withReboot(`escalatingRemediations: []`), nil, plainPolicy()},
		"machines deleted":                            {"goes with the default limit", `{remediationTemplate: ` + moverYAML + `}`, nil, plainPolicy(withSteps(stepRecord("MachineDELETIONRemediationTemplate", "delete", 0)))},
		"machines deleted while enough are healthy":   {"goes with minHealthy", `{minHealthy: 2, remediationTemplate: ` + moverYAML + `}`, nil, plainPolicy(atLeast(core.Count(2)), withSteps(stepRecord("MachineDELETIONRemediationTemplate", "delete", 0)))},
		"metal3 where it works":                       {"in the namespace of machines", `{remediationTemplate: {apiVersion: example.org/v1, kind: Metal3RemediationTemplate, namespace: openshift-machine-api, name: power}}`, nil, plainPolicy(withSteps(metal))},
		"metal3 elsewhere": {
			"it is the template that can't be used", `{remediationTemplate: {apiVersion: example.org/v1, kind: Metal3RemediationTemplate, namespace: remediators, name: power}}`, nil,
			plainPolicy(withSteps(bad(stepRecord("Metal3RemediationTemplate", "power", 0),
				`spec.remediationTemplate.namespace is "remediators"; a Metal3RemediationTemplate works in openshift-machine-api only, so make one there and refer to that`))),
		},
		"the same wrong template twice": {
			"what is wrong with it is more than that it is there twice", escalating([3]string{"1", "60s", wrongYAML}, [3]string{"2", "60s", wrongYAML}), nil,
			plainPolicy(withSteps(bad(stepRecord("Reboot", "soft", time.Minute), wrong(0)), bad(stepRecord("Reboot", "soft", time.Minute), wrong(1)))),
		},
		"as many steps as there may be": {"", escalating(twenty...), nil, plainPolicy(withSteps(steps...))},
		"no template": {
			"the kind says so", `{remediationTemplate: {apiVersion: example.org/v1, kind: Reboot, namespace: remediators, name: soft}}`, nil,
			plainPolicy(withSteps(bad(stepRecord("Reboot", "soft", 0), `spec.remediationTemplate.kind is "Reboot"; give the kind of a template, which ends in Template, such as SelfNodeRemediationTemplate`))),
		},
		"a template of nothing": {
			"what remains of the kind would be no kind", `{remediationTemplate: {apiVersion: example.org/v1, kind: Template, namespace: remediators, name: soft}}`, nil,
			plainPolicy(withSteps(bad(stepRecord("Template", "soft", 0), `spec.remediationTemplate.kind is "Template"; give the kind of a template, which ends in Template, such as SelfNodeRemediationTemplate`))),
		},
		"a reference that lacks its version": {"", lacking(`{kind: RebootTemplate, namespace: remediators, name: soft}`), nil, plainPolicy(withSteps(bad(versionless, lacks)))},
		"a reference that lacks its kind":    {"", lacking(`{apiVersion: example.org/v1, namespace: remediators, name: soft}`), nil, plainPolicy(withSteps(bad(kindless, lacks)))},
		"no machines deleted while at most some are unhealthy": {
			"other steps go with maxUnhealthy", strings.Replace(escalating([3]string{"1", "60s", rebootYAML}, [3]string{"2", "60s", fenceYAML}), "{", "{maxUnhealthy: 2, ", 1), nil,
			plainPolicy(atMost(core.Count(2)), withSteps(stepRecord("RebootTemplate", "soft", time.Minute), stepRecord("FenceTemplate", "ipmi", time.Minute))),
		},
		"a reference that lacks its name": {
			"it can't be found", escalating([3]string{"1", "60s", `{apiVersion: example.org/v1, kind: RebootTemplate, namespace: remediators}`}), nil,
			plainPolicy(withSteps(bad(stepRecord("RebootTemplate", "", time.Minute), "spec.escalatingRemediations[0].remediationTemplate lacks an apiVersion, a kind or a name; "+
				"give all three, such as {apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediationTemplate, namespace: NAMESPACE, name: NAME}"))),
		},
	}
}

// TestProposalsManifest reads the manifest of docs/reference/proposals.md#node-health-checks with its mistakes
// corrected.
func TestProposalsManifest(t *testing.T) {
	text, err := os.ReadFile("testdata/seed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := readHealthCheck(objectOf(t, string(text)))
	want := plainPolicy(finds(readiness(5 * time.Minute)[1], readiness(5 * time.Minute)[0]))
	want.ID, want.Created, want.Holder = core.ID{Kind: "NodeHealthCheck", Name: "example"}, time.Time{}, "fettle.io/NodeHealthCheck-example"
	want.Steps = []core.Step{{
		Remedy: "RequestNodeRemediation", Nature: core.CreateRequest,
		Template: core.Reference{APIVersion: "poison-pill.medik8s.io/v1alpha1", Kind: "PoisonPillRemediationTemplate", Name: "m3-remediation-group"},
	}}
	if diff := cmp.Diff(want, got.policy, asTranslated()); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	if got.status.HealthyNodes == nil || *got.status.HealthyNodes != 5 {
		t.Errorf("the status has %v healthy nodes, want 5", got.status.HealthyNodes)
	}
}

func TestSelector(t *testing.T) {
	worker := labels.Set{"node-role.kubernetes.io/worker": "", "zone": "a"}
	cases := map[string]struct {
		reason, selector string
		worker, other    bool
	}{
		"none":                    {"the proposal's default are workers", `null`, true, false},
		"an empty one":            {"selects every node, as in today's operator", `{}`, true, true},
		"a label that matches":    {"", `{matchLabels: {zone: a}}`, true, false},
		"a label that must not":   {"", `{matchExpressions: [{key: zone, operator: DoesNotExist}]}`, false, true},
		"an unknown operator":     {"what can't be read selects nothing", `{matchExpressions: [{key: zone, operator: Near}]}`, false, false},
		"a word":                  {"what is of the wrong type selects nothing", `all`, false, false},
		"an expression of no key": {"what can't be read selects nothing", `{matchExpressions: [{operator: Exists}]}`, false, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			h := readHealthCheck(specified(t, withReboot(`selector: `+tc.selector), nil))
			if got := h.selector.Matches(worker); got != tc.worker {
				t.Errorf("%s selects a worker: %t, want %t. %s", tc.selector, got, tc.worker, tc.reason)
			}
			if got := h.selector.Matches(labels.Set{}); got != tc.other {
				t.Errorf("%s selects another node: %t, want %t. %s", tc.selector, got, tc.other, tc.reason)
			}
		})
	}
}

// mistake is a health check that can't be followed, with words that its problem must have: the field and a correct
// value.
type mistake struct {
	spec        string
	annotations map[string]string
	says        []string
}

func TestMistakeBecomesProblem(t *testing.T) {
	for _, cases := range []map[string]mistake{mistakes(), mistypedFields()} {
		for sentence, tc := range cases {
			t.Run(sentence, func(t *testing.T) {
				got := readHealthCheck(specified(t, tc.spec, tc.annotations)).policy
				if got.Problem == "" {
					t.Fatalf("no problem was found")
				}
				for _, words := range tc.says {
					if !strings.Contains(got.Problem, words) {
						t.Errorf("the problem does not say %q:\n%s", words, got.Problem)
					}
				}
				if strings.Contains(got.Problem, "as that of [1]") {
					t.Errorf("one order is reported twice:\n%s", got.Problem)
				}
				if strings.Contains(got.Problem, "\n") || len(got.Problem) > specparse.MaxProblems+len("…") {
					t.Errorf("the problem is not one line of some length, but %d bytes:\n%.500s", len(got.Problem), got.Problem)
				}
				if want := plainPolicy(); got.ID != want.ID || got.Holder != want.Holder || !got.WaitsForUpgrades {
					t.Errorf("the policy is %v, held as %q, want %v", got.ID, got.Holder, want.ID)
				}
			})
		}
	}
}

func mistakes() map[string]mistake {
	amount := func(field string) []string {
		return []string{field, "a number such as 2", "a percentage such as 40%"}
	}
	one := func(spec string, says ...string) mistake { return mistake{spec: spec, says: says} }
	with := func(key, value string, says ...string) mistake {
		return mistake{withReboot(``), map[string]string{key: value}, append(says, key, `"`+value+`"`)}
	}
	duration := "a duration such as 300s, 10m or 1h30m"
	limits := "spec.minHealthy and spec.maxUnhealthy exclude each other; remove one"
	first := "spec.unhealthyConditions[0]"
	return map[string]mistake{
		"no template at all":           one(`{}`, "spec.remediationTemplate and spec.escalatingRemediations are both missing; give one of them"),
		"no specification":             one(`null`, "are both missing"),
		"both kinds of ladder":         one(withReboot(`escalatingRemediations: [{order: 1, timeout: 60s, remediationTemplate: `+fenceYAML+`}]`), "exclude each other; remove one"),
		"both limits":                  one(withReboot(`minHealthy: 51%, maxUnhealthy: 49%`), limits),
		"both limits, if they agree":   one(withReboot(`minHealthy: 0, maxUnhealthy: 100%`), limits),
		"machines deleted up to a max": one(`{maxUnhealthy: 2, remediationTemplate: `+moverYAML+`}`, "spec.maxUnhealthy can't go with a MachineDeletionRemediationTemplate", "give minHealthy instead"),
		"machines deleted in the end": one(strings.Replace(escalating([3]string{"1", "60s", rebootYAML}, [3]string{"2", "60s", moverYAML}), "{", "{maxUnhealthy: 40%, ", 1),
			"spec.maxUnhealthy can't go with a MachineDeletionRemediationTemplate"),
		"an order twice": one(escalating([3]string{"1", "60s", rebootYAML}, [3]string{"2", "60s", moverYAML}, [3]string{"1", "60s", fenceYAML}),
			"spec.escalatingRemediations[2].order is 1, as that of [0]; give each an order of its own"),
		"an order three times":           one(escalating([3]string{"1", "60s", rebootYAML}, [3]string{"1", "60s", moverYAML}, [3]string{"1", "60s", fenceYAML}), "[1].order is 1, as that of [0]", "[2].order is 1, as that of [0]"),
		"a step of less than a minute":   one(escalating([3]string{"1", "59s", rebootYAML}), `spec.escalatingRemediations[0].timeout is "59s"; give a duration of at least 60s`),
		"a step of no time":              one(escalating([3]string{"1", `""`, rebootYAML}), `spec.escalatingRemediations[0].timeout is ""`),
		"a step of some time":            one(escalating([3]string{"1", "later", rebootYAML}), `spec.escalatingRemediations[0].timeout is "later"`),
		"steps without end":              one(escalating(make([][3]string, 21)...), "spec.escalatingRemediations has 21 entries; give at most 20"),
		"a word, and machines deleted":   one(`{maxUnhealthy: many, remediationTemplate: `+moverYAML+`}`, append(amount("spec.maxUnhealthy"), `"many"`)...),
		"a word for maxUnhealthy":        one(withReboot(`maxUnhealthy: many`), append(amount("spec.maxUnhealthy"), `"many"`)...),
		"maxUnhealthy above 100 %":       one(withReboot(`maxUnhealthy: 101%`), amount("spec.maxUnhealthy")...),
		"maxUnhealthy below zero":        one(withReboot(`maxUnhealthy: -1`), append(amount("spec.maxUnhealthy"), `"-1"`)...),
		"a word for minHealthy":          one(withReboot(`minHealthy: most`), append(amount("spec.minHealthy"), `"most"`)...),
		"minHealthy below zero":          one(withReboot(`minHealthy: -1`), amount("spec.minHealthy")...),
		"no conditions":                  one(withReboot(`unhealthyConditions: []`), "spec.unhealthyConditions is empty", "remove it for the default"),
		"conditions without end":         one(withReboot(`unhealthyConditions: [`+strings.Repeat(`{type: a, status: b, duration: 1s},`, 101)+`]`), "spec.unhealthyConditions has 101 entries; give at most 100"),
		"a condition of null":            one(withReboot(`unhealthyConditions: [null]`), first+" lacks a type or a status; give both"),
		"a condition of no status":       one(withReboot(`unhealthyConditions: [{type: Ready, duration: 1s}]`), first+" lacks"),
		"a condition of no duration":     one(withReboot(`unhealthyConditions: [{type: Ready, status: "False"}]`), first+".duration is missing", duration),
		"a condition of some duration":   one(withReboot(`unhealthyConditions: [{type: Ready, status: "False", duration: soon}]`), first+`.duration is "soon"`, duration),
		"a negative duration":            one(withReboot(`unhealthyConditions: [{type: Ready, status: "False", duration: -1s}]`), first+`.duration is "-1s"`, duration),
		"an unknown operator":            one(withReboot(`selector: {matchExpressions: [{key: role, operator: Near}]}`), "spec.selector is not a label selector", "Near"),
		"a healthy delay of some time":   one(withReboot(`healthyDelay: a while`), `spec.healthyDelay is "a while"; give a duration such as 300s or 10m, or a negative one such as -1s`),
		"an empty healthy delay":         one(withReboot(`healthyDelay: ""`), `spec.healthyDelay is ""`),
		"a negative storm cooldown":      one(withReboot(`stormCooldownDuration: -1s`), `spec.stormCooldownDuration is "-1s"`, duration),
		"an empty storm cooldown":        one(withReboot(`stormCooldownDuration: ""`), `spec.stormCooldownDuration is ""`, duration),
		"a linear back-off":              one(withReboot(`backoff: {type: linear, limit: 10m}`), `spec.backoff.type is "linear"; give exponential`),
		"a back-off without limit":       one(withReboot(`backoff: {type: exponential}`), `spec.backoff.limit is ""; give a duration above zero`),
		"a back-off that never ends":     one(withReboot(`backoff: {type: exponential, limit: 0s}`), `spec.backoff.limit is "0s"; give a duration above zero`),
		"a word in flight":               with(annotation.MaxInFlight, "lots", "a number such as 2", "unlimited"),
		"an odd word for a dry run":      with(annotation.DryRun, "yes", `"true" or "false"`),
		"a criterion that is none":       {withReboot(``), map[string]string{annotation.UnhealthyConditions: "soon"}, []string{"annotation " + annotation.UnhealthyConditions, "has no list of entries; give one such as [{all:"}},
		"a base without unit":            with(annotation.BackoffBase, "10", "above zero", "10s or 10m"),
		"a hundred mistakes in a row":    one(withReboot(`unhealthyConditions: [`+strings.Repeat(`{type: a, status: b, duration: soon},`, 100)+`]`), first),
		"a megabyte for the kind's name": one(`{maxUnhealthy: "`+strings.Repeat("9", 1<<20)+`"}`, "(1048576 bytes)"),
	}
}

// mistypedFields returns health checks whose fields have the wrong type, which a definition may accept.
func mistypedFields() map[string]mistake {
	cases := map[string]mistake{}
	for field, value := range map[string]string{
		"selector": `all`, "unhealthyConditions": `7`, "minHealthy": `[1]`, "maxUnhealthy": `1.5`, "remediationTemplate": `reboot`, "escalatingRemediations": `{a: b}`,
		"pauseRequests": `true`, "healthyDelay": `5`, "stormCooldownDuration": `{}`, "backoff": `exponential`,
	} {
		cases["a "+field+" that is none"] = mistake{
			spec: `{remediationTemplate: ` + rebootYAML + `, ` + field + `: ` + value + `}`, says: []string{"spec." + field + " is ", "of the wrong type", "kubectl explain nodehealthcheck.spec." + field},
		}
	}
	cases["a word for the specification"] = mistake{spec: `many`, says: []string{`spec is "many"`, "kubectl explain nodehealthcheck.spec"}}
	cases["a word for an order"] = mistake{spec: escalating([3]string{"first", "60s", rebootYAML}), says: []string{"spec.escalatingRemediations.order is", "nodehealthcheck.spec.escalatingRemediations.order"}}
	return cases
}

// TestSeveralMistakesAreAllReported: a user who corrects one must not find the next one by applying again.
func TestSeveralMistakesAreAllReported(t *testing.T) {
	got := readHealthCheck(specified(t, `{selector: {matchExpressions: [{key: role, operator: Near}]},
		unhealthyConditions: [{type: Ready, status: "False", duration: soon}, {type: Ready, status: Unknown, duration: later}], maxUnhealthy: many, healthyDelay: awhile,
		stormCooldownDuration: sometime, backoff: {type: linear, limit: far}, pauseRequests: 5,
		escalatingRemediations: [{order: 1, timeout: never, remediationTemplate: `+rebootYAML+`}]}`,
		map[string]string{annotation.MaxInFlight: "lots", annotation.DryRun: "perhaps", annotation.BackoffBase: "short"})).policy
	for _, words := range []string{"Near", "soon", "later", "many", "awhile", "sometime", "linear", "far", "pauseRequests", "never", "lots", "perhaps", "short"} {
		if !strings.Contains(got.Problem, words) {
			t.Errorf("the problem leaves out %q:\n%s", words, got.Problem)
		}
	}
	if !got.DryRun {
		t.Error("a dry run that can't be read must not act")
	}
}

// TestMistypedFieldHidesNothingElse: a field of the wrong type has neither its intended effect nor the default, and all
// other fields are read.
func TestMistypedFieldHidesNothingElse(t *testing.T) {
	whole := func(field string) string {
		return withReboot(`selector: {matchLabels: {zone: a}}, unhealthyConditions: [{type: Ready, status: Unknown, duration: 5m}], minHealthy: 2, healthyDelay: 5m, ` + field)
	}
	all := []func(*core.Policy){finds(readiness(5 * time.Minute)[1]), atLeast(core.Count(2)), delayed(5 * time.Minute)}
	but := func(changes ...func(*core.Policy)) core.Policy { return plainPolicy(append(all, changes...)...) }
	cases := map[string]struct {
		spec    string
		want    core.Policy
		selects bool
	}{
		"all is well":       {whole(`other: 1`), but(), true},
		"the selector":      {whole(`selector: all`), but(unparsable), false},
		"the conditions":    {whole(`unhealthyConditions: 7`), but(unparsable, finds()), true},
		"one limit":         {whole(`minHealthy: [2]`), but(atMost(core.Amount{})), true},
		"the other limit":   {whole(`maxUnhealthy: [2]`), but(atMost(core.Amount{})), true},
		"the template":      {whole(`remediationTemplate: reboot`), but(withSteps()), true},
		"the escalation":    {whole(`escalatingRemediations: reboot`), but(withSteps()), true},
		"the pause":         {whole(`pauseRequests: 1`), but(pausing), true},
		"the healthy delay": {whole(`healthyDelay: 5`), but(delayed(-1)), true},
		"everything":        {`many`, plainPolicy(unparsable, finds(), atMost(core.Amount{}), withSteps(), pausing, delayed(-1)), false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			h := readHealthCheck(specified(t, tc.spec, nil))
			if broken := sentence != "all is well"; broken != (h.policy.Problem != "") {
				t.Errorf("the problem is %q", h.policy.Problem)
			}
			if strings.Contains(h.policy.Problem, "both missing") {
				t.Errorf("what is there in another form is not missing: %s", h.policy.Problem)
			}
			tc.want.Problem = h.policy.Problem
			if diff := cmp.Diff(tc.want, h.policy, asTranslated()); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			if got := h.selector.Matches(labels.Set{"zone": "a"}); got != tc.selects {
				t.Errorf("it selects a node: %t, want %t", got, tc.selects)
			}
		})
	}
}

// TestFaultyFieldHidesNothingElse: a field with a fault gets its safest value, and all other fields are followed.
func TestFaultyFieldHidesNothingElse(t *testing.T) {
	for sentence, tc := range map[string]struct {
		spec string
		want core.Policy
	}{
		"a condition without a status": {
			`unhealthyConditions: [{type: Ready, duration: 5m}, {type: Ready, status: Unknown, duration: 5m}]`, plainPolicy(unparsable, finds(readiness(5 * time.Minute)[1])),
		},
		"a condition without a type": {
			`unhealthyConditions: [{status: "True", duration: 5m}, {type: Ready, status: Unknown, duration: 5m}]`, plainPolicy(unparsable, finds(readiness(5 * time.Minute)[1])),
		},
		"a condition for some time": {
			`unhealthyConditions: [{type: Ready, status: "False", duration: soon}, {type: Ready, status: Unknown, duration: 5m}]`, plainPolicy(unparsable, finds(readiness(5 * time.Minute)[1])),
		},
		"a selector":        {`selector: {matchExpressions: [{key: role, operator: Near}]}`, plainPolicy(unparsable)},
		"a healthy delay":   {`healthyDelay: a while`, plainPolicy(delayed(-1))},
		"a storm cooldown":  {`stormCooldownDuration: a while`, plainPolicy(func(p *core.Policy) { p.StormCooldown = core.DefaultStormCooldown })},
		"an empty cooldown": {`stormCooldownDuration: ""`, plainPolicy(func(p *core.Policy) { p.StormCooldown = core.DefaultStormCooldown })},
	} {
		got := readHealthCheck(specified(t, withReboot(tc.spec), nil)).policy
		if got.Problem == "" || strings.Count(got.Problem, "spec.") != 1 {
			t.Errorf("%s: the problem is %q", sentence, got.Problem)
		}
		tc.want.Problem = got.Problem
		if diff := cmp.Diff(tc.want, got, asTranslated()); diff != "" {
			t.Errorf("%s; policy (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestReadingChangesNothing: the object belongs to the cache.
func TestReadingChangesNothing(t *testing.T) {
	u := specified(t, escalating([3]string{"20", "60s", fenceYAML}, [3]string{"10", "60s", rebootYAML}), map[string]string{annotation.DryRun: "true"})
	before := u.DeepCopy()
	readHealthCheck(u)
	if diff := cmp.Diff(before.Object, u.Object); diff != "" {
		t.Errorf("reading it has changed it:\n%s", diff)
	}
}

// TestLongCooldownNeedsAStorm: a pause alone is none.
func TestLongCooldownNeedsAStorm(t *testing.T) {
	not := func(reason string) string {
		return `{type: RemediationAllowed, status: "False", reason: ` + reason + `}`
	}
	for conditions, want := range map[string]bool{
		not("Paused"):           false,
		not("InvalidSpec"):      false,
		not("TooManyUnhealthy"): true,
		not("StormCooldown"):    true,
		not("Paused") + `, {type: StormActive, status: "True"}`:  true,
		not("Paused") + `, {type: StormActive, status: "False"}`: false,
	} {
		u := specified(t, withReboot(`stormCooldownDuration: 30m`)+"\nstatus: {conditions: ["+conditions+"]}", nil)
		if got := readHealthCheck(u); got.policy.WasStopped != want || !got.policy.FixedCooldown {
			t.Errorf("%s: held is %t, want %t; %s", conditions, got.policy.WasStopped, want, got.policy.Problem)
		}
	}
}

// TestHeldIsReadFromStatus: a new process reads from the status that remediation was stopped, whether Fettle or
// medik8s' operator wrote it.
func TestHeldIsReadFromStatus(t *testing.T) {
	cases := map[string]struct {
		status string
		want   bool
	}{
		"a pause":                       {`{conditions: [{type: RemediationAllowed, status: "False", reason: Paused}]}`, true},
		"a mistake in the spec":         {`{conditions: [{type: RemediationAllowed, status: "False", reason: InvalidSpec}]}`, true},
		"no template":                   {`{conditions: [{type: RemediationAllowed, status: "False", reason: RemediationTemplateNotFound}]}`, false},
		"another condition of a clock":  {`{conditions: [{type: Other, status: "False", reason: ClockSkewed}]}`, false},
		"a wrong clock":                 {`{conditions: [{type: RemediationAllowed, status: "False", reason: ClockSkewed}]}`, false},
		"a template of no use":          {`{conditions: [{type: RemediationAllowed, status: "False", reason: RemediationTemplateInvalid}]}`, false},
		"no status yet":                 {`{}`, false},
		"remediation allowed":           {`{conditions: [{type: RemediationAllowed, status: "True"}]}`, false},
		"too many unhealthy":            {`{conditions: [{type: RemediationAllowed, status: "False", reason: TooManyUnhealthy}]}`, true},
		"a storm":                       {`{conditions: [{type: StormActive, status: "True"}]}`, true},
		"the cooldown after one":        {`{conditions: [{type: StormActive, status: "True"}, {type: StormCooldownActive, status: "True"}]}`, true},
		"a storm that is over":          {`{conditions: [{type: StormActive, status: "False"}, {type: StormCooldownActive, status: "False"}]}`, false},
		"a condition of another client": {`{conditions: [{type: Other, status: "False"}]}`, false},
		"an unparsable status":          {`many`, true},
		"an unparsable condition":       {`{conditions: 7, observedNodes: 3}`, true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			u := specified(t, withReboot(``)+"\nstatus: "+tc.status, nil)
			got := readHealthCheck(u)
			if got.policy.WasStopped != tc.want {
				t.Errorf("held is %t, want %t", got.policy.WasStopped, tc.want)
			}
			if (got.policy.ClockGate != 0) != (sentence == "a wrong clock") {
				t.Errorf("the clock held it by %s", got.policy.ClockGate)
			}
			if got.policy.Problem != "" {
				t.Errorf("a status is no mistake of the spec: %s", got.policy.Problem)
			}
			if strings.HasPrefix(sentence, "an unparsable") && got.status.ObservedNodes != nil {
				t.Error("it must differ from what will be written, so that it is written anew")
			}
		})
	}
}

// TestUnparsableGroups: if a criterion can't be read, a node that seems healthy may not be.
func TestUnparsableGroups(t *testing.T) {
	for text, want := range map[string]bool{"soon": true, `[{all: [{type: A, missing: true}], for: 10m}]`: false} {
		p := readHealthCheck(specified(t, withReboot(``), map[string]string{annotation.UnhealthyConditions: text})).policy
		if p.Unparsable != want || (p.Problem != "") != want || (p.Criteria.Groups == nil) != want {
			t.Errorf("%s: unparsable is %t, the problem is %q, the groups are %v", text, p.Unparsable, p.Problem, p.Criteria.Groups)
		}
	}
}
