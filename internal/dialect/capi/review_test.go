package capi

import (
	"math"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSeedsAreSound: the manifests of the guide have no faults, and warnings name their own fields.
func TestSeedsAreSound(t *testing.T) {
	for name, doubts := range map[string][]string{
		"workers.yaml": nil, "control-plane.yaml": {"spec.maxUnhealthy is 100%"},
	} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatalf("reading a manifest: %v", err)
		}
		remarks, ours := Review(object(t, string(text)))
		if !ours || len(remarks) != len(doubts) {
			t.Errorf("%s: ours: %t, %v", name, ours, remarks)
		}
		for i, words := range doubts {
			if remarks[i].Fault || !strings.Contains(remarks[i].Text, words) {
				t.Errorf("%s: %+v does not say %q", name, remarks[i], words)
			}
		}
	}
}

// TestAllRemarks: each remark is that of a fault ("!") or a warning ("?"), with its field and words of its text.
func TestAllRemarks(t *testing.T) {
	const (
		limited = "spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}}}"
		limit   = "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo"
		machine = "spec.checks.unhealthyMachineConditions"
		node    = "spec.checks.unhealthyNodeConditions"
		silent  = "{type: Ready, status: Unknown, timeoutSeconds: 300}"
		startup = "spec.checks.nodeStartupTimeoutSeconds"
	)
	atMost := func(n string) string {
		return "spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: " + n + "}}}"
	}
	conditions := func(kind, list string) string { return "spec: {checks: {" + kind + ": [" + list + "]}}" }
	noted := func(key, value string) string { return "metadata: {annotations: {" + key + ": " + value + "}}" }
	for sentence, tc := range map[string]struct {
		changes []string
		want    []string
	}{
		"30s of startup":            {[]string{limited, "spec: {checks: {nodeStartupTimeoutSeconds: 30}}"}, nil},
		"29s of startup":            {[]string{limited, "spec: {checks: {nodeStartupTimeoutSeconds: 29}}"}, []string{"!|" + startup + "|is 29s, and Cluster API refuses less than 30s"}},
		"1s of startup":             {[]string{limited, "spec: {checks: {nodeStartupTimeoutSeconds: 1}}"}, []string{"!|" + startup + "|is 1s, and"}},
		"startup below zero":        {[]string{limited, "spec: {checks: {nodeStartupTimeoutSeconds: -1}}"}, []string{"!|" + startup + "|is -1"}},
		"a number":                  {[]string{atMost("2")}, nil},
		"a number in quotes":        {[]string{atMost(`"2"`)}, []string{"!|" + limit + `|is "2", and Cluster API refuses a number in quotes; give 2`}},
		"all":                       {[]string{atMost("100%")}, []string{"?|" + limit + "|is 100% and never stops repairs"}},
		"none":                      {[]string{atMost("0")}, []string{"?|" + limit + "|is 0, so nothing is ever repaired"}},
		"none of all":               {[]string{atMost("0%")}, []string{"?|" + limit + "|is 0%, so nothing is ever repaired"}},
		"less than none":            {[]string{atMost("-1")}, []string{"?|" + limit + "|is -1, so nothing is ever repaired"}},
		"a share below none":        {[]string{atMost("-5%")}, []string{"?|" + limit + "|is -5%, so nothing is ever repaired"}},
		"less than none, in quotes": {[]string{atMost(`"-1"`)}, []string{"!|" + limit + `|is "-1"`}},
		"none, in quotes":           {[]string{atMost(`"0"`)}, []string{"!|" + limit + `|is "0", and Cluster API refuses a number in quotes`, "?|" + limit + "|is 0, so nothing is ever repaired"}},
		"a word":                    {[]string{atMost("many")}, []string{"!|" + limit + `|is "many"`}},
		"one":                       {[]string{atMost("1")}, nil},
		"a range alone":             {[]string{`spec: {remediation: {triggerIf: {unhealthyInRange: "[1-3]"}}}`}, nil},
		"the own cluster":           {[]string{limited, "spec: {selector: {matchLabels: {cluster.x-k8s.io/cluster-name: blue}}}"}, nil},
		"all statuses of machines":  {[]string{limited, conditions("unhealthyMachineConditions", `{type: A, status: "True", timeoutSeconds: 5}, {type: B, status: "False", timeoutSeconds: 5}, {type: C, status: Unknown, timeoutSeconds: 5}`)}, nil},
		"half a machine's":          {[]string{limited, conditions("unhealthyMachineConditions", `{timeoutSeconds: 5}`)}, []string{"!|" + machine + "[0]|lacks a type, a status or timeoutSeconds"}},
		"a template that is none":   {[]string{limited, "spec: {remediation: {templateRef: {apiVersion: a/b/c, kind: XTemplate, name: t}}}"}, []string{`!|spec.remediation.templateRef.apiVersion|is "a/b/c"`}},
		"a sound template":          {[]string{limited, "spec: {remediation: {templateRef: {apiVersion: x.example/v1, kind: XTemplate, name: t}}}"}, nil},
		"none in flight":            {[]string{limited, noted("fettle.io/max-in-flight", `"0"`)}, []string{"?|metadata.annotations.fettle.io/max-in-flight|is 0, so nothing is ever repaired"}},
		"no share in flight":        {[]string{limited, noted("fettle.io/max-in-flight", "0%")}, []string{"?|metadata.annotations.fettle.io/max-in-flight|is 0%, so nothing is ever repaired"}},
		"one in flight":             {[]string{limited, noted("fettle.io/max-in-flight", `"1"`)}, nil},
		"the other's pause":         {[]string{limited, noted("cluster.x-k8s.io/paused", `"", fettle.io/takes-over: "true"`)}, nil},
		"Fettle's pause":            {[]string{limited, noted("fettle.io/paused", `"", fettle.io/takes-over: "true"`)}, []string{"?|metadata.annotations.fettle.io/paused|with whatever value"}},
		"both pauses":               {[]string{limited, noted("fettle.io/paused", `"", cluster.x-k8s.io/paused: ""`)}, []string{"?|metadata.annotations.cluster.x-k8s.io/paused|with whatever value", "?|metadata.annotations.fettle.io/paused|with whatever value"}},
		"a condition twice":         {[]string{limited, conditions("unhealthyNodeConditions", `{type: Ready, status: "False", timeoutSeconds: 300}, `+silent+`, {type: Ready, status: "False", timeoutSeconds: 400}`)}, []string{"?|" + node + "[2]|names condition Ready with status False once more, after [0]; the shorter timeout decides"}},
		"conditions and a group":    {[]string{limited, conditions("unhealthyNodeConditions", `{type: Ready, status: "False", timeoutSeconds: 300}`), noted("fettle.io/unhealthy-conditions", `"[{all: [{type: AgentReady, missing: true}], for: 10m}]"`)}, []string{"?|" + node + "[0]|not with Unknown"}},
		"misspelt, and no limit":    {[]string{"spec: {check: {}}"}, []string{"!|spec.check|is not a field of a MachineHealthCheck"}},
	} {
		remarks, _ := Review(aCheck(t, "check", tc.changes...))
		var other []string
		for i, r := range remarks {
			line := "?|" + r.Field + "|"
			if r.Fault {
				line = "!|" + r.Field + "|"
			}
			if i >= len(tc.want) || !strings.HasPrefix(tc.want[i], line) || !strings.Contains(r.Text, strings.TrimPrefix(tc.want[i], line)) {
				other = append(other, line+r.Text)
			}
		}
		if len(other) > 0 || len(remarks) != len(tc.want) {
			t.Errorf("%s: %d remarks, want %q; not wanted:\n%s", sentence, len(remarks), tc.want, strings.Join(other, "\n"))
		}
	}
}

