package quorum

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// flooded is an API server with any number of pods, on nodes outside of the control plane.
type flooded struct {
	client.Reader

	pods, reads int
	// largest is the size of the largest page in a request.
	largest int64
}

// List returns a page of pods, and no other objects.
func (f *flooded) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	list, is := into.(*unstructured.UnstructuredList)
	if _, isNodes := into.(*slim.NodeList); isNodes || !is || list.GetKind() != "PodList" {
		return nil
	}
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	from, _ := strconv.Atoi(o.Continue)
	f.reads, f.largest = f.reads+1, max(f.largest, o.Limit)
	if s := o.FieldSelector; s != nil && !s.Matches(fields.Set{"spec.serviceAccountName": "", "spec.nodeName": "worker"}) {
		return nil
	}
	for i := from; i < min(f.pods, from+int(o.Limit)); i++ {
		list.Items = append(list.Items, unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{mirrorAnnotation: "x"}}, "spec": map[string]any{"nodeName": fmt.Sprint("worker-", i)},
		}})
	}
	if from+int(o.Limit) < f.pods {
		list.SetContinue(strconv.Itoa(from + int(o.Limit)))
	}
	return nil
}

// TestI15PodsAreReadInPages: a kubelet can make any number of pods. Fettle neither holds them all
// nor reads without end.
func TestI15PodsAreReadInPages(t *testing.T) {
	if pageSize > 20 || maxObjects > 1000 {
		t.Fatalf("%d objects are read in pages of %d: docs/threat-model.md says fewer", maxObjects, pageSize)
	}
	for pods, fails := range map[int]bool{0: false, 1: false, pageSize: false, pageSize + 1: false, maxObjects: false, maxObjects + 1: true, 100 * maxObjects: true} {
		t.Run(strconv.Itoa(pods), func(t *testing.T) {
			f := &flooded{pods: pods}
			got, err := (&Client{Config{Live: f}}).pods(t.Context())
			if (err != nil) != fails || (err == nil && len(got) != pods) {
				t.Errorf("%d pods were read, %v", len(got), err)
			}
			if f.largest > pageSize || f.reads > maxObjects/pageSize {
				t.Errorf("it got %d requests, for pages of %d", f.reads, f.largest)
			}
			if err != nil && !strings.Contains(err.Error(), "more than the 1000") {
				t.Errorf("the error does not say why: %v", err)
			}
			if members := membersOf(nil, got, nil); byMembers("a", members) != core.Unknown || hasEvidence(members) {
				t.Errorf("pods of workers are evidence: %d members", len(members))
			}
		})
	}
}

// TestI14PodsOfWorkersExhaustNoBound: the kubelet of a worker makes any number of mirror pods.
// Fettle reads none of them, and quorum stays known.
func TestI14PodsOfWorkersExhaustNoBound(t *testing.T) {
	f := &flooded{pods: 100 * maxObjects}
	nodes := []*slim.Node{{Meta: slim.Meta{Name: "a"}}, {Meta: slim.Meta{Name: "b"}}}
	got, err := (&Client{Config{Live: f}}).etcdPods(t.Context(), nodes)
	if err != nil || len(got) != 0 || f.reads > len(nodes)+1 {
		t.Errorf("%d pods were read in %d calls, %v", len(got), f.reads, err)
	}
}

// TestI15NodesOfTheControlPlaneAreBounded: if a cluster has more than any real one, Fettle doesn't
// list the pods of each.
func TestI15NodesOfTheControlPlaneAreBounded(t *testing.T) {
	f := &flooded{}
	c := &Client{Config{Live: f}}
	_, err := c.etcdPods(t.Context(), make([]*slim.Node, maxNodes+1))
	if err == nil || f.reads > 0 || !strings.Contains(err.Error(), "101 nodes of the control plane, and no more than 100 are read") {
		t.Errorf("after %d calls the error is %v", f.reads, err)
	}
	nodes := make([]*slim.Node, maxNodes)
	for i := range nodes {
		nodes[i] = &slim.Node{}
	}
	if _, err := c.etcdPods(t.Context(), nodes); err != nil || f.reads != maxNodes+1 {
		t.Errorf("for the most nodes it makes %d calls, %v", f.reads, err)
	}
}

