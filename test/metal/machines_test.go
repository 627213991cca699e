package metal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
	"github.com/fettle-io/fettle/test/runs"
)

// machines is the namespace of the machines of these tests.
const machines = "openshift-machine-api"

// TestPowerRemediationOfMachines: a machine whose node no power cycle brings back is deleted, unless it must be kept.
func TestPowerRemediationOfMachines(t *testing.T) {
	t.Parallel()
	s := newSite(t, "--machine-api")
	s.AllowMetal3(t)
	s.StartFettle(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, test := range map[string]func(*pool){
		"replaced":      machineIsReplaced,
		"m3-replaced":   metal3MachineIsReplaced,
		"m3-escalated":  metal3MachineIsEscalated,
		"control-plane": controlPlaneMachineIsKept,
		"master":        masterIsKept,
		"no-controller": machineWithoutControllerIsKept,
		"external":      externallyProvisionedMachineIsKept,
		"quorum":        controlPlaneUnderQuorum,
		"domain":        domainIsStaggered,
	} {
		beside.Run(name, func(t *testing.T) {
			test(&pool{T: t, site: s, name: name})
		})
	}
}

// spec is the part of a manifest by which a machine has a node on a host, with what others gave it.
func (p *pool) spec(labels string) string {
	return fmt.Sprintf(`
      metadata: {annotations: {example.org/keep: annotation}}
      taints: [{key: example.org/keep, effect: PreferNoSchedule}]
      providerSpec: {value: {nodeLabels: {pool: %s, sandbox.fettle.io/host: %s, example.org/keep: label%s}}}`, p.name, cmp.Or(p.kind, "redfish"), labels)
}

// machineSet creates a machine set of one machine. It returns the machine, whose node has a BMC.
func (p *pool) machineSet(role, labels string) *unstructured.Unstructured {
	p.Helper()
	p.Apply(p.T, fmt.Sprintf(`apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: %[1]s, namespace: openshift-machine-api}
spec:
  replicas: 1
  selector: {matchLabels: {set: %[1]s}}
  template:
    metadata: {labels: {set: %[1]s, machine.openshift.io/cluster-api-cluster: test, machine.openshift.io/cluster-api-machine-role: %[2]s}}
    spec:%[3]s
`, p.name, role, p.spec(labels)))
	return p.running("")
}

// running waits until the pool has a machine with a node, other than that UID, and creates its BMC. The machine has the name of the node.
func (p *pool) running(other types.UID) *unstructured.Unstructured {
	p.Helper()
	var found *unstructured.Unstructured
	p.Eventually(p.T, "machine of set "+p.name, func(ctx context.Context) error {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(machineKind("MachineList"))
		if err := p.List(ctx, all, client.InNamespace(machines), client.MatchingLabels{"set": p.name}); err != nil {
			return err
		}
		for i := range all.Items {
			node, _, _ := unstructured.NestedString(all.Items[i].Object, "status", "nodeRef", "name")
			if all.Items[i].GetUID() != other && p.node(ctx, node).Annotations["machine.openshift.io/machine"] != "" {
				found = &all.Items[i]
				return nil
			}
		}
		return fmt.Errorf("none of %d machines has a node", len(all.Items))
	})
	node := p.hosted(found.GetName())
	if p.kind == "baremetalhost" {
		p.metal3BMC(node.Name)
	} else {
		p.bmc(p.Cluster, node, node.Name, nil)
	}
	return found
}

// ofHost creates a BareMetalHost of a machine.
func (p *pool) ofHost(m *unstructured.Unstructured, externally bool) {
	p.Helper()
	p.Apply(p.T, fmt.Sprintf(`apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: %s, namespace: openshift-machine-api}
spec: {online: true, externallyProvisioned: %t}
`, p.name, externally))
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"metal3.io/BareMetalHost":"openshift-machine-api/%s"}}}`, p.name)
	if err := p.Patch(cluster.Context(p.T), m, client.RawPatch(types.MergePatchType, patch)); err != nil {
		p.Fatalf("naming the host of a machine: %v", err)
	}
}

// failsFor has a node hang whose BMC is dead, and a remediation that deletes the machine when that fails.
func (p *pool) failsFor(node string) {
	p.Helper()
	p.faults(node, `{"drops":true}`)
	p.hangs(node)
	p.remediates(node, v1alpha1.PowerRemediationSpec{OnFailure: v1alpha1.DeleteMachineAction, PowerOffTimeout: seconds(15), Retries: new(int32)})
}

// deletions returns the requests of Fettle to delete a machine.
func (p *pool) deletions(name string) []cluster.Request {
	var found []cluster.Request
	for _, r := range p.Requests(p.T) {
		if r.Verb == "delete" && r.Resource == "machines" && r.Name == name {
			found = append(found, r)
		}
	}
	return found
}

// machineIsReplaced: without a proof nothing is released (I13). The machine is deleted once, by its UID (I11), and its set creates another.
func machineIsReplaced(p *pool) {
	m := p.machineSet("worker", "")
	p.ofHost(m, false)
	p.set()
	p.runsOn(m.GetName())
	p.failsFor(m.GetName())
	r := p.inPhase(m.GetName(), "Succeeded")
	if said := conditionsOf(r); !strings.Contains(said, "Succeeded=True MachineDeleted") || r.Status.Proof != nil || r.Status.WorkloadReleased {
		p.Errorf("its conditions are %s, the proof %+v", said, r.Status.Proof)
	}
	p.running(m.GetUID())
	p.ends(m.GetName())
	if all := p.deletions(m.GetName()); len(all) != 1 || all[0].UID != string(m.GetUID()) || all[0].Code/100 != 2 {
		p.Errorf("the deletions of machine %s, whose UID is %s, are %+v", m.GetName(), m.GetUID(), all)
	}
	runs.Check(p.T, p.log)
}

// metal3Machine creates a machine set of one machine, whose host Metal3 powers and reports late, and which hangs.
func (p *pool) metal3Machine() *unstructured.Unstructured {
	p.Helper()
	p.kind = "baremetalhost"
	m := p.machineSet("worker", "")
	p.annotates(m.GetName(), sandboxes+"state", "provisioned")
	p.hasState(m.GetName(), "provisioned")
	p.merges(m.GetName(), `{"spec":{"externallyProvisioned":false}}`)
	host := fmt.Appendf(nil, `{"metadata":{"annotations":{"metal3.io/BareMetalHost":"%s/%s"}}}`, metal3, m.GetName())
	if err := p.Patch(cluster.Context(p.T), m, client.RawPatch(types.MergePatchType, host)); err != nil {
		p.Fatalf("naming the host of a machine: %v", err)
	}
	p.set()
	p.runsOn(m.GetName())
	p.annotates(m.GetName(), sandboxes+"lag", "10m")
	p.hangs(m.GetName())
	return m
}

// isUsable checks that Metal3 powers the host of a deleted machine on again, where its next kubelet registers a node.
func (p *pool) isUsable(m *unstructured.Unstructured) {
	p.Helper()
	p.running(m.GetUID())
	p.Eventually(p.T, "annotation of "+m.GetName(), func(context.Context) error {
		if own := p.annotationOf(m.GetName(), rebootBy+"fettle"); own != "" {
			return fmt.Errorf("it is %s", own)
		}
		return nil
	})
	p.powerIs(m.GetName(), "on")
	runs.Check(p.T, p.log)
}

// metal3MachineIsReplaced: the annotation goes once the machine is gone, so that the next machine on the host does not stay off.
func metal3MachineIsReplaced(p *pool) {
	m := p.metal3Machine()
	p.remediates(m.GetName(), v1alpha1.PowerRemediationSpec{OnFailure: v1alpha1.DeleteMachineAction, PowerOffTimeout: seconds(15), Retries: new(int32)})
	p.powerIs(m.GetName(), "off")
	r := p.inPhase(m.GetName(), "Succeeded")
	if said := conditionsOf(r); !strings.Contains(said, "Succeeded=True MachineDeleted") || r.Status.Proof != nil || r.Status.PoweredOff {
		p.Errorf("its conditions are %s, the proof %+v", said, r.Status.Proof)
	}
	p.hasNoAnnotation(m.GetName())
	p.isUsable(m)
	p.ends(m.GetName())
}

// metal3MachineIsEscalated: the power cycle fails, and the next step of the ladder deletes the machine. The annotation goes with the failed
// remediation.
func metal3MachineIsEscalated(p *pool) {
	m := p.metal3Machine()
	p.Apply(p.T, fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: %[1]s, namespace: fettle-system}
spec: {template: {spec: {powerOffTimeout: 15s, retries: 0}}}
---
apiVersion: fettle.io/v1alpha1
kind: MachineDeletionRemediationTemplate
metadata: {name: %[1]s, namespace: %[2]s}
spec: {template: {spec: {}}}
---
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {pool: %[1]s}}
  minHealthy: 0
  unhealthyConditions: [{type: Ready, status: Unknown, duration: 1s}]
  escalatingRemediations:
  - order: 1
    timeout: 10m
    remediationTemplate: {apiVersion: fettle.io/v1alpha1, kind: PowerRemediationTemplate, name: %[1]s, namespace: fettle-system}
  - order: 2
    timeout: 10m
    remediationTemplate: {apiVersion: fettle.io/v1alpha1, kind: MachineDeletionRemediationTemplate, name: %[1]s, namespace: %[2]s}
`, p.name, machines))
	p.powerIs(m.GetName(), "off")
	p.isUsable(m)
	p.Eventually(p.T, "end of the remediation", func(ctx context.Context) error { return p.noRemediation(ctx, m.GetName()) })
	if all := p.deletions(m.GetName()); len(all) != 1 || all[0].UID != string(m.GetUID()) {
		p.Errorf("the deletions of machine %s, whose UID is %s, are %+v", m.GetName(), m.GetUID(), all)
	}
}

