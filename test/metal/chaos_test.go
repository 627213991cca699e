package metal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
	"github.com/fettle-io/fettle/test/runs"
)

// TestPowerRemediationInterrupted: users interrupt a fencing. Each change is taken back, and no pod runs twice.
func TestPowerRemediationInterrupted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.StartFettle(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, test := range map[string]func(*pool){
		"deleted-at-once":     deletedAtOnce,
		"deleted-off":         deletedWhilePoweringOff,
		"deleted-released":    deletedWhileReleasing,
		"deleted-on":          deletedWhilePoweringOn,
		"deleted-boot":        deletedWhileBooting,
		"deleted-node-gone":   deletedAfterTheNode,
		"deleted-restored":    deletedAfterRestoration,
		"deleted-failed":      deletedAfterFailure,
		"deleted-failed-off":  deletedAfterFailureWhileOff,
		"pressed-off":         pressedOffWhileBooting,
		"pressed-on":          pressedOnWhilePoweringOff,
		"stopped":             stoppedByHealthCheck,
		"tenant":              tenantMayNot,
		"deleted-and-stopped": deletedAndStopped,
	} {
		beside.Run(name, func(t *testing.T) {
			test(s.newPool(t, name))
		})
	}
	t.Cleanup(func() { s.hadItsRights(t) })
}

// isAsBefore deletes the remediation, and checks that the host is on, the node is as it was and the pod never ran twice.
func (p *pool) isAsBefore() {
	p.Helper()
	p.ends(p.first())
	p.isRestored(p.first())
	p.isOn(p.first())
	p.ranAlone()
}

func (p *pool) isOn(node string) {
	p.Helper()
	p.Eventually(p.T, "power of "+node, func(ctx context.Context) error {
		if power := p.node(ctx, node).Annotations[sandboxes+"host-power"]; power != "on" {
			return fmt.Errorf("the host is %q", power)
		}
		return nil
	})
}

// ranAlone checks that the pod ran, and that no two of its runs overlap.
func (p *pool) ranAlone() {
	p.Helper()
	for _, r := range runs.Check(p.T, p.log) {
		if r.Identity == "default/"+p.name+"-0" {
			return
		}
	}
	p.Error("the pod never ran")
}

// deletes requests the deletion of a remediation, and does not wait.
func (p *pool) deletes(node string) {
	p.Helper()
	if err := p.Delete(cluster.Context(p.T), p.of(node)); err != nil {
		p.Fatalf("deleting a remediation: %v", err)
	}
}

// deletedAtOnce: the remediation is deleted as soon as it has begun.
func deletedAtOnce(p *pool) {
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.Eventually(p.T, "begin", func(ctx context.Context) error {
		r, err := p.remediation(ctx, p.first())
		if err != nil {
			return err
		}
		if r.Status.Phase == "" {
			return errors.New("it has no phase")
		}
		return nil
	})
	p.isAsBefore()
}

// deletedWhilePoweringOff: the BMC still says On when the power-on is commanded, and then it says Off.
func deletedWhilePoweringOff(p *pool) {
	p.hangs(p.first())
	p.faults(p.first(), `{"lag":"4s"}`)
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.waitsFor(p.first(), "PowerNotOff")
	p.isAsBefore()
}

// deletedWhileReleasing: a finalizer holds the pod, and the workload is released. The taint goes although the pod is left.
func deletedWhileReleasing(p *pool) {
	p.hold(p.first())
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.waitsFor(p.first(), "WorkloadLeft")
	p.ends(p.first())
	p.isNotReleased(p.first())
	p.unhold(p.first())
	p.isAsBefore()
}

// deletedWhilePoweringOn: the BMC refuses to power the host on, and accepts that while the remediation is being deleted.
func deletedWhilePoweringOn(p *pool) {
	p.refusesOn(v1alpha1.PowerRemediationSpec{})
	p.inPhase(p.first(), "PoweringOn")
	p.waitsFor(p.first(), "PowerNotRead")
	p.deletes(p.first())
	p.inPhase(p.first(), "Aborting")
	p.faults(p.first(), "")
	p.isAsBefore()
}

