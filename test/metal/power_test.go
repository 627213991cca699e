package metal

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestPowerRemediation: the reports that users see of a fencing, with BMCs that work and that fail.
func TestPowerRemediation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.StartFettle(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, test := range map[string]func(*pool){
		"cycle":        powerCycle,
		"delete-node":  nodeIsDeleted,
		"off":          hostStaysOff,
		"dead":         bmcIsDead,
		"refuses":      credentialsAreRefused,
		"already-off":  hostIsOffAlready,
		"off-by-ipmi":  hostIsOffAlreadyByIPMI,
		"by-hand":      personPowersOn,
		"no-bmc":       noBMC,
		"one-address":  twoBMCsOfOneAddress,
		"two":          twoRemediationsOfOneNode,
		"out-already":  outOfServiceBefore,
		"health-check": healthCheck,
		"ipmi":         powerCycleByIPMI,
		"changed":      bmcIsChanged,
	} {
		beside.Run(name, func(t *testing.T) {
			test(s.newPool(t, name))
		})
	}
}

// powerCycle: the pod moves once the host is off, and the node comes back with all that it had.
func powerCycle(p *pool) {
	boot := p.node(cluster.Context(p.T), p.first()).Status.NodeInfo.BootID
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.runsOn(p.second())
	r := p.inPhase(p.first(), "Succeeded")
	if proof := r.Status.Proof; proof == nil || proof.Kind != "PowerOff" || r.Status.Node.BootID != boot {
		p.Errorf("the evidence is %+v of node %+v, want a host that was off after boot %s", proof, r.Status.Node, boot)
	}
	if said := conditionsOf(r); !strings.Contains(said, "Succeeded=True NodeIsBack") || !strings.Contains(said, "Processing=False") {
		p.Errorf("its conditions are %s", said)
	}
	p.isBack(p.first(), boot)
	p.isRestored(p.first())
	p.ends(p.first())
	p.isRestored(p.first())
	p.ranTimes(2)
}

// nodeIsDeleted: the node is deleted in place of the taint, and has all that it had once it has registered again.
func nodeIsDeleted(p *pool) {
	before := p.node(cluster.Context(p.T), p.first())
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{Release: v1alpha1.DeleteNodeRelease})
	p.runsOn(p.second())
	p.inPhase(p.first(), "Succeeded")
	if after := p.node(cluster.Context(p.T), p.first()); after.UID == before.UID || after.UID == "" {
		p.Errorf("the node is %s, and was %s", after.UID, before.UID)
	}
	p.isRestored(p.first())
	p.ends(p.first())
	p.ranTimes(2)
}

// hostStaysOff: the strategy PowerOff leaves the host off.
func hostStaysOff(p *pool) {
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{Strategy: v1alpha1.OffStrategy})
	p.runsOn(p.second())
	r := p.inPhase(p.first(), "Succeeded")
	if said := conditionsOf(r); !strings.Contains(said, "Succeeded=True HostIsOff") {
		p.Errorf("its conditions are %s", said)
	}
	p.Eventually(p.T, "service of "+p.first(), func(ctx context.Context) error { return inService(p.node(ctx, p.first())) })
	p.ends(p.first())
	if n := p.node(cluster.Context(p.T), p.first()); n.Annotations[sandboxes+"host-power"] != "off" {
		p.Errorf("the host is %s", n.Annotations[sandboxes+"host-power"])
	}
	p.ranTimes(2)
}

// bmcIsDead: without a proof nothing is released, and what was changed is changed back in the end (I13).
func bmcIsDead(p *pool) {
	p.hangs(p.first())
	p.faults(p.first(), `{"hangs":true}`)
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(15), Retries: new(int32)})
	r := p.inPhase(p.first(), "Failed")
	if said := conditionsOf(r); !strings.Contains(said, "Succeeded=False PowerOffTimedOut") || !strings.Contains(said, "no proof") {
		p.Errorf("its conditions are %s", said)
	}
	p.isNotReleased(p.first())
	p.faults(p.first(), "")
	p.ends(p.first())
	p.isRestored(p.first())
	p.ranTimes(1)
}