// isKept checks that the remediation of a machine's node fails with a reason and keeps the machine, and that the node is not released.
func (p *pool) isKept(m *unstructured.Unstructured, why string) {
	p.Helper()
	name := m.GetName()
	p.failsFor(name)
	r := p.inPhase(name, "Failed")
	if said := conditionsOf(r); !strings.Contains(said, "Succeeded=False "+why) || !strings.Contains(said, "its workload is held") {
		p.Errorf("its conditions are %s", said)
	}
	p.isNotReleased(name)
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(machineKind("Machine"))
	err := p.Get(cluster.Context(p.T), client.ObjectKeyFromObject(m), now)
	if err != nil || now.GetUID() != m.GetUID() || now.GetDeletionTimestamp() != nil {
		p.Errorf("machine %s is now %s, deleted %v (%v)", name, now.GetUID(), now.GetDeletionTimestamp(), err)
	}
	p.faults(name, "")
	p.ends(name)
	p.isRestored(name)
	if all := p.deletions(name); len(all) > 0 {
		p.Errorf("machine %s was to be kept: %+v", name, all)
	}
}

func controlPlaneMachineIsKept(p *pool) {
	p.isKept(p.machineSet("worker", `, node-role.kubernetes.io/control-plane: ""`), "MachineKeptControlPlane")
}

