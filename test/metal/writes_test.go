package metal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
)

// writesOfRemediations are the kinds of writes that the remediations of TestPowerRemediationSurvivesEachWrite take at least. Fettle is killed
// twice at each: once the write is lost, and once its answer.
var writesOfRemediations = []string{
	"create events", "patch bmcs/status",
	"create repairs", "patch repairs/status: running", "patch repairs/status: over", "create leases", "update leases", "delete leases",
	"patch nodehealthchecks/status", "patch machinehealthchecks/status",
	"create powerremediations", "delete powerremediations",
	"patch powerremediations: the finalizer is set", "patch powerremediations: the finalizer is removed",
	"patch powerremediations/status: Preparing", "patch powerremediations/status: PoweringOff", "patch powerremediations/status: Releasing",
	"patch powerremediations/status: PoweringOff, PowerOffOnce",
	"patch powerremediations/status: Releasing, released", "patch powerremediations/status: PoweringOn, released",
	"patch powerremediations/status: Booting, released", "patch powerremediations/status: Restoring, released",
	"patch powerremediations/status: Succeeded, released", "patch powerremediations/status: Aborting, released",
	"patch powerremediations/status: Aborted, released",
	"patch machines: the claim is set", "patch machines: the claim is removed",
	"patch nodes: the fencing is marked, taints fencing", "patch nodes: taints fencing out-of-service", "patch nodes: taints fencing",
	"patch nodes: the mark is removed", "patch nodes: taints", "delete nodes", "patch nodes: labels are restored, taints",
	"patch baremetalhosts: the annotation is set", "patch baremetalhosts: the annotation is removed",
	"update leases: the promise is revoked", "update leases: the Lease is freed",
}

// interruptions decides at which writes Fettle is killed: at each kind twice.
type interruptions struct {
	// wanted are the kinds that come at least.
	wanted []string

	mu       sync.Mutex
	outcomes map[string][]cluster.Outcome
	kinds    map[string]bool
}

// outcome has the first write of a kind lost, and the next one unanswered. The others pass.
func (d *interruptions) outcome(w cluster.Write) cluster.Outcome {
	d.mu.Lock()
	defer d.mu.Unlock()
	kind := kindOf(w)
	if w.Resource == "secrets" || w.Resource == "configmaps" {
		return cluster.Passes // of the authorities of agents
	}
	d.kinds[kind] = true
	switch len(d.outcomes[kind]) {
	case 0:
		return cluster.Lost
	case 1:
		return cluster.Unanswered
	}
	return cluster.Passes
}

// note notes a write at which Fettle was killed, and returns its kind.
func (d *interruptions) note(held cluster.Held) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	kind := kindOf(held.Write)
	d.outcomes[kind] = append(d.outcomes[kind], held.Outcome)
	return kind
}

// TestPowerRemediationSurvivesEachWrite: Fettle is killed at each kind of write of whole remediations, before the API server has it and
// before Fettle has the answer. The remediations succeed, the nodes are as before, and no pod runs twice.
func TestPowerRemediationSurvivesEachWrite(t *testing.T) {
	t.Parallel()
	s := newMachineSite(t)
	s.AllowPower(t)
	s.AllowMetal3(t)
	s.allowSelfFencing(t)
	kubeconfig := s.FettleKubeconfig(t)
	proxy, address := s.StartProxy(t)
	cluster.Redirect(t, kubeconfig, address)
	d := &interruptions{wanted: writesOfRemediations, outcomes: map[string][]cluster.Outcome{}, kinds: map[string]bool{}}
	m := &restarted{site: s, interruptions: d, kubeconfig: kubeconfig, judges: []*cluster.Judge{proxy.Judge(t, d.outcome)}}
	taint, deletion, abort := s.newPool(t, "writes-taint"), s.newPool(t, "writes-deletion"), s.newPool(t, "writes-abort")
	both := s.newPool(t, "writes-both")
	m.fettle = s.StartFettleWith(t, kubeconfig)
	m.survivesByNodeHealthCheck(t, taint)
	m.survivesByMachineHealthCheck(t, deletion)
	m.survivesAbort(t, abort)
	m.survivesByBoth(t, &selfFenced{pool: both})
	m.survivesThroughMetal3(t, s.newMetal3Pool(t, "writes-metal3"))
	for i := 0; i < 5 && len(m.missing()) > 0; i++ {
		m.survivesOnceMore(t, s.newPool(t, fmt.Sprintf("writes-more-%d", i)))
	}
	m.wasKilledAtEach(t)
}

// restarted is Fettle as it is killed and started again.
type restarted struct {
	*site
	*interruptions

	kubeconfig string
	// args are those of Fettle, and judges those of the API servers that it writes to.
	args   []string
	judges []*cluster.Judge
	fettle *cluster.Fettle
	kills  int
}

