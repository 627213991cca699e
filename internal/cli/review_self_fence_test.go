package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// policyItem is a FencePolicy of the cluster.
func policyItem(name, month, spec string) string {
	return "{apiVersion: fettle.io/v1alpha1, kind: FencePolicy, metadata: {name: " + name + ", creationTimestamp: '2026-" + month + "-01T00:00:00Z'}, spec: " + spec + "}"
}

// fencePolicies are the files of the goldens checked-fence-*.txt, with what the cluster has.
var fencePolicies = map[string]struct {
	text   string
	change func(*judgingAPI)
}{
	// A policy that is replaced keeps its age, so it leads a younger policy of the same nodes.
	"replaced": {
		strings.Join([]string{
			fencePolicyText("old", "nodeSelector: {matchLabels: {role: worker}}", "onIsolation: Hold"),
			fencePolicyText("new", "nodeSelector: {matchLabels: {role: worker}}", "onIsolation: Hold"),
			fencePolicyText("broken", "nodeSelector: {matchExpressions: [{key: a, operator: Like}]}"),
		}, "---\n"),
		func(a *judgingAPI) {
			a.list(policiesPath, "fettle.io/v1alpha1", "FencePolicyList", policyItem("middle", "06", "{nodeSelector: {matchLabels: {role: worker}}}"), policyItem("old", "05", "{nodeSelector: {}}"))
		},
	},
	// One node is left to an older policy, and the other is too few.
	"one-each": {
		fencePolicyText("p", "nodeSelector: {matchExpressions: [{key: name, operator: In, values: [node-a, node-b]}]}"),
		func(a *judgingAPI) {
			a.list(policiesPath, "fettle.io/v1alpha1", "FencePolicyList", policyItem("older", "06", "{nodeSelector: {matchLabels: {name: node-a}}}"))
		},
	},
	// As many nodes as witnesses are too few, whatever number is given.
	"five-witnesses": {fencePolicyText("p", "nodeSelector: {}", "witnesses: 5"), func(a *judgingAPI) {
		for _, name := range []string{"node-d", "node-e"} {
			a.more(name)
		}
	}},
	"enough-for-five": {fencePolicyText("p", "nodeSelector: {}", "witnesses: 5"), func(a *judgingAPI) {
		for _, name := range []string{"node-d", "node-e", "node-f"} {
			a.more(name)
		}
	}},
	"held": {fencePolicyText("p", "nodeSelector: {}", "onIsolation: Hold"), func(*judgingAPI) {}},
	// A BMC of the cluster or of the input is one. Another policy needs none.
	"both-required": {
		strings.Join([]string{
			fencePolicyText("power", "nodeSelector: {matchExpressions: [{key: name, operator: NotIn, values: [node-d]}]}", "requiredProof: PowerAndPromise"),
			fencePolicyText("rest", "nodeSelector: {}"), goodBMC, secretText,
		}, "---\n"),
		func(a *judgingAPI) {
			a.more("node-d")
			a.bmcs(bmcText("bmc-b", "{nodeName: node-b, credentialsName: x, address: 'ipmi://b'}", "{}"))
		},
	},
	"both-required-and-there": {fencePolicyText("p", "nodeSelector: {}", "requiredProof: PowerAndPromise"), func(a *judgingAPI) {
		var bmcs []string
		for _, name := range []string{"a", "b", "c"} {
			bmcs = append(bmcs, bmcText("bmc-"+name, "{nodeName: node-"+name+", credentialsName: x, address: 'ipmi://"+name+"'}", "{}"))
		}
		a.bmcs(bmcs...)
	}},
	"no-nodes":         {fencePolicyText("p", "nodeSelector: {}"), func(a *judgingAPI) { a.list("/api/v1/nodes", "v1", "NodeList") }},
	"leases-forbidden": {fencePolicyText("p", "nodeSelector: {}", "onIsolation: Hold"), func(a *judgingAPI) { a.set(agentsLeases, http.StatusForbidden) }},
	"nodes-forbidden": {fencePolicyText("p", "nodeSelector: {}"), func(a *judgingAPI) {
		a.set("/api/v1/nodes", http.StatusForbidden)
		a.set(agentsLeases, http.StatusForbidden)
	}},
	// The faults that the definitions refuse are told of a file alone.
	"faults": {
		strings.Join([]string{
			fencePolicyText("a", "nodeSelector: {}", "onIsolation: Hold", "witnesses: 4"), fencePolicyText("b", "nodeSelector: {}", "witnesses: 6"), fencePolicyText("c", "nodeSelector: {}", "witnesses: 4"),
			strings.Replace(fencePolicyText("d", "nodeSelector: {}"), "fettle.io/", "fence.example/", 1),
			"apiVersion: fettle.io/v1alpha1\nkind: SelfFenceRemediationTemplate\nmetadata: {name: reset}\nspec: {templates: {}}\n",
		}, "---\n"), func(*judgingAPI) {},
	},
}

// more adds a node.
func (a *judgingAPI) more(name string) {
	list := a.objects["/api/v1/nodes"].(map[string]any)
	list["items"] = append(list["items"].([]any), object(a.t, "{apiVersion: v1, kind: Node, metadata: {name: "+name+", uid: "+name+", labels: {name: "+name+"}}}"))
}

// startFencing starts an API server with three nodes, which have their names as labels too, and with no policy.
func startFencing(t *testing.T) *judgingAPI {
	t.Helper()
	a := startJudge(t)
	for _, node := range a.objects["/api/v1/nodes"].(map[string]any)["items"].([]any) {
		metadata := node.(map[string]any)["metadata"].(map[string]any)
		metadata["labels"] = map[string]any{"role": "worker", "name": metadata["name"]}
	}
	a.list(policiesPath, "fettle.io/v1alpha1", "FencePolicyList")
	a.list(agentsLeases, "coordination.k8s.io/v1", "LeaseList")
	return a
}

// TestCheckOfFencePoliciesInACluster pins all that check prints of FencePolicies.
func TestCheckOfFencePoliciesInACluster(t *testing.T) {
	for name, c := range fencePolicies {
		t.Run(name, func(t *testing.T) {
			a := startFencing(t)
			c.change(a)
			golden(t, "checked-fence-"+name+".txt", a.check(c.text))
		})
	}
}

// TestBMCsAreReadForPoliciesThatNeedThem: once for all policies that require power too, and for no other.
func TestBMCsAreReadForPoliciesThatNeedThem(t *testing.T) {
	alone := goodPowerTemplate + "---\n" + fencePolicyText("a", "nodeSelector: {}")
	both := "---\n" + fencePolicyText("b", "nodeSelector: {}", "requiredProof: PowerAndPromise") + "---\n" + fencePolicyText("c", "nodeSelector: {}", "requiredProof: PowerAndPromise")
	for text, want := range map[string]int{alone: 0, alone + both: 1} {
		a := startFencing(t)
		a.check(text)
		requests := a.forget()
		if n := len(slices.DeleteFunc(slices.Clone(requests), func(r string) bool { return r != "GET "+bmcsPath })); n != want {
			t.Errorf("BMCs are read %d times, want %d, in %q", n, want, requests)
		}
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