// labelled is an API server with one node for each set of labels, whose name is the index of the
// set.
type labelled struct {
	client.Reader

	nodes []map[string]string
}

// List returns the nodes that match a selector.
func (l *labelled) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	list, _ := into.(*slim.NodeList)
	for i, of := range l.nodes {
		if o.LabelSelector.Matches(labels.Set(of)) {
			list.Items = append(list.Items, slim.Node{Meta: slim.Meta{Name: strconv.Itoa(i), Labels: slim.LabelsOf(of)}})
		}
	}
	return nil
}

// TestControlPlaneIsOneForAll: the guard and the other packages agree on the nodes of the control
// plane.
func TestControlPlaneIsOneForAll(t *testing.T) {
	l := &labelled{nodes: []map[string]string{
		{"node-role.kubernetes.io/control-plane": ""}, {"node-role.kubernetes.io/master": "true"}, {"node-role.kubernetes.io/etcd": "true"},
		{"node-role.kubernetes.io/etcd": "", "node-role.kubernetes.io/control-plane": ""}, {"node-role.kubernetes.io/worker": ""}, {},
	}}
	nodes, err := (&Client{Config{Live: l}}).controlPlane(t.Context())
	if err != nil {
		t.Fatalf("listing the nodes of the control plane: %v", err)
	}
	found := map[string]bool{}
	for _, n := range nodes {
		found[n.Name] = true
	}
	for i, of := range l.nodes {
		if name := strconv.Itoa(i); found[name] != slim.LabelsOf(of).OfControlPlane() || found[name] != (i < 4) {
			t.Errorf("a node with labels %v is found: %t", of, found[name])
		}
	}
	if len(nodes) != 4 {
		t.Errorf("%d nodes are found, want each once", len(nodes))
	}
}

// paged is an API server that lists pods in pages of these sizes. It fails with errDown at a page below zero.
type paged struct {
	client.Reader

	sizes []int
	calls int
}

var errDown = errors.New("down")

// List returns the next page.
func (p *paged) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	size := p.sizes[p.calls]
	p.calls++
	if size < 0 {
		return errDown
	}
	list, _ := into.(*unstructured.UnstructuredList)
	list.Items = make([]unstructured.Unstructured, size)
	if p.calls < len(p.sizes) {
		list.SetContinue("more")
	}
	return nil
}

// TestPagesOfAnySize: an API server may return fewer objects than the limit of a page.
func TestPagesOfAnySize(t *testing.T) {
	for _, tc := range []struct {
		sizes []int
		fails bool
	}{{[]int{maxObjects - 1, 1}, false}, {[]int{maxObjects, 1}, true}, {[]int{1, 0, 1}, false}} {
		p := &paged{sizes: tc.sizes}
		if _, err := (&Client{Config{Live: p}}).pods(t.Context()); (err != nil) != tc.fails {
			t.Errorf("pages of %d: %v", tc.sizes, err)
		}
	}
}

// TestI04EachListOfEtcdPodsMayFail: the list for all nodes, and the list for each.
func TestI04EachListOfEtcdPodsMayFail(t *testing.T) {
	for _, p := range []*paged{{sizes: []int{-1}}, {sizes: []int{0, -1}}} {
		p.sizes = append(p.sizes, 0, 0)
		c := &Client{Config{Live: onePage{p}}}
		nodes := []*slim.Node{{Meta: slim.Meta{Name: "a"}}, {Meta: slim.Meta{Name: "b"}}}
		if got, err := c.etcdPods(t.Context(), nodes); !errors.Is(err, errDown) {
			t.Errorf("pods %v, %v, after %d calls", got, err, p.calls)
		}
	}
}

// onePage makes each page the last one of its list.
type onePage struct{ *paged }

// List returns the next page as a whole list.
func (o onePage) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	err := o.paged.List(ctx, into, opts...)
	into.SetContinue("")
	return err
}
