package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

const (
	bootOfNodes  = "0f8fad5b-d9cb-469f-a165-70867728950e"
	agentsLeases = "/apis/coordination.k8s.io/v1/namespaces/fettle-agents/leases"
	policiesPath = fettleAPI + "/fencepolicies"
)

// selfFencing is a health check that has nodes fence themselves.
var selfFencing = strings.Replace(fencedNodes, "PowerRemediationTemplate", selfFenceTemplateKind, 1)

// leaseText returns the Lease of a node.
func leaseText(t *testing.T, node string, r promiselease.Record) string {
	t.Helper()
	r.Promise.Boot = bootOfNodes
	l, err := promiselease.Encode(node, r, noon)
	if err != nil {
		t.Fatal(err)
	}
	l.APIVersion, l.Kind, l.ResourceVersion = "coordination.k8s.io/v1", "Lease", "7"
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// selfFencingCluster serves three nodes: the promise of node-a is timed and that of node-b is not, and node-c has none. A node that is no worker
// has no policy.
func selfFencingCluster(t *testing.T) *fakeAPI {
	t.Helper()
	a := startAPI(t)
	nodesAndCheck(a)
	var nodes []string
	for _, name := range []string{"node-a", "node-b", "node-c"} {
		nodes = append(nodes, "{apiVersion: v1, kind: Node, metadata: {name: "+name+", uid: "+name+", labels: {role: worker}}, status: {nodeInfo: {bootID: "+bootOfNodes+"}, conditions: [{type: Ready, status: 'True'}]}}")
	}
	a.list("/api/v1/nodes", "v1", "NodeList", append(nodes, "{apiVersion: v1, kind: Node, metadata: {name: other, uid: other}}")...)
	a.list(fettleAPI+"/selffenceremediations", "fettle.io/v1alpha1", "SelfFenceRemediationList",
		strings.NewReplacer("fix.example/v1", "fettle.io/v1alpha1", ".fix.example/", ".fettle.io/", "node-uid-a", "node-a").Replace(
			requestedText(signature(selfFenceKind, "node-a"), selfFenceKind, "node-a", 2*time.Minute,
				"status: {phase: Condemning, attempt: 1, conditions: [{type: Processing, status: 'True', reason: PromiseStands, message: the promise expires soon}]}")))
	a.list(fettleAPI+"/selffenceremediationtemplates", "fettle.io/v1alpha1", "SelfFenceRemediationTemplateList",
		"{apiVersion: fettle.io/v1alpha1, kind: SelfFenceRemediationTemplate, metadata: {name: reboot, namespace: remediators}, spec: {template: {spec: {}}}}")
	a.list("/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks", "remediation.medik8s.io/v1alpha1", "NodeHealthCheckList",
		strings.Replace(selfFencing, "  name: workers\n", "  name: workers\n  uid: uid-workers\n", 1))
	a.list(policiesPath, "fettle.io/v1alpha1", "FencePolicyList", "{apiVersion: fettle.io/v1alpha1, kind: FencePolicy, metadata: {name: workers}, spec: {nodeSelector: {matchLabels: {role: worker}}}}")
	timed := selffence.Promise{Timed: true, Times: selffence.Times{Validity: 20 * time.Second, Watchdog: 10 * time.Second}, Witnesses: selffence.Members{"x", "y", "z"}}
	a.list(agentsLeases, "coordination.k8s.io/v1", "LeaseList",
		leaseText(t, "node-a", promiselease.Record{Device: "iTCO_wdt", Lease: selffence.Lease{State: selffence.Promised, Promise: timed}}),
		leaseText(t, "node-b", promiselease.Record{Lease: selffence.Lease{State: selffence.Promised}}),
		leaseText(t, "node-c", promiselease.Record{Why: promiselease.VirtualMachine, Lease: selffence.Lease{State: selffence.Withdrawn}}))
	return a
}

// TestPromises: status names the nodes without a promise, and explain says what the promise of a node is worth.
func TestPromises(t *testing.T) {
	a := selfFencingCluster(t)
	out := runCommand(t, statusCommand)
	for _, want := range []string{"NODE WITHOUT A PROMISE", "node-c", "VirtualMachine", "it is a virtual machine"} {
		if !strings.Contains(out, want) {
			t.Errorf("status does not say %q:\n%s", want, out)
		}
	}
	for _, want := range []string{"FENCEPOLICY PROMISING PROVEN RESET AFTER NODES", "workers 1 node a new boot alone node-b", "workers 1 node 52.5s node-a"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("status does not say %q:\n%s", want, out)
		}
	}
	var s Status
	if err := json.Unmarshal([]byte(runCommand(t, statusCommand, "-o", "json")), &s); err != nil || len(s.WithPromise) != 2 || s.WithPromise[1].Node != "node-b" {
		t.Errorf("status has %+v, %v", s.WithPromise, err)
	}
	for node, want := range map[string]string{
		"node-a": "stands by FencePolicy workers, watchdog iTCO_wdt with a timeout of 10s, each renewal counts for 20s, witnesses x, y, z; once it is revoked, the node is proven to be reset 52.5s after Fettle has seen its last renewal",
		"node-b": "stands by FencePolicy workers, watchdog of an unknown name; not timed: once it is revoked, only a new boot proves that the node was reset",
		"node-c": "none (VirtualMachine), so no SelfFenceRemediation of it can start: it is a virtual machine, and its policy doesn't allow these",
	} {
		if out := strings.Join(strings.Fields(runCommand(t, explainCommand, "node/"+node)), " "); !strings.Contains(out, "Promise "+want) {
			t.Errorf("explain does not say %q:\n%s", want, out)
		}
	}
	if out := runCommand(t, explainCommand, "node/node-a"); !strings.Contains(out, "phase Condemning") || !strings.Contains(out, "PromiseStands: the promise expires soon") || strings.Contains(out, "power cycle") {
		t.Errorf("explain does not say what the remediation waits for:\n%s", out)
	}
	var e Explanation
	if err := json.Unmarshal([]byte(runCommand(t, explainCommand, "node/node-a", "-o", "json")), &e); err != nil || len(e.Targets) != 1 {
		t.Fatalf("it has %+v, %v", e.Targets, err)
	}
	if d := cmp.Diff(&NodePromise{
		Node: "node-a", Policy: "workers", Timed: true, ProvenAfter: "52.5s", Device: "iTCO_wdt", Watchdog: "10s", Validity: "20s", Witnesses: []string{"x", "y", "z"},
	}, e.Targets[0].Promise); d != "" {
		t.Error(d)
	}
	a.wantOnlyReads(t)
}

