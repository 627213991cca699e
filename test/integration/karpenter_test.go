package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// TestKarpenter runs Karpenter with its KWOK provider beside Fettle. A NodeHealthCheck judges nodes without Machines,
// which Karpenter makes, drains and removes.
func TestKarpenter(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{
		"--kubelets", "--remediators", "--node-monitor-grace-period=4s", "--node-monitor-period=500ms",
	}})
	c.InstallFettleForNodes(t)
	c.StartFettle(t)
	k := &karpenter{newPool(t, c, "karpenter")}
	k.Apply(t, k8sRemediators)
	k.namedCheck(k.namespace, `{karpenter.sh/nodepool: workers}`, k.single(rebooting, "reboot"))
	c.StartKarpenter(t)
	k.Apply(t, staticPool)
	t.Run("new nodes are not judged before they are up", k.nodesStart)
	t.Run("a silent node is rebooted, and stays", k.silentNodeIsRebooted)
	t.Run("a node goes while it is remediated", k.nodeGoesUnderRemediation)
	t.Run("a healthy node is scaled down", k.healthyNodeIsScaledDown)
}

// karpenter is a node pool that Karpenter keeps at its number of nodes.
type karpenter struct{ *pool }

// k8sRemediators answer as the sandbox's remediators do.
const k8sRemediators = `
apiVersion: sandbox.fettle.io/v1alpha1
kind: RebootRemediationTemplate
metadata: {name: karpenter-reboot, namespace: karpenter}
spec: {template: {spec: {takes: 1s}}}
`

const staticPool = `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {nodeRegistrationDelay: 1s}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: workers}
spec:
  replicas: 4
  disruption: {consolidateAfter: Never, budgets: [{nodes: 100%}]}
  template:
    spec:
      expireAfter: Never
      requirements:
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [c-2x-amd64-linux]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
`

// up waits until the pool has so many nodes that Karpenter has initialized, and returns their names.
func (k *karpenter) up(of int) []string {
	k.t.Helper()
	var names []string
	k.Eventually(k.t, fmt.Sprintf("%d nodes are up", of), func(ctx context.Context) error {
		var list corev1.NodeList
		if err := k.List(ctx, &list, client.MatchingLabels{"karpenter.sh/nodepool": "workers"}); err != nil {
			return err
		}
		names = nil
		for i := range list.Items {
			if n := &list.Items[i]; n.Labels["karpenter.sh/initialized"] == "true" && n.DeletionTimestamp == nil {
				names = append(names, n.Name)
			}
		}
		if len(names) != of || len(list.Items) != of {
			return fmt.Errorf("%d of %d nodes are: %v", len(names), len(list.Items), names)
		}
		return nil
	})
	slices.Sort(names)
	return names
}

// healthy waits until the health check counts so many healthy nodes.
func (k *karpenter) healthy(of int) {
	k.t.Helper()
	k.wantNodeStatus(fmt.Sprintf("%d/%d healthy, Enabled, unhealthy:", of, of))
}

// patchNode applies a merge patch to a node.
func (k *karpenter) patchNode(name, patch string) {
	k.t.Helper()
	k.change(object("v1", "Node", "", name), patch)
}

const kubeletStops = `{"metadata":{"labels":{"sandbox.fettle.io/kubelet":"stopped"}}}`

// repairsSoFar returns the repairs of all nodes as "node phase".
func (k *karpenter) repairsSoFar(ctx context.Context) ([]string, error) {
	repairs, err := (&machineFixture{Cluster: k.Cluster, t: k.t}).repairs(ctx)
	var have []string
	for i := range repairs {
		have = append(have, repairs[i].Spec.Target.Name+" "+string(repairs[i].Status.Phase))
	}
	slices.Sort(have)
	return have, err
}

// wantRepairs waits until the repairs of all nodes are these.
func (k *karpenter) wantRepairs(want ...string) {
	k.t.Helper()
	slices.Sort(want)
	k.Eventually(k.t, "repairs", func(ctx context.Context) error {
		have, err := k.repairsSoFar(ctx)
		if err == nil && !slices.Equal(have, want) {
			err = fmt.Errorf("repairs are %q, want %q", have, want)
		}
		return err
	})
}

// claimOf returns the NodeClaim of a node.
func (k *karpenter) claimOf(node string) string {
	k.t.Helper()
	var n corev1.Node
	if err := k.Get(cluster.Context(k.t), types.NamespacedName{Name: node}, &n); err != nil {
		k.t.Fatalf("reading node %s: %v", node, err)
	}
	for _, o := range n.OwnerReferences {
		if o.Kind == "NodeClaim" {
			return o.Name
		}
	}
	k.t.Fatalf("node %s has no NodeClaim: %v", node, n.OwnerReferences)
	return ""
}

func (k *karpenter) nodesStart(*testing.T) {
	k.up(4)
	k.healthy(4)
	k.wantRepairs()
}

func (k *karpenter) silentNodeIsRebooted(t *testing.T) {
	sick := k.up(4)[0]
	claim := k.claimOf(sick)
	k.patchNode(sick, kubeletStops)
	k.wantRepairs(sick + " Succeeded")
	k.healthy(4)
	if again := k.claimOf(sick); again != claim {
		t.Errorf("node %s has NodeClaim %s, want %s still", sick, again, claim)
	}
}

// nodeGoesUnderRemediation: no reboot helps. During the remediation the node's claim is deleted. Karpenter drains and
// removes the node, and makes another.
func (k *karpenter) nodeGoesUnderRemediation(t *testing.T) {
	nodes := k.up(4)
	before, err := k.repairsSoFar(cluster.Context(t))
	if err != nil {
		t.Fatalf("listing repairs: %v", err)
	}
	sick := nodes[1]
	k.patchNode(sick, `{"metadata":{"annotations":{"sandbox.fettle.io/reboot":"fails"}}}`)
	k.patchNode(sick, kubeletStops)
	k.wantRepairs(append(before, sick+" Running")...)
	if err := k.Delete(cluster.Context(t), object("karpenter.sh/v1", "NodeClaim", "", k.claimOf(sick))); err != nil {
		t.Fatalf("deleting the NodeClaim of %s: %v", sick, err)
	}
	k.wantRepairs(append(before, sick+" Withdrawn")...)
	if slices.Contains(k.up(4), sick) {
		t.Errorf("node %s is still there", sick)
	}
	k.healthy(4)
	k.Eventually(t, "no remediation object is left", func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(remediators)
		list.SetKind(rebooting + "List")
		err := k.List(ctx, list)
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
}

func (k *karpenter) healthyNodeIsScaledDown(t *testing.T) {
	before, err := k.repairsSoFar(cluster.Context(t))
	if err != nil {
		t.Fatalf("listing repairs: %v", err)
	}
	k.change(object("karpenter.sh/v1", "NodePool", "", "workers"), `{"spec":{"replicas":3}}`)
	k.up(3)
	k.healthy(3)
	sick := k.up(3)[0] // Fettle begins its repair after all that
	k.patchNode(sick, kubeletStops)
	k.Eventually(t, "another node is repaired", func(ctx context.Context) error {
		have, err := k.repairsSoFar(ctx)
		if err == nil && len(have) != len(before)+1 {
			err = fmt.Errorf("repairs are %q, before %q", have, before)
		}
		return err
	})
	k.healthy(3)
}
