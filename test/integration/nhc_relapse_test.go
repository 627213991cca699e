package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	fettlev1alpha1 "github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// relapsePause is the pause of back-off in the cases below.
const relapsePause = 8 * time.Second

// failsAsItIsWithdrawn: nodes fail again in the moment in which their objects go. By their clocks they failed long ago,
// so they are unhealthy at once. The object of node a has a finalizer, and a fails before it goes. Each failure has its
// own repair, which comes after the pause.
func failsAsItIsWithdrawn(p *pool) {
	nodes := []string{"a", "b", "c", "d", "e", "f"}
	var objects, repairs []string
	for _, name := range nodes {
		objects, repairs = append(objects, name+" reboot"), append(repairs, name+" Running", name+" Succeeded")
	}
	p.nodes(nodes...)
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 100%", "backoff: {type: exponential, limit: 1m}", p.single(rebooting, "reboot"))
	p.annotateCheck(`{"` + annotation.BackoffBase + `":"` + relapsePause.String() + `"}`)
	p.fails(nodes...)
	p.wantObjects(objects...)
	p.keep("a reboot")
	reboots := p.watchReboots()
	p.recovers(nodes...)
	for range objects[1:] {
		p.longFailed(p.nextGone(reboots))
	}
	p.Eventually(p.t, "the object of a is on its way out", func(ctx context.Context) error {
		have, err := p.remediations(ctx)
		if err == nil && have["-a reboot"] == nil {
			err = errors.New("it is not")
		}
		return err
	})
	p.longFailed("a")
	p.wantObjects(append([]string{"-a reboot"}, objects[1:]...)...) // by then Fettle has seen that a has failed too
	p.letGo("-a reboot")
	p.wantObjects(objects...)
	p.wantNodeRepairs(repairs...)
	for _, r := range p.endedRepairs() {
		node := strings.TrimPrefix(r.Spec.Target.Name, p.namespace+"-")
		p.createdBefore(node+" reboot", r.Status.FinishedAt.Add(relapsePause))
	}
}