// TestPromisesUnknown: a promise that can't be read is not known, and nothing is read that no health check needs.
func TestPromisesUnknown(t *testing.T) {
	a := selfFencingCluster(t)
	const unknown = "Which nodes promise to fence themselves is not known: "
	a.set(agentsLeases, http.StatusForbidden)
	if out := runCommand(t, statusCommand); !strings.Contains(out, unknown+"you may not list leases in namespace fettle-agents.") || strings.Contains(out, "NODE WITHOUT A PROMISE") {
		t.Errorf("status says:\n%s", out)
	}
	if out := runCommand(t, explainCommand, "node/node-a"); strings.Contains(out, "Promise ") {
		t.Errorf("explain says:\n%s", out)
	}
	a.set(policiesPath, http.StatusNotFound)
	if out := runCommand(t, statusCommand); !strings.Contains(out, unknown+"the cluster does not serve fencepolicies.fettle.io.") {
		t.Errorf("status says:\n%s", out)
	}
	a.forget()
	a.list("/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks", "remediation.medik8s.io/v1alpha1", "NodeHealthCheckList", fencedNodes)
	a.bmcs()
	runCommand(t, statusCommand)
	if slices.ContainsFunc(a.forget(), func(r string) bool { return strings.Contains(r, "fettle-agents") }) {
		t.Error("promises are read, and no health check needs them")
	}
}

