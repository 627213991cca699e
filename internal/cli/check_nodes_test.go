package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// goodNodes is a health check of nodes about which there is nothing to say.
const goodNodes = `apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata:
  name: workers
spec:
  selector:
    matchLabels: {role: worker}
  unhealthyConditions:
  - {type: Ready, status: "False", duration: 300s}
  - {type: Ready, status: Unknown, duration: 300s}
  minHealthy: 51%
  escalatingRemediations:
  - order: 10
    timeout: 5m
    remediationTemplate: {apiVersion: fix.example/v1, kind: RebootTemplate, namespace: remediators, name: usual}
  - order: 20
    timeout: 10m
    remediationTemplate: {apiVersion: fix.example/v1, kind: FenceTemplate, namespace: remediators, name: usual}
`

// proposed is the manifest of the proposal that node health checks come from, as it stands there.
const proposed = `apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata:
  name: example
  # this CRD is cluster-scope, namespace is not needed
spec:
  maxUnhealthy: "49%"
  selector:
    matchExpressions:
      key: node-role.kubernetes.io/worker
      operator: exists
  unhealthyConditions:
    - type: "Ready"
      status:  "Unknown"
      duration: "300s"
   - type: "Ready"
     status:  "False"
     duration: "300s"
  remediationTemplate:
    kind: PoisonPillRemediationTemplate
    apiVersion: poison-pill.medik8s.io/v1alphaX
    name: M3_REMEDIATION_GROUP
status:
  healthyNodes: 5
  obeservedNodes: 5
`

func swapIn(t *testing.T, text, old, with string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("%q is not in the health check", old)
	}
	return strings.Replace(text, old, with, 1)
}

