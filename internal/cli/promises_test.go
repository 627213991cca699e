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
