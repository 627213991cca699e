package capi

import (
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
		"another cluster's machines":       {aCheck(t, "check", limited, "spec: {selector: {matchLabels: {cluster.x-k8s.io/cluster-name: green}}}"), true, "spec.selector", `machines of cluster "green"`},
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
	if _, ours := Review(object(t, "apiVersion: machine.openshift.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: c}")); ours {
		t.Error("another API's is taken for ours")
	}
}
