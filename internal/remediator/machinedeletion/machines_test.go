package machinedeletion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func aKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "machines", Name: name}
}

// TestPoolsWakeWhoWaits, and no other remediation.
func TestPoolsWakeWhoWaits(t *testing.T) {
	p := newPools()
	p.await("set", aKey("a"))
	p.await("set", aKey("b"))
	p.await("set", aKey("a"))
	p.await("other", aKey("a"))
	if got := p.changed("set"); !slices.Equal(got, []types.NamespacedName{aKey("a"), aKey("b")}) {
		t.Errorf("a change wakes %v, want each once", got)
	}
	if got := p.changed("unheard-of"); len(got) != 0 {
		t.Errorf("a change of a set without waiting remediations wakes %v", got)
	}
	p.forget(aKey("a"))
	if got := p.changed("set"); !slices.Equal(got, []types.NamespacedName{aKey("b")}) {
		t.Errorf("after one has left, a change wakes %v", got)
	}
	p.forget(aKey("b"))
	if len(p.waiting)+len(p.changes)+len(p.counted) != 0 {
		t.Errorf("of pools without waiting remediations is kept: %v %v %v", p.waiting, p.changes, p.counted)
	}
}

// TestPoolsCountOnceForEachChange: a pool that a remediation awaits is counted once, however many calls there are.
func TestPoolsCountOnceForEachChange(t *testing.T) {
	p := newPools()
	counts := 0
	list := func() (pool, error) {
		counts++
		return pool{joined: counts}, nil
	}
	ask := func(want, wantCounts int) {
		t.Helper()
		got, err := p.count("set", list)
		if err != nil || got.joined != want || counts != wantCounts {
			t.Errorf("got %d (%v) after %d counts, want %d after %d", got.joined, err, counts, want, wantCounts)
		}
	}
	ask(1, 1) // no remediation waits, so nothing is kept
	ask(2, 2)
	p.await("set", aKey("a"))
	ask(3, 3)
	ask(3, 3)
	p.changed("set")
	ask(4, 4)
	ask(4, 4)

	during, err := p.count("other", func() (pool, error) { return pool{}, errors.New("no") })
	if err == nil || during.joined != 0 {
		t.Errorf("what can't be counted is counted as %v", during)
	}
	p.changed("set")
	_, _ = p.count("set", func() (pool, error) {
		p.changed("set") // while it counts
		return list()
	})
	ask(6, 6)
}

// listed answers with the machines of one namespace.
type listed struct {
	client.Reader

	machines []metav1.PartialObjectMetadata
}

func (l *listed) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	list, is := into.(*metav1.PartialObjectMetadataList)
	if !is {
		return fmt.Errorf("a read of %T", into)
	}
	for i := range l.machines {
		if l.machines[i].Namespace == o.Namespace {
			list.Items = append(list.Items, l.machines[i])
		}
	}
	return nil
}

// TestI14DuplicatesAreFound: another machine of the namespace that refers to the node of the one in question, whatever its owner.
// The machine itself is none, nor is a machine that is being deleted.
func TestI14DuplicatesAreFound(t *testing.T) {
	at := func(namespace, name, owner, node string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(name + "-uid"), Labels: map[string]string{"owner": owner, "node": node},
		}}
	}
	leaving := func(m metav1.PartialObjectMetadata) metav1.PartialObjectMetadata {
		m.DeletionTimestamp = &metav1.Time{Time: noon}
		return m
	}
	itself := at("machines", "a", "set-uid", "node-a")
	for sentence, tc := range map[string]struct {
		others []metav1.PartialObjectMetadata
		node   string
		want   pool
	}{
		"the machine alone":               {nil, "node-a", pool{}},
		"siblings":                        {[]metav1.PartialObjectMetadata{at("machines", "b", "set-uid", "node-b"), at("machines", "c", "set-uid", "")}, "node-a", pool{joined: 1, coming: 1}},
		"a sibling that refers to it":     {[]metav1.PartialObjectMetadata{at("machines", "b", "set-uid", "node-a")}, "node-a", pool{joined: 1, sameNode: "b"}},
		"another owner's, and no owner's": {[]metav1.PartialObjectMetadata{at("machines", "d", "", "node-a"), at("machines", "c", "other-uid", "node-a")}, "node-a", pool{sameNode: "c"}},
		"a machine that is leaving":       {[]metav1.PartialObjectMetadata{leaving(at("machines", "b", "set-uid", "node-a"))}, "node-a", pool{}},
		"one of another namespace":        {[]metav1.PartialObjectMetadata{at("others", "b", "set-uid", "node-a")}, "node-a", pool{}},
		"none of them has a node":         {[]metav1.PartialObjectMetadata{at("machines", "b", "set-uid", "")}, "", pool{coming: 1}},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := NewClient(Config{
				Machines: &metav1.PartialObjectMetadataList{}, Cache: &listed{machines: append(tc.others, itself)},
				Read: func(o client.Object) Machine {
					return Machine{UID: o.GetUID(), Name: o.GetName(), Owner: types.UID(o.GetLabels()["owner"]), Node: o.GetLabels()["node"], Deleting: o.GetDeletionTimestamp() != nil}
				},
			})
			f := facts{remediation: remediation(finalized), machine: &machineFacts{found: true, uid: itself.UID, node: tc.node}}
			err := c.countPool(t.Context(), &f, next{machine: types.NamespacedName{Namespace: "machines", Name: "a"}, owner: "set-uid"})
			if err != nil || *f.pool != tc.want {
				t.Errorf("it counts %+v, %v, want %+v", *f.pool, err, tc.want)
			}
		})
	}
}