// until kills Fettle at each write that is held, and starts it again, until check returns no error. The time counts anew from each kill.
func (m *restarted) until(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	for killed := true; killed; {
		m.After(t, 2*time.Minute, what, func(ctx context.Context) error {
			if killed = m.killsAtWrite(t); killed {
				return nil
			}
			return check(ctx)
		})
	}
}

// killsAtWrite kills Fettle if a write is held, and starts it again. It reports whether it has done so.
func (m *restarted) killsAtWrite(t *testing.T) bool {
	t.Helper()
	held := m.held()
	if len(held) == 0 {
		return false
	}
	m.fettle.Kill(t)
	m.kills++
	for _, w := range append(held, m.held()...) {
		t.Logf("%s kill %d at outcome %d of: %s %s", time.Now().Format("05.000"), m.kills, w.Outcome, m.note(w), w.Name)
	}
	for _, j := range m.judges {
		j.Resume()
	}
	m.fettle = m.StartFettleWith(t, m.kubeconfig, m.args...)
	return true
}

// held returns the writes that are held by now, one at most of each API server.
func (m *restarted) held() []cluster.Held {
	var all []cluster.Held
	for _, j := range m.judges {
		select {
		case w := <-j.Held():
			all = append(all, w)
		default:
		}
	}
	return all
}

// missing returns the kinds of writes at which Fettle was not killed twice yet. A phase may be over while Fettle restarts, and
// its second write doesn't come then.
func (m *restarted) missing() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.wanted), func(kind string) bool { return len(m.outcomes[kind]) >= 2 })
}

// wasKilledAtEach checks that Fettle was killed twice at each kind of write that was to come, and at each other kind that came.
func (m *restarted) wasKilledAtEach(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	t.Logf("Fettle was killed %d times, at %d kinds of writes", m.kills, len(m.outcomes))
	for _, kind := range m.wanted {
		if outcomes := m.outcomes[kind]; len(outcomes) != 2 || outcomes[0] != cluster.Lost || outcomes[1] != cluster.Unanswered {
			t.Errorf("Fettle was killed at these outcomes of %q: %v", kind, outcomes)
		}
	}
	for kind := range m.kinds {
		if len(m.outcomes[kind]) == 0 {
			t.Errorf("Fettle was not killed at %q", kind)
		}
	}
	if least := 2 * len(m.wanted); m.kills < least {
		t.Errorf("Fettle was killed %d times, want %d at least", m.kills, least)
	}
	if t.Failed() {
		t.Logf("the kinds are %q", slices.Sorted(maps.Keys(m.kinds)))
	}
}

// kindOf says what a write changes.
func kindOf(w cluster.Write) string {
	kind := w.Verb + " " + w.Resource
	switch kind {
	case "update leases":
		if w.Namespace == promiselease.Namespace {
			return kind + ": " + promiseOf(w.Body)
		}
	case "patch powerremediations/status":
		return kind + ": " + statusOf(w.Body)
	case "patch repairs/status":
		if strings.Contains(string(w.Body), `"finishedAt"`) {
			return kind + ": over"
		}
		return kind + ": running"
	case "patch powerremediations":
		return kind + ": the finalizer is " + setOrRemoved(strings.Contains(string(w.Body), annotation.PowerFinalizer))
	case "patch machines":
		if strings.Contains(string(w.Body), v1beta1.ExternalRemediationAnnotation) {
			return kind + ": the mark is set"
		}
		return kind + ": the claim is " + setOrRemoved(!strings.Contains(string(w.Body), "null"))
	case "patch baremetalhosts":
		return kind + ": the annotation is " + setOrRemoved(!strings.Contains(string(w.Body), "null"))
	case "patch nodes":
		return kind + ": " + changeOf(w.Body)
	}
	return kind
}

func setOrRemoved(set bool) string {
	if set {
		return "set"
	}
	return "removed"
}

// promiseOf says what Fettle does to a promise.
func promiseOf(body []byte) string {
	if strings.Contains(string(body), string(selffence.Condemned)) {
		return "the promise is revoked"
	}
	return "the Lease is freed"
}

// statusOf says which status of a PowerRemediation is written.
func statusOf(body []byte) string {
	var operations []struct {
		Path  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return err.Error()
	}
	for _, o := range operations {
		var status v1alpha1.PowerRemediationStatus
		if o.Path != "/status" || json.Unmarshal(o.Value, &status) != nil {
			continue
		}
		said := status.Phase
		if status.Attempt > 1 {
			said += fmt.Sprintf(", attempt %d", status.Attempt)
		}
		if status.WorkloadReleased {
			said += ", released"
		}
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ProcessingCondition); c != nil && c.Status == "True" && c.Reason != status.Phase {
			said += ", " + c.Reason
		}
		return said
	}
	return "no status"
}

