package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestRepairByHand: by fettle repair, a user requests repairs of machines and nodes that no criterion finds unhealthy.
// All gates hold. One request leads to one repair, also after a restart. The tests play the remediators.
func TestRepairByHand(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.InstallRemediators(t)
	c.Apply(t, viewers+byHandUsers)
	process := c.StartFettle(t)
	t.Run("machine", func(t *testing.T) { repairMachineByHand(newMachineFixture(t, c, "hand-machine")) })
	t.Run("marked", func(t *testing.T) { repairMarkedMachineByHand(newMachineFixture(t, c, "hand-marked")) })
	p := newPool(t, c, "hand-nodes")
	t.Run("node", func(t *testing.T) { repairNodeByHand(&pool{p.in(t)}) })
	process.Stop(t)
	c.StartFettle(t)
	t.Run("restart", func(t *testing.T) { restartAfterARepairByHand(&pool{p.in(t)}) })
}

// byHandUsers are a user who may see all, and annotate nodes and machines, and delete neither.
const byHandUsers = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: annotator}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, patch]}
- {apiGroups: [machine.openshift.io], resources: [machines], verbs: [get, list, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: annotator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: annotator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: annotator}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: annotator-views}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fettle-view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: annotator}]
`

// wantNoRepair requests a repair that is refused.
func (f *machineFixture) wantNoRepair(question string, words ...string) {
	f.t.Helper()
	answer, status := f.ask(strings.Fields(question)...)
	for _, w := range words {
		if status != 1 || !strings.Contains(answer, w) {
			f.t.Errorf("fettle %s: exit status %d; it does not say %q:\n%s", question, status, w, answer)
		}
	}
}

// wantRequest requests a repair once.
func (f *machineFixture) wantRequest(question string, words ...string) {
	f.t.Helper()
	answer, status := f.ask(strings.Fields(question)...)
	for _, w := range words {
		if status != 0 || !strings.Contains(answer, w) {
			f.t.Errorf("fettle %s: exit status %d; it does not say %q:\n%s", question, status, w, answer)
		}
	}
}

// repairMachineByHand: a paused health check holds the request back, and the user may withdraw it.
func repairMachineByHand(f *machineFixture) {
	for _, name := range []string{"a", "b", "c"} {
		f.machine(name, machineOptions{})
	}
	f.machine("other", machineOptions{labels: map[string]string{"role": "infra"}})
	f.healthCheck("example", map[string]string{v1beta1.PausedAnnotation: ""}, readyCheck("maxUnhealthy: 1"))
	f.wantStatus("example", 3, 3, 0, "Paused")
	f.wantNoRepair("repair machine/other", "no health check selects it", "role=worker")
	f.wantNoRepair("repair machine/none", "there is no machine none in namespace hand-machine")
	f.wantNoRepair("repair machine/a --as viewer", "no repair of Machine", "was requested", "get, patch and delete", "cannot patch resource")
	f.wantNoRepair("repair machine/a --as annotator", "you may not delete machines.machine.openshift.io", "have an administrator")
	f.wantRequest("repair machine/a --dry-run", "Nothing was written.", "Paused (example)", "Gates of MachineHealthCheck hand-machine/example", "TooManyUnhealthy is open")
	f.wantRequested(object("machine.openshift.io/v1beta1", "Machine", f.namespace, "a"), false)

	f.wantRequest("repair machine/a", "Requested a repair of machine hand-machine/a", "Paused (example)", "lapses at", "kubectl annotate -n hand-machine machines.machine.openshift.io a fettle.io/repair-requested-at-")
	f.wantStatus("example", 2, 3, 0, "Paused")
	f.wantAnswer("explain machine/a", "Requested      by a person at", "a user requested its repair at")
	f.annotate(object("machine.openshift.io/v1beta1", "Machine", f.namespace, "a"), annotation.RepairRequestedAt, nil)
	f.wantStatus("example", 3, 3, 0, "Paused")

	f.annotate(f.check("example"), v1beta1.PausedAnnotation, nil)
	f.wantRequest("repair node/"+f.nodeName("b"), "Requested a repair of machine hand-machine/b", "it is deleted, and its owner makes a new machine")
	f.wantMachines("a", "c", "other")
	f.wantRepairs("b Succeeded")
	f.wantNoRepair("repair machine/b", "there is no machine b any more", "fettle explain repair/b-")
}

// repairMarkedMachineByHand: a remediator takes a marked machine, and removes the mark. Fettle does not mark it again.
func repairMarkedMachineByHand(f *machineFixture) {
	f.machine("a", machineOptions{})
	f.machine("b", machineOptions{})
	f.healthCheck("example", map[string]string{"machine.openshift.io/remediation-strategy": "external-baremetal"}, readyCheck())
	f.wantStatus("example", 2, 2, 2, "")
	f.wantRequest("repair machine/a", "Requested a repair of machine hand-marked/a")
	f.wantRepairs("a Running")
	machine := object("machine.openshift.io/v1beta1", "Machine", f.namespace, "a")
	f.Eventually(f.t, "the machine is handed over", func(ctx context.Context) error {
		return f.isAnnotated(ctx, machine, "host.metal3.io/external-remediation")
	})
	f.wantNoRepair("repair machine/a", "is under way; fettle explain repair/a-")
	f.annotate(machine, "host.metal3.io/external-remediation", nil)
	f.wantRepairs("a Succeeded")
	f.wantStatus("example", 2, 2, 2, "")
	f.wantRequest("repair machine/b", "Requested a repair of machine hand-marked/b") // by then Fettle has judged both
	f.wantRepairs("a Succeeded", "b Running")
}

// repairNodeByHand: the remediation object stays until the remediator says that it has succeeded.
func repairNodeByHand(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck(p.single(rebooting, "reboot"), "maxUnhealthy: 1")
	p.wantNodeStatus("3/3 healthy, Enabled, unhealthy:")
	p.wantNoRepair("repair node/"+p.nodeName("a")+" --as annotator", "you may not delete nodes", "ask a user who has it")
	p.wantNoRepair("repair node/none", "there is no node none")
	p.wantRequest("repair node/"+p.nodeName("a"), "Requested a repair of node "+p.nodeName("a"), "Gates of NodeHealthCheck "+p.namespace, "left to an outside remediator")
	p.wantObjects("a reboot")
	p.say("a reboot", "Processing=True")
	p.recovers("a") // a restarted node turns Ready while its remediator works
	p.wantAnswer("explain node/"+p.nodeName("a"), "it counts until its repair has done its work", "processing")
	p.keep("a reboot")
	p.say("a reboot", "Processing=False", "Succeeded=True")
	p.wantObjects("-a reboot")
	p.letGo("-a reboot")
	p.wantObjects()
	p.nothingIsLeft("a", "3/3")
	p.wantNodeRepairs("a Succeeded")
	p.wantAnswer("explain node/"+p.nodeName("a"), "a repair has served it", "Nothing: it is healthy.")
	p.wantRequested(object("v1", "Node", "", p.nodeName("a")), true)
}

// restartAfterARepairByHand: the annotation is still there, and counts no more.
func restartAfterARepairByHand(p *pool) {
	p.wantRequested(object("v1", "Node", "", p.nodeName("a")), true)
	p.wantAnswer("explain node/"+p.nodeName("a"), "a repair has served it", "Nothing: it is healthy.")
	p.wantRequest("repair node/"+p.nodeName("b"), "Requested a repair of node "+p.nodeName("b"))
	p.wantObjects("b reboot") // so the new process has judged all nodes
	p.wantNodeRepairs("a Succeeded", "b Running")
	p.change(object("v1", "Node", "", p.nodeName("b")), `{"metadata":{"annotations":{"`+annotation.RepairRequestedAt+`":null}}}`)
	p.wantObjects()
	for _, nonsense := range []string{"now", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)} {
		p.change(object("v1", "Node", "", p.nodeName("c")), `{"metadata":{"annotations":{"`+annotation.RepairRequestedAt+`":"`+nonsense+`"}}}`)
		p.wantAnswer("explain node/"+p.nodeName("c"), "so it does not count", "Nothing: it is healthy.")
	}
	p.wantNodeRepairs("a Succeeded", "b Succeeded")
}

// wantRequested checks whether the annotation of a request is there.
func (f *machineFixture) wantRequested(u *unstructured.Unstructured, want bool) {
	f.t.Helper()
	if err := f.isAnnotated(cluster.Context(f.t), u, annotation.RepairRequestedAt); (err == nil) != want {
		f.t.Errorf("want a request %t: %v", want, err)
	}
}

func (f *machineFixture) isAnnotated(ctx context.Context, u *unstructured.Unstructured, key string) error {
	if err := f.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return err
	}
	if _, has := u.GetAnnotations()[key]; !has {
		return fmt.Errorf("%s has no annotation %s", u.GetName(), key)
	}
	return nil
}
