package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/test/cluster"
)

// furtherCriteria are criteria of an annotation: two conditions together, a reason by pattern, and a missing condition.
// A test can tell its time from the moment of a fault.
const (
	missingFor      = 4 * time.Second
	furtherCriteria = `[
{all: [{type: Ready, status: "False"}, {type: NetworkUnavailable, status: "True"}], for: 1s},
{all: [{type: KernelDeadlock, status: "True", reason: "*Hung"}], for: 1s},
{all: [{type: AgentReady, missing: true}], for: 4s}]`
)

// nodeFixture has nodes whose conditions a test writes.
type nodeFixture struct {
	*cluster.Cluster

	t *testing.T
}

// says writes conditions of a node, by "Type=Status/Reason", as of a while ago.
func (n nodeFixture) says(node string, ago time.Duration, conditions ...string) {
	n.t.Helper()
	at := metav1.NewTime(time.Now().Add(-ago))
	var list []any
	for _, text := range conditions {
		kind, said, _ := strings.Cut(text, "=")
		status, reason, _ := strings.Cut(said, "/")
		list = append(list, corev1.NodeCondition{
			Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status), Reason: reason, LastTransitionTime: at, LastHeartbeatTime: at,
		})
	}
	n.patch(node, list)
}

// lacks removes a condition from a node, and returns when that was.
func (n nodeFixture) lacks(node, kind string) time.Time {
	n.t.Helper()
	at := time.Now()
	n.patch(node, []any{map[string]any{"$patch": "delete", "type": kind}})
	return at
}

func (n nodeFixture) patch(node string, conditions []any) {
	n.t.Helper()
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err == nil {
		u := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		err = n.Status().Patch(cluster.Context(n.t), u, client.RawPatch(types.StrategicMergePatchType, body))
	}
	if err != nil {
		n.t.Fatalf("changing the conditions of node %s: %v", node, err)
	}
}

// TestCriteriaOfAnnotations: criteria of an annotation make machines unhealthy beside the fields, and half a criterion
// does not. After a restart, a time that only memory knew counts anew (I6).
func TestCriteriaOfAnnotations(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	first := c.StartFettle(t)
	f, nodes := newMachineFixture(t, c, "criteria"), nodeFixture{c, t}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		f.machine(name, machineOptions{})
		nodes.says(f.nodeName(name), time.Hour, "Ready=True", "AgentReady=True")
	}
	nodes.says(f.nodeName("a"), time.Hour, "Ready=False")
	nodes.says(f.nodeName("b"), time.Hour, "KernelDeadlock=True/TaskSlow")
	nodes.says(f.nodeName("c"), time.Hour, "KernelDeadlock=True/DockerHung")
	f.healthCheck("example", map[string]string{
		annotation.UnhealthyConditions: furtherCriteria, annotation.NodeGoneDelay: missingFor.String(),
	}, "selector: {matchLabels: {role: worker}}")
	f.wantMachines("a", "b", "d", "e") // half a criterion matches nothing
	f.wantStatus("example", 4, 4, 4, "")
	changed := time.Now()
	nodes.says(f.nodeName("b"), time.Hour, "KernelDeadlock=True/DockerHung") // its status is unchanged
	f.wantMachines("a", "d", "e")
	f.startedAfter("b", changed.Add(time.Second))
	nodes.says(f.nodeName("a"), time.Hour, "NetworkUnavailable=True")
	f.wantMachines("d", "e")
	f.wantReasons("a", "node condition Ready=False and node condition NetworkUnavailable=True since")

	nodes.lacks(f.nodeName("d"), "AgentReady")
	f.wantAnswer("explain machine/d", "suspect, node condition AgentReady has been missing; it is unhealthy 4s after the controller first found that", "at the latest")
	first.Stop(t)
	restarted := time.Now()
	second := c.StartFettle(t)
	f.wantMachines("e")
	f.startedAfter("d", restarted.Add(missingFor))

	gone := time.Now()
	if err := f.Delete(cluster.Context(t), object("v1", "Node", "", f.nodeName("e"))); err != nil {
		t.Fatalf("deleting a node: %v", err)
	}
	f.wantAnswer("explain machine/e", "suspect, the node that the machine refers to no longer exists; it is unhealthy 4s after the controller first found that")
	second.Stop(t)
	restarted = time.Now()
	c.StartFettle(t)
	f.wantMachines()
	f.startedAfter("e", gone.Add(missingFor))
	f.startedAfter("e", restarted.Add(missingFor))
	f.annotate(f.check("example"), annotation.UnhealthyConditions, `[{all: [{type: AgentReady, missing: true}], for: soon}]`)
	reported := f.wantStatus("example", 0, 0, 0, "InvalidSpec")
	if want := `annotation fettle.io/unhealthy-conditions [0].for is "soon"; give a duration above zero, such as 10m`; !strings.Contains(reported.Message, want) {
		t.Errorf("the condition says %q", reported.Message)
	}
}

// startedAfter checks that the repair of a machine did not start before an instant, in whole seconds.
func (f *machineFixture) startedAfter(machine string, at time.Time) {
	f.t.Helper()
	repairs, err := f.repairs(cluster.Context(f.t))
	found := false
	for i := range repairs {
		if r := &repairs[i]; r.Spec.Target.Name == machine {
			found = true
			if r.CreationTimestamp.Time.Before(at.Truncate(time.Second)) {
				f.t.Errorf("the repair of %s started at %s, before %s", machine, r.CreationTimestamp, at)
			}
		}
	}
	if err != nil || !found {
		f.t.Errorf("there is no repair of %s (%v)", machine, err)
	}
}

