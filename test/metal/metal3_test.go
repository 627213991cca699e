package metal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

const (
	metal3   = "metal3"
	rebootBy = "reboot.metal3.io/"
	paused   = "baremetalhost.metal3.io/paused"
	detached = "baremetalhost.metal3.io/detached"
)

// TestBareMetalHost: hosts that Metal3 powers are fenced through their BareMetalHosts, and no pod runs twice.
func TestBareMetalHost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.AllowMetal3(t)
	s.StartFettle(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, test := range map[string]func(*pool){
		"m3-cycle":    metal3Cycle,
		"m3-lag":      metal3Lags,
		"m3-stale":    metal3IsStale,
		"m3-left":     metal3LeavesItAlone,
		"m3-replaced": metal3HostIsReplaced,
		"m3-by-hand":  personPowersMetal3On,
		"m3-off":      metal3HostIsOffAlready,
		"m3-others":   othersKeepItOff,
		"m3-none":     noBareMetalHost,
		"m3-two":      twoBMCsOfOneBareMetalHost,
		"m3-policy":   metal3Policy,
		"m3-record":   recordOfIronicIsOld,
		"m3-taken":    anotherConsumerTakesIt,
		"m3-reboots":  metal3WouldRebootIt,
		"m3-state":    metal3LeavesThePowerAlone,
		"m3-renamed":  bmcNamesAnotherHost,
		"m3-unnamed":  bmcOfAHostIsDeleted,
	} {
		beside.Run(name, func(t *testing.T) {
			test(s.newMetal3Pool(t, name))
		})
	}
	t.Cleanup(func() { s.hadMetal3Rights(t) })
}

// TestBareMetalHostRestart: the reads of the power by an earlier process count for nothing, and the fencing ends all the same.
func TestBareMetalHostRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.AllowMetal3(t)
	kubeconfig := s.FettleKubeconfig(t)
	f := s.StartFettleWith(t, kubeconfig)
	off, released := s.newMetal3Pool(t, "m3-restart-off"), s.newMetal3Pool(t, "m3-restart-released")
	off.annotates(off.first(), sandboxes+"lag", "10s")
	released.hold(released.first())
	for _, p := range []*pool{off, released} {
		p.hangs(p.first())
		p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	}
	off.waitsFor(off.first(), "PowerNotOff")
	released.waitsFor(released.first(), "WorkloadLeft")
	f.Kill(t)
	off.powerIs(off.first(), "off")
	s.StartFettleWith(t, kubeconfig)
	s.Eventually(t, "void proof", func(ctx context.Context) error {
		r, err := released.remediation(ctx, released.first())
		if err != nil {
			return err
		}
		if r.Status.VoidProofs == 0 {
			return errors.New(r.Status.Phase + ": " + conditionsOf(r))
		}
		return nil
	})
	released.unhold(released.first())
	for _, p := range []*pool{off, released} {
		p.inPhase(p.first(), "Succeeded")
		p.isAsBefore()
	}
}

// newMetal3Pool is newPool with hosts that Metal3 powers.
func (s *site) newMetal3Pool(t *testing.T, name string) *pool {
	t.Helper()
	p := &pool{T: t, site: s, name: name}
	p.metal3Host(p.first())
	p.set()
	p.runsOn(p.first())
	p.metal3Host(p.second())
	return p
}

// metal3Host creates a node with a host, and a BMC that names its BareMetalHost.
func (p *pool) metal3Host(name string) {
	p.Helper()
	p.newNode(name, "baremetalhost")
	p.metal3BMC(name)
}

// metal3BMC creates the BMC of a node that names its BareMetalHost, once Metal3 reports its power.
func (p *pool) metal3BMC(name string) {
	p.Helper()
	p.reports(name, true)
	bmc := &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.BMCSpec{
		NodeName: name, BareMetalHost: &v1alpha1.BareMetalHostReference{Namespace: metal3, Name: name},
	}}
	if err := p.Create(cluster.Context(p.T), bmc); err != nil {
		p.Fatalf("creating the BMC of %s: %v", name, err)
	}
}

func bareMetalHost(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("metal3.io/v1alpha1")
	u.SetKind("BareMetalHost")
	u.SetNamespace(metal3)
	u.SetName(name)
	return u
}

