package remediator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remediationv1 "github.com/fettle-io/fettle/sandbox/api/remediation/v1alpha1"
)

var (
	noon   = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	takes  = metav1.Duration{Duration: 10 * time.Second}
	begun  = remediationv1.RemediationStatus{StartedAt: new(metav1.NewMicroTime(noon))}
	healed = remediationv1.RemediationStatus{
		StartedAt: begun.StartedAt, Conditions: []metav1.Condition{{Type: remediationv1.ConditionSucceeded, Status: metav1.ConditionTrue}},
	}
	down     = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	broken   = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{rebootAnnotation: rebootFails}}}
	timedOut = map[string]string{remediationv1.TimedOutAnnotation: noon.Format(time.RFC3339)}
)

func TestJudge(t *testing.T) {
	reboot, reprovision := remediatorKinds()[0], remediatorKinds()[1]
	cases := map[string]struct {
		reason  string
		trade   remediatorKind
		meta    metav1.ObjectMeta
		outcome remediationv1.Outcome
		status  remediationv1.RemediationStatus
		node    *corev1.Node
		after   time.Duration
		want    step
		wake    time.Duration
	}{
		"a new one": {reason: "its node is there", trade: reboot, node: down, want: takeUp},
		"a new one without a node": {
			reason: "there is nothing to reboot", trade: reboot, want: nodeMissing,
		},
		"a new one without a remediator": {
			reason: "as if no remediator were installed", trade: reboot, outcome: remediationv1.OutcomeIgnore, node: down, want: nothing,
		},
		"at work": {reason: "it takes ten seconds", trade: reboot, status: begun, node: down, after: 4 * time.Second, want: nothing, wake: 10 * time.Second},
		"done":    {reason: "the time is up, to the instant", trade: reboot, status: begun, node: down, after: 10 * time.Second, want: finish},
		"told to fail": {
			reason: "it works as long and then says so", trade: reboot, outcome: remediationv1.OutcomeFail, status: begun, node: down, after: 10 * time.Second, want: fail,
		},
		"a node that no reboot brings back": {
			reason: "what is wrong with the node decides", trade: reboot, status: begun, node: broken, after: 10 * time.Second, want: fail,
		},
		"the same node made anew": {
			reason: "its fault goes with it", trade: reprovision, status: begun, node: broken, after: 10 * time.Second, want: finish,
		},
		"hanging": {reason: "it works for ever", trade: reboot, outcome: remediationv1.OutcomeHang, status: begun, node: down, after: time.Hour, want: nothing},
		"hanging and told to stop": {
			reason: "the health checker has the last word", trade: reboot, outcome: remediationv1.OutcomeHang,
			meta: metav1.ObjectMeta{Annotations: timedOut}, status: begun, node: down, after: time.Hour, want: stop,
		},
		"told to stop before it began": {reason: "it takes up nothing", trade: reboot, meta: metav1.ObjectMeta{Annotations: timedOut}, node: down, want: stop},
		"told to stop after it succeeded": {
			reason: "what was said stays said", trade: reboot, meta: metav1.ObjectMeta{Annotations: timedOut}, status: healed, node: down, want: nothing,
		},
		"its node goes while it works": {reason: "a reboot needs one", trade: reboot, status: begun, after: time.Second, want: nodeMissing},
		"its node is gone as it should": {
			reason: "making it anew begins with that", trade: reprovision, status: begun, after: 10 * time.Second, want: finish,
		},
		"deleted": {
			reason: "what was done is undone", trade: reboot, status: healed, node: down, want: undo,
			meta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.NewTime(noon)), Finalizers: []string{remediationv1.Finalizer}},
		},
		"deleted, and held by another finalizer": {
			reason: "this one's part is over", trade: reboot, status: healed, node: down, want: nothing,
			meta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.NewTime(noon)), Finalizers: []string{"example.com/other"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := tc.trade.fresh()
			r.SetName("n")
			r.SetAnnotations(tc.meta.Annotations)
			r.SetDeletionTimestamp(tc.meta.DeletionTimestamp)
			r.SetFinalizers(tc.meta.Finalizers)
			spec, status := r.Parts()
			*spec, *status = remediationv1.RemediationSpec{Outcome: tc.outcome, Takes: takes}, tc.status
			got, wake := tc.trade.judge(r, tc.node, noon.Add(tc.after))
			var want time.Time
			if tc.wake != 0 {
				want = noon.Add(tc.wake)
			}
			if got != tc.want || !wake.Equal(want) {
				t.Errorf("%s: step %d, wakes at %v; want step %d at %v", tc.reason, got, wake, tc.want, want)
			}
		})
	}
}

// TestReports: every step that reports anything sets both conditions, and an end stays an end.
func TestReports(t *testing.T) {
	for next, over := range map[step]bool{takeUp: false, finish: true, fail: true, stop: true, nodeMissing: true} {
		for _, trade := range remediatorKinds() {
			var s remediationv1.RemediationStatus
			trade.report(next).write(&s, 1, noon)
			processing := meta.IsStatusConditionTrue(s.Conditions, remediationv1.ConditionProcessing)
			if len(s.Conditions) != 2 || ended(&s) != over || processing == over || s.Conditions[0].Reason == "" {
				t.Errorf("after step %d, the %s remediator says %+v", next, trade.name, s.Conditions)
			}
		}
	}
}

func TestNodeOf(t *testing.T) {
	r := &remediationv1.RebootRemediation{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	if got := nodeOf(r); got != "worker-1" {
		t.Errorf("without an annotation it is about %s", got)
	}
	r.Name, r.Annotations = "worker-1-x7k2p", map[string]string{remediationv1.NodeNameAnnotation: "worker-1"}
	if got := nodeOf(r); got != "worker-1" {
		t.Errorf("with the annotation it is about %s", got)
	}
}

// TestRegistrationLeavesFaultsBehind: a reinstalled node has everything that it had, except its faults.
func TestRegistrationLeavesFaultsBehind(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", UID: "1",
		Labels:      map[string]string{"role": "worker", "sandbox.fettle.io/kubelet": "stopped"},
		Annotations: map[string]string{"kwok.x-k8s.io/node": "fake", "sandbox.fettle.io/ready": "False", rebootAnnotation: rebootFails},
	}}
	got := registrationOf(node)
	if got.UID != "1" || len(got.Labels) != 1 || got.Labels["role"] != "worker" || len(got.Annotations) != 1 || got.Annotations["kwok.x-k8s.io/node"] != "fake" {
		t.Errorf("it would register with %+v", got)
	}
	if len(node.Labels) != 2 || len(node.Annotations) != 3 {
		t.Error("the node that was read has been changed")
	}
}
