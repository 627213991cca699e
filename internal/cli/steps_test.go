package cli

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// TestStatesOfSteps: each step begins once the one before is given up. A step that was tried times out while its node is
// unhealthy.
func TestStatesOfSteps(t *testing.T) {
	at := func(d time.Duration) *time.Time { return instant(noon.Add(d)) }
	attempts := func(r *v1alpha1.Repair) {
		r.Status.Attempts, r.Status.LastAttempt, r.Status.LastError = 1, &metav1.MicroTime{Time: noon.Add(-time.Second)}, "denied"
	}
	begun := func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.repair(0, 2*time.Minute, nil)
	}
	gone := Step{State: stepNotTaken}
	for sentence, tc := range map[string]struct {
		place func(*nodeScene)
		then  func(*assessment)
		want  [2]Step
	}{
		"both given up": {exhausted, nil, [2]Step{
			{State: "TimedOut", Began: at(-50 * time.Minute), Ended: at(-45 * time.Minute), Message: "the remediator says that it failed"},
			{State: "TimedOut", Began: at(-45 * time.Minute), Ended: at(-35 * time.Minute), Message: "too slow"},
		}},
		"recorded": {begun, nil, [2]Step{{State: stepDue, Began: at(-2 * time.Minute)}, {State: stepPlanned}}},
		"refused once": {func(s *nodeScene) {
			begun(s)
			s.repairs = map[string]*v1alpha1.Repair{}
			s.repair(0, 2*time.Minute, attempts)
		}, nil, [2]Step{{State: stepDue, Began: at(-2 * time.Minute), Ends: at(3 * time.Minute)}, {State: stepPlanned}}},
		"under way":     {nodeScenes["first-step"], nil, [2]Step{{State: stepUnderWay, Began: at(-2 * time.Minute), Ends: at(3 * time.Minute)}, {State: stepPlanned}}},
		"healthy again": {nodeScenes["healthy-delay"], nil, [2]Step{{State: stepUnderWay, Began: at(-4 * time.Minute)}, {State: stepPlanned}}},
		"hidden by now": {func(s *nodeScene) {
			nodeScenes["first-step"](s)
			s.around.templates.Hide(requestKind("Reboot"), "you may not list reboots.fix.example")
		}, nil, [2]Step{{State: stepUnknown, Began: at(-2 * time.Minute), Message: "you may not list reboots.fix.example"}, {State: stepPlanned}}},
		"hidden, and refused once": {func(s *nodeScene) {
			s.ready(0, "Unknown", 8*time.Minute)
			s.repair(0, 2*time.Minute, attempts)
			s.around.templates.Hide(requestKind("Reboot"), "you may not list reboots.fix.example")
		}, nil, [2]Step{{State: stepUnknown, Began: at(-2 * time.Minute), Message: "you may not list reboots.fix.example"}, {State: stepPlanned}}},
		"the node is gone": {func(s *nodeScene) {
			nodeScenes["first-step"](s)
			s.withoutFirst()
		}, nil, [2]Step{{State: stepEnded, Began: at(-2 * time.Minute), Message: "its target is gone"}, gone}},
		"the node can't be seen": {func(s *nodeScene) {
			nodeScenes["first-step"](s)
			s.withoutFirst()
		}, func(w *assessment) { w.blocked = &Blocked{} }, [2]Step{{State: stepEnded, Began: at(-2 * time.Minute), Message: "its target is gone"}, {State: stepPlanned}}},
	} {
		s := newNodeScene(t)
		tc.place(s)
		w := s.assessment()
		if tc.then != nil {
			tc.then(w)
		}
		if diff := cmp.Diff(tc.want[:], w.stepsOf(0), cmpopts.IgnoreFields(Step{}, "Remedy", "Template", "Timeout")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestMarkedSteps: a step that marks its target for a remediator is under way once the target has the mark of that step.
func TestMarkedSteps(t *testing.T) {
	for _, tc := range []struct {
		marked bool
		begun  time.Time
		want   string
	}{{true, noon, stepUnderWay}, {false, noon, stepDue}, {true, time.Time{}, stepDue}} {
		s := newScene()
		s.ready(0, "Unknown", time.Hour)
		s.Targets[0].ExternallyRemediated = tc.marked
		s.repair(0, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
		w := s.assessment()
		w.cluster.Repairs[0].Steps[0].Nature, w.cluster.Repairs[0].Begun = core.Annotate, tc.begun
		if got := w.stepsOf(0)[0].State; got != tc.want {
			t.Errorf("with the mark (%t), begun at %v, the step is %s, want %s", tc.marked, tc.begun, got, tc.want)
		}
	}
}

// TestRequestUnderWay is that of the step under way. None is, once every step was given up.
func TestRequestUnderWay(t *testing.T) {
	s := newNodeScene(t)
	exhausted(s)
	w := s.assessment()
	if q, stands := w.requestOf(0, 0); q != nil || stands {
		t.Errorf("request %+v is under way: %t", q, stands)
	}
	s = newNodeScene(t)
	nodeScenes["first-step"](s)
	w = s.assessment()
	q, stands := w.requestOf(0, 0)
	if q == nil || !stands || q.ID.Kind != "Reboot" {
		t.Fatalf("request %+v is under way: %t", q, stands)
	}
	leaving, remedy, template := *q, *q, *q
	leaving.Leaving, remedy.Remedy, template.Template.Name = true, "Other", "other"
	if got, _ := requestUnderWay(&w.cluster.Repairs[0], []*core.Request{&leaving, &remedy, &template, q}); got != q {
		t.Errorf("beside others %+v is under way", got)
	}
}

// TestObjectsOfNamesakes are shown, and requests to owners are not, since they are no objects.
func TestObjectsOfNamesakes(t *testing.T) {
	w := newNodeScene(t).assessment()
	id := w.cluster.Targets[0].ID
	earlier, other := id, w.cluster.Targets[1].ID
	earlier.UID = "earlier"
	unknown := id
	unknown.UID = ""
	request := func(name string, target core.ID, answers bool) core.Request {
		return core.Request{ID: core.ID{Kind: "Reboot", Name: name}, Target: target, Answers: answers, Own: true}
	}
	w.cluster.Requests = []core.Request{
		request("own", id, false), request("unknown", unknown, false), request("kept", earlier, false), request("owner", earlier, true), request("other", other, false),
	}
	want := []Request{{Reference: Reference{Kind: "Reboot", Name: "kept"}, Processing: "unknown", Succeeded: "unknown", Earlier: true}}
	if diff := cmp.Diff(want, w.objectsOfNamesakes(id)); diff != "" {
		t.Errorf("objects of namesakes (-want +got):\n%s", diff)
	}
}

// TestNothingIsPlanned for a target that is not judged from here or that is being deleted.
func TestNothingIsPlanned(t *testing.T) {
	s := newNodeScene(t)
	nodeScenes["first-step"](s)
	w := s.assessment()
	w.blocked = &Blocked{}
	var e ExplainedTarget
	w.fillDetails(0, &e)
	if !cmp.Equal(e, ExplainedTarget{}) {
		t.Errorf("of a target that is not judged it tells %+v", e)
	}
	for going, want := range map[bool]int{true: 0, false: 2} {
		s := newNodeScene(t)
		s.ready(0, "Unknown", time.Minute)
		s.Targets[0].Deleting = going
		e := s.assessment().explainTarget(0, nil, lacksRole)
		if len(e.Steps) != want {
			t.Errorf("while it goes (%t) %d steps are planned, want %d", going, len(e.Steps), want)
		}
	}
}

// TestLeasesOfNodes: the lease is ours while any health check that judges the node holds it.
func TestLeasesOfNodes(t *testing.T) {
	until := noon.Add(time.Minute)
	for sentence, tc := range map[string]struct {
		holders [2]string
		holder  string
		hidden  string
		want    *NodeLease
	}{
		"no health check uses leases": {[2]string{"", ""}, "us", "", nil},
		"only the first does":         {[2]string{"us", ""}, "us", "", &NodeLease{Holder: "us", Until: &until, Ours: true}},
		"only the second does":        {[2]string{"", "us"}, "us", "", &NodeLease{Holder: "us", Until: &until, Ours: true}},
		"the first holds it":          {[2]string{"us", "them"}, "us", "", &NodeLease{Holder: "us", Until: &until, Ours: true}},
		"the second holds it":         {[2]string{"us", "them"}, "them", "", &NodeLease{Holder: "them", Until: &until, Ours: true}},
		"another holds it":            {[2]string{"us", "them"}, "others", "", &NodeLease{Holder: "others", Until: &until}},
		"it is free":                  {[2]string{"us", ""}, "", "", &NodeLease{}},
		"it is hidden":                {[2]string{"us", ""}, "us", "so", &NodeLease{Unknown: "so"}},
	} {
		s := newNodeScene(t)
		s.check("young", time.Hour)
		w := s.assessment()
		w.policies[0].Holder, w.policies[1].Holder = tc.holders[0], tc.holders[1]
		w.cluster.Targets[0].Lease.Holder, w.cluster.Targets[0].Lease.Until, w.unread.leases = tc.holder, until, tc.hidden
		if diff := cmp.Diff(tc.want, w.leaseOf(0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestRecoveries: the requests of a node that is healthy again stay for the delay, unless there are none, a person has
// confirmed it, or none is Fettle's own to delete.
func TestRecoveries(t *testing.T) {
	at := func(d time.Duration) *time.Time { return instant(noon.Add(d)) }
	const confirm = "kubectl annotate node node-a " + "remediation.medik8s.io/manually-confirmed-healthy=true"
	stays := &Recovery{Since: at(-time.Minute), Until: at(9 * time.Minute), Confirm: confirm}
	for sentence, tc := range map[string]struct {
		then func(*assessment)
		want *Recovery
	}{
		"it stays":        {func(*assessment) {}, stays},
		"it is confirmed": {func(w *assessment) { w.cluster.Targets[0].ConfirmedHealthy = true }, nil},
		"of another node": {func(w *assessment) { w.reports[0].Members[0].Target.UID = "other" }, nil},
		"it leaves":       {func(w *assessment) { w.reports[0].Members[0].Requests[0].Leaving = true }, nil},
		"it is foreign":   {func(w *assessment) { w.reports[0].Members[0].Requests[0].Own = false }, nil},
		"there is none":   {func(w *assessment) { w.reports[0].Members[0].Requests = nil }, nil},
		"it is unhealthy": {func(w *assessment) { w.verdictsOf[0][0].Reason = core.ConditionMet }, nil},
	} {
		s := newNodeScene(t)
		nodeScenes["healthy-delay"](s)
		w := s.assessment()
		tc.then(w)
		if diff := cmp.Diff(tc.want, w.recoveryOf(0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestInstantsOfRecoveries: the delay counts from when the controller has seen that the node is healthy, and conditions must
// have settled too.
func TestInstantsOfRecoveries(t *testing.T) {
	at := func(d time.Duration) *time.Time { return instant(noon.Add(d)) }
	seen, unseen := &core.Repair{Recovered: noon}, &core.Repair{}
	for sentence, tc := range map[string]struct {
		delay, settled time.Duration
		repair         *core.Repair
		want           *Recovery
	}{
		"no delay, settled before":   {0, -time.Hour, seen, nil},
		"no delay, settled":          {0, 0, unseen, nil},
		"no delay, not settled":      {0, time.Second, unseen, &Recovery{Since: at(-time.Minute), Until: at(time.Second)}},
		"no delay, no repair":        {0, time.Second, nil, &Recovery{Since: at(-time.Minute), Until: at(time.Second)}},
		"a delay":                    {time.Hour, 0, seen, &Recovery{Since: at(-time.Minute), Until: at(59 * time.Minute)}},
		"a delay, no repair":         {time.Hour, 0, nil, &Recovery{Since: at(-time.Minute), Until: at(59 * time.Minute)}},
		"a delay that is not seen":   {time.Hour, 0, unseen, &Recovery{Since: at(0), Until: at(time.Hour)}},
		"a delay, settled later":     {time.Hour, 2 * time.Hour, seen, &Recovery{Since: at(-time.Minute), Until: at(2 * time.Hour)}},
		"until a person confirms it": {-1, time.Hour, seen, &Recovery{Since: at(-time.Minute)}},
	} {
		w := &assessment{at: noon}
		c := core.MemberReport{Target: core.ID{Kind: "Machine", Name: "a"}, Repair: tc.repair, HealthySince: noon.Add(-time.Minute), StableAt: noon.Add(tc.settled)}
		if diff := cmp.Diff(tc.want, w.recoveryIn(&core.Policy{HealthyDelay: tc.delay}, &c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
	ahead := core.MemberReport{HealthySince: noon.Add(time.Hour), StableAt: noon.Add(time.Minute)} // a clock is ahead
	want := &Recovery{Since: at(time.Hour), Until: at(time.Minute)}
	if diff := cmp.Diff(want, (&assessment{at: noon}).recoveryIn(&core.Policy{}, &ahead)); diff != "" {
		t.Errorf("no delay, healthy later (-want +got):\n%s", diff)
	}
}
