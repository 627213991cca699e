package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/test/cluster"
)

const (
	selfNode = `{apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediationTemplate, namespace: remediators, name: automatic}`
	fence    = `{apiVersion: fence-agents-remediation.medik8s.io/v1alpha1, kind: FenceAgentsRemediationTemplate, namespace: remediators, name: ipmi}`
	deletion = `{apiVersion: machine-deletion-remediation.medik8s.io/v1alpha1, kind: MACHINEDeletionRemediationTemplate, namespace: remediators, name: delete}`
)

// nodeChecks are the NodeHealthChecks of one cluster.
type nodeChecks struct {
	*cluster.Cluster

	t *testing.T
}

// nodeCheck returns a NodeHealthCheck with this specification, as YAML in one line.
func (n nodeChecks) nodeCheck(name, spec string) *unstructured.Unstructured {
	n.t.Helper()
	return cluster.Decode(n.t, []byte("apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck\nmetadata: {name: "+name+"}\nspec: "+spec))[0]
}

// merge changes a part of a health check, as YAML in one line.
func (n nodeChecks) merge(name, change string) error {
	n.t.Helper()
	body, err := (&unstructured.Unstructured{Object: cluster.Decode(n.t, []byte(change))[0].Object}).MarshalJSON()
	if err != nil {
		n.t.Fatalf("writing a patch: %v", err)
	}
	return n.Patch(cluster.Context(n.t), n.nodeCheck(name, `{}`), client.RawPatch(types.MergePatchType, body))
}

func (n nodeChecks) mergeStatus(name, status string) error {
	n.t.Helper()
	body, err := (&unstructured.Unstructured{Object: cluster.Decode(n.t, []byte("status: "+status))[0].Object}).MarshalJSON()
	if err != nil {
		n.t.Fatalf("writing a patch: %v", err)
	}
	return n.Status().Patch(cluster.Context(n.t), n.nodeCheck(name, `{}`), client.RawPatch(types.MergePatchType, body))
}

func (n nodeChecks) must(what string, err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatalf("%s: %v", what, err)
	}
}

// wantRefused checks that an error says why, and what to do.
func (n nodeChecks) wantRefused(what string, err error, says ...string) {
	n.t.Helper()
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) {
		n.t.Errorf("%.300s: want it refused, got %v", what, err)
		return
	}
	for _, words := range says {
		if !strings.Contains(err.Error(), words) {
			n.t.Errorf("%.300s: the message does not say %q: %.900s", what, words, err)
		}
	}
}

// TestNodeHealthChecksAreAdmitted: the API server refuses what a definition can refuse. The message names the field and
// a valid value. Valid health checks are accepted, and get their defaults.
func TestNodeHealthChecksAreAdmitted(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	n := nodeChecks{c, t}
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	for i, spec := range goodNodeChecks() {
		if err := strict.Create(cluster.Context(t), n.nodeCheck(fmt.Sprintf("good-%d", i), spec)); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
	for _, u := range cluster.Manifest(t, "internal/dialect/nhc/testdata/seed.yaml") {
		n.must("the proposal's manifest", strict.Create(cluster.Context(t), u, client.DryRunAll))
	}
	for _, u := range examplesOf(t, "docs/dialects/nhc.md") {
		n.must("the example "+u.GetName()+" of the documentation", strict.Create(cluster.Context(t), u, client.DryRunAll))
	}
	for i, tc := range refusedNodeChecks() {
		u := n.nodeCheck(fmt.Sprintf("bad-%d", i), tc.spec)
		n.wantRefused(tc.spec, c.Create(cluster.Context(t), u), tc.says...)
	}
	u := n.nodeCheck("bare", `{}`)
	delete(u.Object, "spec")
	n.wantRefused("no spec", c.Create(cluster.Context(t), u), "spec: Required value")
	n.wantDefaults()
}

// examplesOf returns the objects in the YAML of a page. There must be some.
func examplesOf(t *testing.T, page string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(cluster.Root(), page))
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		all = append(all, cluster.Decode(t, []byte(block))...)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no example", page)
	}
	return all
}