// wantReasons waits until the repair of a machine has these reasons.
func (f *machineFixture) wantReasons(machine, why string) {
	f.t.Helper()
	f.Eventually(f.t, "the repair of "+machine+" says why", func(ctx context.Context) error {
		repairs, err := f.repairs(ctx)
		for i := range repairs {
			if text := fmt.Sprintf("%+v", repairs[i].Spec); repairs[i].Spec.Target.Name == machine && strings.Contains(text, "UnhealthyConditions") && strings.Contains(text, why) {
				return nil
			}
		}
		return fmt.Errorf("%w: %+v", err, repairs)
	})
}

// criteriaOfAMachine are criteria of an annotation, for Cluster API.
func criteriaOfAMachine(h *clusterFixture) {
	nodes := nodeFixture{h.workload, h.t}
	h.running("a", "b", "c", "d")
	for _, name := range []string{"a", "b", "c", "d"} {
		nodes.says(h.node(name), time.Hour, "AgentReady=True")
	}
	nodes.says(h.node("a"), time.Hour, "KernelDeadlock=True/TaskSlow")
	nodes.says(h.node("b"), time.Hour, "KernelDeadlock=True/DockerHung")
	h.management.Apply(h.t, "apiVersion: "+clusterAPI+"\nkind: MachineHealthCheck\nmetadata:\n  name: check\n  namespace: "+h.namespace+
		"\n  annotations:\n    fettle.io/node-gone-delay: 4s\n    fettle.io/unhealthy-conditions: |\n      "+strings.ReplaceAll(furtherCriteria, "\n", "\n      ")+
		"\nspec: {clusterName: c, selector: {matchLabels: {nodepool: workers}}}\n")
	h.wantMarked("b", "UnhealthyNode")
	h.wantMachine("b", succeeded, "False/UnhealthyNode", "The node condition KernelDeadlock=True with a reason like *Hung for at least 1s")
	h.areUnmarked("a", "c", "d")
	h.fail("c")
	nodes.lacks(h.node("a"), "AgentReady")
	h.wantMarked("a", "UnhealthyNode")
	h.wantMachine("a", succeeded, "False/UnhealthyNode", "The node condition AgentReady has been missing for at least 4s")
	h.areUnmarked("c", "d") // c matches half of a criterion
	nodes.says(h.node("c"), time.Hour, "NetworkUnavailable=True")
	h.wantMarked("c", "UnhealthyNode")
	nodes.says(h.node("b"), time.Hour, "KernelDeadlock=True/TaskSlow")
	h.wantMachine("b", byOwner, "")

	gone := time.Now()
	if err := h.workload.Delete(cluster.Context(h.t), object("v1", "Node", "", h.node("d"))); err != nil {
		h.t.Fatalf("deleting a node: %v", err)
	}
	h.wantAnswer("explain machine/d", "suspect, the node that the machine refers to no longer exists; it is unhealthy 4s after the controller first found that")
	h.wantMarked("d", "NodeDeleted")
	h.requested().startedAfter("d", gone.Add(missingFor))
}

// criteriaOfANode are criteria of an annotation for NodeHealthChecks, beside the conditions of the specification.
func criteriaOfANode(p *pool) {
	nodes := nodeFixture{p.Cluster, p.t}
	p.nodes("a", "b", "c", "d")
	for _, name := range []string{"a", "b", "c", "d"} {
		nodes.says(p.nodeName(name), time.Hour, "AgentReady=True")
	}
	nodes.says(p.nodeName("a"), time.Hour, "KernelDeadlock=True/TaskSlow", "NetworkUnavailable=True")
	p.template(rebooting, "reboot", false)
	p.healthCheck("minHealthy: 0", p.single(rebooting, "reboot"))
	p.annotateCheck(`{"fettle.io/unhealthy-conditions":` + fmt.Sprintf("%q", furtherCriteria) + `}`)
	nodes.says(p.nodeName("b"), time.Hour, "KernelDeadlock=True/DockerHung")
	p.wantObjects("b reboot")
	p.wantNodeStatus("3/4 healthy, Remediating, unhealthy: b[reboot]")
	missing := nodes.lacks(p.nodeName("c"), "AgentReady")
	p.wantObjects("b reboot", "c reboot")
	p.createdBefore("c reboot", missing.Add(missingFor))
	nodes.says(p.nodeName("d"), 0, "Ready=False")
	p.wantObjects("b reboot", "c reboot", "d reboot") // by the conditions of the specification
	nodes.says(p.nodeName("c"), time.Hour, "AgentReady=False")
	nodes.says(p.nodeName("b"), time.Hour, "KernelDeadlock=True/TaskSlow")
	nodes.says(p.nodeName("d"), 0, "Ready=True")
	p.wantObjects()
	p.annotateCheck(`{"fettle.io/unhealthy-conditions":"[{all: [{type: Ready, status: \"False\", reason: (Kube|x)}], for: 5m}]"}`)
	p.wantCondition("Disabled", metav1.ConditionTrue, "")
}
