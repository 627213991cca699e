package metal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

// quiet is for how long these tests look whether something happens that must not.
const quiet = 4 * time.Second

// newMachineSite starts a cluster on bare metal with machines of OpenShift. Fettle may not power hosts yet.
func newMachineSite(t *testing.T) *site {
	t.Helper()
	s := startSite(t)
	s.InstallFettle(t)
	s.records(t)
	s.Namespace(t, machines)
	s.schedules(t)
	s.neverTwo(t)
	return s
}

// neverTwo checks each revision of each machine until the test ends: none has both the mark for the machine controller and the claim
// of a PowerRemediation. Each of them acts while its annotation stands.
func (s *site) neverTwo(t *testing.T) {
	t.Helper()
	watching, err := client.NewWithWatch(s.Config, client.Options{})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "machine.openshift.io", Version: "v1beta1", Kind: "MachineList"})
	watch, err := watching.Watch(context.Background(), list)
	if err != nil {
		t.Fatalf("watching machines: %v", err)
	}
	ended := make(chan struct{})
	var over atomic.Bool
	go func() {
		defer close(ended)
		for e := range watch.ResultChan() {
			m, is := e.Object.(*unstructured.Unstructured)
			if !is && over.Load() {
				return // a watch that is stopped may end with an error
			}
			if !is {
				t.Errorf("the watch of machines has ended: %v", e.Object)
				return
			}
			_, marked := m.GetAnnotations()[v1beta1.ExternalRemediationAnnotation]
			if by, claimed := m.GetAnnotations()[annotation.ClaimedBy]; marked && claimed {
				s.claims.Store(m.GetName(), by)
			}
		}
	}()
	t.Cleanup(func() {
		over.Store(true)
		watch.Stop()
		<-ended
		s.claims.Range(func(name, by any) bool {
			t.Errorf("machine %s was marked while %s had claimed it", name, by)
			return true
		})
	})
}

