package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestCommandLineOnNodes: status, explain and check on nodes. No controller runs. The test plays Fettle and the
// remediators, so that each moment of a repair lasts as long as needed.
func TestCommandLineOnNodes(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	for _, u := range append(cluster.Kustomization(t, "config"), cluster.Manifest(t, cluster.Medik8sCRD)...) {
		if u.GetKind() != "Deployment" {
			c.Apply(t, textOf(t, u))
		}
	}
	c.Apply(t, viewers+nodeViewers)
	for kind, names := range map[string]string{"Reboot": "reboots", "RebootTemplate": "reboottemplates", "Fence": "fences", "FenceTemplate": "fencetemplates"} {
		c.Apply(t, strings.NewReplacer("GROUP", "fix.example", "SCOPE", "Namespaced", "KIND", kind, "NAMES", names, "NAME", strings.ToLower(kind)).Replace(madeKinds))
	}
	c.Namespace(t, "remediators")
	f := &machineFixture{Cluster: c, t: t, namespace: "default"}
	f.askBeforeAnything()
	f.template("Reboot")
	f.template("Fence")
	f.askDuringEscalation()
	f.askWhatHoldsNodesBack()
	f.askAboutTheControlPlane()
	f.askAboutNodesWithFewPermissions()
	f.checkFilesOfNodes()
	f.askBesideOddRepairs()
	f.askAboutAMachineAndItsNode()
}