// credentialsAreRefused: after two refused logins the BMC is left alone, and correct credentials are used at once.
func credentialsAreRefused(p *pool) {
	ctx := cluster.Context(p.T)
	set := func(value string) {
		p.Helper()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.first()}}
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"stringData":{"password":%q}}`, value))
		if err := p.Patch(ctx, secret, patch); err != nil {
			p.Fatalf("changing the Secret: %v", err)
		}
	}
	p.Eventually(p.T, "first probe", func(ctx context.Context) error { return p.reachable(ctx, p.first(), "True") })
	set(refusedPassword)
	p.faults(p.first(), `{"sessionUses":1}`)
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(120)})
	var bmc v1alpha1.BMC
	p.Eventually(p.T, "hold", func(ctx context.Context) error {
		if err := p.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.first()}, &bmc); err != nil {
			return err
		}
		if bmc.Status.AuthenticationHeldUntil == nil || bmc.Status.RefusedLogins != 2 {
			return fmt.Errorf("the status is %+v", bmc.Status)
		}
		return nil
	})
	p.faults(p.first(), "")
	p.waitsFor(p.first(), "PowerNotRead")
	set(password)
	p.inPhase(p.first(), "Succeeded")
	p.ends(p.first())
	p.ranTimes(2)
}

func (p *pool) reachable(ctx context.Context, name, status string) error {
	var bmc v1alpha1.BMC
	if err := p.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &bmc); err != nil {
		return err
	}
	for _, c := range bmc.Status.Conditions {
		if string(c.Status) == status {
			return nil
		}
	}
	return fmt.Errorf("BMC %s has the conditions %+v", name, bmc.Status.Conditions)
}

// hostIsOffAlready: the BMC refuses to turn off a host that is off, which is no failure.
func hostIsOffAlready(p *pool) {
	p.faults(p.first(), `{"alreadyOff":409}`)
	p.fencesHostThatIsOff()
}

// hostIsOffAlreadyByIPMI: the same by IPMI, which has the completion code 0xD5 for that.
func hostIsOffAlreadyByIPMI(p *pool) {
	p.byIPMI(p.first())
	p.faults(p.first(), `{"refusesSameState":true}`)
	p.fencesHostThatIsOff()
}

// fencesHostThatIsOff has the node of a host fenced that a person has powered off.
func (p *pool) fencesHostThatIsOff() {
	p.Helper()
	p.mark(p.first(), "annotations", "power", "off")
	p.Eventually(p.T, "power of "+p.first(), func(ctx context.Context) error {
		if n := p.node(ctx, p.first()); n.Annotations[sandboxes+"host-power"] != "off" || isReady(n) {
			return errors.New("the host is on, or the node Ready")
		}
		return nil
	})
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.inPhase(p.first(), "Succeeded")
	p.isRestored(p.first())
	p.ranTimes(2)
}

// personPowersOn: a user powers the host on while its workload is released. The taint goes, and the pod never runs twice.
func personPowersOn(p *pool) {
	p.hold(p.first())
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.waitsFor(p.first(), "WorkloadLeft")
	p.mark(p.first(), "annotations", "power", "on")
	p.Eventually(p.T, "service of "+p.first(), func(ctx context.Context) error { return inService(p.node(ctx, p.first())) })
	p.inPhase(p.first(), "Succeeded")
	p.unhold(p.first())
	p.isRestored(p.first())
	p.ends(p.first())
	p.runs()
	p.ranTimes(2)
}

// hold keeps the pod of the pool on a node after its eviction, as a controller with a finalizer does.
func (p *pool) hold(string) { p.setPodFinalizers(`["example.org/hold"]`) }

func (p *pool) unhold(string) { p.setPodFinalizers("null") }

func (p *pool) setPodFinalizers(list string) {
	p.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.name + "-0"}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"finalizers":%s}}`, list))
	if err := client.IgnoreNotFound(p.Patch(cluster.Context(p.T), pod, patch)); err != nil {
		p.Fatalf("changing the finalizers of a pod: %v", err)
	}
}

