package fencednode

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
)

// pod returns a pod on a node.
func pod(name, node string, tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Tolerations: tolerations},
	}
}

func volume(name, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{NodeName: node}}
}

var toleratesAll = corev1.Toleration{Operator: corev1.TolerationOpExists}

// TestEvictedPods agrees with how Kubernetes matches tolerations, and says what it must say in each case.
func TestEvictedPods(t *testing.T) {
	seconds := int64(300)
	for sentence, tc := range map[string]struct {
		tolerations []corev1.Toleration
		want        bool
	}{
		"none":                             {nil, true},
		"all taints":                       {[]corev1.Toleration{toleratesAll}, false},
		"all taints of the effect":         {[]corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}, false},
		"all taints of another effect":     {[]corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, true},
		"all taints for a time":            {[]corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: &seconds}}, true},
		"no key without Exists":            {[]corev1.Toleration{{Operator: corev1.TolerationOpEqual}}, true},
		"the key":                          {[]corev1.Toleration{{Key: annotation.FencingTaint, Operator: corev1.TolerationOpExists}}, false},
		"the key and the effect":           {[]corev1.Toleration{{Key: annotation.FencingTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}, false},
		"the key with the empty value":     {[]corev1.Toleration{{Key: annotation.FencingTaint, Operator: corev1.TolerationOpEqual}}, false},
		"the key without an operator":      {[]corev1.Toleration{{Key: annotation.FencingTaint}}, false},
		"the key with another value":       {[]corev1.Toleration{{Key: annotation.FencingTaint, Operator: corev1.TolerationOpEqual, Value: "x"}}, true},
		"the key and another effect":       {[]corev1.Toleration{{Key: annotation.FencingTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, true},
		"the key for a time":               {[]corev1.Toleration{{Key: annotation.FencingTaint, Operator: corev1.TolerationOpExists, TolerationSeconds: &seconds}}, true},
		"the key with a value to ignore":   {[]corev1.Toleration{{Key: annotation.FencingTaint, Operator: corev1.TolerationOpExists, Value: "x"}}, false},
		"another key":                      {[]corev1.Toleration{{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists}}, true},
		"another key, and then all taints": {[]corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}, toleratesAll}, false},
	} {
		if got := isEvicted(pod("p", "node-a", tc.tolerations...)); got != tc.want {
			t.Errorf("a pod that tolerates %s is evicted: %t", sentence, got)
		}
	}
}

func TestCountPods(t *testing.T) {
	terminating := pod("terminating", "node-a", toleratesAll)
	terminating.DeletionTimestamp, terminating.Finalizers = &metav1.Time{Time: noon}, []string{"x"}
	w := newWorld(t, pod("evicted", "node-a"), pod("tolerant", "node-a", toleratesAll), terminating, pod("elsewhere", "node-b"))
	if got, err := w.countPods(t.Context(), "node-a"); err != nil || got.Pods != 2 || got.Tolerant != 1 {
		t.Errorf("%+v (%v), want 2 pods, and 1 that the taint does not keep from starting", got, err)
	}
	w.refuses(func(string, runtime.Object) error { return errors.New("no") })
	if got, err := w.countPods(t.Context(), "node-a"); err == nil || got.Pods != 0 {
		t.Errorf("pods that could not be listed are counted: %+v", got)
	}
}