// TestDeprecatedReview: a template of the health check's own namespace is no mistake, and neither is a long duration.
func TestDeprecatedReview(t *testing.T) {
	for template, want := range map[string]int{
		"{apiVersion: x.example/v1, kind: XTemplate, name: t}": 0, "{apiVersion: x.example/v1, kind: XTemplate, name: t, namespace: clusters}": 0,
		"{apiVersion: x.example/v1, kind: XTemplate, name: t, namespace: others}": 1,
	} {
		remarks, _ := Review(object(t, "apiVersion: cluster.x-k8s.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: c, namespace: clusters}\nspec: {clusterName: blue, selector: {matchLabels: {role: worker}}, maxUnhealthy: 40%, "+
			"unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}], remediationTemplate: "+template+"}"))
		if len(remarks) != want {
			t.Errorf("%s: the remarks are %+v", template, remarks)
		}
	}
	if got := (&conversion{}).seconds("field", "2562047h47m16s"); *got != math.MaxInt32 {
		t.Errorf("a long duration is %d s", *got)
	}
}

func TestReview(t *testing.T) {
	limited := "spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}}}"
	deprecated := func(spec string) *unstructured.Unstructured {
		return object(t, "apiVersion: cluster.x-k8s.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: c, namespace: clusters}\nspec: "+spec)
	}
	const rest = "clusterName: blue, selector: {matchLabels: {role: worker}}, maxUnhealthy: 40%"
	cases := map[string]struct {
		check *unstructured.Unstructured
		// fault and field are those of the first remark. says is a part of its text.
		fault       bool
		field, says string
	}{
		"all is well":                      {aCheck(t, "check", limited), false, "", ""},
		"no limit":                         {aCheck(t, "check"), false, "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo", "is not set"},
		"a limit and a range":              {aCheck(t, "check", limited, `spec: {remediation: {triggerIf: {unhealthyInRange: "[1-3]"}}}`), false, "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo", "is ignored"},
		"a limit of nothing":               {aCheck(t, "check", "spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 0}}}"), false, "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo", "nothing is ever repaired"},
		"a number in quotes":               {aCheck(t, "check", `spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: "10"}}}`), true, "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo", "in quotes"},
		"a misspelt field":                 {aCheck(t, "check", limited, "spec: {check: {}}"), true, "spec.check", "is not a field of a MachineHealthCheck"},
		"a number of the wrong type":       {aCheck(t, "check", limited, "spec: {checks: {nodeStartupTimeoutSeconds: soon}}"), true, "spec.checks.nodeStartupTimeoutSeconds", "wrong type"},
		"a short startup timeout":          {aCheck(t, "check", limited, "spec: {checks: {nodeStartupTimeoutSeconds: 10}}"), true, "spec.checks.nodeStartupTimeoutSeconds", "less than 30s"},
		"a condition of no such name":      {aCheck(t, "check", limited, `spec: {checks: {unhealthyMachineConditions: [{type: "foo bar/!", status: "True", timeoutSeconds: 5}]}}`), true, "spec.checks.unhealthyMachineConditions[0].type", `is "foo bar/!"`},
		"a status that there is not":       {aCheck(t, "check", limited, `spec: {checks: {unhealthyMachineConditions: [{type: NodeHealthy, status: bar, timeoutSeconds: 5}]}}`), true, "spec.checks.unhealthyMachineConditions[0].status", `is "bar"; give "True", "False" or Unknown`},
		"a condition of a machine":         {aCheck(t, "check", limited, `spec: {checks: {unhealthyMachineConditions: [{type: example.com/Disk_1, status: "False", timeoutSeconds: 5}]}}`), false, "", ""},
		"a template without a group":       {aCheck(t, "check", limited, `spec: {remediation: {templateRef: {apiVersion: v1, kind: XTemplate, name: t}}}`), true, "spec.remediation.templateRef.kind", `is "XTemplate" of "v1"`},
		"a template of machines' parts":    {aCheck(t, "check", limited, `spec: {remediation: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: t}}}`), true, "spec.remediation.templateRef.kind", "machines and clusters are made of"},
		"a group in the wrong case":        {aCheck(t, "check", limited, `spec: {remediation: {templateRef: {apiVersion: X.example/v1, kind: XTemplate, name: t}}}`), true, "spec.remediation.templateRef.apiVersion", "give a group and a version"},
		"no startup timeout":               {aCheck(t, "check", limited, "spec: {checks: {nodeStartupTimeoutSeconds: 0}}"), false, "spec.checks.nodeStartupTimeoutSeconds", "never joins is never found"},
		"another cluster's machines":       {aCheck(t, "check", limited, "spec: {selector: {matchLabels: {cluster.x-k8s.io/cluster-name: green}}}"), true, "spec.selector", `requires cluster "green"`},
		"no conditions":                    {aCheck(t, "check", limited, "spec: {checks: null}"), false, "spec.checks.unhealthyNodeConditions", "there are no unhealthyNodeConditions"},
		"a node that never falls silent":   {aCheck(t, "check", limited, `spec: {checks: {unhealthyNodeConditions: [{type: Ready, status: "False", timeoutSeconds: 300}]}}`), false, "spec.checks.unhealthyNodeConditions[0]", "not with Unknown"},
		"a condition at once":              {aCheck(t, "check", limited, `spec: {checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 0}]}}`), false, "spec.checks.unhealthyNodeConditions[0].timeoutSeconds", "give a number of seconds such as 300"},
		"a pause":                          {aCheck(t, "check", limited, `metadata: {annotations: {cluster.x-k8s.io/paused: "false"}}`), false, "metadata.annotations.cluster.x-k8s.io/paused", "with whatever value"},
		"an annotation that means nothing": {aCheck(t, "check", limited, `metadata: {annotations: {fettle.io/max-inflight: "1"}}`), false, "metadata.annotations.fettle.io/max-inflight", "means nothing"},
		"a wait for upgrades":              {aCheck(t, "check", limited, `metadata: {annotations: {fettle.io/wait-for-upgrades: "true"}}`), false, "", ""},
		"a condition that is missing": {
			aCheck(t, "check", limited, `metadata: {annotations: {fettle.io/unhealthy-conditions: "[{all: [{type: AgentReady, missing: true}], for: 10m}]"}}`), false, "", "",
		},
		"a condition that is missing for a moment": {
			aCheck(t, "check", limited, `metadata: {annotations: {fettle.io/unhealthy-conditions: "[{all: [{type: AgentReady, missing: true}], for: 10s}]"}}`), false,
			"metadata.annotations.fettle.io/unhealthy-conditions", "a node that has just joined lacks what its agents set later, so a machine may be repaired while it starts",
		},
		"no conditions but those of the annotation": {
			aCheck(t, "check", limited, `metadata: {annotations: {fettle.io/unhealthy-conditions: "[{all: [{type: AgentReady, missing: true}], for: 10m}]"}}`, "spec: {checks: null}"), false, "", "",
		},
		"a criterion that is none": {
			aCheck(t, "check", limited, `metadata: {annotations: {fettle.io/unhealthy-conditions: "[{all: [{type: AgentReady}], for: 10m}]"}}`), true,
			"metadata.annotations.fettle.io/unhealthy-conditions", "[0].all[0].status is missing",
		},
		"a delay for nodes that are gone":   {aCheck(t, "check", limited, `metadata: {annotations: {fettle.io/node-gone-delay: 5m}}`), false, "", ""},
		"a delay that is none":              {aCheck(t, "check", limited, `metadata: {annotations: {fettle.io/node-gone-delay: later}}`), true, "metadata.annotations.fettle.io/node-gone-delay", `is "later"; give a duration`},
		"a wait that is none":               {aCheck(t, "check", limited, `metadata: {annotations: {fettle.io/wait-for-upgrades: later}}`), true, "metadata.annotations.fettle.io/wait-for-upgrades", `is "later"; give "true" or "false"`},
		"a version that there is not":       {aCheck(t, "check", limited, "apiVersion: cluster.x-k8s.io/v1alpha4"), true, "apiVersion", "give cluster.x-k8s.io/v1beta2"},
		"a duration of the older version":   {deprecated("{" + rest + ", unhealthyConditions: [{type: Ready, status: Unknown, timeout: soon}]}"), true, "spec.unhealthyConditions[0].timeout", `is "soon"`},
		"a range of the older version":      {deprecated("{" + rest + ", unhealthyRange: \"[5-3]\", unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]}"), true, "spec.unhealthyRange", `is "[5-3]"`},
		"half a template of the older one":  {deprecated("{" + rest + ", remediationTemplate: {kind: XTemplate}, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]}"), true, "spec.remediationTemplate", "lacks apiVersion and name"},
		"a template of another namespace":   {deprecated("{" + rest + ", remediationTemplate: {apiVersion: x.example/v1, kind: XTemplate, name: t, namespace: other}, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]}"), false, "spec.remediationTemplate.namespace", "is ignored"},
		"a field of the newer version":      {deprecated("{" + rest + ", checks: {}}"), true, "spec.checks", "is not a field of a MachineHealthCheck"},
		"no conditions in the older one":    {deprecated("{" + rest + "}"), false, "spec.unhealthyConditions", "there are no unhealthyConditions"},
		"a status of the older version":     {deprecated("{" + rest + ", unhealthyMachineConditions: [{type: NodeHealthy, status: bar, timeout: 5m}], unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]}"), true, "spec.unhealthyMachineConditions[0].status", `is "bar"`},
		"half a condition of the older one": {deprecated("{" + rest + ", unhealthyConditions: [{status: Unknown, timeout: 5m}]}"), true, "spec.unhealthyConditions[0]", "timeout: 300s}"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			remarks, ours := Review(tc.check)
			if !ours || (len(remarks) > 0) != (tc.says != "") {
				t.Fatalf("ours: %t, remarks: %v", ours, remarks)
			}
			if tc.says == "" {
				return
			}
			if r := remarks[0]; r.Fault != tc.fault || r.Field != tc.field || !strings.Contains(r.Text, tc.says) {
				t.Errorf("it says of %s (fault: %t): %s", r.Field, r.Fault, r.Text)
			}
		})
	}
	for _, other := range []string{"Machine", "Cluster"} {
		if _, ours := Review(object(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: "+other+"\nmetadata: {name: c}")); ours {
			t.Errorf("a %s is taken for a health check", other)
		}
	}
	if _, ours := Review(object(t, "apiVersion: machine.openshift.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: c}")); ours {
		t.Error("another API's is taken for ours")
	}
}