// refusesOn has the node fenced by a BMC that refuses commands once the workload is released.
func (p *pool) refusesOn(spec v1alpha1.PowerRemediationSpec) {
	p.Helper()
	p.hold(p.first())
	p.hangs(p.first())
	p.remediates(p.first(), spec)
	p.waitsFor(p.first(), "WorkloadLeft")
	p.faults(p.first(), `{"refusesCommands":500}`)
	p.unhold(p.first())
}

// pressed has a user press the button of a host until it is off, and then on. It boots at once.
func (p *pool) pressed(node string) {
	p.Helper()
	p.mark(node, "annotations", "boot-time", "")
	for _, power := range []string{"off", "on"} {
		p.mark(node, "annotations", "power", power)
		p.powerIs(node, power)
	}
}

// deletedWhileBooting: the host takes long to boot, and the remediation doesn't wait for that.
func deletedWhileBooting(p *pool) {
	boot := p.node(cluster.Context(p.T), p.first()).Status.NodeInfo.BootID
	p.mark(p.first(), "annotations", "boot-time", "1h")
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.inPhase(p.first(), "Booting")
	p.isAsBefore()
	if n := p.node(cluster.Context(p.T), p.first()); n.Status.NodeInfo.BootID != boot {
		p.Errorf("node %s had booted before the remediation was gone", n.Name)
	}
	p.pressed(p.first())
	p.isBack(p.first(), boot)
	p.isRestored(p.first())
	p.ranAlone()
}

// deletedAfterTheNode: the node is deleted and not registered again yet. The remediation waits for it.
func deletedAfterTheNode(p *pool) {
	boot := p.node(cluster.Context(p.T), p.first()).Status.NodeInfo.BootID
	p.mark(p.first(), "annotations", "boot-time", "40s") // no Node has the order once it is deleted
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{Release: v1alpha1.DeleteNodeRelease})
	p.inPhase(p.first(), "Booting")
	p.isAsBefore()
	p.isBack(p.first(), boot)
}

// deletedAfterRestoration: a user removes an annotation that was restored. It doesn't come back when the remediation is deleted.
func deletedAfterRestoration(p *pool) {
	p.mark(p.first(), "annotations", "removed-by-user", "yes")
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{Release: v1alpha1.DeleteNodeRelease})
	p.inPhase(p.first(), "Succeeded")
	if n := p.node(cluster.Context(p.T), p.first()); n.Annotations[sandboxes+"removed-by-user"] != "yes" {
		p.Errorf("node %s was not restored: %v", n.Name, n.Annotations)
	}
	p.mark(p.first(), "annotations", "removed-by-user", "")
	p.isAsBefore()
	if n := p.node(cluster.Context(p.T), p.first()); n.Annotations[sandboxes+"removed-by-user"] != "" {
		p.Errorf("node %s has an annotation again that a user has removed", n.Name)
	}
}

// deletedAfterFailure: the host is on and doesn't boot in time.
func deletedAfterFailure(p *pool) {
	p.mark(p.first(), "annotations", "boot-time", "40s")
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{BootTimeout: seconds(15), Retries: new(int32)})
	r := p.inPhase(p.first(), "Failed")
	if said := conditionsOf(r); !strings.Contains(said, "Succeeded=False BootTimedOut") {
		p.Errorf("its conditions are %s", said)
	}
	p.isAsBefore()
}

// deletedAfterFailureWhileOff: the BMC refused to power the host on, and works again when the remediation is deleted.
func deletedAfterFailureWhileOff(p *pool) {
	p.refusesOn(v1alpha1.PowerRemediationSpec{PowerOnTimeout: seconds(15), Retries: new(int32)})
	r := p.inPhase(p.first(), "Failed")
	if said := conditionsOf(r); !strings.Contains(said, "Succeeded=False PowerOnTimedOut") {
		p.Errorf("its conditions are %s", said)
	}
	p.faults(p.first(), "")
	p.isAsBefore()
}

// pressedOffWhileBooting: a user powers the host off while it boots. The next power cycle brings the node back.
func pressedOffWhileBooting(p *pool) {
	p.mark(p.first(), "annotations", "boot-time", "15s")
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{BootTimeout: seconds(20)})
	p.inPhase(p.first(), "Booting")
	p.mark(p.first(), "annotations", "power", "off")
	p.mark(p.first(), "annotations", "boot-time", "")
	if r := p.inPhase(p.first(), "Succeeded"); r.Status.Attempt != 2 {
		p.Errorf("it took %d power cycles, want 2", r.Status.Attempt)
	}
	p.isAsBefore()
}