func goodNodeChecks() []string {
	classic := func(more string) string { return `{remediationTemplate: ` + selfNode + more + `}` }
	return []string{
		classic(``),
		classic(`, maxUnhealthy: 2`), classic(`, maxUnhealthy: "2"`), classic(`, maxUnhealthy: 0%`), classic(`, maxUnhealthy: 100%`), classic(`, minHealthy: 51%`), classic(`, minHealthy: 0`),
		classic(`, selector: {matchLabels: {pool: a}}`), classic(`, selector: {matchExpressions: [{key: a, operator: In, values: [b]}]}`),
		classic(`, unhealthyConditions: [{type: Ready, status: "False", duration: 0s}, {type: Ready, status: Unknown, duration: 1h30m}, {type: Disk, status: "True", duration: "0"}]`),
		classic(`, pauseRequests: [why not]`), classic(`, pauseRequests: []`), classic(`, escalatingRemediations: []`),
		classic(`, healthyDelay: 5m`), classic(`, healthyDelay: -1s`), classic(`, healthyDelay: "0"`), classic(`, stormCooldownDuration: 10m`), classic(`, stormCooldownDuration: 0s`),
		classic(`, backoff: {type: exponential, limit: 10m}`),
		`{minHealthy: 51%, remediationTemplate: ` + deletion + `}`,
		`{remediationTemplate: ` + deletion + `}`,
		`{escalatingRemediations: [{order: 10, timeout: 60s, remediationTemplate: ` + fence + `}, {order: -1, timeout: 1h, remediationTemplate: ` + selfNode + `}]}`,
		`{remediationTemplate: {apiVersion: example.com/v1, kind: RebootTemplate, name: ipmi, uid: a, resourceVersion: "1", fieldPath: spec}}`,
	}
}

// refusedNodeChecks are all cases of docs/reference/medik8s.md#spec, and values of the wrong type, sign and size.
func refusedNodeChecks() []refused {
	var all []refused
	add := func(format string, values []string, says ...string) {
		for _, value := range values {
			all = append(all, refused{fmt.Sprintf(format, value), says})
		}
	}
	kinds := func(but ...string) []string {
		return slices.DeleteFunc([]string{`true`, `7`, `1.5`, `"word"`, `[a]`, `[]`, `{a: b}`, `{}`}, func(v string) bool { return slices.Contains(but, v) })
	}
	classic := `{remediationTemplate: ` + selfNode + `, %s}`
	amount := []string{`101%`, `"-1%"`, `-1`, `99999999999`, `many`, `"1.5"`, `"40 %"`, `""`, `"%"`, `"-1"`}
	for field, example := range map[string]string{"minHealthy": "51%", "maxUnhealthy": "49%"} {
		add(fmt.Sprintf(classic, field+`: %s`), amount, "spec."+field, "a number from 0 to 999999999, such as 2, or a percentage from 0% to 100%, such as "+example)
		add(fmt.Sprintf(classic, field+`: %s`), kinds(`7`, `"word"`), "spec."+field)
	}
	durations := []string{`"10"`, `soon`, `"5 m"`, `1d`, `""`, `"+5m"`, `"5m\n"`}
	duration := "a duration such as 300s, 10m or 1h30m"
	add(fmt.Sprintf(classic, `stormCooldownDuration: %s`), append(durations, `-10m`), "spec.stormCooldownDuration", duration)
	add(fmt.Sprintf(classic, `unhealthyConditions: [{type: Ready, status: "False", duration: %s}]`), append(durations, `-10m`), "spec.unhealthyConditions[0].duration", duration)
	add(fmt.Sprintf(classic, `healthyDelay: %s`), append(durations, `--5m`), "spec.healthyDelay", "a duration such as 300s or 10m", "a negative one such as -1s to wait until a person confirms")
	add(fmt.Sprintf(classic, `backoff: {type: exponential, limit: %s}`), append(durations, `-10m`, `0s`, `"0"`), "spec.backoff.limit", "a duration above zero, such as 300s, 10m or 1h30m")
	for _, field := range []string{"stormCooldownDuration: %s", "healthyDelay: %s", "backoff: {type: exponential, limit: %s}"} {
		name, _, _ := strings.Cut(field, ":")
		add(fmt.Sprintf(classic, field), append(kinds(`"word"`), `99999999999h`, `999999999h`), "spec."+name)
	}
	add(fmt.Sprintf(classic, `backoff: %s`), []string{`{type: linear, limit: 10m}`}, "spec.backoff.type", `"exponential"`)
	add(fmt.Sprintf(classic, `backoff: %s`), []string{`{limit: 10m}`}, "spec.backoff.type: Required")
	add(fmt.Sprintf(classic, `backoff: %s`), []string{`{type: exponential}`}, "spec.backoff.limit: Required")
	add(fmt.Sprintf(classic, `unhealthyConditions: %s`), []string{`[]`}, "spec.unhealthyConditions", "at least 1")
	add(fmt.Sprintf(classic, `unhealthyConditions: %s`), []string{`[` + strings.Repeat(`{type: Ready, status: "True", duration: 1s},`, 101) + `]`}, "spec.unhealthyConditions", "at most 100")
	add(fmt.Sprintf(classic, `unhealthyConditions: %s`), append(kinds(`[]`), `[7]`, `[null]`, `[{}]`), "spec.unhealthyConditions")
	add(fmt.Sprintf(classic, `unhealthyConditions: [%s]`), []string{`{type: "", status: "False", duration: 1s}`}, "spec.unhealthyConditions[0].type", "at least 1")
	add(fmt.Sprintf(classic, `unhealthyConditions: [%s]`), []string{`{type: Ready, status: "", duration: 1s}`}, "spec.unhealthyConditions[0].status", "at least 1")
	add(fmt.Sprintf(classic, `unhealthyConditions: [%s]`), []string{`{type: Ready, status: "False"}`}, "spec.unhealthyConditions[0].duration: Required")
	add(fmt.Sprintf(classic, `unhealthyConditions: [%s]`), []string{`{type: Ready, status: "False", duration: 1s}, {type: Ready, status: "False", duration: 2s}`}, "spec.unhealthyConditions[1]: Duplicate value")
	add(fmt.Sprintf(classic, `selector: %s`), []string{`{}`, `{matchLabels: {}}`, `{matchExpressions: []}`}, "spec.selector", "must not be empty", "remove it for all workers")
	add(fmt.Sprintf(classic, `selector: %s`), kinds(`{}`), "spec.selector")
	add(fmt.Sprintf(classic, `selector: {matchExpressions: [{key: a, operator: %s}]}`), []string{`exists`, `""`}, "spec.selector", "operator must be In, NotIn, Exists or DoesNotExist")
	add(fmt.Sprintf(classic, `selector: {matchExpressions: [{key: a, operator: In%s}]}`), []string{``, `, values: []`}, "spec.selector", "at least one value")
	add(fmt.Sprintf(classic, `selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}%s`), []string{``}, "spec.selector", "take no values")
	add(fmt.Sprintf(classic, `selector: {matchExpressions: {key: a, operator: Exists}}%s`), []string{``}, "spec.selector.matchExpressions")
	add(fmt.Sprintf(classic, `pauseRequests: %s`), append(kinds(`[]`, `[a]`), `[7]`), "spec.pauseRequests")
	add(fmt.Sprintf(classic, `%s`), []string{`minHealthy: 51%, maxUnhealthy: 49%`}, "minHealthy and maxUnhealthy exclude each other; remove one of them")
	return append(all, refusedRemediations()...)
}