// TestTolerantPods: a pod that a kubelet starts in spite of the taint may run when its node is released by a new boot.
func TestTolerantPods(t *testing.T) {
	seconds := int64(300)
	forATime := corev1.Toleration{Operator: corev1.TolerationOpExists, TolerationSeconds: &seconds}
	byKey := corev1.Toleration{Key: annotation.FencingTaint, Operator: corev1.TolerationOpExists}
	ended := pod("ended", "node-a", forATime)
	ended.Status.Phase = corev1.PodSucceeded
	terminating := pod("terminating", "node-a", toleratesAll)
	terminating.DeletionTimestamp = &metav1.Time{Time: noon}
	for sentence, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"tolerates nothing":                        {pod("p", "node-a"), false},
		"tolerates all taints, and stays":          {pod("p", "node-a", toleratesAll), false},
		"tolerates all taints for a time":          {pod("p", "node-a", forATime), true},
		"tolerates Fettle's taint alone":           {pod("p", "node-a", byKey), true},
		"tolerates the taint of the release alone": {pod("p", "node-a", corev1.Toleration{Key: corev1.TaintNodeOutOfService, Operator: corev1.TolerationOpExists}), false},
		"tolerates each of both":                   {pod("p", "node-a", byKey, corev1.Toleration{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown"}), false},
		"tolerates all taints, and terminates":     {terminating, true},
		"has ended":                                {ended, false},
	} {
		if got := isTolerant(tc.pod); got != tc.want {
			t.Errorf("a pod that %s counts: %t", sentence, got)
		}
	}
}

// pager answers each list with one page of a number of pages.
type pager struct {
	client.Client

	pages    int
	requests []client.ListOptions
}

func (p *pager) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	p.requests = append(p.requests, o)
	switch list := into.(type) {
	case *corev1.PodList:
		list.Items = []corev1.Pod{*pod("p", "node-a")}
	case *storagev1.VolumeAttachmentList:
		list.Items = []storagev1.VolumeAttachment{*volume("v", "node-a")}
	}
	into.SetContinue("")
	if len(p.requests) < p.pages {
		into.SetContinue(strconv.Itoa(len(p.requests)))
	}
	return nil
}

// TestPages: lists are read in pages, each with the mark of the one before, and end with an error beyond a number of pages.
func TestPages(t *testing.T) {
	for name, count := range map[string]func(*Nodes) (int, error){
		"pods": func(c *Nodes) (int, error) {
			counted, err := c.countPods(t.Context(), "node-a")
			return counted.Pods, err
		},
		"volumes": func(c *Nodes) (int, error) {
			counted, err := c.listVolumes(t.Context())
			return counted["node-a"], err
		},
	} {
		for pages, want := range map[int]int{1: 1, 3: 3, maxPages: maxPages, maxPages + 1: 0} {
			p := &pager{pages: pages}
			got, err := count(New(p, func() time.Time { return noon }, NewVolumes()))
			if got != want || (err != nil) != (want == 0) || len(p.requests) != min(pages, maxPages) {
				t.Errorf("%d pages of %s: counted %d (%v) in %d requests", pages, name, got, err, len(p.requests))
			}
			if err != nil && !strings.Contains(err.Error(), "more than 100000 ") {
				t.Errorf("the error is %v", err)
			}
			for i, o := range p.requests {
				before := ""
				if i > 0 {
					before = strconv.Itoa(i)
				}
				if o.Limit != pageSize || o.Continue != before {
					t.Fatalf("request %d of %s has limit %d and continues at %q", i, name, o.Limit, o.Continue)
				}
			}
		}
	}
}

// slowVolumes answers the first list of VolumeAttachments once a channel is closed, with one more volume for each list.
type slowVolumes struct {
	client.Client

	begun, answer chan struct{}
	lists         int // the lock of the counter guards it
	err           error
}

func (s *slowVolumes) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	s.lists++
	if s.lists == 1 {
		close(s.begun)
		<-s.answer
	}
	list, is := into.(*storagev1.VolumeAttachmentList)
	if !is {
		return errors.New("another list")
	}
	list.Items = nil
	for range s.lists {
		list.Items = append(list.Items, *volume("v", "node-a"))
	}
	return s.err
}

// TestListsOfVolumesAreShared, but only a list that began after the call counts.
func TestListsOfVolumesAreShared(t *testing.T) {
	const others = 19
	s := &slowVolumes{begun: make(chan struct{}), answer: make(chan struct{})}
	var readings atomic.Int64
	c := New(s, func() time.Time {
		n := readings.Add(1)
		if n == 2+others { // the first call reads the clock twice before it lists, and each other one once before it waits
			close(s.answer)
		}
		return noon.Add(time.Duration(n))
	}, NewVolumes())
	counts := make([]int, 1+others)
	count := func(i int) {
		n, err := c.volumes.count(t.Context(), c, "node-a")
		if err != nil {
			t.Error(err)
		}
		counts[i] = n
	}
	var group sync.WaitGroup
	group.Go(func() { count(0) })
	<-s.begun
	for i := range others {
		group.Go(func() { count(1 + i) })
	}
	group.Wait()
	if s.lists != 2 || counts[0] != 1 {
		t.Errorf("%d lists were made, and the first call got %d", s.lists, counts[0])
	}
	for i, n := range counts[1:] {
		if n != 2 {
			t.Errorf("call %d got the list that began before it: %d", i+1, n)
		}
	}
	if n, err := c.volumes.count(t.Context(), c, "node-b"); n != 0 || err != nil || s.lists != 3 {
		t.Errorf("a later call for another node got %d (%v) after %d lists", n, err, s.lists)
	}
	s.err = errors.New("no")
	if got, err := c.volumes.count(t.Context(), c, "node-a"); err == nil || got != 0 {
		t.Errorf("a list that failed counts: %d", got)
	}
}

// TestAListOfVolumesIsNotAwaited: a call that is given up does not wait for the list of another one.
func TestAListOfVolumesIsNotAwaited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, volume("v", "node-a"))
	listing, listed, first := make(chan struct{}), make(chan struct{}), true
	w.refuses(func(string, runtime.Object) error {
		if first {
			first = false
			close(listing)
			<-listed
		}
		return nil
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if got, err := w.volumes.count(context.WithoutCancel(t.Context()), w.Nodes, "node-a"); got != 1 || err != nil {
			t.Errorf("%d volumes (%v), want 1", got, err)
		}
	}()
	<-listing
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := w.volumes.count(ctx, w.Nodes, "node-a"); !errors.Is(err, context.Canceled) || got != 0 {
		t.Errorf("%d, and the error is %v", got, err)
	}
	close(listed)
	<-ended
}
