package main

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// schedule binds pods until the context ends, since a sandbox has no scheduler. A pod gets the first node by name that its
// nodeSelector selects, that is ready, and that has no taint against pods.
func (s *demo) schedule(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.bindAll(ctx) // what fails is tried again
		}
	}
}

func (s *demo) bindAll(ctx context.Context) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	if s.Client.List(ctx, &pods) != nil || s.Client.List(ctx, &nodes) != nil {
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		fits := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return takes(&n, pod) })
		if fits >= 0 {
			target := corev1.ObjectReference{Kind: "Node", Name: nodes.Items[fits].Name}
			_ = s.Client.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: target})
		}
	}
}

// takes reports whether a node takes a pod that tolerates nothing.
func takes(n *corev1.Node, pod *corev1.Pod) bool {
	for key, value := range pod.Spec.NodeSelector {
		if has, ok := n.Labels[key]; !ok || has != value {
			return false
		}
	}
	repels := func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	return readyText(n) == "True" && !slices.ContainsFunc(n.Spec.Taints, repels)
}
