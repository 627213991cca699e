package metal

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func boundPods(all ...pod) pods {
	bound := pods{}
	for _, p := range all {
		bound[p.uid] = p
	}
	return bound
}

func runs(k *kubelet) []types.UID {
	var all []types.UID
	for uid := range k.running {
		all = append(all, uid)
	}
	slices.Sort(all)
	return all
}

func TestKubeletRunsPods(t *testing.T) {
	fresh := pod{uid: "fresh", phase: corev1.PodRunning}
	old := pod{uid: "old", phase: corev1.PodRunning}
	cases := map[string]struct {
		kubelet kubelet
		bound   pods
		want    []types.UID
	}{
		"a running pod starts":                    {kubelet{alive: true}, boundPods(fresh), []types.UID{"fresh"}},
		"a pending pod waits":                     {kubelet{alive: true}, boundPods(pod{uid: "fresh", phase: corev1.PodPending}), nil},
		"a terminating pod doesn't start":         {kubelet{alive: true}, boundPods(pod{uid: "fresh", phase: corev1.PodRunning, terminating: true}), nil},
		"a refused pod doesn't start":             {kubelet{alive: true, refused: map[types.UID]bool{"fresh": true}}, boundPods(fresh), nil},
		"a stopped kubelet starts nothing":        {kubelet{}, boundPods(fresh), nil},
		"a stopped kubelet ends nothing":          {kubelet{running: boundPods(old)}, nil, []types.UID{"old"}},
		"a pod that is gone ends":                 {kubelet{alive: true, running: boundPods(old)}, boundPods(fresh), []types.UID{"fresh"}},
		"a terminating pod runs until it is gone": {kubelet{alive: true, running: boundPods(old)}, boundPods(pod{uid: "old", phase: corev1.PodRunning, terminating: true}), []types.UID{"old"}},
		"a pod that has succeeded ends":           {kubelet{alive: true, running: boundPods(old)}, boundPods(pod{uid: "old", phase: corev1.PodSucceeded}), nil},
		"a pod that has failed ends":              {kubelet{alive: true, running: boundPods(old)}, boundPods(pod{uid: "old", phase: corev1.PodFailed}), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.kubelet.settle(tc.bound)
			if got := runs(&tc.kubelet); !slices.Equal(got, tc.want) {
				t.Errorf("%v run, want %v", got, tc.want)
			}
		})
	}
}

func TestAKubeletEndsWhatDoesNotRun(t *testing.T) {
	stays := pod{uid: "stays", phase: corev1.PodRunning}
	leaves := pod{uid: "leaves", phase: corev1.PodRunning, terminating: true}
	cases := map[string]struct {
		kubelet kubelet
		want    int
	}{
		"a kubelet that has just started": {kubelet{alive: true}, 1},
		"a pod that still runs":           {kubelet{alive: true, running: boundPods(leaves)}, 0},
		"a kubelet that is stopped":       {kubelet{}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.kubelet.leftovers(boundPods(stays, leaves))
			if len(got) != tc.want || tc.want == 1 && got[0].uid != leaves.uid {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestAStartingKubeletRefusesPods(t *testing.T) {
	outOfService := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	unreachable := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
	tolerant := []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	cases := map[string]struct {
		tolerations []corev1.Toleration
		taints      []corev1.Taint
		runs        bool
	}{
		"without taints":                  {nil, nil, true},
		"a taint that keeps pods away":    {tolerant, []corev1.Taint{outOfService}, false},
		"one of two taints is tolerated":  {tolerant, []corev1.Taint{unreachable, outOfService}, false},
		"the only taint is tolerated":     {tolerant, []corev1.Taint{unreachable}, true},
		"a taint for new pods only":       {nil, []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}, true},
		"another value isn't tolerated":   {[]corev1.Toleration{{Key: outOfService.Key, Value: "other"}}, []corev1.Taint{outOfService}, false},
		"a toleration of everything does": {[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, []corev1.Taint{outOfService}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			bound := boundPods(pod{uid: "u", phase: corev1.PodRunning, tolerations: tc.tolerations})
			k := kubelet{alive: true}
			k.start(bound, tc.taints)
			k.settle(bound)
			if got := len(k.running) == 1; got != tc.runs {
				t.Errorf("it runs: %t, want %t", got, tc.runs)
			}
			k.settle(boundPods(pod{uid: "later", phase: corev1.PodRunning}))
			if len(k.running) != 1 {
				t.Error("a pod that came later isn't judged by the taints of the start")
			}
		})
	}
}

func TestOwner(t *testing.T) {
	owner := func(kind string, controls bool) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: "web", Controller: new(controls)}},
		}}
	}
	for want, object := range map[string][]*corev1.Pod{
		"web": {owner("StatefulSet", true)},
		"":    {owner("StatefulSet", false), owner("ReplicaSet", true), {}},
	} {
		for _, o := range object {
			if got := podOf(o).owner; got != want {
				t.Errorf("the owner of %v is %q, want %q", o.OwnerReferences, got, want)
			}
		}
	}
}