// longFailed makes a node report that it has not been ready for an hour.
func (p *pool) longFailed(name string) {
	p.t.Helper()
	p.setCondition(name, "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour))
}

// watchReboots watches the reboot objects of the pool.
func (p *pool) watchReboots() watch.Interface {
	p.t.Helper()
	watching, err := client.NewWithWatch(p.Config, client.Options{Scheme: p.Scheme()})
	if err != nil {
		p.t.Fatalf("making a client: %v", err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(remediators)
	list.SetKind(rebooting + "List")
	w, err := watching.Watch(cluster.Context(p.t), list, client.InNamespace(p.namespace))
	if err != nil {
		p.t.Fatalf("watching: %v", err)
	}
	p.t.Cleanup(w.Stop)
	return w
}

// nextGone waits until an object is gone, and returns its node.
func (p *pool) nextGone(w watch.Interface) string {
	p.t.Helper()
	for e := range w.ResultChan() {
		if u, is := e.Object.(*unstructured.Unstructured); is && e.Type == watch.Deleted {
			return strings.TrimPrefix(u.GetAnnotations()[v1alpha1.NodeNameAnnotation], p.namespace+"-")
		}
	}
	p.t.Fatal("the watch has ended, and no object is gone")
	return ""
}

// repairsHere returns the repairs of the pool's nodes.
func (p *pool) repairsHere(ctx context.Context) ([]fettlev1alpha1.Repair, error) {
	var list fettlev1alpha1.RepairList
	var here []fettlev1alpha1.Repair
	err := p.List(ctx, &list)
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Spec.Target.Name, p.namespace+"-") {
			here = append(here, list.Items[i])
		}
	}
	return here, err
}

func (p *pool) endedRepairs() []fettlev1alpha1.Repair {
	p.t.Helper()
	all, err := p.repairsHere(cluster.Context(p.t))
	if err != nil {
		p.t.Fatalf("listing repairs: %v", err)
	}
	var ended []fettlev1alpha1.Repair
	for i := range all {
		if all[i].Status.FinishedAt != nil {
			ended = append(ended, all[i])
		}
	}
	return ended
}

// wantRepairOf waits until the only repair of a node is as wanted, and returns it.
func (p *pool) wantRepairOf(node, what string, want func(*fettlev1alpha1.Repair) bool) fettlev1alpha1.Repair {
	p.t.Helper()
	var found fettlev1alpha1.Repair
	p.Eventually(p.t, "the repair of "+node+" "+what, func(ctx context.Context) error {
		all, err := p.repairsHere(ctx)
		if err != nil {
			return err
		}
		n := 0
		for i := range all {
			if all[i].Spec.Target.Name == p.nodeName(node) {
				found, n = all[i], n+1
			}
		}
		if n != 1 {
			return fmt.Errorf("it has %d", n)
		}
		if !want(&found) {
			return fmt.Errorf("it is %+v", found.Status)
		}
		return nil
	})
	return found
}

// onlyStepFails: a remediator without a successor reports that it failed. Fettle records the failed step, publishes an
// event, and leaves the node to users, without counting it in flight. The repair ends as Withdrawn once a user has
// healed the node (docs/reference/medik8s.md#remediating-a-node).
func onlyStepFails(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	p.annotateCheck(`{"` + annotation.MaxInFlight + `":"1"}`)
	p.fails("a")
	p.wantObjects("a reboot")
	p.fails("b")
	p.wantAnswer("explain node/"+p.nodeName("b"), "InFlightLimit ("+p.namespace+")")
	p.keepsObjects("a reboot")
	p.say("a reboot", "Processing=False", "Succeeded=False")
	p.wantObjects("a reboot", "b reboot")
	p.wantEvents("NoTemplateLeft", "a-1")
	p.wantRepairOf("a", "has a step that failed", func(r *fettlev1alpha1.Repair) bool {
		steps := r.Status.Steps
		return r.Status.Phase == fettlev1alpha1.RepairRunning && len(steps) == 1 && steps[0].Outcome == fettlev1alpha1.StepFailed
	})
	p.wantNodeStatus("1/3 healthy, Remediating, unhealthy: a[reboot] b[reboot]")
	p.wantAnswer("explain node/"+p.nodeName("a"), "the only step of its repair was tried to no avail, so it counts as unhealthy and no longer as under repair; repair it by hand")
	p.recovers("a")
	p.wantObjects("b reboot")
	p.wantRepairOf("a", "is withdrawn", func(r *fettlev1alpha1.Repair) bool {
		return r.Status.Phase == fettlev1alpha1.RepairWithdrawn && strings.Contains(r.Status.Message, "tried to no avail")
	})
}

// stuckAfterItsLastStep: a remediator reports that it has succeeded, and the node stays unhealthy. Ten minutes after
// that began, another node takes its place. The test dates the request back, and sees the last seconds of the ten
// minutes.
func stuckAfterItsLastStep(p *pool) {
	const left = 20 * time.Second
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	p.annotateCheck(`{"` + annotation.MaxInFlight + `":"1"}`)
	p.fails("a")
	p.wantObjects("a reboot")
	p.wantNodeStatus("2/3 healthy, Remediating, unhealthy: a[reboot]")
	p.fails("b")
	p.wantAnswer("explain node/"+p.nodeName("b"), "InFlightLimit ("+p.namespace+")")
	p.asIfRequested("a reboot", 20*time.Minute)

	free := time.Now().Add(left).Truncate(time.Second)
	p.sayAt("a reboot", free.Add(-10*time.Minute), "Processing=False", "Succeeded=True")
	p.wantAnswer("explain node/"+p.nodeName("a"), "At "+free.UTC().Format(time.TimeOnly)+"Z", "it is left to people and no longer counts as under repair, if it is still unhealthy: its remediator says that it succeeded")
	p.wantObjects("a reboot", "b reboot")
	p.createdBefore("b reboot", free)
	p.wantNodeStatus("1/3 healthy, Remediating, unhealthy: a[reboot] b[reboot]")
	p.wantAnswer("explain node/"+p.nodeName("a"), "LadderExhausted ("+p.namespace+"): the only step of its repair was tried to no avail, so it counts as unhealthy and no longer as under repair; repair it by hand")
	p.wantAnswer("explain nhc/"+p.namespace, "LadderExhausted is closed, for 1 ("+p.nodeName("a")+")")
	p.recovers("a")
	p.wantObjects("b reboot")
	p.wantNodeRepairs("a Succeeded", "b Running")
}

// asIfRequested dates back the request for a node, in its repair and in the object.
func (p *pool) asIfRequested(text string, ago time.Duration) {
	p.t.Helper()
	at := time.Now().Add(-ago).UTC()
	node, _, _ := strings.Cut(text, " ")
	r := p.wantRepairOf(node, "is recorded", func(*fettlev1alpha1.Repair) bool { return true })
	p.Rewrite(p.t, object("fettle.io/v1alpha1", "Repair", r.Namespace, r.Name), func(o map[string]any) {
		o["spec"].(map[string]any)["startedAt"] = at.Format("2006-01-02T15:04:05.000000Z07:00")
		o["metadata"].(map[string]any)["creationTimestamp"] = at.Format(time.RFC3339)
	})
	p.Rewrite(p.t, p.object(text), func(o map[string]any) {
		o["metadata"].(map[string]any)["creationTimestamp"] = at.Format(time.RFC3339)
	})
	p.Eventually(p.t, "the status tells of that", func(ctx context.Context) error {
		s, err := p.nodeStatus(ctx, p.namespace)
		if err != nil {
			return err
		}
		for _, n := range s.UnhealthyNodes {
			if n.Name == p.nodeName(node) && len(n.Remediations) == 1 && n.Remediations[0].Started.Time.Equal(at.Truncate(time.Second)) {
				return nil
			}
		}
		return errors.New(p.statusText(s))
	})
}