// pressedOnWhilePoweringOff: a user powers the host on while the BMC still shows that it was off.
func pressedOnWhilePoweringOff(p *pool) {
	boot := p.node(cluster.Context(p.T), p.first()).Status.NodeInfo.BootID
	p.hangs(p.first())
	p.faults(p.first(), `{"lag":"3s"}`)
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{})
	p.waitsFor(p.first(), "PowerOffOnce")
	p.mark(p.first(), "annotations", "power", "on")
	p.inPhase(p.first(), "Succeeded")
	p.isBack(p.first(), boot)
	p.isAsBefore()
}

// stops requests the stop of a remediation, as a health checker does.
func (p *pool) stops(node string) {
	p.Helper()
	stop := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"2026-08-03T12:00:00Z"}}}`, v1alpha1.TimedOutAnnotation)
	if err := p.Patch(cluster.Context(p.T), p.of(node), client.RawPatch(types.MergePatchType, stop)); err != nil {
		p.Fatalf("stopping a remediation: %v", err)
	}
}

// stoppedByHealthCheck: the BMC answers nothing, and the stop ends the remediation although the host can't be powered on.
func stoppedByHealthCheck(p *pool) {
	p.hangs(p.first())
	p.faults(p.first(), `{"hangs":true}`)
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOnTimeout: seconds(15)})
	p.inPhase(p.first(), "PoweringOff")
	p.stops(p.first())
	r := p.inPhase(p.first(), "Aborted")
	if said := conditionsOf(r); !strings.Contains(said, "Succeeded=False RemediationStoppedByNHC") || !strings.Contains(said, "Processing=False") {
		p.Errorf("its conditions are %s", said)
	}
	p.isRestored(p.first())
	p.faults(p.first(), "")
	p.isAsBefore()
}

// deletedAndStopped: a stop takes back the release, and the deletion comes during that.
func deletedAndStopped(p *pool) {
	p.refusesOn(v1alpha1.PowerRemediationSpec{})
	p.inPhase(p.first(), "PoweringOn")
	p.stops(p.first())
	p.inPhase(p.first(), "Aborting")
	p.deletes(p.first())
	p.faults(p.first(), "")
	p.isAsBefore()
}

// tenantMayNot: every right in one namespace suffices for no BMC and no remediation there, and not for their status.
func tenantMayNot(p *pool) {
	ctx := cluster.Context(p.T)
	tenant := p.newTenant("tenant")
	meta := metav1.ObjectMeta{Namespace: "tenant", Name: "forged"}
	bmc := &v1alpha1.BMC{ObjectMeta: meta, Spec: v1alpha1.BMCSpec{NodeName: p.first(), Address: "ipmi://192.0.2.1", CredentialsName: "x"}}
	remediation := &v1alpha1.PowerRemediation{ObjectMeta: meta}
	remediation.Annotations = map[string]string{v1alpha1.NodeNameAnnotation: "no-such-node"}
	for what, object := range map[string]client.Object{"bmcs": bmc, "powerremediations": remediation} {
		p.wantForbidden("creating "+what, tenant.Create(ctx, object.DeepCopyObject().(client.Object)), "create "+what)
		if err := p.Create(ctx, object); err != nil {
			p.Fatalf("creating one of %s: %v", what, err)
		}
		label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		p.wantForbidden("changing "+what, tenant.Patch(ctx, object, label), "change "+what)
		status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"X","status":"True","reason":"X","message":"","lastTransitionTime":"2026-08-03T12:00:00Z"}]}}`))
		p.wantForbidden("changing the status of "+what, tenant.Status().Patch(ctx, object, status), "change "+what)
		if err := tenant.Delete(ctx, object); err != nil {
			p.Errorf("deleting one of %s: %v", what, err)
		}
	}
}