// requiresBoth has the policy of the workers require both power and promise, and their health check name a template.
func requiresBoth(a *fakeAPI, check string) {
	a.list(policiesPath, "fettle.io/v1alpha1", "FencePolicyList",
		"{apiVersion: fettle.io/v1alpha1, kind: FencePolicy, metadata: {name: workers}, spec: {requiredProof: PowerAndPromise, nodeSelector: {matchLabels: {role: worker}}}}")
	a.list("/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks", "remediation.medik8s.io/v1alpha1", "NodeHealthCheckList",
		strings.Replace(check, "  name: workers\n", "  name: workers\n  uid: uid-workers\n", 1))
	a.bmcs()
}

// TestPowerAndPromiseRequired: explain and check say what a policy that requires both means for each node, whatever its health check names.
func TestPowerAndPromiseRequired(t *testing.T) {
	const requires = "Required proof FencePolicy workers requires both power and promise, so no SelfFenceRemediation of it can start"
	for _, check := range []string{selfFencing, fencedNodes} {
		a := selfFencingCluster(t)
		requiresBoth(a, check)
		for node, wants := range map[string][]string{
			"node-a": {"Promise stands by FencePolicy workers", requires},
			"node-b": {requires + ", and no PowerRemediation, since the promise is not timed"},
			"node-c": {"none (VirtualMachine), so no PowerRemediation of it can start", requires},
		} {
			out := strings.Join(strings.Fields(runCommand(t, explainCommand, "node/"+node)), " ")
			for _, want := range wants {
				if !strings.Contains(out, want) {
					t.Errorf("explain of %s does not say %q:\n%s", node, want, out)
				}
			}
			if node == "node-a" && strings.Contains(out, "and no PowerRemediation") {
				t.Errorf("explain says that node-a can't be fenced:\n%s", out)
			}
		}
		a.wantOnlyReads(t)
	}
	for check, wants := range map[string][]string{
		selfFencing: {"both power and promise are required of 3 nodes that it selects, by a FencePolicy, so no SelfFenceRemediation of such a node can start; name a PowerRemediationTemplate: node-a, node-b, node-c"},
		fencedNodes: {
			"the promise of 1 node that it selects is not timed, and a FencePolicy requires both power and promise, so no PowerRemediation of such a node can start: node-b",
			"no promise stands of 1 node that it selects, and a FencePolicy requires both power and promise, so no PowerRemediation of such a node can start (VirtualMachine: it is a virtual machine, and its policy doesn't allow these): node-c",
		},
	} {
		a := selfFencingCluster(t)
		requiresBoth(a, check)
		path := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(path, []byte(check), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := runCheck(t, path)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("check does not say %q:\n%s", want, out)
			}
		}
		if got := strings.Count(out, "can start"); got > len(wants)+1 { // and that its nodes have no BMC
			t.Errorf("check says more than that:\n%s", out)
		}
	}
}

// TestOnePolicyOfPower: where no policy requires both, or policies can't be read, a health check that uses the power alone says nothing of promises.
func TestOnePolicyOfPower(t *testing.T) {
	for name, change := range map[string]func(*fakeAPI){
		"any proof":           func(*fakeAPI) {},
		"policies are hidden": func(a *fakeAPI) { a.set(policiesPath, http.StatusForbidden) },
		"there are none":      func(a *fakeAPI) { a.set(policiesPath, http.StatusNotFound) },
	} {
		a := selfFencingCluster(t)
		requiresBoth(a, fencedNodes)
		a.list(policiesPath, "fettle.io/v1alpha1", "FencePolicyList", "{apiVersion: fettle.io/v1alpha1, kind: FencePolicy, metadata: {name: workers}, spec: {nodeSelector: {}}}")
		change(a)
		if out := runCommand(t, explainCommand, "node/node-c") + runCommand(t, statusCommand); strings.Contains(out, "Promise") || strings.Contains(out, "Required proof") || strings.Contains(out, "promise") {
			t.Errorf("%s: it says:\n%s", name, out)
		}
	}
}