func refusedRemediations() []refused {
	step := func(order, timeout, template string) string {
		return `{order: ` + order + `, timeout: ` + timeout + `, remediationTemplate: ` + template + `}`
	}
	steps := func(all ...string) string { return `{escalatingRemediations: [` + strings.Join(all, ", ") + `]}` }
	template := func(t string) string { return `{remediationTemplate: ` + t + `}` }
	many := make([]string, 21)
	for i := range many {
		many[i] = step(fmt.Sprint(i), "60s", strings.Replace(fence, "ipmi", fmt.Sprint("ipmi-", i), 1))
	}
	all := []refused{
		{`{remediationTemplate: ` + selfNode + `, escalatingRemediations: [` + step("1", "60s", fence) + `]}`, []string{"remediationTemplate and escalatingRemediations exclude each other; remove one"}},
		{steps(step("1", "60s", fence), step("1", "60s", selfNode)), []string{"spec.escalatingRemediations", "an order of their own, such as 0, 10 and 20"}},
		{steps(step("1", "60s", fence), step("2", "60s", fence)), []string{"spec.escalatingRemediations", "a remediationTemplate of their own", "remove those that are the same"}},
		{steps(many...), []string{"spec.escalatingRemediations", "at most 20"}},
		{steps(`{timeout: 60s, remediationTemplate: ` + fence + `}`), []string{"spec.escalatingRemediations[0].order: Required"}},
		{steps(`{order: 1, remediationTemplate: ` + fence + `}`), []string{"spec.escalatingRemediations[0].timeout: Required"}},
		{steps(`{order: 1, timeout: 60s}`), []string{"spec.escalatingRemediations[0].remediationTemplate: Required"}},
		{steps(step("first", "60s", fence)), []string{"spec.escalatingRemediations[0].order"}},
		{`{maxUnhealthy: 2, remediationTemplate: ` + deletion + `}`, []string{"spec.maxUnhealthy", "MachineDeletionRemediationTemplate", "give minHealthy instead"}},
		{`{maxUnhealthy: 2, escalatingRemediations: [` + step("1", "60s", fence) + `, ` + step("2", "60s", deletion) + `]}`, []string{"spec.maxUnhealthy", "give minHealthy instead"}},
		{template(`{kind: ATemplate, name: a}`), []string{"spec.remediationTemplate.apiVersion: Required"}},
		{template(`{apiVersion: a/v1, name: a}`), []string{"spec.remediationTemplate.kind: Required"}},
		{template(`{apiVersion: a/v1, kind: ATemplate}`), []string{"spec.remediationTemplate.name: Required"}},
		{template(`{apiVersion: a/v1, kind: ATemplate, name: ""}`), []string{"spec.remediationTemplate.name", "at least 1"}},
	}
	for _, timeout := range []string{`59s`, `0s`, `-60s`, `"60"`, `soon`, `""`} {
		all = append(all, refused{steps(step("1", timeout, fence)), []string{"spec.escalatingRemediations[0].timeout", "a duration of at least 60s, such as 300s"}})
	}
	for _, kind := range []string{`SelfNodeRemediation`, `Template`, `""`, `Templates`} {
		all = append(all, refused{template(`{apiVersion: a/v1, kind: ` + kind + `, name: a}`), []string{"spec.remediationTemplate.kind", "end in Template, such as SelfNodeRemediationTemplate"}})
	}
	for _, version := range []string{`v1`, `""`, `a/b/c`, `a/`, `"a b/v1"`} {
		all = append(all, refused{template(`{apiVersion: ` + version + `, kind: ATemplate, name: a}`), []string{"spec.remediationTemplate.apiVersion", "group and version, such as"}})
	}
	return all
}

