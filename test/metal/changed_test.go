package metal

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// patchesBMC changes the BMC of a node by a merge patch.
func (p *pool) patchesBMC(name, patch string) {
	p.Helper()
	bmc := &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := p.Patch(cluster.Context(p.T), bmc, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		p.Fatalf("changing BMC %s: %v", name, err)
	}
}

// deletesBMC deletes the BMC of a node.
func (p *pool) deletesBMC(name string) {
	p.Helper()
	if err := p.Delete(cluster.Context(p.T), &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
		p.Fatalf("deleting BMC %s: %v", name, err)
	}
}

// bmcIsChanged: the proof that was found through another address is void, and the workload is no longer released.
func bmcIsChanged(p *pool) {
	var before v1alpha1.BMC
	if err := p.Get(cluster.Context(p.T), client.ObjectKey{Namespace: namespace, Name: p.first()}, &before); err != nil {
		p.Fatalf("reading a BMC: %v", err)
	}
	p.hold(p.first())
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(600)})
	p.waitsFor(p.first(), "WorkloadLeft")
	p.patchesBMC(p.first(), `{"spec":{"address":"redfish://127.0.0.1:1/redfish/v1/Systems/1"}}`)
	p.waitsFor(p.first(), "PowerNotRead")
	p.Eventually(p.T, "service of "+p.first(), func(ctx context.Context) error { return inService(p.node(ctx, p.first())) })
	if r, err := p.remediation(cluster.Context(p.T), p.first()); err != nil || r.Status.VoidProofs != 1 || r.Status.Proof != nil || r.Status.Phase != "PoweringOff" {
		p.Errorf("it is in phase %s with the proof %+v, of which %d were void (%v)", r.Status.Phase, r.Status.Proof, r.Status.VoidProofs, err)
	}
	p.said(p.first(), "BMCChanged")
	p.patchesBMC(p.first(), fmt.Sprintf(`{"spec":{"address":%q}}`, before.Spec.Address))
	p.unhold(p.first())
	p.inPhase(p.first(), "Succeeded")
	p.isAsBefore()
	p.ranTimes(2)
}

// said waits for an event on the remediation of a node.
func (p *pool) said(node, reason string) {
	p.Helper()
	p.Eventually(p.T, "event "+reason, func(ctx context.Context) error {
		var all corev1.EventList
		if err := p.List(ctx, &all, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range all.Items {
			if e := &all.Items[i]; e.Reason == reason && e.InvolvedObject.Kind == "PowerRemediation" && e.InvolvedObject.Name == node {
				return nil
			}
		}
		return errors.New("there is none")
	})
}

// bmcNamesAnotherHost: the host that the BMC named before is powered on again, and proves by its boot that it has stopped.
func bmcNamesAnotherHost(p *pool) {
	third := p.name + "-c"
	p.newNode(third, "baremetalhost")
	p.reports(third, true)
	p.annotates(p.first(), sandboxes+"lag", "10m")
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(600), PowerOnTimeout: seconds(600)})
	p.waitsFor(p.first(), "PowerNotOff")
	p.powerIs(p.first(), "off")
	p.patchesBMC(p.first(), fmt.Sprintf(`{"spec":{"bareMetalHost":{"name":%q}}}`, third))
	p.powerIs(p.first(), "on")
	r := p.inPhase(p.first(), "Succeeded")
	if proof := r.Status.Proof; proof == nil || proof.Kind != "NewBoot" || r.Status.BMC.HostName != third || len(r.Status.FormerHosts) > 0 {
		p.Errorf("the proof is %+v, by %+v, with former hosts %+v", proof, r.Status.BMC, r.Status.FormerHosts)
	}
	for _, name := range []string{p.first(), third} {
		p.powerIs(name, "on")
		p.hasNoAnnotation(name)
	}
	p.isAsBefore()
}

// bmcOfAHostIsDeleted: Fettle powers the host on again that it has had powered off, though no BMC names it any more.
func bmcOfAHostIsDeleted(p *pool) {
	boot := p.node(cluster.Context(p.T), p.first()).Status.NodeInfo.BootID
	p.hold(p.first())
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.waitsFor(p.first(), "WorkloadLeft")
	p.deletesBMC(p.first())
	p.says(p.first(), "Processing=True PowerNotRead", "no BMC names node")
	p.powerIs(p.first(), "off")
	p.ends(p.first())
	p.powerIs(p.first(), "on")
	p.hasNoAnnotation(p.first())
	p.unhold(p.first())
	p.isBack(p.first(), boot)
	p.isAsBefore()
}