// TestCheckOfPromises: check says which of the selected nodes promise nothing, and why.
func TestCheckOfPromises(t *testing.T) {
	policy := func(selector string) string {
		return "{apiVersion: fettle.io/v1alpha1, kind: FencePolicy, metadata: {name: workers}, spec: {nodeSelector: " + selector + "}}"
	}
	for name, c := range map[string]struct {
		change func(*fakeAPI)
		says   []string
		silent string
	}{
		"one is a virtual machine": {func(*fakeAPI) {}, []string{
			"no promise stands of 1 node that it selects, so no SelfFenceRemediation of such a node can start (VirtualMachine: it is a virtual machine, and its policy doesn't allow these): node-c",
		}, "NoFencePolicy"},
		"no agents": {func(a *fakeAPI) { a.list(agentsLeases, "coordination.k8s.io/v1", "LeaseList") }, []string{"3 nodes that it selects", "(NoAgent: it has no Lease in namespace fettle-agents", "node-a, node-b, node-c"}, "VirtualMachine"},
		"no policy": {func(a *fakeAPI) { a.list(policiesPath, "fettle.io/v1alpha1", "FencePolicyList") }, []string{"(NoFencePolicy: no FencePolicy selects it; create one, or label the node): node-a, node-b, node-c"}, "VirtualMachine"},
		"another policy": {
			func(a *fakeAPI) {
				a.list(policiesPath, "fettle.io/v1alpha1", "FencePolicyList", policy("{matchLabels: {role: other}}"))
			},
			[]string{"(NoFencePolicy"}, "VirtualMachine",
		},
		"a broken policy": {
			func(a *fakeAPI) {
				a.list(policiesPath, "fettle.io/v1alpha1", "FencePolicyList", policy("{matchExpressions: [{key: a, operator: Like}]}"))
			},
			[]string{"(FencePolicyUnknown: the selector of a FencePolicy can't be read"}, "VirtualMachine",
		},
		"Leases may not be read": {
			func(a *fakeAPI) { a.set(agentsLeases, http.StatusForbidden) },
			[]string{"whether the nodes that it selects promise to fence themselves, since you may not list leases in namespace fettle-agents"}, "no promise stands",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := selfFencingCluster(t)
			c.change(a)
			path := filepath.Join(t.TempDir(), "file.yaml")
			if err := os.WriteFile(path, []byte(selfFencing), 0o600); err != nil {
				t.Fatal(err)
			}
			out, status := runCheck(t, path)
			if status != 0 {
				t.Errorf("exit status %d:\n%s", status, out)
			}
			for _, words := range c.says {
				if !strings.Contains(out, words) {
					t.Errorf("it does not say %q:\n%s", words, out)
				}
			}
			if strings.Contains(out, c.silent) {
				t.Errorf("it says %q:\n%s", c.silent, out)
			}
		})
	}
}

// fencePolicyText returns a FencePolicy with lines of its spec.
func fencePolicyText(name string, lines ...string) string {
	return "apiVersion: fettle.io/v1alpha1\nkind: FencePolicy\nmetadata:\n  name: " + name + "\nspec:\n  " + strings.Join(lines, "\n  ") + "\n"
}