// noBMC: the health checker learns at once that the remediation can't start.
func noBMC(p *pool) {
	ctx := cluster.Context(p.T)
	if err := p.Delete(ctx, &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.first()}}); err != nil {
		p.Fatalf("deleting a BMC: %v", err)
	}
	elsewhere := &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.first()}, Spec: v1alpha1.BMCSpec{NodeName: p.first(), Address: "ipmi://192.0.2.1", CredentialsName: "x"}}
	if err := p.Create(ctx, elsewhere); err != nil {
		p.Fatalf("creating a BMC elsewhere: %v", err)
	}
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.refused("RemediationCannotStartNoBMC")
}

// refused waits until the remediation of the first node says that it can't start, and has done nothing.
func (p *pool) refused(reason string) {
	p.Helper()
	p.Eventually(p.T, "refusal", func(ctx context.Context) error {
		r, err := p.remediation(ctx, p.first())
		if err != nil {
			return err
		}
		if !strings.Contains(conditionsOf(r), "Succeeded=False "+reason) || r.Status.Phase != "" || len(r.Finalizers) > 0 {
			return errors.New(r.Status.Phase + conditionsOf(r))
		}
		return nil
	})
	p.isRestored(p.first())
	p.ends(p.first())
	p.ranTimes(1)
}

// twoBMCsOfOneAddress: it is not known whose host is at that address, so none is powered off.
func twoBMCsOfOneAddress(p *pool) {
	var bmc v1alpha1.BMC
	ctx := cluster.Context(p.T)
	if err := p.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.first()}, &bmc); err != nil {
		p.Fatalf("reading a BMC: %v", err)
	}
	other := &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.name + "-c"}, Spec: bmc.Spec}
	other.Spec.NodeName = p.name + "-c"
	if err := p.Create(ctx, other); err != nil {
		p.Fatalf("creating a BMC: %v", err)
	}
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.refused("RemediationCannotStartAmbiguousBMC")
}

// twoRemediationsOfOneNode: the second waits until the first has ended.
func twoRemediationsOfOneNode(p *pool) {
	p.hangs(p.first())
	p.faults(p.first(), `{"staysPoweringOff":true}`)
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(600)})
	p.waitsFor(p.first(), "PowerNotOff")
	p.isOld(p.first())
	second := &v1alpha1.PowerRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "second", Annotations: map[string]string{v1alpha1.NodeNameAnnotation: p.first()}}}
	if err := p.Create(cluster.Context(p.T), second); err != nil {
		p.Fatalf("creating another remediation: %v", err)
	}
	at := client.ObjectKeyFromObject(second)
	p.Eventually(p.T, "wait of the second", func(ctx context.Context) error {
		if err := p.Get(ctx, at, second); err != nil {
			return err
		}
		if said := conditionsOf(second); !strings.Contains(said, "AnotherRemediation") || second.Status.Phase != "" {
			return errors.New(said)
		}
		return nil
	})
	p.faults(p.first(), "")
	p.ends(p.first())
	p.Eventually(p.T, "end of the second", func(ctx context.Context) error {
		if err := p.Get(ctx, at, second); err != nil {
			return err
		}
		if said := conditionsOf(second); second.Status.Phase != "Succeeded" && !strings.Contains(said, "RemediationCannotStartFencedMeanwhile") {
			return errors.New(second.Status.Phase + said)
		}
		return nil
	})
	p.isRestored(p.first())
}

