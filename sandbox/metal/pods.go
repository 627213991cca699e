package metal

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// pod is what the simulation keeps of a Pod.
type pod struct {
	namespace, name string
	uid             types.UID
	owner           string // the StatefulSet that controls it, or ""
	phase           corev1.PodPhase
	terminating     bool
	tolerations     []corev1.Toleration
}

func podOf(object *corev1.Pod) pod {
	p := pod{
		namespace: object.Namespace, name: object.Name, uid: object.UID,
		phase: object.Status.Phase, terminating: object.DeletionTimestamp != nil, tolerations: object.Spec.Tolerations,
	}
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == "StatefulSet" {
		p.owner = owner.Name
	}
	return p
}

// pods are the Pods of one node in the API.
type pods map[types.UID]pod

// ended reports whether the containers of the pod have ended by themselves.
func (p pod) ended() bool { return p.phase == corev1.PodSucceeded || p.phase == corev1.PodFailed }

// keptAway reports whether a starting kubelet starts no such pod: the node has a taint with the effect NoExecute that the
// pod doesn't tolerate.
func (p pod) keptAway(taints []corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoExecute &&
			!slices.ContainsFunc(p.tolerations, func(t corev1.Toleration) bool {
				return t.ToleratesTaint(klog.Background(), &taint, false)
			})
	})
}

// kubelet is the part of a host that runs its pods. It keeps the pods that run, whatever the API says.
type kubelet struct {
	alive   bool
	running pods
	refused map[types.UID]bool // by the taints of the node, when the kubelet started
}

// stopAll ends all pods: the power is off.
func (k *kubelet) stopAll() { *k = kubelet{} }

// start begins the work of a kubelet after a boot.
func (k *kubelet) start(bound pods, taints []corev1.Taint) {
	k.refused = map[types.UID]bool{}
	for uid, p := range bound {
		k.refused[uid] = p.keptAway(taints)
	}
}

// leftovers returns the pods that a kubelet has to end in the API: they are to end, and none of their containers runs. A running pod is
// ended by KWOK.
func (k *kubelet) leftovers(bound pods) []pod {
	var all []pod
	for uid, p := range bound {
		if _, runs := k.running[uid]; k.alive && p.terminating && !runs {
			all = append(all, p)
		}
	}
	return all
}

// settle starts and ends pods as the API says. A kubelet that is stopped neither starts nor ends any.
func (k *kubelet) settle(bound pods) {
	if !k.alive {
		return
	}
	if k.running == nil {
		k.running = pods{}
	}
	for uid := range k.running {
		if p, there := bound[uid]; !there || p.ended() {
			delete(k.running, uid)
		}
	}
	for uid, p := range bound {
		if p.phase == corev1.PodRunning && !p.terminating && !k.refused[uid] {
			k.running[uid] = p
		}
	}
}
