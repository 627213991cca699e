package nhc

import (
	"fmt"
	"strings"
	"testing"
)

// TestReview: each remark is that of a fault ("!") or a warning ("?"), with its field and words of its text.
func TestReview(t *testing.T) {
	const (
		limited = `maxUnhealthy: 49%, remediationTemplate: {apiVersion: r.example/v1, kind: RebootTemplate, name: soft}`
		both    = `unhealthyConditions: [{type: Ready, status: "False", duration: 300s}, {type: Ready, status: Unknown, duration: 300s}]`
		ref     = `remediationTemplate: {apiVersion: r.example/v1, kind: RebootTemplate, name: soft}, `
	)
	templated := func(apiVersion, name string) string {
		return fmt.Sprintf(`{maxUnhealthy: 49%%, remediationTemplate: {apiVersion: %q, kind: RebootTemplate, name: %q}}`, apiVersion, name)
	}
	const nothing = "one unhealthy node is too many already; spec.pauseRequests, or the annotation fettle.io/dry-run, says that better"
	for sentence, tc := range map[string]struct {
		spec string
		meta string
		want []string
	}{
		"all is well":     {`{` + limited + `}`, ``, nil},
		"with conditions": {`{` + limited + `, ` + both + `}`, ``, nil},

		"a misspelt operator": {`{` + limited + `, selector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: notin, values: [b]}]}}`, ``,
			[]string{`!|spec.selector.matchExpressions[1].operator|is "notin"; write NotIn`}},
		"an operator in capitals": {`{` + limited + `, selector: {matchExpressions: [{key: a, operator: IN, values: [b]}]}}`, ``,
			[]string{`!|spec.selector.matchExpressions[0].operator|is "IN"; write In`}},
		"an unknown operator": {`{` + limited + `, selector: {matchExpressions: [{key: a, operator: Near}, {key: b, operator: DoesNotExist}, {key: c, operator: NotIn, values: [b]}, {key: c, operator: In, values: [d]}]}}`, ``,
			[]string{`!|spec.selector.matchExpressions[0].operator|is "Near"; give In, NotIn, Exists or DoesNotExist`}},
		"a selector that is wrong otherwise": {`{` + limited + `, selector: {matchLabels: {"a b": c}}}`, ``,
			[]string{`!|spec.selector|is not a label selector`}},
		"an empty selector": {`{` + limited + `, selector: {}}`, ``,
			[]string{`!|spec.selector|is empty, so it would select every node`}},
		"a selector of the wrong type": {`{` + limited + `, selector: 7}`, ``,
			[]string{`!|spec.selector|wrong type`}},
		"labels of the wrong type": {`{` + limited + `, selector: {matchLabels: 7}}`, ``,
			[]string{`!|spec.selector.matchLabels|wrong type`}},
		"an unknown operator, and no template": {`{selector: {matchExpressions: [{key: a, operator: Near}]}}`, ``,
			[]string{`!|spec.remediationTemplate|are both missing`, `!|spec.selector.matchExpressions[0].operator|is "Near"`}},
		"a label of the wrong type": {`{` + limited + `, selector: {matchLabels: {disks: 7, role: worker}}}`, ``,
			[]string{`!|spec.selector.matchLabels|it is a number and must be a string; put it into quotes`}},
		"a template of the wrong type": {`{maxUnhealthy: 49%, remediationTemplate: reboot}`, ``,
			[]string{`!|spec.remediationTemplate|wrong type`}},
		"a selector of labels": {`{` + limited + `, selector: {matchLabels: {a: b}}}`, ``, nil},

		"a name in capitals": {templated("r.example/v1", "Soft_One"), ``,
			[]string{`!|spec.remediationTemplate.name|is "Soft_One", which no object can be called`}},
		"a version without a group": {templated("v1", "soft"), ``,
			[]string{`!|spec.remediationTemplate.kind|`, `!|spec.remediationTemplate.apiVersion|is "v1", which no API can have`}},
		"a version of many parts": {templated("a/b/c", "soft"), ``,
			[]string{`!|spec.remediationTemplate.apiVersion|is "a/b/c", which no API can have`}},
		"a version in capitals": {templated("r.example/V1", "soft"), ``,
			[]string{`!|spec.remediationTemplate.apiVersion|is "r.example/V1", which no API can have`}},
		"an example's template": {`{maxUnhealthy: 49%, escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {apiVersion: r.example/v1, kind: RebootTemplate, name: NAME}}]}`, ``,
			[]string{`!|spec.escalatingRemediations[0].remediationTemplate.name|is "NAME"`}},
		"half a template": {`{maxUnhealthy: 49%, remediationTemplate: {kind: RebootTemplate}}`, ``,
			[]string{`!|spec.remediationTemplate|lacks an apiVersion, a kind or a name`}},
		"a template that is none": {`{maxUnhealthy: 49%, remediationTemplate: {apiVersion: r.example/v1, kind: Reboot, name: soft}}`, ``,
			[]string{`!|spec.remediationTemplate.kind|is "Reboot"`}},
		"no template": {`{maxUnhealthy: 49%}`, ``, []string{`!|spec.remediationTemplate|are both missing`}},

		"a condition twice": {`{` + limited + `, unhealthyConditions: [{type: Ready, status: "False", duration: 300s}, {type: Ready, status: Unknown, duration: 300s}, {type: Ready, status: "False", duration: 400s}]}`, ``,
			[]string{`!|spec.unhealthyConditions[2]|names condition Ready with status False once more, after [0]; remove one of them`}},
		"a condition at once": {`{` + limited + `, unhealthyConditions: [{type: Ready, status: "False", duration: 0s}, {type: Ready, status: Unknown, duration: 300s}]}`, ``,
			[]string{`?|spec.unhealthyConditions[0].duration|give a duration such as 300s`}},
		"a node that never falls silent": {`{` + limited + `, unhealthyConditions: [{type: Ready, status: "False", duration: 300s}]}`, ``,
			[]string{`?|spec.unhealthyConditions[0]|not with Unknown`}},

		"no limit by percentage": {`{` + ref + `maxUnhealthy: 100%}`, ``, []string{`?|spec.maxUnhealthy|is 100% and never stops remediation`}},
		"a limit of 0":           {`{` + ref + `maxUnhealthy: 0}`, ``, []string{`?|spec.maxUnhealthy|is 0, so nothing is ever remediated: ` + nothing}},
		"a limit of 0%":          {`{` + ref + `maxUnhealthy: 0%}`, ``, []string{`?|spec.maxUnhealthy|is 0, so nothing is ever remediated: ` + nothing}},
		"a least number of 0":    {`{` + ref + `minHealthy: 0}`, ``, []string{`?|spec.minHealthy|is 0 and never stops remediation`}},
		"a least number of 0%":   {`{` + ref + `minHealthy: 0%}`, ``, []string{`?|spec.minHealthy|is 0 and never stops remediation`}},
		"all must be healthy":    {`{` + ref + `minHealthy: 100%}`, ``, []string{`?|spec.minHealthy|is 100%, so nothing is ever remediated: ` + nothing}},
		"half must be healthy":   {`{` + ref + `minHealthy: 51%}`, ``, nil},
		"neither limit":          {`{` + ref + `}`, ``, nil},

		"none in flight":       {`{` + limited + `}`, `annotations: {fettle.io/max-in-flight: "0"}`, []string{`?|metadata.annotations.fettle.io/max-in-flight|is 0, so nothing is ever remediated`}},
		"none in flight of 0%": {`{` + limited + `}`, `annotations: {fettle.io/max-in-flight: 0%}`, []string{`?|metadata.annotations.fettle.io/max-in-flight|is 0, so nothing is ever remediated`}},
		"one in flight":        {`{` + limited + `}`, `annotations: {fettle.io/max-in-flight: "1"}`, nil},
		"a namespace":          {`{` + limited + `}`, `namespace: somewhere`, []string{`?|metadata.namespace|is "somewhere"`}},
		"a pause":              {`{` + limited + `, pauseRequests: [for a reason, another]}`, ``, []string{`?|spec.pauseRequests|has an entry ("for a reason")`}},
		"one pause":            {`{` + limited + `, pauseRequests: [why]}`, ``, []string{`?|spec.pauseRequests|has an entry ("why")`}},
		"Cluster API's pause":  {`{` + limited + `}`, `annotations: {cluster.x-k8s.io/paused: ""}`, []string{`?|metadata.annotations.cluster.x-k8s.io/paused|means nothing to a NodeHealthCheck`}},
		"a forced deletion":    {`{` + limited + `}`, `annotations: {fettle.io/force-delete: "true"}`, []string{`?|metadata.annotations.fettle.io/force-delete|lets the health check be deleted`}},
		"a base of no back-off": {`{` + limited + `}`, `annotations: {fettle.io/backoff-base: 10s}`,
			[]string{`?|metadata.annotations.fettle.io/backoff-base|means nothing without spec.backoff`}},
		"a base of back-off":    {`{` + limited + `, backoff: {type: exponential, limit: 10m}}`, `annotations: {fettle.io/backoff-base: 10s}`, nil},
		"an unknown annotation": {`{` + limited + `}`, `annotations: {fettle.io/max-inflight: "1"}`, []string{`?|metadata.annotations.fettle.io/max-inflight|means nothing`}},
		"a faulty annotation":   {`{` + limited + `}`, `annotations: {fettle.io/dry-run: perhaps}`, []string{`!|metadata.annotations.fettle.io/dry-run|is "perhaps"`}},
		"a group of a moment": {`{` + limited + `}`, `annotations: {fettle.io/unhealthy-conditions: "[{all: [{type: AgentReady, missing: true}], for: 10s}]"}`,
			[]string{`?|metadata.annotations.fettle.io/unhealthy-conditions|so a node may be repaired while it starts`}},

		// Only the fault is reported: a limit that could not be read would look like a missing one.
		"a misspelt field": {`{` + limited + `, minHealth: 51%, pauseRequests: [why]}`, ``, []string{`!|spec.minHealth|is not a field of a NodeHealthCheck`}},
		"a mistyped limit": {`{` + ref + `maxUnhealthy: many}`, ``, []string{`!|spec.maxUnhealthy|is "many"`}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if tc.meta == "" {
				tc.meta = "labels: {}"
			}
			u := objectOf(t, "apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck\nmetadata: {name: check, "+tc.meta+"}\nspec: "+tc.spec)
			remarks, ours := Review(u)
			var got []string
			for i, r := range remarks {
				line := "?|" + r.Field + "|"
				if r.Fault {
					line = "!|" + r.Field + "|"
				}
				if i < len(tc.want) && strings.HasPrefix(tc.want[i], line) && strings.Contains(r.Text, strings.TrimPrefix(tc.want[i], line)) {
					continue
				}
				got = append(got, line+r.Text)
			}
			if !ours || len(got) > 0 || len(remarks) != len(tc.want) {
				t.Errorf("ours: %t; %d remarks, want %q; not wanted:\n%s", ours, len(remarks), tc.want, strings.Join(got, "\n"))
			}
		})
	}
}

// TestReviewOfOthers: health checks of other APIs are not reviewed. Those of another version are.
func TestReviewOfOthers(t *testing.T) {
	for header, want := range map[string]bool{
		"apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck":     true,
		"apiVersion: remediation.medik8s.io/v1\nkind: NodeHealthCheck":           true,
		"apiVersion: remediation.medik8s.io/v1alpha1\nkind: SelfNodeRemediation": false,
		"apiVersion: example.org/v1alpha1\nkind: NodeHealthCheck":                false,
	} {
		u := objectOf(t, header+"\nmetadata: {name: check}\nspec: {}")
		if remarks, ours := Review(u); ours != want || (len(remarks) > 0) != want {
			t.Errorf("%s\nis ours: %t, with %d remarks", header, ours, len(remarks))
		}
		if is := IsHealthCheck(u); is != (header == "apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck") {
			t.Errorf("%s\nis a health check of this dialect: %t", header, is)
		}
	}
}