// reports waits until Metal3 reports the power of a host.
func (p *pool) reports(name string, on bool) {
	p.Helper()
	p.Eventually(p.T, fmt.Sprintf("BareMetalHost %s on: %t", name, on), func(ctx context.Context) error {
		u := bareMetalHost(name)
		if err := p.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
			return err
		}
		if is, known, _ := unstructured.NestedBool(u.Object, "status", "poweredOn"); is != on || !known {
			return fmt.Errorf("its status is %v", u.Object["status"])
		}
		return nil
	})
}

// merges changes a BareMetalHost by a merge patch.
func (p *pool) merges(name, patch string) {
	p.Helper()
	if err := p.Patch(cluster.Context(p.T), bareMetalHost(name), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		p.Fatalf("changing BareMetalHost %s: %v", name, err)
	}
}

// annotates sets or removes an annotation of a BareMetalHost.
func (p *pool) annotates(name, key, value string) {
	p.Helper()
	text := fmt.Sprintf("%q", value)
	if value == "" {
		text = "null"
	}
	p.merges(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, text))
}

func (p *pool) annotationOf(name, key string) string {
	p.Helper()
	u := bareMetalHost(name)
	if err := p.Get(cluster.Context(p.T), client.ObjectKeyFromObject(u), u); err != nil {
		p.Errorf("reading BareMetalHost %s: %v", name, err)
	}
	return u.GetAnnotations()[key]
}

// powerIs waits for the true power of a host.
func (p *pool) powerIs(node, power string) {
	p.Helper()
	p.shows(node, "host-power", power)
}

// shows waits until the sandbox shows something of a host.
func (p *pool) shows(node, what, want string) {
	p.Helper()
	p.Eventually(p.T, what+" of "+node, func(ctx context.Context) error {
		if is := p.node(ctx, node).Annotations[sandboxes+what]; is != want {
			return fmt.Errorf("it is %s", is)
		}
		return nil
	})
}

// says waits until the conditions of the remediation of a node have some words.
func (p *pool) says(node string, words ...string) {
	p.Helper()
	p.Eventually(p.T, "words of the remediation of "+node, func(ctx context.Context) error {
		r, err := p.remediation(ctx, node)
		if err != nil {
			return err
		}
		for _, w := range words {
			if !strings.Contains(conditionsOf(r), w) {
				return fmt.Errorf("%s: it does not say %q: %s", r.Status.Phase, w, conditionsOf(r))
			}
		}
		return nil
	})
}

// metal3Cycle: the pod moves once Metal3 has powered the host off, and Fettle's annotation is gone when the node is back.
func metal3Cycle(p *pool) {
	boot := p.node(cluster.Context(p.T), p.first()).Status.NodeInfo.BootID
	p.Eventually(p.T, "first look", func(ctx context.Context) error { return p.reachable(ctx, p.first(), "True") })
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.runsOn(p.second())
	r := p.inPhase(p.first(), "Succeeded")
	u := bareMetalHost(p.first())
	if err := p.Get(cluster.Context(p.T), client.ObjectKeyFromObject(u), u); err != nil {
		p.Fatalf("reading it: %v", err)
	}
	if proof := r.Status.Proof; proof == nil || proof.Kind != "PowerOff" || r.Status.BMC.HostUID != string(u.GetUID()) {
		p.Errorf("the evidence is %+v through %+v, want BareMetalHost %s", proof, r.Status.BMC, u.GetUID())
	}
	for key := range u.GetAnnotations() {
		if strings.HasPrefix(key, rebootBy) {
			p.Errorf("annotation %s is left", key)
		}
	}
	p.isBack(p.first(), boot)
	p.isRestored(p.first())
	p.ends(p.first())
	p.ranTimes(2)
}

// metal3Lags: Metal3 reports the power late, and the host counts as off only then.
func metal3Lags(p *pool) {
	p.annotates(p.first(), sandboxes+"lag", "8s")
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.says(p.first(), "Processing=True PowerNotOff", "Metal3 still reports it as on")
	p.isNotReleased(p.first())
	p.inPhase(p.first(), "Succeeded")
	p.isAsBefore()
	p.ranTimes(2)
}