// twoAreNoticed: a machine that has both annotations does not go unnoticed.
func twoAreNoticed(p *pool) {
	p.ofMachine()
	both := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"",%q:"a test"}}}`, v1beta1.ExternalRemediationAnnotation, annotation.ClaimedBy)
	if err := p.Patch(cluster.Context(p.T), p.newMachine(), client.RawPatch("application/merge-patch+json", both)); err != nil {
		p.Fatalf("annotating a machine: %v", err)
	}
	p.Eventually(p.T, "the claim of a marked machine", func(context.Context) error {
		if by, _ := p.claims.Load(p.name); by != "a test" {
			return fmt.Errorf("the claim is %v", by)
		}
		return nil
	})
	p.claims.Delete(p.name) // nothing changes the machine any more
}

// machine creates a machine of the first node, which nothing owns, and a health check with the strategy.
func (p *pool) machine(annotations map[string]string) {
	p.Helper()
	p.ofMachine()
	p.isOld(p.first())
	all := map[string]any{v1beta1.RemediationStrategyAnnotation: "external-baremetal"}
	for key, value := range annotations {
		all[key] = value
	}
	p.machineCheckedBy(all, nil)
}

// ofMachine creates a machine of the first node, which nothing owns.
func (p *pool) ofMachine() {
	p.Helper()
	ctx := cluster.Context(p.T)
	m := p.newMachine()
	m.SetLabels(map[string]string{"pool": p.name})
	if err := p.Create(ctx, m); err != nil {
		p.Fatalf("creating a machine: %v", err)
	}
	status := fmt.Appendf(nil, `{"status":{"phase":"Running","nodeRef":{"kind":"Node","name":%q}}}`, p.first())
	if err := p.Status().Patch(ctx, m, client.RawPatch("application/merge-patch+json", status)); err != nil {
		p.Fatalf("writing the status of a machine: %v", err)
	}
	named := fmt.Appendf(nil, `{"metadata":{"annotations":{"machine.openshift.io/machine":%q}}}`, machines+"/"+p.name)
	if err := p.Patch(ctx, p.node(ctx, p.first()), client.RawPatch("application/merge-patch+json", named)); err != nil {
		p.Fatalf("annotating node %s: %v", p.first(), err)
	}
}

// machineCheckedBy creates a health check of the pool's machine, with annotations and more fields of its spec.
func (p *pool) machineCheckedBy(annotations, more map[string]any) {
	p.Helper()
	spec := map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"pool": p.name}},
		"unhealthyConditions": []any{
			map[string]any{"type": "Ready", "status": "Unknown", "timeout": "1s"}, map[string]any{"type": "Ready", "status": "False", "timeout": "1s"},
		},
	}
	maps.Copy(spec, more)
	check := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
		"metadata": map[string]any{"namespace": machines, "name": p.name, "annotations": annotations}, "spec": spec,
	}}
	if err := p.Create(cluster.Context(p.T), check); err != nil {
		p.Fatalf("creating a health check: %v", err)
	}
}

func (p *pool) newMachine() *unstructured.Unstructured {
	m := &unstructured.Unstructured{}
	m.SetAPIVersion("machine.openshift.io/v1beta1")
	m.SetKind("Machine")
	m.SetNamespace(machines)
	m.SetName(p.name)
	return m
}

// hasMark returns an error unless the machine of a pool is marked, or is not.
func (p *pool) hasMark(ctx context.Context, want bool) error {
	m := p.newMachine()
	if err := p.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
		return err
	}
	if _, has := m.GetAnnotations()[v1beta1.ExternalRemediationAnnotation]; has != want {
		return fmt.Errorf("the annotations of the machine are %v", m.GetAnnotations())
	}
	return nil
}

// setMark marks the machine of a pool, or removes the mark.
func (p *pool) setMark(text string) {
	p.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, v1beta1.ExternalRemediationAnnotation, text)
	if err := p.Patch(cluster.Context(p.T), p.newMachine(), client.RawPatch("application/merge-patch+json", patch)); err != nil {
		p.Fatalf("changing the mark: %v", err)
	}
}

// platformActs stands in for the machine controller of the platform. It powers the host of a marked machine off and on, and removes
// the mark at the end.
func (p *pool) platformActs() {
	p.Helper()
	p.Eventually(p.T, "mark of "+p.name, func(ctx context.Context) error { return p.hasMark(ctx, true) })
	boot := p.node(cluster.Context(p.T), p.first()).Status.NodeInfo.BootID
	for _, power := range []string{"off", "on"} {
		p.mark(p.first(), "annotations", "power", power)
		p.Eventually(p.T, "power "+power+" of "+p.first(), func(ctx context.Context) error {
			if got := p.node(ctx, p.first()).Annotations[sandboxes+"host-power"]; got != power {
				return fmt.Errorf("the host is %q", got)
			}
			return nil
		})
	}
	p.isBack(p.first(), boot)
	p.setMark("null")
}

// power returns the PowerRemediation of the machine of a pool.
func (p *pool) power(ctx context.Context) (*v1alpha1.PowerRemediation, error) {
	var r v1alpha1.PowerRemediation
	err := p.Get(ctx, client.ObjectKey{Namespace: machines, Name: p.name}, &r)
	return &r, err
}

// noPower returns an error if the machine of a pool has a PowerRemediation.
func (p *pool) noPower(ctx context.Context) error {
	r, err := p.power(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("there is a PowerRemediation: %s: %s (%w)", r.Status.Phase, conditionsOf(r), err)
}

// powerSays waits until the conditions of the PowerRemediation contain a text.
func (p *pool) powerSays(text string) {
	p.Helper()
	p.Eventually(p.T, text+" for "+p.name, func(ctx context.Context) error {
		r, err := p.power(ctx)
		if err != nil {
			return err
		}
		if said := conditionsOf(r); !strings.Contains(said, text) {
			return errors.New(r.Status.Phase + ": " + said)
		}
		return nil
	})
}

// checkSays waits until the condition RemediationAllowed of the health check contains a text.
func (p *pool) checkSays(text string) {
	p.Helper()
	p.Eventually(p.T, text+" of the health check "+p.name, func(ctx context.Context) error {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("machine.openshift.io/v1beta1")
		u.SetKind("MachineHealthCheck")
		if err := p.Get(ctx, client.ObjectKey{Namespace: machines, Name: p.name}, u); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		if said := fmt.Sprint(conditions...); !strings.Contains(said, text) {
			return fmt.Errorf("the conditions are %s", said)
		}
		return nil
	})
}

// hasEvent waits for an event about the machine of a pool.
func (p *pool) hasEvent(reason string) {
	p.Helper()
	p.Eventually(p.T, "event "+reason+" about "+p.name, func(ctx context.Context) error {
		var events eventsv1.EventList
		if err := p.List(ctx, &events, client.InNamespace(machines)); err != nil {
			return err
		}
		var seen []string
		for i := range events.Items {
			e := &events.Items[i]
			if e.Regarding.Name == p.name && e.Reason == reason {
				return nil
			}
			seen = append(seen, e.Regarding.Name+" "+e.Reason)
		}
		return fmt.Errorf("there are %v", seen)
	})
}

// repaired waits until the Repair of the machine has succeeded, and the PowerRemediation and its claim are gone.
func (p *pool) repaired() {
	p.Helper()
	p.Eventually(p.T, "Repair of "+p.name, func(ctx context.Context) error {
		var repairs v1alpha1.RepairList
		if err := p.List(ctx, &repairs, client.InNamespace(machines)); err != nil {
			return err
		}
		var seen []string
		for i := range repairs.Items {
			r := &repairs.Items[i]
			if r.Spec.Target.Name == p.name && r.Status.Phase == v1alpha1.RepairSucceeded {
				return p.noPower(ctx)
			}
			seen = append(seen, r.Name+" "+string(r.Status.Phase))
		}
		return fmt.Errorf("no Repair has succeeded: %v", seen)
	})
	p.isUnclaimed()
}

func (p *pool) isUnclaimed() {
	p.Helper()
	p.Eventually(p.T, "end of the claim of "+p.name, func(ctx context.Context) error {
		m := p.newMachine()
		if err := p.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if by, claimed := m.GetAnnotations()[annotation.ClaimedBy]; claimed {
			return fmt.Errorf("%s has claimed it", by)
		}
		return nil
	})
}

// byPower are the annotations of a health check whose machines Fettle powers itself.
func byPower(more ...string) map[string]string {
	all := map[string]string{annotation.ExternalBaremetal: "PowerRemediation"}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// TestExternalBaremetal: Fettle carries out the strategy external-baremetal of a health check, or leaves it to the machine
// controller of the platform. Both never act on one machine.
func TestExternalBaremetal(t *testing.T) {
	t.Parallel()
	s := newMachineSite(t)
	s.StartFettle(t)
	powersOnceAllowed(s.newPool(t, "allowed"))
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, test := range map[string]func(*pool){
		"tainted":     powersWithTheTaint,
		"marked":      marksByDefault,
		"left":        leavesMarkedMachines,
		"left-for":    powersAfterAMarkInVain,
		"by-hand":     waitsForTheEndOfAMark,
		"marked-late": waitsForALateMark,
		"marked-gone": waitsThoughTheNodeIsGone,
		"planted":     twoAreNoticed,
	} {
		beside.Run(name, func(t *testing.T) {
			test(s.newPool(t, name))
		})
	}
}

// powersOnceAllowed: without the rights of config/power, nothing begins and the health check says why. With them, the host is
// powered off, its node is deleted, and comes back with all that it had. The pod never ran twice.
func powersOnceAllowed(p *pool) {
	before := p.node(cluster.Context(p.T), p.first())
	p.machine(byPower())
	p.hangs(p.first())
	p.checkSays("kubectl apply -k config/power")
	p.hasEvent("RemediationHeldTemplateUnusable")
	p.Never(p.T, "nothing is begun", quiet, func(ctx context.Context) error {
		return errors.Join(p.noPower(ctx), p.hasMark(ctx, false))
	})
	p.AllowPower(p.T)
	p.powerSays("Processing=True")
	r, err := p.power(cluster.Context(p.T))
	if err != nil || r.Spec.Release != v1alpha1.DeleteNodeRelease || r.Spec.OnFailure != v1alpha1.DeleteMachineAction || r.Spec.Strategy != v1alpha1.RebootStrategy {
		p.Errorf("the spec is %+v (%v)", r.Spec, err)
	}
	if len(r.OwnerReferences) != 1 || r.OwnerReferences[0].Kind != "Machine" || r.OwnerReferences[0].Name != p.name {
		p.Errorf("the owners are %+v", r.OwnerReferences)
	}
	p.runsOn(p.second())
	p.repaired()
	if after := p.node(cluster.Context(p.T), p.first()); after.UID == before.UID || after.UID == "" {
		p.Errorf("the node is %s, and was %s", after.UID, before.UID)
	}
	p.isRestored(p.first())
	p.ranTimes(2)
	if err := p.hasMark(cluster.Context(p.T), false); err != nil {
		p.Error(err)
	}
}

// powersWithTheTaint: the annotation of the health check keeps the node.
func powersWithTheTaint(p *pool) {
	before := p.node(cluster.Context(p.T), p.first())
	p.machine(byPower(annotation.PowerRelease, "Taint"))
	p.hangs(p.first())
	p.runsOn(p.second())
	p.repaired()
	if after := p.node(cluster.Context(p.T), p.first()); after.UID != before.UID {
		p.Errorf("the node is %s, and was %s", after.UID, before.UID)
	}
	p.isRestored(p.first())
	p.ranTimes(2)
}

// marksByDefault: the platform powers the host, and Fettle does not.
func marksByDefault(p *pool) {
	p.machine(nil)
	p.hangs(p.first())
	p.platformActs()
	p.repaired()
	p.isRestored(p.first())
	p.ranAlone()
}

// leavesMarkedMachines: the mark is another's. Fettle waits for its end, and has nothing left to do then.
func leavesMarkedMachines(p *pool) {
	p.machine(byPower())
	p.setMark(`""`)
	p.hangs(p.first())
	p.hasEvent("RemediationHeldAnotherRemediator")
	p.Never(p.T, "it is left to the platform", quiet, p.noPower)
	p.platformActs()
	p.Never(p.T, "nothing is left to do", quiet, p.noPower)
	p.isRestored(p.first())
	p.ranAlone()
}

// powersAfterAMarkInVain: the mark is gone, and the node is not back.
func powersAfterAMarkInVain(p *pool) {
	p.machine(byPower())
	p.setMark(`""`)
	p.hangs(p.first())
	p.hasEvent("RemediationHeldAnotherRemediator")
	p.setMark("null")
	p.runsOn(p.second())
	p.repaired()
	p.isRestored(p.first())
	p.ranTimes(2)
}

// waitsThoughTheNodeIsGone: the machine controller of the platform deletes the node of a marked machine while its host is off. A remediation that
// waits for the end of the mark leaves the host alone until then.
func waitsThoughTheNodeIsGone(p *pool) {
	p.ofMachine()
	p.setMark(`""`)
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.waitsFor(p.first(), "MachineMarked")
	ctx := cluster.Context(p.T)
	n := p.node(ctx, p.first())
	p.mark(p.first(), "annotations", "power", "off")
	p.powerIs(p.first(), "off")
	if err := p.Delete(ctx, n); err != nil {
		p.Fatalf("deleting node %s: %v", p.first(), err)
	}
	p.Never(p.T, "it is left to the platform", quiet, func(ctx context.Context) error {
		r, err := p.remediation(ctx, p.first())
		if err == nil && r.Status.Phase != "" {
			return fmt.Errorf("it is in phase %s", r.Status.Phase)
		}
		return err
	})
	if commands := p.resets(p.T, p.first()); len(commands) > 0 {
		p.Errorf("the BMC got the commands %v", commands)
	}
	p.setMark("null")
	p.inPhase(p.first(), "Succeeded")
	p.isBack(p.first(), n.Status.NodeInfo.BootID)
	p.isUnclaimed()
	p.ends(p.first())
	p.ranAlone()
}

// waitsForTheEndOfAMark: a user creates a remediation for a node whose machine is marked.
func waitsForTheEndOfAMark(p *pool) {
	p.machine(nil)
	p.hangs(p.first())
	p.Eventually(p.T, "mark", func(ctx context.Context) error { return p.hasMark(ctx, true) })
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.waitsFor(p.first(), "MachineMarked")
	p.platformActs()
	p.Eventually(p.T, "end of the wait", func(ctx context.Context) error {
		r, err := p.remediation(ctx, p.first())
		if err != nil {
			return err
		}
		if said := conditionsOf(r); r.Status.Phase != "" || !strings.Contains(said, "Succeeded=False RemediationCannotStart") {
			return errors.New(r.Status.Phase + said)
		}
		return nil
	})
	p.ends(p.first())
	p.isRestored(p.first())
	p.ranAlone()
}

// waitsForALateMark: while a remediation by hand works on the host, the health check marks nothing.
func waitsForALateMark(p *pool) {
	p.machine(nil)
	p.isOld(p.first())
	p.faults(p.first(), `{"staysPoweringOff":true}`)
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(600)})
	p.waitsFor(p.first(), "PowerNotOff")
	p.ranTimes(2) // the taint has evicted the pod, and its kubelet has ended it
	p.hangs(p.first())
	p.hasEvent("RemediationHeldAnotherRemediator")
	p.Never(p.T, "it is claimed", quiet, func(ctx context.Context) error { return p.hasMark(ctx, false) })
	p.faults(p.first(), "")
	p.inPhase(p.first(), "Succeeded")
	p.isUnclaimed()
	p.ends(p.first())
	p.isRestored(p.first())
	p.ranTimes(2)
}

// TestExternalBaremetalChanges: another replica, which has the other setting, takes over in the middle of a repair.
func TestExternalBaremetalChanges(t *testing.T) {
	t.Parallel()
	s := newMachineSite(t)
	s.AllowPower(t)
	replica := func(way string) *cluster.Fettle {
		return s.StartFettle(t, "--leader-elect", "--leader-elect-lease-duration=12s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=1s", "--external-baremetal="+way)
	}
	leading := replica("Mark")
	marked := s.newPool(t, "changes-a")
	marked.machine(nil)
	marked.hangs(marked.first())
	marked.Eventually(t, "mark", func(ctx context.Context) error { return marked.hasMark(ctx, true) })

	// The repair began with the mark, and goes on so.
	next := replica("PowerRemediation")
	leading.Kill(t)
	powered := s.newPool(t, "changes-b")
	powered.machine(nil)
	powered.faults(powered.first(), `{"staysPoweringOff":true}`)
	powered.hangs(powered.first())
	powered.powerSays("Processing=True PowerNotOff")
	marked.Never(t, "the platform has the machine", quiet, func(ctx context.Context) error {
		return errors.Join(marked.noPower(ctx), marked.hasMark(ctx, true))
	})
	marked.platformActs()
	marked.repaired()
	marked.ranAlone()

	// The repair began with a PowerRemediation, and goes on so, also without its record.
	replica("Mark")
	next.Kill(t)
	other := s.newPool(t, "changes-c")
	other.machine(nil)
	other.hangs(other.first())
	other.Eventually(t, "mark by the next leader", func(ctx context.Context) error { return other.hasMark(ctx, true) })
	powered.Never(t, "Fettle has the machine", quiet, func(ctx context.Context) error { return powered.hasMark(ctx, false) })
	var repairs v1alpha1.RepairList
	if err := s.List(cluster.Context(t), &repairs, client.InNamespace(machines)); err != nil {
		t.Fatalf("listing Repairs: %v", err)
	}
	for i := range repairs.Items {
		if r := &repairs.Items[i]; r.Spec.Target.Name == powered.name {
			if err := s.Delete(cluster.Context(t), r); err != nil {
				t.Fatalf("deleting a Repair: %v", err)
			}
		}
	}
	powered.hasEvent("RemediationHeldAnotherRemediator")
	powered.Never(t, "it is claimed", quiet, func(ctx context.Context) error { return powered.hasMark(ctx, false) })
	powered.faults(powered.first(), "")
	powered.powerSays("Succeeded=True NodeIsBack")
	powered.isUnclaimed()
	powered.isRestored(powered.first())
	powered.ranTimes(2)
}