func (n nodeChecks) wantDefaults() {
	n.t.Helper()
	u := n.nodeCheck("good-0", `{}`)
	n.must("reading it back", n.Get(cluster.Context(n.t), client.ObjectKey{Name: "good-0"}, u))
	key, _, _ := unstructured.NestedSlice(u.Object, "spec", "selector", "matchExpressions")
	conditions, _, _ := unstructured.NestedSlice(u.Object, "spec", "unhealthyConditions")
	if got := fmt.Sprint(key); got != "[map[key:node-role.kubernetes.io/worker operator:Exists]]" {
		n.t.Errorf("the default selector is %s", got)
	}
	if got := fmt.Sprint(conditions); got != "[map[duration:300s status:False type:Ready] map[duration:300s status:Unknown type:Ready]]" {
		n.t.Errorf("the default conditions are %s", got)
	}
}

const underRemediation = `{unhealthyNodes: [{name: b}, {name: a, remediations: [{started: "2026-08-03T12:00:00Z",
  resource: {apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediation, namespace: remediators, name: a}}]}]}`

// lockedChanges are the changes that must wait while a node is under remediation, and the field that the refusal names.
func lockedChanges() map[string]string {
	return map[string]string{
		`spec: {selector: {matchLabels: {pool: b}}}`:                                                        "spec.selector",
		`spec: {remediationTemplate: {name: other}}`:                                                        "spec.remediationTemplate",
		`spec: {escalatingRemediations: [{order: 1, timeout: 60s, remediationTemplate: ` + selfNode + `}]}`: "spec.escalatingRemediations",
	}
}

// TestNodeHealthChecksUnderRemediationAreKept: while a node is under remediation, the API server refuses changes of the
// fields behind it, and a deletion without force. Other changes pass, and all changes pass afterwards.
func TestNodeHealthChecksUnderRemediationAreKept(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	n := nodeChecks{c, t}
	n.busy("kept")
	n.wantLocked("kept", "add a pauseRequest")
	n.must("pausing it", n.merge("kept", `spec: {pauseRequests: [enough], maxUnhealthy: 2, healthyDelay: 5m}`))
	n.must("annotating it", n.merge("kept", `metadata: {annotations: {fettle.io/dry-run: "true"}}`))
	n.must("ending the remediation", n.mergeStatus("kept", `{unhealthyNodes: [{name: a}]}`))
	n.must("changing it afterwards", n.merge("kept", `spec: {selector: {matchLabels: {pool: b}}, remediationTemplate: {name: other}}`))
	n.must("escalating afterwards", n.merge("kept", `spec: {remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 60s, remediationTemplate: `+selfNode+`}]}`))
	n.must("deleting it afterwards", c.Delete(cluster.Context(t), n.nodeCheck("kept", `{}`)))

	n.busy("forced")
	n.must("asking for less than force", n.merge("forced", `metadata: {annotations: {fettle.io/force-delete: "yes"}}`))
	n.wantLocked("forced", "add a pauseRequest")
	n.must("asking for force", n.merge("forced", `metadata: {annotations: {`+annotation.ForceDelete+`: "true"}}`))
	n.must("deleting it by force", c.Delete(cluster.Context(t), n.nodeCheck("forced", `{}`)))
}