// nodeViewers give the viewer the rights to what surrounds nodes, in two parts. The second user has none of them.
const nodeViewers = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: remediations-view}
rules:
- {apiGroups: [fix.example], resources: [reboots, reboottemplates, fences, fencetemplates], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: remediations-viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: remediations-view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer, namespace: medik8s-leases}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: fettle-view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: fettle-view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: half-viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fettle-view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: half-viewer}]
`

func textOf(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	body, err := u.MarshalJSON()
	if err != nil {
		t.Fatalf("encoding %s: %v", u.GetName(), err)
	}
	return string(body)
}

// poolNode creates a node of a pool, with a Ready condition that is an hour old.
func (f *machineFixture) poolNode(pool, name, ready string, labels map[string]string) {
	f.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": pool}}}
	maps.Copy(n.Labels, labels)
	f.create(n)
	f.poolReady(name, ready)
}

func (f *machineFixture) poolReady(name, ready string) {
	f.t.Helper()
	at := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	f.patchStatus(object("v1", "Node", "", name), map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": ready, "reason": "Test", "message": "set by a test", "lastTransitionTime": at, "lastHeartbeatTime": at,
	}}})
}

// template makes the template of a kind, once the kind is served.
func (f *machineFixture) template(kind string) {
	f.t.Helper()
	f.Apply(f.t, "apiVersion: fix.example/v1\nkind: "+kind+"Template\nmetadata: {name: usual, namespace: remediators}\nspec: {template: {spec: {}}}\n")
}

// poolCheck returns the manifest of a health check of a pool, with lines of a test's own.
func poolCheck(name, pool string, lines ...string) string {
	return "apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck\nmetadata: {name: " + name + "}\nspec:\n" + indent(strings.Join(append([]string{
		"selector: {matchLabels: {pool: " + pool + "}}",
		"maxUnhealthy: 100%",
	}, lines...), "\n"))
}

// twoSteps is a ladder of two remediators.
const twoSteps = `escalatingRemediations:
- {order: 1, timeout: 5m, remediationTemplate: {apiVersion: fix.example/v1, kind: RebootTemplate, namespace: remediators, name: usual}}
- {order: 2, timeout: 10m, remediationTemplate: {apiVersion: fix.example/v1, kind: FenceTemplate, namespace: remediators, name: usual}}`

func oneStep(template string) string {
	return "remediationTemplate: {apiVersion: fix.example/v1, kind: RebootTemplate, namespace: remediators, name: " + template + "}"
}

func (f *machineFixture) uidOfObject(u *unstructured.Unstructured) string {
	f.t.Helper()
	if err := f.Get(cluster.Context(f.t), client.ObjectKeyFromObject(u), u); err != nil {
		f.t.Fatalf("reading %s %s: %v", u.GetKind(), u.GetName(), err)
	}
	return string(u.GetUID())
}

// recorded creates the Repair of a node, as the controller does, and returns its name.
func (f *machineFixture) recorded(check, node string, started time.Time) string {
	f.t.Helper()
	uid := f.uidOfObject(object("v1", "Node", "", node))
	step := func(kind, timeout string) map[string]any {
		return map[string]any{
			"remedy": "RequestNodeRemediation", "nature": "Requests", "timeout": timeout,
			"template": map[string]any{"apiVersion": "fix.example/v1", "kind": kind + "Template", "namespace": "remediators", "name": "usual"},
		}
	}
	r := object("fettle.io/v1alpha1", "Repair", "fettle-system", core.RepairName(core.ID{Kind: "Node", Name: node, UID: uid}, 1))
	r.Object["spec"] = map[string]any{
		"target": map[string]any{"kind": "Node", "name": node, "uid": uid, "node": node},
		"policy": map[string]any{"kind": "NodeHealthCheck", "name": check, "uid": f.uidOfObject(object("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", "", check))},
		"reason": "UnhealthyCondition", "message": "node condition Ready has been Unknown for long", "startedAt": started.UTC().Format(metav1.RFC3339Micro),
		"ladder": []any{step("Reboot", "5m0s"), step("Fence", "10m0s")},
	}
	f.create(r)
	return r.GetName()
}

// requested makes the remediation object of a node, as the controller does.
func (f *machineFixture) requested(kind, check, node string) *unstructured.Unstructured {
	f.t.Helper()
	u := object("fix.example/v1", kind, "remediators", node)
	uid := f.uidOfObject(object("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", "", check))
	u.SetAnnotations(map[string]string{
		"remediation.medik8s.io/node-name": node, "remediation.medik8s.io/template-name": "usual",
		"fettle.io/requested-by-uid": uid,
		"fettle.io/requested-as":     kind + ".fix.example/remediators/" + node + "/" + f.uidOfObject(object("v1", "Node", "", node)),
	})
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "remediation.medik8s.io/v1alpha1", Kind: "NodeHealthCheck", Name: check, UID: types.UID(uid),
	}})
	f.create(u)
	return u
}

// holds makes another holder take the lease of a node for an hour.
func (f *machineFixture) holds(holder, node string) {
	f.t.Helper()
	now, hour := metav1.NowMicro(), int32(3600)
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-" + node}}
	l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: &hour}
	f.create(l)
}

// askBeforeAnything: on a cluster without a Machine API, and without remediators.
func (f *machineFixture) askBeforeAnything() {
	f.wantAnswer("status", "There are no health checks in namespace default.")
	f.poolNode("first", "first-a", "Unknown", nil)
	f.wantAnswer("explain node/first-a", "No NodeHealthCheck selects node first-a.", "Nothing is done to it.")
	f.Apply(f.t, poolCheck("first", "first", oneStep("usual")))
	answer := f.wantAnswer("status", "first", "Disabled", "0/1", "stopped: TemplateUnusable", "template RebootTemplate remediators/usual does not exist; create it")
	if strings.Contains(answer, "does not serve") || strings.Contains(answer, "KIND") {
		f.t.Errorf("that there are no machines is no news:\n%s", answer)
	}
	f.poolNode("none", "lonely", "True", nil)
	f.wantAnswer("explain node/lonely", "The nearest is first, whose selector also requires pool=first.")
	f.poolReady("first-a", "True")
}

// askDuringEscalation: each moment of a repair, from before it to after its end.
func (f *machineFixture) askDuringEscalation() {
	f.poolNode("ladder", "ladder-a", "Unknown", nil)
	f.poolNode("ladder", "ladder-b", "True", nil)
	f.Apply(f.t, poolCheck("ladder", "ladder", twoSteps, "healthyDelay: -1s"))
	f.wantAnswer("explain node/ladder-a", "Lease          free", "1. RebootTemplate remediators/usual, for 5m0s: planned",
		"Now it is left to an outside remediator, by an object that Fettle creates from RebootTemplate remediators/usual.")

	name := f.recorded("ladder", "ladder-a", time.Now())
	f.wantAnswer("explain node/ladder-a", "Repair         "+name, "due since", "Now repair "+name+" calls its remedy: the node is left to an outside remediator")
	f.holds(holderOf("ladder"), "ladder-a")
	reboot := f.requested("Reboot", "ladder", "ladder-a")
	f.answers(reboot, "Processing", "True")
	f.wantAnswer("explain node ladder-a", "Lease          "+holderOf("ladder")+" has it until", "under way since", "times out at",
		"Reboot remediators/ladder-a, made", "from template usual: processing", "step 1 times out, if it is still unhealthy; then step 2 follows, an object made from FenceTemplate remediators/usual")
	f.wantAnswer("explain nodehealthcheck/ladder", "Phase          Remediating", "Selects        2 nodes: 1 healthy, 1 unhealthy", name+": of ladder-a, for UnhealthyCondition, started", "step 1/2 Reboot", "step 1 of ladder-a times out.")
	f.wantAnswer("status", "Remediating", "1/2", "1/2 Reboot", name, "step 1 of ladder-a times out at")
	f.wantAnswer("explain repair/"+name, "Repair         fettle-system/"+name, "Of             node ladder-a", "Phase          Running", "2. FenceTemplate remediators/usual, for 10m0s: planned")
	f.asAProgramOnNodes()

	f.answers(reboot, "Succeeded", "False")
	f.wantAnswer("explain node/ladder-a", "from template usual: failed", "Now step 1 is given up, since the remediator says that it failed; then step 2 follows")
	f.patchStatus(object("fettle.io/v1alpha1", "Repair", "fettle-system", name), map[string]any{"step": 1, "message": "it failed", "steps": []any{
		map[string]any{"outcome": "Failed", "endedAt": time.Now().UTC().Format(metav1.RFC3339Micro), "message": "the remediator says that it failed"},
	}})
	f.requested("Fence", "ladder", "ladder-a")
	f.wantAnswer("explain node/ladder-a", "1. RebootTemplate remediators/usual, for 5m0s: failed", "Fence remediators/ladder-a", "then no step is left")

	f.followTheEndOfANode(name)
}

// followTheEndOfANode: a watch shows that the node is healthy again, that it waits for a user, and what follows.
func (f *machineFixture) followTheEndOfANode(repair string) {
	var out lockedBuffer
	ctx, stop := context.WithCancel(cluster.Context(f.t))
	defer stop()
	cmd := exec.CommandContext(ctx, cluster.Binary(f.t, "fettle"), "explain", "node/ladder-a", "--watch", "-n", f.namespace)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.Kubeconfig())
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		f.t.Fatalf("starting a watch: %v", err)
	}
	says := func(words string) {
		f.t.Helper()
		f.Eventually(f.t, "the watch says "+words, func(context.Context) error {
			if !strings.Contains(out.String(), words) {
				return fmt.Errorf("it says:\n%s", out.String())
			}
			return nil
		})
	}
	says("then no step is left")
	f.poolReady("ladder-a", "True")
	says("kubectl annotate node ladder-a remediation.medik8s.io/manually-confirmed-healthy=true")
	f.annotate(object("v1", "Node", "", "ladder-a"), "remediation.medik8s.io/manually-confirmed-healthy", "true")
	says("is deleted, since the target is healthy again")
	for _, kind := range []string{"Reboot", "Fence"} {
		if err := f.Delete(cluster.Context(f.t), object("fix.example/v1", kind, "remediators", "ladder-a")); err != nil {
			f.t.Fatalf("deleting a remediation object: %v", err)
		}
	}
	says("Now repair " + repair + " ends as Succeeded: the target is healthy again.")
	stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) && !errors.Is(err, context.Canceled) {
		f.t.Errorf("the watch ended with %v", err)
	}
	f.patchStatus(object("fettle.io/v1alpha1", "Repair", "fettle-system", repair), map[string]any{
		"phase": "Succeeded", "message": "the target is healthy again", "finishedAt": time.Now().UTC().Format(time.RFC3339),
	})
	f.wantAnswer("explain repair/"+repair, "Phase          Succeeded", "Nothing is to be done.")
	f.wantAnswer("explain node/ladder-a", "Nothing: it is healthy.", "Succeeded")
}

// answers writes the conditions of a remediation object, as its remediator would.
func (f *machineFixture) answers(u *unstructured.Unstructured, condition, status string) {
	f.t.Helper()
	f.patchStatus(u, map[string]any{"conditions": []any{map[string]any{"type": condition, "status": status}}})
}

// asAProgramOnNodes: the output for programs says the same.
func (f *machineFixture) asAProgramOnNodes() {
	f.t.Helper()
	var e struct {
		Kind    string
		Targets []struct {
			Kind, Name string
			Steps      []struct {
				Remedy, State, Timeout string
				Template               struct{ Kind, Name string }
				Ends                   *time.Time
			}
			Requests []struct{ Kind, Namespace, Name, Processing, Succeeded string }
			Lease    struct {
				Holder string
				Ours   bool
			}
			Lead struct{ HealthCheck struct{ Kind, Name string } }
			Next struct{ At *time.Time }
		}
	}
	out, code := f.ask("explain", "node/ladder-a", "-o", "json")
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != 0 || len(e.Targets) != 1 {
		f.t.Fatalf("exit status %d, %v:\n%s", code, err, out)
	}
	n := e.Targets[0]
	if len(n.Steps) != 2 || n.Steps[0].State != "UnderWay" || n.Steps[0].Ends == nil || n.Steps[1].State != "Planned" || n.Steps[1].Template.Kind != "FenceTemplate" {
		f.t.Errorf("the steps are %+v", n.Steps)
	}
	if len(n.Requests) != 1 || n.Requests[0].Processing != "yes" || n.Requests[0].Succeeded != "unknown" || n.Requests[0].Namespace != "remediators" {
		f.t.Errorf("the requests are %+v", n.Requests)
	}
	if !n.Lease.Ours || n.Lead.HealthCheck.Name != "ladder" || n.Next.At == nil {
		f.t.Errorf("lease %+v, lead %+v, next %+v", n.Lease, n.Lead, n.Next)
	}
}

func (f *machineFixture) askWhatHoldsNodesBack() {
	f.poolNode("held", "held-a", "Unknown", map[string]string{"remediation.medik8s.io/exclude-from-remediation": "true"})
	f.poolNode("held", "held-b", "Unknown", nil)
	f.holds("node-maintenance", "held-b")
	f.Apply(f.t, poolCheck("held", "held", oneStep("usual")))
	f.wantAnswer("explain node/held-a", "Excluded       from repairs", "Excluded (held): its node is excluded from repairs; remove the label")
	f.wantAnswer("explain node/held-b", "Lease          node-maintenance has it until", "LeaseHeld (held): the lease of its node is held by node-maintenance", "opens at", "if it is still unhealthy and no other gate closes")
	f.wantAnswer("explain nhc/held", "Excluded is closed, for 1 (held-a)", "LeaseHeld is closed, for 1 (held-b)", "opens at", "held-b is tried again.")
	f.wantAnswer("status", "Excluded", "LeaseHeld", "held-b is tried again at")
	check := object("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", "", "held")
	f.mergeSpec(check, `{"spec": {"pauseRequests": ["an upgrade"], "maxUnhealthy": "49%"}}`)
	f.wantAnswer("explain node/held-b", "Paused (held)", "TooManyUnhealthy (held): 2 of 2 are not healthy")
	f.wantAnswer("status", "Paused    0/2", "stopped: Paused")
	f.poolReady("held-a", "True")
	f.poolReady("held-b", "True")
}

func (f *machineFixture) mergeSpec(u *unstructured.Unstructured, patch string) {
	f.t.Helper()
	if err := f.Patch(cluster.Context(f.t), u, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		f.t.Fatalf("patching %s: %v", u.GetName(), err)
	}
}

// askAboutTheControlPlane: quorum is read live, and of two members neither can be spared.
func (f *machineFixture) askAboutTheControlPlane() {
	masters := map[string]string{"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/etcd": "true"}
	f.poolNode("masters", "master-a", "Unknown", masters)
	f.poolNode("masters", "master-b", "True", masters)
	f.Apply(f.t, poolCheck("masters", "masters", oneStep("usual")))
	f.wantAnswer("explain node/master-a", "QuorumLost (masters): it belongs to the control plane, whose quorum would not survive while it is out")
	f.poolNode("masters", "master-c", "True", masters)
	f.wantAnswer("explain node/master-a", "Now it is left to an outside remediator")
	f.poolReady("master-a", "True")
}

// askAboutNodesWithFewPermissions: explain reports what the user may read, and names the rest.
func (f *machineFixture) askAboutNodesWithFewPermissions() {
	f.poolNode("seen", "seen-a", "Unknown", nil)
	f.Apply(f.t, poolCheck("seen", "seen", oneStep("usual")))
	f.wantAnswer("explain node/seen-a --as viewer", "Lease          free", "Now it is left to an outside remediator")
	f.wantAnswer("explain node/seen-a --as half-viewer", "Lease          can't tell: you may not list leases in namespace medik8s-leases",
		"Can't tell whether held back by", "you may not list reboots.fix.example", "It is not known whether it is repaired", "unhealthy, node condition Ready=Unknown")
	f.wantAnswer("status --as half-viewer", "The holders of the leases of nodes are not known: you may not list leases", "LeaseHeld?")
	f.poolReady("seen-a", "True")
	f.poolReady("master-a", "Unknown")
	f.wantAnswer("explain node/master-a --as half-viewer", "QuorumUnknown (masters): it is not known whether the cluster's quorum survives while it is out: you may not list resource \"pods\"")
	f.wantAnswer("explain node/master-a --as viewer", "Now it is left to an outside remediator")
	f.poolReady("master-a", "True")
	answer, status := f.ask("status", "--as", "stranger")
	if status != 1 || !strings.Contains(answer, "you lack the permission to list nodehealthchecks.remediation.medik8s.io; an administrator can grant it with the ClusterRole fettle-view") {
		f.t.Errorf("exit status %d:\n%s", status, answer)
	}
}

func (f *machineFixture) checkFilesOfNodes() {
	f.poolNode("files", "files-a", "Unknown", nil)
	f.poolNode("files", "files-b", "True", nil)
	cases := map[string]struct {
		text   string
		args   []string
		status int
		says   []string
	}{
		"it would act":              {poolCheck("new", "files", twoSteps), nil, 0, []string{"The API server would accept it.", "It selects 2 nodes: files-a, files-b. 1 of them is healthy.", "it repairs files-a at once"}},
		"its template is missing":   {poolCheck("new", "files", oneStep("rare")), nil, 0, []string{"warning, line 7: template RebootTemplate remediators/rare does not exist", "it repairs nothing"}},
		"strictly":                  {poolCheck("new", "files", oneStep("rare")), []string{"--strict"}, 1, []string{"--strict"}},
		"its kind is not served":    {strings.ReplaceAll(poolCheck("new", "files", oneStep("usual")), "RebootTemplate", "PrayTemplate"), nil, 0, []string{"the cluster does not serve PrayTemplate (fix.example/v1)"}},
		"templates may not be read": {poolCheck("new", "files", oneStep("usual")), []string{"--as", "half-viewer"}, 0, []string{"it is not known whether it repairs anything", "you may not list reboots.fix.example", "you may not patch it"}},
		"it selects nothing":        {poolCheck("new", "nowhere", oneStep("usual")), nil, 0, []string{"it selects nothing in the cluster"}},
		"it replaces another":       {poolCheck("first", "files", oneStep("usual")), nil, 0, []string{"It replaces the health check of that name."}},
		"it overlaps with another":  {poolCheck("new", "seen", oneStep("usual")), nil, 0, []string{"1 node is selected by health check seen too", "seen, the older, leads it"}},
		"the API server refuses":    {poolCheck("new", "files", oneStep("usual"), "pauseRequests: ["+strings.Repeat("a, ", 100)+"a]"), nil, 1, []string{"the API server would refuse it", "100"}},
		"a slip":                    {strings.Replace(poolCheck("new", "files", twoSteps), "order: 2", "order: 1", 1), nil, 1, []string{"spec.escalatingRemediations[1].order is 1, as that of [0]"}},
	}
	for sentence, tc := range cases {
		answer, status := f.ask(append([]string{"check", f.file(tc.text)}, tc.args...)...)
		for _, words := range tc.says {
			if status != tc.status || !strings.Contains(answer, words) {
				f.t.Errorf("%s: exit status %d, want %d, and %q in:\n%s", sentence, status, tc.status, words, answer)
			}
		}
	}
	f.poolReady("files-a", "True")
	f.checkFileOfWhatExists()
}

// checkFileOfWhatExists: fields that the file no longer has don't remain beside fields that exclude them.
func (f *machineFixture) checkFileOfWhatExists() {
	f.Apply(f.t, strings.Replace(poolCheck("known", "known", oneStep("usual")), "maxUnhealthy: 100%", "minHealthy: 51%", 1))
	for sentence, tc := range map[string]struct {
		text   string
		status int
		says   string
	}{
		"another limit and a ladder": {poolCheck("known", "known", twoSteps), 0, "The API server would accept it."},
		"too much of something":      {poolCheck("known", "known", twoSteps, "pauseRequests: ["+strings.Repeat("a, ", 100)+"a]"), 1, "the API server would refuse it"},
	} {
		if answer, status := f.ask("check", f.file(tc.text)); status != tc.status || !strings.Contains(answer, tc.says) {
			f.t.Errorf("%s: exit status %d, want %d, and %q in:\n%s", sentence, status, tc.status, tc.says, answer)
		}
	}
}

// askBesideOddRepairs: a Repair that a user wrote by hand, without a definition that refuses nonsense, hides nothing.
func (f *machineFixture) askBesideOddRepairs() {
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "repairs.fettle.io")
	f.mergeSpec(definition, `{"spec": {"versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
		"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`)
	f.Eventually(f.t, "making a Repair that is nonsense", func(ctx context.Context) error {
		odd := object("fettle.io/v1alpha1", "Repair", "default", "odd")
		odd.Object["spec"] = map[string]any{"target": "everything", "startedAt": int64(7)}
		return client.IgnoreAlreadyExists(f.Create(ctx, odd))
	})
	f.poolReady("seen-a", "Unknown")
	name := f.recorded("seen", "seen-a", time.Now())
	f.mergeSpec(object("fettle.io/v1alpha1", "Repair", "fettle-system", name), `{"spec": {"retry": "often"}}`)
	f.wantAnswer("status", "Repair default/odd is ignored", "Delete it.", "Repair fettle-system/"+name+" can't be read as a whole", name+"   seen-a")
	f.wantAnswer("explain repair/"+name, "Unreadable", "spec.retry is \"often\" and can't be read", "Phase          Running")
	f.wantAnswer("explain node/seen-a", "Repair         "+name)
}

// askAboutAMachineAndItsNode: where the Machine API comes, a node may be a machine's too, and the older health check
// leads.
func (f *machineFixture) askAboutAMachineAndItsNode() {
	f.ApplyDir(f.t, "sandbox/crd")
	for _, u := range cluster.Manifest(f.t, cluster.OpenShiftCRD) {
		f.Apply(f.t, textOf(f.t, u))
	}
	f.poolNode("both", "both-a", "Unknown", nil)
	f.Apply(f.t, poolCheck("both", "both", oneStep("usual")))
	m := object("machine.openshift.io/v1beta1", "Machine", "default", "machine-a")
	m.SetLabels(map[string]string{"role": "worker"})
	f.Eventually(f.t, "making a machine", func(ctx context.Context) error { return client.IgnoreAlreadyExists(f.Create(ctx, m)) })
	f.patchStatus(m, map[string]any{"phase": "Running", "nodeRef": map[string]any{"kind": "Node", "name": "both-a"}})
	f.wantAnswer("explain node/both-a", "Machine        default/machine-a", "Now it is left to an outside remediator")
	// Creation times are whole seconds, and the machines' health check must be the younger.
	f.Eventually(f.t, "another second", func(context.Context) error {
		u := object("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", "", "both")
		f.uidOfObject(u)
		if created := u.GetCreationTimestamp(); !time.Now().Truncate(time.Second).After(created.Time) {
			return errors.New("it is still the second in which the other was made")
		}
		return nil
	})
	f.healthCheck("both", nil, readyCheck("maxUnhealthy: 100%"))
	f.wantAnswer("explain node/both-a", "Led by         NodeHealthCheck both, which has node both-a repaired instead", "MachineHealthCheck both (NodeHealthCheck both leads): unhealthy", "That is about Node both-a, which has the same node.")
	f.wantAnswer("explain machine/machine-a", "Led by         NodeHealthCheck both")
	f.wantAnswer("status", "NodeHealthCheck      both", "MachineHealthCheck   both")
	f.wantAnswer("explain mhc/both", "NodeHealthCheck both selects 1 of them too (machine-a). It is older", "Now it leads 1 of them, and this one 0.", "1 left to NodeHealthCheck both, which leads")
	f.annotate(f.check("both"), "cluster.x-k8s.io/paused", "")
	f.wantAnswer("explain node/both-a", "Paused (MachineHealthCheck both)", "not repaired until the gates above open")
}