// outOfServiceBefore: a taint of others stands as it did before.
func outOfServiceBefore(p *pool) {
	p.hangs(p.first())
	p.Eventually(p.T, "taint of others on "+p.first(), func(ctx context.Context) error {
		n := p.node(ctx, p.first())
		if isReady(n) {
			return errors.New("it is Ready")
		}
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "others", Effect: corev1.TaintEffectNoSchedule})
		return p.Update(ctx, n)
	})
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.inPhase(p.first(), "Succeeded")
	p.ends(p.first())
	kept := false
	for _, taint := range p.node(cluster.Context(p.T), p.first()).Spec.Taints {
		kept = kept || taint.Key == corev1.TaintNodeOutOfService && taint.Value == "others"
	}
	if !kept {
		p.Error("the taint of others is gone")
	}
}

// healthCheck: a NodeHealthCheck of Fettle has a node fenced, and the Repair ends.
func healthCheck(p *pool) {
	p.healthCheck()
	boot := p.node(cluster.Context(p.T), p.first()).Status.NodeInfo.BootID
	p.hangs(p.first())
	p.runsOn(p.second())
	p.isBack(p.first(), boot)
	repair := &v1alpha1.Repair{}
	p.Eventually(p.T, "Repair", func(ctx context.Context) error {
		var repairs v1alpha1.RepairList
		if err := p.List(ctx, &repairs); err != nil {
			return err
		}
		for i := range repairs.Items {
			if r := &repairs.Items[i]; r.Spec.Target.Name == p.first() && r.Status.Phase == v1alpha1.RepairSucceeded {
				repair = r
				return nil
			}
		}
		return fmt.Errorf("no Repair of the node has succeeded: %+v", repairs.Items)
	})
	p.isRestored(p.first())
	p.ranTimes(2)
	p.outlives(repair, boot)
}

// outlives: the Repair has how the node was fenced, and fettle explain shows it, when the PowerRemediation is gone.
func (p *pool) outlives(repair *v1alpha1.Repair, boot string) {
	p.Helper()
	ctx := cluster.Context(p.T)
	var remediations v1alpha1.PowerRemediationList
	if err := p.List(ctx, &remediations); err != nil {
		p.Fatalf("listing PowerRemediations: %v", err)
	}
	if len(repair.Status.Evidence) != 1 {
		p.Fatalf("the evidence is %+v", repair.Status.Evidence)
	}
	e := repair.Status.Evidence[0]
	for i := range remediations.Items {
		if string(remediations.Items[i].UID) == e.Remediation.UID {
			p.Errorf("PowerRemediation %s is not gone", e.Remediation.Name)
		}
	}
	now := p.node(ctx, p.first()).Status.NodeInfo.BootID
	if e.Method != "PowerOff" || e.BMC != p.first() || e.Protocol != "Redfish" || e.PowerCycle != 1 || e.BootIDBefore != boot || e.BootIDAfter != now || now == boot {
		p.Errorf("the evidence is %+v, want boot ID %s before and %s after", e, boot, now)
	}
	last := repair.Spec.StartedAt.Add(-time.Second) // the clocks of two processes
	for _, at := range []*metav1.MicroTime{e.CommandedAt, e.ProvenAt, e.ReleasedAt, e.BackAt} {
		if at == nil || at.Time.Before(last) {
			p.Fatalf("the times are %v, %v, %v and %v", e.CommandedAt, e.ProvenAt, e.ReleasedAt, e.BackAt)
		}
		last = at.Time
	}
	for _, subject := range []string{"node/" + p.first(), "repair/" + repair.Name} {
		out, err := exec.CommandContext(ctx, cluster.Binary(p.T, "fettle"), "explain", subject, "-n", namespace, "--kubeconfig", p.Kubeconfig()).CombinedOutput()
		for _, want := range []string{"proven to have stopped by PowerOff", "(Redfish)", boot, now} {
			if err != nil || !strings.Contains(string(out), want) {
				p.Errorf("fettle explain %s lacks %s (%v):\n%s", subject, want, err, out)
			}
		}
	}
}