// TestCheckOfFencePolicies: check finds the mistakes of a FencePolicy, in the file and by the nodes.
func TestCheckOfFencePolicies(t *testing.T) {
	const workers, all = "nodeSelector: {matchLabels: {role: worker}}", "nodeSelector: {}"
	for name, c := range map[string]struct {
		text   string
		change func(*fakeAPI)
		status int
		says   []string
		silent string
	}{
		"as it is":         {fencePolicyText("workers", workers, "onIsolation: Hold"), nil, 0, nil, "warning"},
		"a template":       {"apiVersion: fettle.io/v1alpha1\nkind: SelfFenceRemediationTemplate\nmetadata: {name: reset, namespace: fettle-system}\nspec: {template: {spec: {}}}\n", nil, 0, nil, "warning"},
		"unknown operator": {fencePolicyText("p", "nodeSelector: {matchExpressions: [{key: a, operator: Like}]}"), nil, 1, []string{`spec.nodeSelector can't be read: "Like"`}, "warning"},
		"a short validity": {fencePolicyText("p", all, "renewal: 10s", "validity: 29s"), nil, 1, []string{"line 8: spec.validity is 29s, and must be at least three times the renewal of 10s"}, "warning"},
		"a long renewal":   {fencePolicyText("p", all, "renewal: 7s"), nil, 1, []string{"spec.validity is 20s"}, "warning"},
		"the least":        {fencePolicyText("workers", workers, "onIsolation: Hold", "renewal: 10s", "validity: 30s"), nil, 0, nil, "warning"},
		"four witnesses":   {fencePolicyText("p", all, "onIsolation: Reset", "witnesses: 4"), nil, 1, []string{"spec.witnesses is 4; give 3 or 5, or leave it out"}, "warning"},
		"idle witnesses":   {fencePolicyText("p", all, "onIsolation: Hold", "witnesses: 3"), nil, 1, []string{"spec.witnesses is 3; leave it out"}, "warning"},
		"a wrong field":    {fencePolicyText("p", all, "watchdogs: {}"), nil, 1, []string{"spec.watchdogs"}, "warning"},
		"no name":          {strings.Replace(fencePolicyText("p", all), "  name: p", "  labels: {}", 1), nil, 1, []string{"metadata.name is missing"}, "warning"},
		"no node":          {fencePolicyText("p", "nodeSelector: {matchLabels: {role: none}}"), nil, 0, []string{"warning, line 6: no node has the labels of spec.nodeSelector"}, "older"},
		"older ones lead":  {fencePolicyText("p", workers), nil, 0, []string{"policies that are older apply to each node that this policy selects: workers"}, "witnesses"},
		"some are led":     {fencePolicyText("p", all), nil, 0, []string{"the policy applies to 1 node; policies that are older apply to 3 more nodes that it selects: workers"}, "witnesses"},
		"enough witnesses": {fencePolicyText("workers", all, "onIsolation: Reset", "witnesses: 3"), nil, 0, nil, "warning"},
		"as many as are":   {fencePolicyText("workers", all, "onIsolation: Reset"), nil, 0, nil, "warning"},
		"fewer than three": {fencePolicyText("workers", workers), nil, 0, []string{"each node needs 3 others as witnesses, and FencePolicies apply to 3 nodes in all"}, "older"},
		"few nodes":        {fencePolicyText("workers", workers, "onIsolation: Reset", "witnesses: 3"), nil, 0, []string{"each node needs 3 others as witnesses, and FencePolicies apply to 3 nodes in all"}, "older"},
		"both, and held":   {fencePolicyText("p", all, "onIsolation: Hold", "requiredProof: PowerAndPromise"), nil, 1, []string{"spec.requiredProof is PowerAndPromise, which needs onIsolation Reset"}, "warning"},
		"both, and no BMC": {
			fencePolicyText("workers", workers, "onIsolation: Reset", "witnesses: 3", "requiredProof: PowerAndPromise"),
			func(a *fakeAPI) { a.bmcs() }, 0, []string{"spec.requiredProof is PowerAndPromise, and no BMC names 3 nodes that it applies to, so no remediation fences such a node: node-a, node-b, node-c"}, "older",
		},
		"both, and BMCs are hidden": {
			fencePolicyText("workers", workers, "onIsolation: Reset", "witnesses: 3", "requiredProof: PowerAndPromise"),
			nil, 0, []string{"whether each node that it applies to has a BMC, since "}, "no BMC names",
		},
		"Leases are hidden": {fencePolicyText("workers", workers, "onIsolation: Hold"), func(a *fakeAPI) { a.set(agentsLeases, http.StatusForbidden) }, 0, nil, "warning"},
		"all is hidden":     {fencePolicyText("workers", workers), func(a *fakeAPI) { a.set(policiesPath, http.StatusForbidden) }, 0, []string{"which nodes it would apply to, since you may not list fencepolicies.fettle.io"}, "warning"},
	} {
		t.Run(name, func(t *testing.T) {
			a := selfFencingCluster(t)
			if c.change != nil {
				c.change(a)
			}
			path := filepath.Join(t.TempDir(), "file.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, status := runCheck(t, path)
			if status != c.status || strings.Contains(out, "not a health check") {
				t.Errorf("exit status %d:\n%s", status, out)
			}
			for _, words := range c.says {
				if !strings.Contains(out, words) {
					t.Errorf("it does not say %q:\n%s", words, out)
				}
			}
			if strings.Contains(out, c.silent+",") || strings.Contains(out, c.silent+" ") {
				t.Errorf("it says %q:\n%s", c.silent, out)
			}
		})
	}
}
