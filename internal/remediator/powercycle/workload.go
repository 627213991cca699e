package powercycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/fencing"
)

const (
	// pageSize and maxPages bound the lists of pods and of VolumeAttachments.
	pageSize = 500
	maxPages = 200
)

// countWorkload counts what is left on the node of a look.
func (c *Client) countWorkload(ctx context.Context, l *look) {
	ctx, done := c.sessions.interruptible(ctx, l.s, l.wakes, l.releases())
	defer done()
	nodes := c.nodesOf(l)
	pods, err := nodes.countPods(ctx, l.node)
	volumes := 0
	if err == nil {
		volumes, err = nodes.volumes.count(ctx, nodes, l.node)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		l.facts.Node = nil // it has changed, and is read first
		return
	}
	if err != nil {
		l.unread = err
		l.facts.Workload = &fencing.Workload{Failed: true, RetryAt: c.Now().Add(retryRead)}
		return
	}
	l.facts.Workload = &fencing.Workload{Pods: pods, Volumes: volumes}
}

// countPods counts the pods of a node that are terminating, and the pods that Fettle's own taint evicts.
func (c *nodeAPI) countPods(ctx context.Context, node string) (int, error) {
	count := 0
	var pods corev1.PodList
	for range maxPages {
		if err := c.api.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}, client.Limit(pageSize), client.Continue(pods.Continue)); err != nil {
			return 0, fmt.Errorf("listing the pods of node %s: %w", node, err)
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp != nil || isEvicted(p) {
				count++
			}
		}
		if pods.Continue == "" {
			return count, nil
		}
	}
	return 0, fmt.Errorf("node %s has more than %d pods", node, pageSize*maxPages)
}

// isEvicted reports whether Fettle's own taint evicts a pod, now or later.
func isEvicted(p *corev1.Pod) bool {
	for i := range p.Spec.Tolerations {
		t := &p.Spec.Tolerations[i]
		keyed := t.Key == annotation.FencingTaint || t.Key == "" && t.Operator == corev1.TolerationOpExists
		valued := t.Operator == corev1.TolerationOpExists || t.Value == ""
		if keyed && valued && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute) && t.TolerationSeconds == nil {
			return false
		}
	}
	return true
}

// volumeCounter counts VolumeAttachments by node. The API server can't select them by node, so that fencings share a list.
type volumeCounter struct {
	// turn has room for the one call that lists. It guards what follows.
	turn   chan struct{}
	begun  time.Time
	byNode map[string]int
}

func newVolumeCounter() *volumeCounter { return &volumeCounter{turn: make(chan struct{}, 1)} }

// count returns the number of VolumeAttachments of a node, from a list that began after the call.
func (v *volumeCounter) count(ctx context.Context, c *nodeAPI, node string) (int, error) {
	called := c.now()
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for another list of the VolumeAttachments: %w", ctx.Err())
	}
	defer func() { <-v.turn }()
	if v.byNode != nil && v.begun.After(called) {
		return v.byNode[node], nil
	}
	begun := c.now()
	counted, err := c.listVolumes(ctx)
	if err != nil {
		return 0, err
	}
	v.begun, v.byNode = begun, counted
	return counted[node], nil
}

func (c *nodeAPI) listVolumes(ctx context.Context) (map[string]int, error) {
	counted := map[string]int{}
	var page storagev1.VolumeAttachmentList
	for range maxPages {
		if err := c.api.List(ctx, &page, client.Limit(pageSize), client.Continue(page.Continue)); err != nil {
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