// changeOf says what a patch changes on a node.
func changeOf(body []byte) string {
	var patch struct {
		Metadata struct {
			Labels      map[string]string
			Annotations map[string]*string
		}
		Spec *struct{ Taints *[]corev1.Taint }
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return err.Error()
	}
	var said []string
	if len(patch.Metadata.Labels) > 0 {
		said = append(said, "labels are restored")
	}
	if by, is := patch.Metadata.Annotations[annotation.FencedBy]; is && by != nil {
		said = append(said, "the fencing is marked")
	} else if is {
		said = append(said, "the mark is removed")
	}
	if patch.Spec != nil && patch.Spec.Taints != nil {
		words := "taints"
		for _, taint := range *patch.Spec.Taints {
			if taint.Key == annotation.FencingTaint {
				words += " fencing"
			}
			if taint.Key == corev1.TaintNodeOutOfService {
				words += " out-of-service"
			}
		}
		said = append(said, words)
	}
	return strings.Join(said, ", ")
}

// before is a node as it was before its remediation.
type before struct {
	*pool

	node *corev1.Node
}

func (p *pool) beforehand() before {
	p.Helper()
	return before{p, p.node(cluster.Context(p.T), p.first())}
}

// isBack returns an error unless the node is Ready in another boot, and has the labels, annotations and taints of before.
func (b before) isBack(ctx context.Context) error {
	now := b.pool.node(ctx, b.node.Name)
	if !isReady(now) || now.Status.NodeInfo.BootID == b.node.Status.NodeInfo.BootID {
		return fmt.Errorf("node %s is not back", b.node.Name)
	}
	if had, has := lasting(b.node), lasting(now); had != has {
		return fmt.Errorf("node %s was %s\nand is %s", b.node.Name, had, has)
	}
	return nil
}

// lasting returns the labels, annotations and taints of a node. It leaves out those by which the sandbox and Kubernetes say how the node is,
// and the labels that a kubelet sets when it registers the node.
func lasting(n *corev1.Node) string {
	passing := func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return slices.Contains([]string{"sandbox.fettle.io", "node.alpha.kubernetes.io", "kubernetes.io", "beta.kubernetes.io"}, domain)
	}
	labels, annotations := maps.Clone(n.Labels), maps.Clone(n.Annotations)
	maps.DeleteFunc(labels, passing)
	maps.DeleteFunc(annotations, passing)
	var taints []string
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService || !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			taints = append(taints, taint.ToString())
		}
	}
	slices.Sort(taints)
	return fmt.Sprint(labels, annotations, taints) // it sorts maps
}

// repairIsOver returns an error unless the Repair of a target is over, and neither a PowerRemediation nor a lease is left.
func (p *pool) repairIsOver(ctx context.Context, target string) error {
	var repairs v1alpha1.RepairList
	var remediations v1alpha1.PowerRemediationList
	var leases coordinationv1.LeaseList
	if err := errors.Join(p.List(ctx, &repairs), p.List(ctx, &remediations), p.List(ctx, &leases)); err != nil {
		return err
	}
	over := 0
	for i := range repairs.Items {
		r := &repairs.Items[i]
		switch {
		case r.Spec.Target.Name != target:
		case r.Status.Phase == v1alpha1.RepairSucceeded, r.Status.Phase == v1alpha1.RepairRecovered && len(r.Status.Evidence) > 0:
			over++ // a process that finds neither a request nor a fault knows of none that was withdrawn (docs/repairs.md)
		default:
			return fmt.Errorf("Repair %s is %s", r.Name, r.Status.Phase)
		}
	}
	if over != 1 {
		return fmt.Errorf("%d Repairs of %s are over", over, target)
	}
	for i := range remediations.Items {
		if r := &remediations.Items[i]; strings.HasPrefix(r.Name, p.name) {
			return fmt.Errorf("there is the remediation %s: %s: %s", r.Name, r.Status.Phase, conditionsOf(r))
		}
	}
	for i := range leases.Items {
		if l := &leases.Items[i]; strings.HasSuffix(l.Name, p.first()) && l.Spec.HolderIdentity != nil && l.Namespace != corev1.NamespaceNodeLease && l.Namespace != promiselease.Namespace {
			return fmt.Errorf("%s holds lease %s", *l.Spec.HolderIdentity, l.Name)
		}
	}
	return nil
}

// patient are the limits of a remediation during which Fettle is killed again and again.
const patient = "powerOffTimeout: 1h, releaseTimeout: 1h, powerOnTimeout: 1h, bootTimeout: 1h"