func TestCheckOfNodeHealthChecks(t *testing.T) {
	with := func(old, with string) string { return swapIn(t, goodNodes, old, with) }
	annotated := func(key, value string) string {
		return with("  name: workers\n", "  name: workers\n  annotations: {"+key+": "+value+"}\n")
	}
	bare, _, _ := strings.Cut(goodNodes, "  escalating")
	aligned := swapIn(t, proposed, "   - type: \"Ready\"\n     status:  \"False\"\n     duration", "    - type: \"Ready\"\n      status:  \"False\"\n      duration")
	listed := swapIn(t, aligned, "      key: node-role.kubernetes.io/worker\n      operator: exists", "    - key: node-role.kubernetes.io/worker\n      operator: exists")
	cases := map[string]struct {
		text   string
		status int
		says   []string
	}{
		"good":                         {goodNodes, 0, []string{"file.yaml:1 NodeHealthCheck workers", "No problems in 1 health check."}},
		"a field that is misspelt":     {with("minHealthy", "minHealty"), 1, []string{"problem, line 11: spec.minHealty is not a field of a NodeHealthCheck", "did you mean minHealthy?"}},
		"a word of the other kind":     {with("duration: 300s", "timeout: 300s"), 1, []string{"line 9: spec.unhealthyConditions[0].timeout is not a field"}},
		"a status that YAML reads":     {with(`"False"`, "False"), 1, []string{"problem, line 9", `put it into quotes, such as "False"`}},
		"a duration without unit":      {with("duration: 300s", "duration: 300"), 1, []string{"problem, line 9", "give a duration such as 300s"}},
		"a fraction":                   {with("51%", "0.5"), 1, []string{"problem, line 11: spec.minHealthy is of the wrong type"}},
		"both limits":                  {goodNodes + "  maxUnhealthy: 1\n", 1, []string{"spec.minHealthy and spec.maxUnhealthy exclude each other"}},
		"both remedies":                {goodNodes + "  remediationTemplate: {apiVersion: fix.example/v1, kind: RebootTemplate, name: x}\n", 1, []string{"exclude each other; remove one of them"}},
		"no remedy":                    {bare, 1, []string{"are both missing; give one of them"}},
		"a template of the wrong type": {bare + "  remediationTemplate: usual\n", 1, []string{"problem, line 12: spec.remediationTemplate is of the wrong type", "1 problem found"}},
		"an order twice":               {with("order: 20", "order: 10"), 1, []string{"problem, line 16: spec.escalatingRemediations[1].order is 10, as that of [0]"}},
		"a timeout that is too short":  {with("timeout: 5m", "timeout: 5s"), 1, []string{"problem, line 14: spec.escalatingRemediations[0].timeout", "at least 60s"}},
		"a kind that is no template":   {with("kind: FenceTemplate", "kind: Fence"), 1, []string{"problem, line 18: spec.escalatingRemediations[1].remediationTemplate.kind", "ends in Template"}},
		"an empty selector":            {with("matchLabels: {role: worker}", "matchLabels: {}"), 1, []string{"problem, line 6: spec.selector is empty", "remove it for all workers"}},
		"a condition twice":            {with("status: Unknown", `status: "False"`), 1, []string{"problem, line 10: spec.unhealthyConditions[1] names condition Ready with status False once more"}},
		"another version":              {with("v1alpha1", "v1"), 1, []string{"problem, line 1: apiVersion is"}},
		"no name":                      {with("  name: workers\n", "  labels: {a: b}\n"), 1, []string{"metadata.name is missing"}},

		"the proposal's":                  {proposed, 1, []string{"problem, line 16: it is not YAML", "entries of a list begin below each other; this one is indented by 3, and the first, in line 13, by 4"}},
		"the proposal's, lined up":        {aligned, 1, []string{"problem, line 9: spec.selector.matchExpressions is of the wrong type: it is a map and must be a list; put a dash before each entry", "line 21", "poison-pill.medik8s.io/v1alphaX", "line 22", "M3_REMEDIATION_GROUP", "status.obeservedNodes is not a field", "did you mean observedNodes?", "4 problems"}},
		"the proposal's, with a dash":     {listed, 1, []string{`problem, line 11: spec.selector.matchExpressions[0].operator is "exists"; write Exists`}},
		"its defaults, in conditions":     {with("type: Ready, status: Unknown", "type: NotReady, status: Unknown"), 0, []string{"warning, line 10", "which no node has; the condition is Ready"}},
		"no limit that stops":             {with("51%", "0"), 0, []string{"warning, line 11: spec.minHealthy is 0 and never stops"}},
		"a limit that stops everything":   {with("51%", "100%"), 0, []string{"warning, line 11", "nothing is ever remediated"}},
		"a limit of all":                  {with("minHealthy: 51%", "maxUnhealthy: 100%"), 0, []string{"spec.maxUnhealthy is 100% and never stops"}},
		"a pause":                         {goodNodes + "  pauseRequests: [an upgrade]\n", 0, []string{"warning, line 19: spec.pauseRequests", "an upgrade"}},
		"a pause of the other kind":       {annotated("cluster.x-k8s.io/paused", `""`), 0, []string{"warning, line 5", "spec.pauseRequests pauses it"}},
		"a namespace":                     {with("  name: workers\n", "  name: workers\n  namespace: here\n"), 0, []string{"warning, line 5: metadata.namespace", "belongs to the whole cluster"}},
		"an annotation misspelt":          {annotated("fettle.io/dryrun", `"true"`), 0, []string{"warning, line 5: annotation fettle.io/dryrun means nothing"}},
		"a pause of nothing":              {annotated("fettle.io/backoff-base", "10s"), 0, []string{"means nothing without spec.backoff"}},
		"a criterion that is none":        {annotated("fettle.io/unhealthy-conditions", "'[{all: [{type: AgentReady}], for: 10m}]'"), 1, []string{"problem, line 5: annotation fettle.io/unhealthy-conditions [0].all[0].status is missing; give"}},
		"a pattern that is none":          {annotated("fettle.io/unhealthy-conditions", "'[{all: [{type: Ready, status: \"False\", reason: (}], for: 10m}]'"), 1, []string{"line 5", "[0].all[0].reason is \"(\"", "it is no regular expression"}},
		"a criterion that is hasty":       {annotated("fettle.io/unhealthy-conditions", "'[{all: [{type: AgentReady, missing: true}], for: 1m}]'"), 0, []string{"warning, line 5", "so a node may be repaired while it starts"}},
		"a delay of the other kinds":      {annotated("fettle.io/node-gone-delay", "5m"), 0, []string{"warning, line 5: annotation fettle.io/node-gone-delay means nothing"}},
		"a deletion that is let through":  {annotated("fettle.io/force-delete", `"true"`), 0, []string{"lets the health check be deleted while nodes are under remediation"}},
		"silence is not listed":           {with("  - {type: Ready, status: Unknown, duration: 300s}\n", ""), 0, []string{"falls silent is never found"}},
		"one of each kind":                {goodNodes + "---\n" + good, 0, []string{"NodeHealthCheck workers", "MachineHealthCheck machines/workers", "No problems in 2 health checks."}},
		"a machine deletion with a limit": {strings.NewReplacer("kind: FenceTemplate", "kind: MachineDeletionRemediationTemplate", "minHealthy: 51%", "maxUnhealthy: 40%").Replace(goodNodes), 1, []string{"spec.maxUnhealthy can't go with"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			out, status := offline(t, tc.text)
			if status != tc.status {
				t.Errorf("exit status %d, want %d", status, tc.status)
			}
			for _, words := range tc.says {
				if !strings.Contains(out, words) {
					t.Errorf("it does not say %q", words)
				}
			}
			warned := strings.Contains(out, "warning")
			if _, strict := offline(t, tc.text, "--strict"); tc.status == 0 && (strict == 1) != warned {
				t.Errorf("with --strict the exit status is %d, and there are warnings: %t", strict, warned)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// TestEffectsOnNodes: the effects of a health check of nodes among others, and the facts that they depend on.
func TestEffectsOnNodes(t *testing.T) {
	effects := func(change func(*nodeScene)) string {
		s := newNodeScene(t)
		s.ready(0, "Unknown", time.Hour)
		change(s)
		w := s.assessment()
		i := slices.IndexFunc(w.policies, func(p core.Policy) bool { return p.ID.Kind == "NodeHealthCheck" && p.ID.Name == "workers" })
		e := w.effect(i)
		d := newDocument("file.yaml", 1)
		d.Kind, d.Name, d.Effect = "NodeHealthCheck", "workers", &e
		d.Warnings = w.clusterWarnings(i, e)
		return printed(false, func(p *page) { p.document(&d) })
	}
	text := "At once:\n" + effects(func(*nodeScene) {})
	text += "A template is missing:\n" + effects(func(s *nodeScene) { s.Policies[0].Steps[0].Template.Name = "rare" })
	text += "Templates may not be read:\n" + effects(func(s *nodeScene) {
		s.around.templates.Hide(templateKind("Fence"), "you may not list fencetemplates.fix.example")
	})
	text += "Nothing is selected:\n" + effects(func(s *nodeScene) { s.Policies[0].Members = nil })
	text += "All must be healthy:\n" + effects(func(s *nodeScene) {
		all := core.Percent(90)
		s.Policies[0].ShortCircuit = core.ShortCircuit{MinHealthy: &all}
	})
	text += "A machine is the same body:\n" + effects(func(s *nodeScene) {
		s.machines = newScene()
		s.machines.Policies[0].Created = noon.Add(-72 * time.Hour)
		s.bothReady(0, "Unknown", time.Hour)
	})
	golden(t, "node-effects.txt", text)
}
