package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// standInAutoscaler plays what the documentation of the cluster autoscaler says of machine sets. To scale up, it raises
// the number of replicas. To scale down, it marks a machine for deletion and lowers the number, and leaves out machines
// in deletion. It scales down a machine without a node for the provision time, and counts its set as broken. It plays
// neither pods nor the simulation of the scheduler.
type standInAutoscaler struct {
	client.Client

	t          *testing.T
	namespace  string
	apiVersion string
	// scales is the kind with the number of replicas.
	scales string
	// mark is the annotation by which a machine set deletes a machine first.
	mark string
	// ofSet is the label of machines that names their machine set.
	ofSet string
	// provision plays --max-node-provision-time, which is 15 minutes by default.
	provision time.Duration
}

func (a *standInAutoscaler) object(kind, name string) *unstructured.Unstructured {
	return object(a.apiVersion, kind, a.namespace, name)
}

// scale changes the number of replicas of a machine set.
func (a *standInAutoscaler) scale(set string, by int64) {
	a.t.Helper()
	u := a.object(a.scales, set)
	if err := a.Get(cluster.Context(a.t), client.ObjectKeyFromObject(u), u); err != nil {
		a.t.Fatalf("reading machine set %s: %v", set, err)
	}
	have, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	a.patch(u, map[string]any{"spec": map[string]any{"replicas": have + by}})
}

// remove scales a machine set down by one machine, unless that machine is in deletion. It reports whether it has.
func (a *standInAutoscaler) remove(set, machine string) bool {
	a.t.Helper()
	u := a.object("Machine", machine)
	err := a.Get(cluster.Context(a.t), client.ObjectKeyFromObject(u), u)
	if client.IgnoreNotFound(err) != nil {
		a.t.Fatalf("reading machine %s: %v", machine, err)
	}
	if err != nil || u.GetDeletionTimestamp() != nil {
		return false
	}
	a.patch(u, map[string]any{"metadata": map[string]any{"annotations": map[string]any{a.mark: "true"}}})
	a.scale(set, -1)
	return true
}

func (a *standInAutoscaler) patch(u *unstructured.Unstructured, patch map[string]any) {
	a.t.Helper()
	body, err := json.Marshal(patch)
	if err == nil {
		err = a.Patch(cluster.Context(a.t), u, client.RawPatch(types.MergePatchType, body))
	}
	if err != nil {
		a.t.Fatalf("patching %s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// machines returns the machines of a set by their names.
func (a *standInAutoscaler) machines(ctx context.Context, set string) (map[string]*unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(a.apiVersion)
	list.SetKind("MachineList")
	if err := a.List(ctx, list, client.InNamespace(a.namespace), client.MatchingLabels{a.ofSet: set}); err != nil {
		return nil, err
	}
	found := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		found[list.Items[i].GetName()] = &list.Items[i]
	}
	return found, nil
}

// overdue returns the machines of a set without a node for the provision time, in the order of their names.
func (a *standInAutoscaler) overdue(ctx context.Context, set string) ([]string, error) {
	machines, err := a.machines(ctx, set)
	maps.DeleteFunc(machines, func(_ string, m *unstructured.Unstructured) bool {
		node, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
		return node != "" || m.GetDeletionTimestamp() != nil || time.Since(m.GetCreationTimestamp().Time) < a.provision
	})
	return slices.Sorted(maps.Keys(machines)), err
}

// retreat waits until a machine set has so many failed machines, scales it down by them, and scales up another set
// instead. A machine that is deleted meanwhile doesn't scale the set down. So retreat waits for its replacement.
func (a *standInAutoscaler) retreat(c *cluster.Cluster, broken, other string, machines int) {
	a.t.Helper()
	removed := 0
	c.Eventually(a.t, "machine set "+broken+" looks broken to the autoscaler, and is scaled down", func(ctx context.Context) error {
		overdue, err := a.overdue(ctx, broken)
		if err != nil {
			return err
		}
		if removed+len(overdue) < machines {
			return fmt.Errorf("%d machines have had no node for %s, and %d were removed", len(overdue), a.provision, removed)
		}
		for _, m := range overdue {
			if removed < machines && a.remove(broken, m) {
				removed++
			}
		}
		if removed < machines {
			return fmt.Errorf("%d machines were removed, want %d", removed, machines)
		}
		return nil
	})
	a.scale(other, int64(machines))
}

// newest waits until there are so many machines of a set with a node that are not in deletion, and returns the
// youngest.
func (a *standInAutoscaler) newest(c *cluster.Cluster, set string, of int) string {
	a.t.Helper()
	var up []*unstructured.Unstructured
	c.Eventually(a.t, fmt.Sprintf("%d machines of set %s are up", of, set), func(ctx context.Context) error {
		machines, err := a.machines(ctx, set)
		up = slices.DeleteFunc(slices.Collect(maps.Values(machines)), func(m *unstructured.Unstructured) bool {
			node, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
			return node == "" || m.GetDeletionTimestamp() != nil
		})
		if err == nil && len(up) != of {
			err = fmt.Errorf("there are %d", len(up))
		}
		return err
	})
	slices.SortFunc(up, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return up[0].GetName()
}

// isGone waits until a machine is gone.
func (a *standInAutoscaler) isGone(c *cluster.Cluster, machine string) {
	a.t.Helper()
	c.Eventually(a.t, "machine "+machine+" is gone", func(ctx context.Context) error {
		u := a.object("Machine", machine)
		err := a.Get(ctx, client.ObjectKeyFromObject(u), u)
		if err == nil {
			err = fmt.Errorf("it is there, being deleted: %t", u.GetDeletionTimestamp() != nil)
		}
		return client.IgnoreNotFound(err)
	})
}