func masterIsKept(p *pool) { p.isKept(p.machineSet("master", ""), "MachineKeptControlPlane") }

func externallyProvisionedMachineIsKept(p *pool) {
	m := p.machineSet("worker", "")
	p.ofHost(m, true)
	p.isKept(m, "MachineKeptExternallyProvisioned")
}

func machineWithoutControllerIsKept(p *pool) {
	p.Apply(p.T, fmt.Sprintf(`apiVersion: machine.openshift.io/v1beta1
kind: Machine
metadata:
  name: %[1]s
  namespace: openshift-machine-api
  labels: {set: %[1]s, machine.openshift.io/cluster-api-cluster: test, machine.openshift.io/cluster-api-machine-role: worker}
spec:%[2]s
`, p.name, p.spec("")))
	p.isKept(p.running(""), "MachineKeptNoController")
}

// controlPlaneUnderQuorum: two of three members are out, so that neither is fenced (I4). When one of them is back by hand, the other is.
func controlPlaneUnderQuorum(p *pool) {
	names := []string{p.first(), p.second(), p.name + "-c"}
	boots := map[string]string{}
	for _, name := range names {
		p.host(name, nil)
		p.labels(name, `"node-role.kubernetes.io/control-plane":"","node-role.kubernetes.io/etcd":""`)
		boots[name] = p.node(cluster.Context(p.T), name).Status.NodeInfo.BootID
	}
	for _, name := range names[:2] {
		p.hangs(name)
	}
	for _, name := range names[:2] {
		p.Eventually(p.T, "silence of "+name, func(ctx context.Context) error {
			if isReady(p.node(ctx, name)) {
				return errors.New("it is Ready")
			}
			return nil
		})
	}
	p.healthCheck()
	for _, name := range names[:2] {
		p.Eventually(p.T, "refusal for "+name, func(ctx context.Context) error { return p.told(ctx, name, "quorum would not survive") })
	}
	if err := p.noRemediation(cluster.Context(p.T), names...); err != nil {
		p.Errorf("without a quorum: %v", err)
	}
	by := p.second()
	for _, power := range []string{"off", "on"} {
		p.mark(by, "annotations", "power", power)
		p.Eventually(p.T, "power of "+by, func(ctx context.Context) error {
			if got := p.node(ctx, by).Annotations[sandboxes+"host-power"]; got != power {
				return fmt.Errorf("the host is %s", got)
			}
			return nil
		})
	}
	p.isBack(by, boots[by])
	p.isBack(p.first(), boots[p.first()])
	p.Eventually(p.T, "Repair", func(ctx context.Context) error {
		var repairs v1alpha1.RepairList
		if err := p.List(ctx, &repairs); err != nil {
			return err
		}
		for i := range repairs.Items {
			if r := &repairs.Items[i]; r.Spec.Target.Name == p.first() && r.Status.Phase == v1alpha1.RepairSucceeded {
				return nil
			}
		}
		return fmt.Errorf("no Repair of the node has succeeded: %+v", repairs.Items)
	})
	p.Eventually(p.T, "end of the remediation", func(ctx context.Context) error { return p.noRemediation(ctx, names...) })
	for _, name := range names {
		p.isRestored(name)
	}
	if boot := p.node(cluster.Context(p.T), names[2]).Status.NodeInfo.BootID; boot != boots[names[2]] {
		p.Errorf("the host that worked has booted: %s, %s before", boot, boots[names[2]])
	}
}