// survivesByNodeHealthCheck: a NodeHealthCheck has a node fenced through a BMC that lags. The taint releases its workload.
func (m *restarted) survivesByNodeHealthCheck(t *testing.T, p *pool) {
	t.Helper()
	b := p.beforehand()
	p.nodesCheckedBy(patient)
	p.faults(p.first(), `{"lag":"3s"}`)
	p.hangs(p.first())
	m.until(t, "remediation by a NodeHealthCheck", func(ctx context.Context) error {
		return errors.Join(b.isBack(ctx), p.repairIsOver(ctx, p.first()))
	})
	p.runsOn(p.second())
	p.ranTimes(2)
}

// survivesByMachineHealthCheck: a MachineHealthCheck of OpenShift has a node fenced, which is deleted and registers again.
func (m *restarted) survivesByMachineHealthCheck(t *testing.T, p *pool) {
	t.Helper()
	p.Apply(t, fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: %s, namespace: %s}
spec: {template: {spec: {release: DeleteNode, %s}}}
`, p.name, machines, patient))
	p.ofMachine()
	b := p.beforehand()
	p.machineCheckedBy(nil, map[string]any{"remediationTemplate": map[string]any{
		"apiVersion": "fettle.io/v1alpha1", "kind": "PowerRemediationTemplate", "namespace": machines, "name": p.name,
	}})
	p.hangs(p.first())
	m.until(t, "remediation by a MachineHealthCheck", func(ctx context.Context) error {
		return errors.Join(b.isBack(ctx), p.repairIsOver(ctx, p.name))
	})
	if now := p.node(cluster.Context(t), p.first()); now.UID == b.node.UID {
		t.Errorf("node %s was not deleted", now.Name)
	}
	p.runsOn(p.second())
	p.ranTimes(2)
}

// survivesAbort: a remediation is deleted while the workload is released.
func (m *restarted) survivesAbort(t *testing.T, p *pool) {
	t.Helper()
	b := p.beforehand()
	hour := seconds(3600)
	p.hold(p.first())
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: hour, ReleaseTimeout: hour, PowerOnTimeout: hour, BootTimeout: hour})
	m.until(t, "release", func(ctx context.Context) error {
		r, err := p.remediation(ctx, p.first())
		if err == nil && reasonOf(r) != "WorkloadLeft" {
			err = fmt.Errorf("%s: %s", r.Status.Phase, conditionsOf(r))
		}
		return err
	})
	p.deletes(p.first())
	p.unhold(p.first())
	m.until(t, "end of the abort", func(ctx context.Context) error {
		_, err := p.remediation(ctx, p.first())
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the remediation is there (%w)", err)
		}
		return b.isBack(ctx)
	})
	p.ranAlone()
}

// survivesByBoth: a FencePolicy requires both proofs. A promise that is revoked counts from the process that sees it.
func (m *restarted) survivesByBoth(t *testing.T, s *selfFenced) {
	t.Helper()
	s.requiresBoth(briefly)
	b := s.beforehand()
	s.nodesCheckedBy(patient)
	s.hangs(s.first())
	m.until(t, "remediation by power and promise", func(ctx context.Context) error {
		return errors.Join(b.isBack(ctx), s.repairIsOver(ctx, s.first()))
	})
	m.until(t, "Lease of "+s.first(), func(ctx context.Context) error { return s.says(ctx, selffence.Withdrawn) })
	s.runsOn(s.second())
	s.ranTimes(2)
}

// survivesThroughMetal3: a host is powered through its BareMetalHost.
func (m *restarted) survivesThroughMetal3(t *testing.T, p *pool) {
	t.Helper()
	m.succeeds(t, p)
	p.hasNoAnnotation(p.first())
	p.runs()
	p.ranAlone()
}

// survivesOnceMore: a host is powered through a BMC that lags.
func (m *restarted) survivesOnceMore(t *testing.T, p *pool) {
	t.Helper()
	t.Logf("once more for %q", m.missing())
	p.faults(p.first(), `{"lag":"3s"}`)
	m.succeeds(t, p)
	p.ranAlone()
}

// succeeds has a node fenced, and deletes the remediation when it has succeeded.
func (m *restarted) succeeds(t *testing.T, p *pool) {
	t.Helper()
	b := p.beforehand()
	hour := seconds(3600)
	p.hangs(p.first())
	p.remediates(p.first(), v1alpha1.PowerRemediationSpec{PowerOffTimeout: hour, ReleaseTimeout: hour, PowerOnTimeout: hour, BootTimeout: hour})
	m.until(t, "remediation of "+p.name, func(ctx context.Context) error {
		r, err := p.remediation(ctx, p.first())
		if err == nil && r.Status.Phase != "Succeeded" {
			err = fmt.Errorf("%s: %s", r.Status.Phase, conditionsOf(r))
		}
		return err
	})
	p.deletes(p.first())
	m.until(t, "end of the remediation of "+p.name, func(ctx context.Context) error {
		_, err := p.remediation(ctx, p.first())
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the remediation is there (%w)", err)
		}
		return b.isBack(ctx)
	})
}