// newTenant returns a client of a service account with every right on Fettle's kinds in one namespace.
func (p *pool) newTenant(name string) client.Client {
	p.Helper()
	ctx := cluster.Context(p.T)
	p.Namespace(p.T, name)
	p.ServiceAccount(p.T, name, name)
	meta := metav1.ObjectMeta{Namespace: name, Name: name}
	all := []string{"*"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: all, Verbs: all}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: name, Name: name}},
	}
	if err := errors.Join(p.Create(ctx, role), p.Create(ctx, binding)); err != nil {
		p.Fatalf("granting the rights of a tenant: %v", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.KubeconfigOf(p.T, name, name))
	if err != nil {
		p.Fatalf("reading a kubeconfig: %v", err)
	}
	tenant, err := client.New(config, client.Options{Scheme: p.Scheme(), Mapper: p.RESTMapper()})
	if err != nil {
		p.Fatalf("making a client: %v", err)
	}
	p.Eventually(p.T, "rights of the tenant", func(ctx context.Context) error {
		return tenant.List(ctx, &v1alpha1.BMCList{}, client.InNamespace(name))
	})
	return tenant
}

func (p *pool) wantForbidden(what string, err error, words string) {
	p.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "to you by a ClusterRoleBinding") {
		p.Errorf("%s: the answer is %v", what, err)
	}
}

// hadItsRights checks that nothing was refused to Fettle for want of a right, and that it used the rights of this package.
func (s *site) hadItsRights(t *testing.T) {
	t.Helper()
	for _, r := range s.Requests(t) {
		if r.Code == http.StatusForbidden || r.Code == http.StatusUnauthorized {
			t.Errorf("Fettle was refused: %+v", r)
		}
	}
	used := map[string]bool{}
	for _, u := range s.Uses(t) {
		if !u.Allowed {
			t.Errorf("Fettle has no right to %+v", u.Right)
		}
		used[u.Verb+" "+u.Resource] = true
	}
	for _, want := range []string{
		"get nodes", "patch nodes", "delete nodes", "list pods", "list volumeattachments", "get secrets",
		"patch bmcs/status", "get powerremediations", "patch powerremediations", "patch powerremediations/status",
	} {
		if !used[want] {
			t.Errorf("Fettle did not %s, so that the test shows nothing: %v", want, used)
		}
	}
}

// TestPowerRemediationOutOfReach: the API server is away for Fettle alone. No pod runs twice.
func TestPowerRemediationOutOfReach(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	kubeconfig := s.FettleKubeconfig(t)
	proxy, address := s.StartProxy(t)
	cluster.Redirect(t, kubeconfig, address)
	s.StartFettleWith(t, kubeconfig)
	s.unreachable(t, proxy)
}

// unreachable: Fettle reaches no API server for ten seconds and still reaches the BMCs, while one host goes off and another's workload
// is released. A user powers that other host on meanwhile.
func (s *site) unreachable(t *testing.T, proxy *cluster.Proxy) {
	t.Helper()
	off, released := s.newPool(t, "alone-off"), s.newPool(t, "alone-released")
	released.hold(released.first())
	for _, p := range []*pool{off, released} {
		p.hangs(p.first())
	}
	released.remediates(released.first(), v1alpha1.PowerRemediationSpec{})
	released.waitsFor(released.first(), "WorkloadLeft")
	off.faults(off.first(), `{"lag":"1h"}`) // the host is off, and its BMC says so later
	off.remediates(off.first(), v1alpha1.PowerRemediationSpec{})
	off.inPhase(off.first(), "PoweringOff")
	faults := []*cluster.Injected{
		proxy.Inject(t, cluster.Fault{Path: ".*", Status: http.StatusServiceUnavailable}),
		proxy.Inject(t, cluster.Fault{Path: ".*", Watch: true, Stall: true}),
	}
	released.mark(released.first(), "annotations", "power", "on")
	off.faults(off.first(), "")
	time.Sleep(10 * time.Second) //nolint:forbidigo // it is how long the API server is away
	for _, f := range faults {
		f.End()
	}
	s.Eventually(t, "service of "+released.first(), func(ctx context.Context) error { return inService(released.node(ctx, released.first())) })
	released.unhold(released.first())
	for _, p := range []*pool{off, released} {
		p.inPhase(p.first(), "Succeeded")
		p.isAsBefore()
	}
}