// labels sets labels of a node, given as JSON without braces.
func (p *pool) labels(node, pairs string) {
	p.Helper()
	n := p.node(cluster.Context(p.T), node)
	if err := p.Patch(cluster.Context(p.T), n, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{`+pairs+`}}}`))); err != nil {
		p.Fatalf("labelling node %s: %v", node, err)
	}
}

// told returns an error unless an event about the node has these words.
func (p *pool) told(ctx context.Context, node, words string) error {
	var events eventsv1.EventList
	if err := p.List(ctx, &events); err != nil {
		return err
	}
	for i := range events.Items {
		e := &events.Items[i]
		names := strings.Contains(e.Note, node) || e.Related != nil && e.Related.Name == node
		if names && strings.Contains(e.Note, words) {
			return nil
		}
	}
	return fmt.Errorf("none of %d events says so", len(events.Items))
}

// noRemediation returns an error if a PowerRemediation is for one of the nodes.
func (p *pool) noRemediation(ctx context.Context, nodes ...string) error {
	var all v1alpha1.PowerRemediationList
	if err := p.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		for _, node := range nodes {
			if strings.HasPrefix(all.Items[i].Name, node) {
				return fmt.Errorf("there is the remediation %s: %s", all.Items[i].Name, conditionsOf(&all.Items[i]))
			}
		}
	}
	return nil
}

func machineKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "machine.openshift.io", Version: "v1beta1", Kind: kind}
}