// metal3IsStale: Metal3 still reports a host as off that a person has powered off and Metal3 has powered on again. That proves nothing.
func metal3IsStale(p *pool) {
	boot := p.node(cluster.Context(p.T), p.first()).Status.NodeInfo.BootID
	p.staysOff()
	p.isBack(p.first(), boot)
	p.annotates(p.first(), sandboxes+"hung", "true")
	p.reports(p.first(), false)
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(600)})
	p.says(p.first(), "Processing=True PowerNotRead", "may be older than the command")
	p.isNotReleased(p.first())
	p.powerIs(p.first(), "on")
	p.merges(p.first(), fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null}}}`, sandboxes+"hung", sandboxes+"lag"))
	r := p.inPhase(p.first(), "Succeeded")
	if r.Status.Proof == nil || r.Status.Proof.Kind != "PowerOff" {
		p.Errorf("the proof is %+v", r.Status.Proof)
	}
	p.isAsBefore()
}

// staysOff has Metal3 report the host of the first node as off for a long time, although Metal3 powers it on.
func (p *pool) staysOff() {
	p.Helper()
	ctx := cluster.Context(p.T)
	if err := p.Delete(ctx, bareMetalHost(p.first())); err != nil {
		p.Fatalf("deleting a BareMetalHost: %v", err)
	}
	fresh := bareMetalHost(p.first()) // of which no power was polled yet
	fresh.Object["spec"] = map[string]any{"online": true}
	fresh.SetAnnotations(map[string]string{paused: "test", sandboxes + "lag": "10m"})
	if err := p.Create(ctx, fresh); err != nil {
		p.Fatalf("creating a BareMetalHost: %v", err)
	}
	p.mark(p.first(), "annotations", "power", "off")
	p.powerIs(p.first(), "off")
	p.shows(p.first(), "ironic-record", "off")
	p.annotates(p.first(), paused, "")
	p.reports(p.first(), false)
}

// metal3LeavesItAlone: while the host is paused, detached or in error, nothing is released, and the remediation and the BMC say why.
func metal3LeavesItAlone(p *pool) {
	p.annotates(p.first(), paused, "test")
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(600)})
	p.says(p.first(), "Processing=True PowerNotRead", paused)
	p.Eventually(p.T, "condition of the BMC", func(ctx context.Context) error {
		var bmc v1alpha1.BMC
		if err := p.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.first()}, &bmc); err != nil {
			return err
		}
		if len(bmc.Status.Conditions) == 0 || bmc.Status.Conditions[0].Reason != "BareMetalHostPaused" {
			return fmt.Errorf("its conditions are %+v", bmc.Status.Conditions)
		}
		return nil
	})
	p.annotates(p.first(), detached, "{}")
	p.annotates(p.first(), paused, "")
	p.says(p.first(), detached)
	p.annotates(p.first(), sandboxes+"error", "power management error")
	p.annotates(p.first(), detached, "")
	p.says(p.first(), `reports the error "power management error"`)
	p.isNotReleased(p.first())
	p.powerIs(p.first(), "on")
	p.annotates(p.first(), sandboxes+"error", "")
	p.inPhase(p.first(), "Succeeded")
	p.isAsBefore()
	p.ranTimes(2)
}

// metal3HostIsReplaced: another BareMetalHost of the same name is never powered (I11).
func metal3HostIsReplaced(p *pool) {
	ctx := cluster.Context(p.T)
	p.annotates(p.first(), paused, "test")
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(600), PowerOnTimeout: seconds(15)})
	p.says(p.first(), paused)
	if err := p.Delete(ctx, bareMetalHost(p.first())); err != nil {
		p.Fatalf("deleting a BareMetalHost: %v", err)
	}
	p.says(p.first(), "does not exist")
	other := bareMetalHost(p.first())
	other.Object["spec"] = map[string]any{"online": true}
	if err := p.Create(ctx, other); err != nil {
		p.Fatalf("creating a BareMetalHost: %v", err)
	}
	p.reports(p.first(), true)
	p.says(p.first(), "is another host and is left alone")
	p.isNotReleased(p.first())
	p.powerIs(p.first(), "on")
	p.ends(p.first())
	if value := p.annotationOf(p.first(), rebootBy+"fettle"); value != "" {
		p.Errorf("the other one has annotation %q", value)
	}
	p.isAsBefore()
	p.ranTimes(1)
}

// personPowersMetal3On: a person presses the button while the workload is released. Metal3 powers the host off again.
func personPowersMetal3On(p *pool) {
	p.annotates(p.first(), sandboxes+"lag", "5s")
	p.hold(p.first())
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.waitsFor(p.first(), "WorkloadLeft")
	p.mark(p.first(), "annotations", "power", "on")
	p.Eventually(p.T, "service of "+p.first(), func(ctx context.Context) error { return inService(p.node(ctx, p.first())) })
	p.unhold(p.first())
	p.inPhase(p.first(), "Succeeded")
	p.isAsBefore()
}

// metal3HostIsOffAlready: its owner keeps the host off, so no change can be seen. Nothing is released, and a person is told what to do.
func metal3HostIsOffAlready(p *pool) {
	p.hangs(p.first())
	p.merges(p.first(), `{"spec":{"online":false}}`)
	p.reports(p.first(), false)
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(600)})
	p.says(p.first(), "Processing=True PowerNotRead", "spec.online is not true", "release its workload by hand")
	p.isNotReleased(p.first())
	p.merges(p.first(), `{"spec":{"online":true}}`)
	p.inPhase(p.first(), "Succeeded")
	p.isAsBefore()
}

// othersKeepItOff: another client keeps the host off, which Fettle leaves alone and says.
func othersKeepItOff(p *pool) {
	const capm3 = rebootBy + "capm3"
	p.hold(p.first())
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOnTimeout: seconds(600)})
	p.waitsFor(p.first(), "WorkloadLeft")
	p.annotates(p.first(), capm3, "{}")
	p.unhold(p.first())
	p.inPhase(p.first(), "PoweringOn")
	p.says(p.first(), "Processing=True PowerNotRead", "annotation "+capm3+" of others keeps it off")
	p.hasNoAnnotation(p.first())
	if value := p.annotationOf(p.first(), capm3); value != "{}" {
		p.Errorf("the annotation of others is %q", value)
	}
	p.annotates(p.first(), capm3, "")
	p.inPhase(p.first(), "Succeeded")
	p.isAsBefore()
	p.ranTimes(2)
}

// recordOfIronicIsOld: others have powered the host off and on again, and Ironic has recorded only the first. Metal3 reports that as an answer
// to the annotation, and the workload is released while the host boots. Its pods start nowhere twice, since the taint came before the kubelet.
func recordOfIronicIsOld(p *pool) {
	p.annotates(p.first(), sandboxes+"lag", "10m")
	p.mark(p.first(), "annotations", "boot-time", "30s")
	p.hangs(p.first())
	p.Eventually(p.T, "silence of "+p.first(), func(ctx context.Context) error { // Metal3 rests before that
		if isReady(p.node(ctx, p.first())) {
			return errors.New("it is Ready")
		}
		return nil
	})
	p.mark(p.first(), "annotations", "power", "off")
	p.powerIs(p.first(), "off")
	p.shows(p.first(), "ironic-record", "off")
	p.mark(p.first(), "annotations", "record-age", "10m")
	p.mark(p.first(), "annotations", "power", "on")
	p.powerIs(p.first(), "on")
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOnTimeout: seconds(600)})
	p.runsOn(p.second())
	p.powerIs(p.first(), "on")
	p.mark(p.first(), "annotations", "record-age", "")
	p.annotates(p.first(), sandboxes+"lag", "")
	r := p.inPhase(p.first(), "Succeeded")
	if r.Status.Proof == nil || r.Status.Proof.Kind != "PowerOff" {
		p.Errorf("the proof is %+v", r.Status.Proof)
	}
	p.isAsBefore()
	p.ranTimes(2)
}

// consumes has a HostClaim take a host.
func (p *pool) consumes(name, claim string) {
	p.Helper()
	p.merges(name, fmt.Sprintf(`{"spec":{"consumerRef":{"apiVersion":"metal3.io/v1alpha1","kind":"HostClaim","namespace":"default","name":%q}}}`, claim))
}

// anotherConsumerTakesIt: the host of another consumer is neither kept off nor powered off, and its power releases nothing.
func anotherConsumerTakesIt(p *pool) {
	p.consumes(p.first(), "claim-1")
	p.annotates(p.first(), sandboxes+"lag", "10m")
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(600), PowerOnTimeout: seconds(600)})
	p.waitsFor(p.first(), "PowerNotOff")
	p.powerIs(p.first(), "off")
	p.consumes(p.first(), "claim-2")
	p.powerIs(p.first(), "on")
	p.says(p.first(), "claim-2", "belongs to another consumer")
	p.hasNoAnnotation(p.first())
	p.isNotReleased(p.first())
	p.consumes(p.first(), "claim-1")
	p.annotates(p.first(), sandboxes+"lag", "")
	p.inPhase(p.first(), "Succeeded")
	p.isAsBefore()
}

// metal3WouldRebootIt: a host whose power must not go off is not rebooted again and again. A remediation of it doesn't start. If it has begun
// before, it waits.
func metal3WouldRebootIt(p *pool) {
	boot := p.node(cluster.Context(p.T), p.first()).Status.NodeInfo.BootID
	p.merges(p.first(), `{"spec":{"disablePowerOff":true}}`)
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.refused("RemediationCannotStartUnsuitableBareMetalHost")
	p.merges(p.first(), `{"spec":{"disablePowerOff":false}}`)
	p.begunWhilePaused()
	p.merges(p.first(), `{"spec":{"disablePowerOff":true}}`)
	p.annotates(p.first(), paused, "")
	p.says(p.first(), "Processing=True PowerNotRead", "spec.disablePowerOff")
	p.isNotReleased(p.first())
	if n := p.node(cluster.Context(p.T), p.first()); n.Status.NodeInfo.BootID != boot {
		p.Errorf("it was rebooted")
	}
	p.hasNoAnnotation(p.first())
	p.merges(p.first(), `{"spec":{"disablePowerOff":false}}`)
	p.inPhase(p.first(), "Succeeded")
	p.isAsBefore()
	p.ranTimes(2)
}

// begunWhilePaused begins the remediation of the first node while Metal3 leaves its host alone for a time.
func (p *pool) begunWhilePaused() {
	p.Helper()
	p.annotates(p.first(), paused, "test")
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(600)})
	p.says(p.first(), "Processing=True PowerNotRead", paused)
}

// begunWhileDetached is begunWhilePaused for a host that Metal3 has let go of, of which it goes on to report the provisioning.
func (p *pool) begunWhileDetached() {
	p.Helper()
	p.annotates(p.first(), detached, "{}")
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(600)})
	p.says(p.first(), "Processing=True PowerNotRead", detached)
}

// hasNoAnnotation checks that Fettle doesn't keep a host off.
func (p *pool) hasNoAnnotation(name string) {
	p.Helper()
	if own := p.annotationOf(name, rebootBy+"fettle"); own != "" {
		p.Errorf("BareMetalHost %s has Fettle's annotation %q", name, own)
	}
}

// metal3LeavesThePowerAlone: outside of the states in which Metal3 follows an annotation, no remediation starts. If it has begun before,
// nothing is commanded and nothing is believed.
func metal3LeavesThePowerAlone(p *pool) {
	p.annotates(p.first(), sandboxes+"state", "available")
	p.hasState(p.first(), "available")
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.refused("RemediationCannotStartUnsuitableBareMetalHost")
	p.annotates(p.first(), sandboxes+"state", "provisioned")
	p.hasState(p.first(), "provisioned")
	p.begunWhileDetached()
	p.annotates(p.first(), sandboxes+"state", "deprovisioning")
	p.hasState(p.first(), "deprovisioning")
	p.annotates(p.first(), detached, "")
	p.says(p.first(), "Processing=True PowerNotRead", `status.provisioning.state is "deprovisioning"`)
	p.isNotReleased(p.first())
	p.powerIs(p.first(), "on")
	p.hasNoAnnotation(p.first())
	p.annotates(p.first(), sandboxes+"state", "provisioned")
	p.inPhase(p.first(), "Succeeded")
	p.isAsBefore()
	p.ranTimes(2)
}

// hasState waits until Metal3 reports a state of the provisioning of a host.
func (p *pool) hasState(name, want string) {
	p.Helper()
	p.Eventually(p.T, "state "+want, func(ctx context.Context) error {
		u := bareMetalHost(name)
		if err := p.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
			return err
		}
		if is, _, _ := unstructured.NestedString(u.Object, "status", "provisioning", "state"); is != want {
			return fmt.Errorf("it is %q", is)
		}
		return nil
	})
}

// noBareMetalHost: the health checker learns at once that the remediation can't start.
func noBareMetalHost(p *pool) {
	p.renames("m3-no-such-host")
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.refused("RemediationCannotStartNoBareMetalHost")
}

// twoBMCsOfOneBareMetalHost: it is not known whose host it is, so none is powered off.
func twoBMCsOfOneBareMetalHost(p *pool) {
	p.renames(p.second())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.refused("RemediationCannotStartAmbiguousBMC")
}

// renames has the BMC of the first node name another BareMetalHost, and waits until Fettle has seen that.
func (p *pool) renames(name string) {
	p.Helper()
	bmc := &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.first()}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"bareMetalHost":{"name":%q}}}`, name))
	if err := p.Patch(cluster.Context(p.T), bmc, patch); err != nil {
		p.Fatalf("changing a BMC: %v", err)
	}
	p.Eventually(p.T, "look at BMC "+p.first(), func(ctx context.Context) error { return p.reachable(ctx, p.first(), "False") })
}

