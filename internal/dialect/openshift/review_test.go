package openshift

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
)

// The fields of remarks.
const (
	selectorField   = "spec.selector"
	conditionsField = "spec.unhealthyConditions"
	limitField      = "spec.maxUnhealthy"
	startupField    = "spec.nodeStartupTimeout"
	templateField   = "spec.remediationTemplate.namespace"
	strategyField   = "metadata.annotations." + v1beta1.RemediationStrategyAnnotation
	inFlightField   = "metadata.annotations." + annotation.MaxInFlight
	pausedField     = "metadata.annotations." + v1beta1.PausedAnnotation
	groupsField     = "metadata.annotations." + annotation.UnhealthyConditions
)

// remark is a remark in a table: its field, a part of its text, and whether it is a fault.
type remark struct {
	field, says string
	fault       bool
}

// TestReviewRemarks: each mistake, and each setting that the author may not have meant, has one remark of its field.
func TestReviewRemarks(t *testing.T) {
	const (
		chosen   = `selector: {matchLabels: {role: worker}}`
		ready    = `unhealthyConditions: [{type: Ready, status: "False", timeout: 300s}, {type: Ready, status: Unknown, timeout: 300s}]`
		limited  = `maxUnhealthy: 40%`
		template = `remediationTemplate: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: reboot`
		groups   = `[{all: [{type: Ready, status: Unknown}], for: 10m}]`
	)
	spec := func(parts ...string) string { return "{" + strings.Join(parts, ", ") + "}" }
	sound := func(parts ...string) string { return spec(append([]string{chosen, ready, limited}, parts...)...) }
	cases := map[string]struct {
		spec        string
		annotations map[string]string
		want        []remark
	}{
		"a sound one":                {spec: sound()},
		"no selector":                {spec: spec(ready, limited), want: []remark{{selectorField, "every machine in the namespace", false}}},
		"one expression selects":     {spec: spec(`selector: {matchExpressions: [{key: role, operator: Exists}]}`, ready, limited)},
		"no conditions":              {spec: spec(chosen, limited), want: []remark{{conditionsField, "there are no unhealthyConditions", false}}},
		"groups alone":               {spec: spec(chosen, limited), annotations: map[string]string{annotation.UnhealthyConditions: groups}},
		"groups and conditions":      {spec: sound(), annotations: map[string]string{annotation.UnhealthyConditions: groups}},
		"groups, and a timeout of 0": {spec: spec(chosen, limited, `unhealthyConditions: [{type: Ready, status: Unknown, timeout: 0s}]`), annotations: map[string]string{annotation.UnhealthyConditions: groups}, want: []remark{{conditionsField + "[0].timeout", "timeout", false}}},
		"a negative limit as text":   {spec: spec(chosen, ready, `maxUnhealthy: "-1"`), want: []remark{{limitField, "-1", true}}},
		"a condition of no node":     {spec: spec(chosen, limited, `unhealthyConditions: [{type: NotReady, status: "True", timeout: 300s}]`), want: []remark{{conditionsField + "[0].type", "NotReady", false}}},
		"a timeout of 0":             {spec: spec(chosen, limited, `unhealthyConditions: [{type: Ready, status: Unknown, timeout: 0s}]`), want: []remark{{conditionsField + "[0].timeout", "timeout", false}}},
		"a condition twice":          {spec: spec(chosen, limited, `unhealthyConditions: [{type: A, status: "True", timeout: 1m}, {type: A, status: "True", timeout: 2m}]`), want: []remark{{conditionsField + "[1]", "once more, after [0]", false}}},
		"no limit":                   {spec: spec(chosen, ready), want: []remark{{limitField, "is not set", false}}},
		"a limit of all":             {spec: spec(chosen, ready, `maxUnhealthy: 100%`), want: []remark{{limitField, "is 100%", false}}},
		"a negative limit":           {spec: spec(chosen, ready, `maxUnhealthy: -1`), want: []remark{{limitField, "is negative", false}}},
		"a limit of 0":               {spec: spec(chosen, ready, `maxUnhealthy: 0`), want: []remark{{limitField, "is 0, so nothing is ever repaired", false}}},
		"a limit of 0%":              {spec: spec(chosen, ready, `maxUnhealthy: 0%`), want: []remark{{limitField, "is 0, so nothing is ever repaired", false}}},
		"a limit of 1":               {spec: spec(chosen, ready, `maxUnhealthy: 1`)},
		"a limit as text":            {spec: spec(chosen, ready, `maxUnhealthy: "3"`)},
		"none in flight":             {spec: sound(), annotations: map[string]string{annotation.MaxInFlight: "0"}, want: []remark{{inFlightField, "is 0", false}}},
		"no percent in flight":       {spec: sound(), annotations: map[string]string{annotation.MaxInFlight: "0%"}, want: []remark{{inFlightField, "is 0", false}}},
		"two in flight":              {spec: sound(), annotations: map[string]string{annotation.MaxInFlight: "2"}},
		"no startup timeout":         {spec: sound(`nodeStartupTimeout: "0"`), want: []remark{{startupField, "is 0", false}}},
		"a startup timeout":          {spec: sound(`nodeStartupTimeout: 20m`)},
		"an unreadable timeout":      {spec: sound(`nodeStartupTimeout: soon`), want: []remark{{startupField, "soon", true}}},
		"a pause":                    {spec: sound(), annotations: map[string]string{v1beta1.PausedAnnotation: ""}, want: []remark{{pausedField, "nothing is repaired", false}}},
		"a misspelt annotation":      {spec: sound(), annotations: map[string]string{"fettle.io/dry-rum": "true"}, want: []remark{{"metadata.annotations.fettle.io/dry-rum", "dry-rum", false}}},
		"a group of the healthy":     {spec: sound(), annotations: map[string]string{annotation.UnhealthyConditions: `[{all: [{type: Ready, status: "True"}], for: 10m}]`}, want: []remark{{groupsField, "Ready for unhealthy", false}}},
		"an unreadable number":       {spec: sound(), annotations: map[string]string{annotation.MaxInFlight: "many"}, want: []remark{{inFlightField, "many", true}}},
		"a wrong type and no more":   {spec: `{selector: 7}`, want: []remark{{selectorField, "number", true}}},
		"a template":                 {spec: sound(template + `}`)},
		"a template of its own":      {spec: sound(template + `, namespace: machines}`)},
		"a template elsewhere":       {spec: sound(template + `, namespace: other}`), want: []remark{{templateField, "is ignored", false}}},
		"the strategy":               {spec: sound(), annotations: map[string]string{v1beta1.RemediationStrategyAnnotation: externalStrategy}, want: []remark{{strategyField, externalAnnotation, false}}},
		"another strategy":           {spec: sound(), annotations: map[string]string{v1beta1.RemediationStrategyAnnotation: "reboot"}, want: []remark{{strategyField, "which means nothing", false}}},
		"a strategy for naught":      {spec: sound(template + `}`), annotations: map[string]string{v1beta1.RemediationStrategyAnnotation: externalStrategy}, want: []remark{{strategyField, "is ignored", false}}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			remarks, mine := Review(check(t, "check", "1", tc.spec, tc.annotations), Mark)
			if !mine {
				t.Fatal("it is taken for another kind")
			}
			var got []remark
			for i, r := range remarks {
				says := r.Text
				if i < len(tc.want) && strings.Contains(says, tc.want[i].says) {
					says = tc.want[i].says
				}
				got = append(got, remark{r.Field, says, r.Fault})
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(remark{})); diff != "" {
				t.Errorf("remarks (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReviewOfAFileWithoutNamespace: the namespace of such a health check is unknown, so its template's may be right.
func TestReviewOfAFileWithoutNamespace(t *testing.T) {
	u := check(t, "check", "1", `{remediationTemplate: {apiVersion: a.example/v1, kind: XTemplate, name: x, namespace: other}}`, nil)
	u.SetNamespace("")
	remarks, _ := Review(u, Mark)
	for _, r := range remarks {
		if r.Field == templateField {
			t.Errorf("it says %q", r.Text)
		}
	}
}
