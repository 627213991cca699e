package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	fettlev1alpha1 "github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestWhatAnEarlierLeaderRecorded: Fettle starts beside Repairs that an earlier leader has recorded, some of them by a clock
// that was ahead.
func TestWhatAnEarlierLeaderRecorded(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettleForNodes(t)
	former := formerLeader(t, c)
	pools := map[string]*inheritedPool{}
	for name, of := range map[string]struct{ prepare, check func(*inheritedPool) }{
		"ends": {prepareEnds, checkEnds},
		"step": {prepareStep, checkStep},
		"much": {prepareFlood, checkFlood},
	} {
		p := &inheritedPool{pool: newPool(t, c, "past-"+name), former: former, check: of.check}
		of.prepare(p)
		pools[name] = p
	}
	began := time.Now()
	c.StartFettle(t)
	for name, p := range pools {
		t.Run(name, func(t *testing.T) { // not in parallel: it would wait for other tests, and the limits of the Repairs would pass
			p.began = began
			p.pool = &pool{&machineFixture{Cluster: c, t: t, namespace: p.namespace}}
			p.check(p)
		})
	}
}

// inheritedPool is a pool with the Repairs of an earlier leader.
type inheritedPool struct {
	*pool

	former client.Client
	check  func(*inheritedPool)
	// began is when Fettle started. It can have seen nothing before.
	began time.Time
}

// formerLeader returns a client that has Fettle's identity.
func formerLeader(t *testing.T, c *cluster.Cluster) client.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.FettleKubeconfig(t))
	if err != nil {
		t.Fatalf("reading a kubeconfig: %v", err)
	}
	config.QPS = -1
	former, err := client.New(config, client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return former
}

// repairOf returns a Repair by which an earlier leader requested reboots of a node.
func (p *inheritedPool) repairOf(node core.ID, number int, started time.Time, steps ...fettlev1alpha1.RepairStep) *fettlev1alpha1.Repair {
	p.t.Helper()
	check := p.own()
	r := &fettlev1alpha1.Repair{}
	r.Namespace, r.Name = "fettle-system", core.RepairName(node, number)
	r.Spec = fettlev1alpha1.RepairSpec{
		Target: fettlev1alpha1.RepairTarget{ObjectReference: fettlev1alpha1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID}, Node: node.Name},
		Policy: fettlev1alpha1.ObjectReference{Kind: "NodeHealthCheck", Name: check.GetName(), UID: p.uidOfObject(check)},
		Holder: holderOf(check.GetName()), Reason: "UnhealthyCondition", Ladder: steps, StartedAt: metav1.NewMicroTime(started),
	}
	return r
}

// nodeID returns the target ID of a node of the pool.
func (p *inheritedPool) nodeID(name string) core.ID {
	p.t.Helper()
	return core.ID{Kind: "Node", Name: p.nodeName(name), UID: p.uidOfObject(object("v1", "Node", "", p.nodeName(name)))}
}

// stepOf is a step without a limit.
func (p *inheritedPool) stepOf(kind, template string) fettlev1alpha1.RepairStep {
	return fettlev1alpha1.RepairStep{Remedy: "RequestNodeRemediation", Nature: fettlev1alpha1.StepCreateRequest, Template: &fettlev1alpha1.TemplateReference{
		APIVersion: remediators, Kind: kind + "Template", Namespace: p.namespaceOf(kind), Name: p.templateName(template),
	}}
}

// record records a Repair with its status.
func (p *inheritedPool) record(ctx context.Context, r *fettlev1alpha1.Repair, status fettlev1alpha1.RepairStatus) error {
	if err := p.former.Create(ctx, r); err != nil {
		return err
	}
	before := client.MergeFrom(r.DeepCopy())
	r.Status = status
	return p.former.Status().Patch(ctx, r, before)
}

func (p *inheritedPool) mustRecord(r *fettlev1alpha1.Repair, status fettlev1alpha1.RepairStatus) {
	p.t.Helper()
	if err := p.record(cluster.Context(p.t), r, status); err != nil {
		p.t.Fatalf("recording a Repair: %v", err)
	}
}

func endedAt(phase fettlev1alpha1.RepairPhase, at time.Time) fettlev1alpha1.RepairStatus {
	return fettlev1alpha1.RepairStatus{Phase: phase, Message: "recorded by an earlier leader", FinishedAt: &metav1.Time{Time: at}}
}

// endsPause is the pause of back-off after the first of these repairs.
const endsPause = 30 * time.Second

// prepareEnds: two nodes have failed again, and the leader that ended their last repairs had a clock that was 40 minutes, and
// three days, ahead.
func prepareEnds(p *inheritedPool) {
	p.nodes("minutes", "days", "well")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 100%", "backoff: {type: exponential, limit: 1m}", p.single(rebooting, "reboot"))
	p.annotateCheck(`{"` + annotation.BackoffBase + `":"` + endsPause.String() + `"}`)
	now := time.Now()
	for node, ahead := range map[string]time.Duration{"minutes": 40 * time.Minute, "days": 72 * time.Hour} {
		r := p.repairOf(p.nodeID(node), 1, now.Add(-5*time.Minute), p.stepOf(rebooting, "reboot"))
		p.mustRecord(r, endedAt(fettlev1alpha1.RepairSucceeded, now.Add(ahead)))
		p.fails(node)
	}
}