// busy makes a health check with a node under remediation.
func (n nodeChecks) busy(name string) {
	n.t.Helper()
	n.must("creating "+name, n.Create(cluster.Context(n.t), n.nodeCheck(name, `{remediationTemplate: `+selfNode+`}`)))
	n.must("giving it a remediation", n.mergeStatus(name, underRemediation))
}

// wantLocked checks that each change and deletion is refused, and that the refusal says why and what to do. An API
// server takes a moment to follow a policy.
func (n nodeChecks) wantLocked(name string, mend string) {
	n.t.Helper()
	remove := func(ctx context.Context) error { return n.Delete(ctx, n.nodeCheck(name, `{}`), client.DryRunAll) }
	n.Eventually(n.t, "refusing to delete "+name, func(ctx context.Context) error {
		if err := remove(ctx); !apierrors.IsForbidden(err) {
			return fmt.Errorf("deletion: %w", err)
		}
		return nil
	})
	n.wantRefused("deletion", remove(cluster.Context(n.t)), "can't be deleted while node a is under remediation", "spec.pauseRequests", annotation.ForceDelete+"=true")
	all := n.DeleteAllOf(cluster.Context(n.t), n.nodeCheck(name, `{}`), client.DryRunAll)
	n.wantRefused("deletion of all", all, "can't be deleted while node a is under remediation")
	for change, field := range lockedChanges() {
		n.wantRefused(change, n.merge(name, change), field, "can't be changed while", "under remediation", "status.unhealthyNodes", mend)
	}
}

// TestNodeHealthChecksOfOthers: another vendor has defined the kind. The policy protects health checks under
// remediation as Fettle's definition does. Controllers can still write the status of objects from that time.
func TestNodeHealthChecksOfOthers(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	theirs := strings.Replace(lenient("remediation.medik8s.io", "v1alpha1", "NodeHealthCheck"), "scope: Namespaced", "scope: Cluster", 1)
	c.Apply(t, theirs)
	c.InstallFettle(t)
	n := nodeChecks{c, t}
	n.busy("kept")
	n.wantLocked("kept", "add an entry to spec.pauseRequests")
	n.must("pausing it", n.merge("kept", `spec: {pauseRequests: [enough]}`))
	n.must("asking for force", n.merge("kept", `metadata: {annotations: {`+annotation.ForceDelete+`: "true"}}`))
	for change, field := range lockedChanges() { // force is for deletion alone
		n.wantRefused(change, n.merge("kept", change), field, "can't be changed while node a is under remediation")
	}
	n.must("deleting it by force", c.Delete(cluster.Context(t), n.nodeCheck("kept", `{}`)))

	old := n.nodeCheck("old", `{selector: {}, minHealthy: 51%, maxUnhealthy: 49%, healthyDelay: soon, escalatingRemediations: [{order: 1, timeout: 1s, remediationTemplate: {kind: a}}]}`)
	n.must("creating what theirs lets through", n.Create(cluster.Context(t), old))
	n.upgradeDefinition()
	n.Eventually(t, "refusing what theirs let through", func(ctx context.Context) error {
		if err := n.Create(ctx, n.nodeCheck("new", `{minHealthy: 51%, maxUnhealthy: 49%}`), client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("want it refused: %w", err)
		}
		return nil
	})
	n.must("writing its status", n.mergeStatus("old", `{observedNodes: 3, phase: Disabled, reason: Test}`))
	n.must("annotating it", n.merge("old", `metadata: {annotations: {a: b}}`))
	n.wantRefused("leaving it wrong", n.merge("old", `spec: {minHealthy: 52%}`), "minHealthy and maxUnhealthy exclude each other")
	n.must("mending it", n.merge("old", `spec: {selector: null, maxUnhealthy: null, healthyDelay: 5m, escalatingRemediations: null, remediationTemplate: `+selfNode+`}`))
}

// upgradeDefinition replaces another vendor's definition of the kind by Fettle's.
func (n nodeChecks) upgradeDefinition() {
	n.t.Helper()
	n.Eventually(n.t, "replacing their definition", func(ctx context.Context) error {
		ours := cluster.Manifest(n.t, cluster.Medik8sCRD)[0]
		theirs := ours.DeepCopy()
		if err := n.Get(ctx, client.ObjectKeyFromObject(ours), theirs); err != nil {
			return err
		}
		ours.SetResourceVersion(theirs.GetResourceVersion())
		return n.Update(ctx, ours)
	})
}