// metal3Policy: Fettle's service account may change its own annotation of a BareMetalHost and nothing else.
func metal3Policy(p *pool) {
	ctx := cluster.Context(p.T)
	config, err := clientcmd.BuildConfigFromFlags("", p.FettleKubeconfig(p.T))
	if err != nil {
		p.Fatalf("reading a kubeconfig: %v", err)
	}
	fettle, err := client.New(config, client.Options{Scheme: p.Scheme(), Mapper: p.RESTMapper()})
	if err != nil {
		p.Fatalf("making a client: %v", err)
	}
	patches := func(patch string) error {
		return fettle.Patch(ctx, bareMetalHost(p.first()), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	}
	for patch, want := range map[string]string{
		`{"spec":{"online":false}}`:                     "not its spec",
		`{"metadata":{"labels":{"a":"b"}}}`:             "not its spec",
		`{"metadata":{"finalizers":["example.org/x"]}}`: "not its spec",
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]}}`:     "not its spec",
		`{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":""}}}`:                            "and not baremetalhost.metal3.io/paused",
		`{"metadata":{"annotations":{"reboot.metal3.io":"","reboot.metal3.io/fettle":null}}}`:           "and not reboot.metal3.io",
		`{"metadata":{"annotations":{"reboot.metal3.io/fettle":"{\"mode\":\"hard\",\"force\":true}"}}}`: "must be",
	} {
		if err := patches(patch); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bare-metal-host.fettle.io") {
			p.Errorf("%s: the answer is %v, want %q", patch, err, want)
		}
	}
	p.annotates(p.first(), "example.org/a", "b")
	if err := patches(`{"metadata":{"annotations":{"example.org/a":null}}}`); !apierrors.IsForbidden(err) {
		p.Errorf("the removal of an annotation of others: %v", err)
	}
	for _, patch := range []string{
		`{"metadata":{"annotations":{"reboot.metal3.io/fettle":"{\"mode\":\"hard\"}"}}}`, `{"metadata":{"annotations":{"reboot.metal3.io/fettle":null}}}`,
	} {
		if err := patches(patch); err != nil {
			p.Errorf("%s: %v", patch, err)
		}
	}
	if err := fettle.Delete(ctx, bareMetalHost(p.first()), client.DryRunAll); !apierrors.IsForbidden(err) {
		p.Errorf("its deletion: %v", err)
	}
	if err := p.Patch(ctx, bareMetalHost(p.first()), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll); err != nil {
		p.Errorf("another user may not change it: %v", err)
	}
}

// hadMetal3Rights checks that Fettle used its rights on BareMetalHosts, and tried no others.
func (s *site) hadMetal3Rights(t *testing.T) {
	t.Helper()
	used := map[string]bool{}
	for _, u := range s.Uses(t) {
		if u.Group == "metal3.io" && u.Allowed {
			used[u.Verb+" "+u.Resource] = true
		}
	}
	if len(used) != 2 || !used["get baremetalhosts"] || !used["patch baremetalhosts"] {
		t.Errorf("Fettle used the rights %v", used)
	}
}
