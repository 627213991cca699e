package fencednode

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/fencing"
)

const (
	// pageSize and maxPages bound the lists of pods and of VolumeAttachments.
	pageSize = 500
	maxPages = 200
)

// CountWorkload counts what is left on a node. It reports an error if the API server can't be read, or the context ends.
func (a *Nodes) CountWorkload(ctx context.Context, node string) (fencing.Workload, error) {
	workload, err := a.countPods(ctx, node)
	if err != nil {
		return fencing.Workload{}, err
	}
	workload.Volumes, err = a.volumes.count(ctx, a, node)
	return workload, err
}

// countPods counts the pods of a node that are terminating, and the pods that Fettle's own taint evicts. It counts those too that the taint does
// not keep from starting.
func (a *Nodes) countPods(ctx context.Context, node string) (fencing.Workload, error) {
	var count fencing.Workload
	var pods corev1.PodList
	for range maxPages {
		if err := a.api.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}, client.Limit(pageSize), client.Continue(pods.Continue)); err != nil {
			return fencing.Workload{}, fmt.Errorf("listing the pods of node %s: %w", node, err)
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.DeletionTimestamp != nil || isEvicted(p) {
				count.Pods++
			}
			if isTolerant(p) {
				count.Tolerant++
			}
		}
		if pods.Continue == "" {
			return count, nil
		}
	}
	return fencing.Workload{}, fmt.Errorf("node %s has more than %d pods", node, pageSize*maxPages)
}

// isEvicted reports whether Fettle's own taint evicts a pod, now or later.
func isEvicted(p *corev1.Pod) bool { return !tolerates(p, fencingTaint, true) }

// isTolerant reports whether a kubelet that starts would start a pod in spite of Fettle's own taint, and a release moves it: Kubernetes deletes it
// because of one of both taints, or because it is terminating.
func isTolerant(p *corev1.Pod) bool {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	moves := p.DeletionTimestamp != nil || isEvicted(p) || !tolerates(p, releasingTaint, true)
	return !ended && moves && tolerates(p, fencingTaint, false)
}

// tolerates reports whether a pod tolerates a taint, for any time or without end.
func tolerates(p *corev1.Pod, taint corev1.Taint, always bool) bool {
	for i := range p.Spec.Tolerations {
		t := &p.Spec.Tolerations[i]
		keyed := t.Key == taint.Key || t.Key == "" && t.Operator == corev1.TolerationOpExists
		valued := t.Operator == corev1.TolerationOpExists || t.Value == taint.Value
		if keyed && valued && (t.Effect == "" || t.Effect == taint.Effect) && (t.TolerationSeconds == nil || !always) {
			return true
		}
	}
	return false
}

// Volumes counts VolumeAttachments by node. The API server can't select them by node, so that fencings share a list.
type Volumes struct {
	// turn has room for the one call that lists. It guards what follows.
	turn   chan struct{}
	begun  time.Time
	byNode map[string]int
}

// NewVolumes returns a counter that has counted nothing.
func NewVolumes() *Volumes { return &Volumes{turn: make(chan struct{}, 1)} }

// count returns the number of VolumeAttachments of a node, from a list that began after the call.
func (v *Volumes) count(ctx context.Context, a *Nodes, node string) (int, error) {
	called := a.now()
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for another list of the VolumeAttachments: %w", ctx.Err())
	}
	defer func() { <-v.turn }()
	if v.begun.After(called) {
		return v.byNode[node], nil
	}
	begun := a.now()
	counted, err := a.listVolumes(ctx)
	if err != nil {
		return 0, err
	}
	v.begun, v.byNode = begun, counted
	return counted[node], nil
}

func (a *Nodes) listVolumes(ctx context.Context) (map[string]int, error) {
	counted := map[string]int{}
	var page storagev1.VolumeAttachmentList
	for range maxPages {
		if err := a.api.List(ctx, &page, client.Limit(pageSize), client.Continue(page.Continue)); err != nil {
			return nil, fmt.Errorf("listing the VolumeAttachments: %w", err)
		}
		for i := range page.Items {
			counted[page.Items[i].Spec.NodeName]++
		}
		if page.Continue == "" {
			return counted, nil
		}
	}
	return nil, fmt.Errorf("there are more than %d VolumeAttachments", pageSize*maxPages)
}