// checkEnds: clocks may differ by up to an hour. An end within that counts from when Fettle has seen it, which bounds
// its pause. No clock of a leader can have written the other end, which counts for nothing.
func checkEnds(p *inheritedPool) {
	p.wantObjects("days reboot", "minutes reboot")
	p.wantCheckEvent("RemediationSkipped")
	p.createdBefore("minutes reboot", p.began.Add(endsPause))
	if at := p.object("days reboot").GetCreationTimestamp(); !at.Time.Before(p.object("minutes reboot").GetCreationTimestamp().Time) {
		p.t.Errorf("the node whose last end is days ahead was repaired at %s, no sooner than the other", at)
	}
	p.wantNodeRepairs("days Running", "days Succeeded", "minutes Running", "minutes Succeeded")
}

// prepareStep: the leader that gave up the first step of a repair had a clock that was three days ahead.
func prepareStep(p *inheritedPool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.template(reinstall, "install", true)
	p.healthCheck(p.steps("10m", rebooting, "reboot", reinstall, "install"))
	first, second := p.stepOf(rebooting, "reboot"), p.stepOf(reinstall, "install")
	first.Timeout, second.Timeout = &metav1.Duration{Duration: 10 * time.Minute}, &metav1.Duration{Duration: 10 * time.Minute}
	now := time.Now()
	p.mustRecord(p.repairOf(p.nodeID("a"), 1, now.Add(-15*time.Minute), first, second), fettlev1alpha1.RepairStatus{
		Phase: fettlev1alpha1.RepairRunning, Message: "recorded by an earlier leader", Step: 1, Steps: []fettlev1alpha1.RepairAttempt{
			{Outcome: fettlev1alpha1.StepTimedOut, EndedAt: metav1.NewMicroTime(now.Add(72 * time.Hour)), Message: "too slow"},
		},
	})
	p.fails("a")
}

// checkStep: Fettle begins the next step without a wait.
func checkStep(p *inheritedPool) {
	p.wantObjects("a install")
	p.wantNodeRepairs("a Running")
	p.wantNodeStatus("2/3 healthy, Remediating, unhealthy: a[install]")
	p.wantAnswer("explain node/"+p.nodeName("a"), "under way since")
}

// The number of finished Repairs that a namespace keeps without the Repairs that back-off reads, and a number beyond
// it.
const (
	mostKept = 1000
	flood    = mostKept + 150
)

// prepareFlood: a repair of node a has failed 40 minutes ago. Very many repairs of another node ended after it.
func prepareFlood(p *inheritedPool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck("backoff: {type: exponential, limit: 1h}", p.single(rebooting, "reboot"))
	p.annotateCheck(`{"` + annotation.BackoffBase + `":"50m"}`)
	started := time.Now().Add(-50 * time.Minute)
	failed := endedAt(fettlev1alpha1.RepairWithdrawn, started.Add(10*time.Minute))
	failed.Step, failed.Steps = 1, []fettlev1alpha1.RepairAttempt{{Outcome: fettlev1alpha1.StepFailed, EndedAt: metav1.NewMicroTime(started.Add(time.Minute)), Message: "it failed"}}
	p.mustRecord(p.repairOf(p.nodeID("a"), 1, started, p.stepOf(rebooting, "reboot")), failed)

	gone := core.ID{Kind: "Node", Name: p.nodeName("gone"), UID: "gone"}
	model := p.repairOf(gone, 1, started, p.stepOf(rebooting, "reboot"))
	group, ctx := errgroup.WithContext(cluster.Context(p.t))
	group.SetLimit(16)
	for number := range flood {
		group.Go(func() error {
			r := model.DeepCopy()
			r.Name = core.RepairName(gone, number+1)
			return p.record(ctx, r, endedAt(fettlev1alpha1.RepairSucceeded, started.Add(20*time.Minute+time.Duration(number)*time.Second)))
		})
	}
	if err := group.Wait(); err != nil {
		p.t.Fatalf("recording many Repairs: %v", err)
	}
}

// checkFlood: the oldest of the many are deleted. The older Repair that back-off reads stays, and delays the next
// repair of its node.
func checkFlood(p *inheritedPool) {
	p.Eventually(p.t, "the oldest Repairs are deleted", func(ctx context.Context) error {
		of, err := p.finished(ctx)
		if err == nil && of["gone"] > mostKept+1 { // back-off may read the last one
			err = fmt.Errorf("there are %v", of)
		}
		return err
	})
	p.fails("a")
	p.wantAnswer("explain node/"+p.nodeName("a"), "BackingOff ("+p.namespace+"): it has failed again within an hour of its last repair")
	p.wantNodeStatus("2/3 healthy, Enabled, unhealthy: a[]")
	p.keepsObjects()
	of, err := p.finished(cluster.Context(p.t))
	// The finished Repairs of the other pools count as kept.
	if err != nil || of["a"] != 1 || of["gone"] < mostKept-10 {
		p.t.Errorf("of the finished Repairs are left %v (%v)", of, err)
	}
}

// finished counts the finished Repairs of the pool's nodes.
func (p *inheritedPool) finished(ctx context.Context) (map[string]int, error) {
	of := map[string]int{}
	all, err := p.repairsHere(ctx)
	for i := range all {
		if all[i].Status.FinishedAt != nil {
			of[strings.TrimPrefix(all[i].Spec.Target.Name, p.namespace+"-")]++
		}
	}
	return of, err
}
