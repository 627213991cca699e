package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestEmergencyStop deletes or pauses health checks while their watch stalls, so Fettle does not know it. No repair
// begins for them. A repair by another health check shows that Fettle has judged the cluster.
func TestEmergencyStop(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: ofClusterAPI})
	c.InstallFettle(t)
	c.AllowClusterAPI(t)
	c.InstallRemediators(t)
	t.Run("machines of OpenShift", func(t *testing.T) { stopMachines(t, c) })
	t.Run("nodes", func(t *testing.T) { stopNodes(t, c) })
	t.Run("machines of Cluster API", func(t *testing.T) { stopClusterAPIMachines(t, c) })
	t.Run("a cluster of Cluster API", func(t *testing.T) { stopCluster(t, c) })
	t.Run("two clusters of the same nodes", func(t *testing.T) { sameNodes(t, c) })
	t.Run("a dialect that does not run", func(t *testing.T) { dialectThatDoesNotRun(t, c) })
}

// noRepairs checks that no Repair of a policy was recorded in a namespace.
func (s *stage) noRepairs(namespace string, policies ...string) {
	s.t.Helper()
	s.Never(s.t, "a repair for a health check that is deleted or paused", quiet, func(ctx context.Context) error {
		var repairs v1alpha1.RepairList
		if err := s.List(ctx, &repairs, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range repairs.Items {
			if slices.Contains(policies, repairs.Items[i].Spec.Policy.Name) {
				return fmt.Errorf("%s is %s", repairs.Items[i].Name, repairs.Items[i].Status.Phase)
			}
		}
		return nil
	})
}

func stopMachines(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	gone, paused, stands := newMachineFixture(t, c, "stop-gone"), newMachineFixture(t, c, "stop-paused"), newMachineFixture(t, c, "stop-stands")
	proxy, kubeconfig := gone.throughProxy()
	for _, s := range []*machineFixture{gone, paused, stands} {
		s.addMachines(names("m", 2))
		s.healthCheck("example", unlimited)
	}
	gone.StartFettleWith(t, kubeconfig)
	for _, s := range []*machineFixture{gone, paused, stands} {
		s.wantStatus("example", 2, 2, "")
	}
	stall := proxy.Inject(t, cluster.Fault{Path: checksPath, Watch: true, Stall: true})
	gone.deleteCheck("example")
	paused.must("pausing it", paused.Patch(cluster.Context(t), paused.check("example"), annotated(v1beta1.PausedAnnotation)))
	for _, s := range []*machineFixture{gone, paused, stands} {
		s.longBroken([]string{"m-00"})
	}
	stands.wantGone(1)
	gone.noRepairs(gone.namespace, "example")
	paused.noRepairs(paused.namespace, "example")
	stall.End()
	gone.barrier()
	gone.noRepairs(gone.namespace, "example")
	paused.noRepairs(paused.namespace, "example")
}

func annotated(key string) client.Patch {
	return merge(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: "true"}}})
}

func stopNodes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	gone, paused, stands := newPool(t, c, "stop-gone-nodes"), newPool(t, c, "stop-paused-nodes"), newPool(t, c, "stop-standing-nodes")
	proxy, kubeconfig := gone.throughProxy()
	for _, p := range []*pool{gone, paused, stands} {
		p.addNodes(names("n", 2))
		p.rebooted(unlimited)
	}
	gone.StartFettleWith(t, kubeconfig)
	for _, p := range []*pool{gone, paused, stands} {
		p.wantStatus(2, 2)
	}
	stall := proxy.Inject(t, cluster.Fault{Path: "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks", Watch: true, Stall: true})
	gone.deleteCheck()
	paused.edit(map[string]any{"pauseRequests": []any{"a test"}})
	for _, p := range []*pool{gone, paused, stands} {
		p.longBroken([]string{"n-00"})
	}
	stands.wantRequested("reboot", 1)
	gone.noRepairs("fettle-system", gone.name, paused.name)
	stall.End()
	gone.noRepairs("fettle-system", gone.name, paused.name)
}

func stopClusterAPIMachines(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	h := newClusterFixture(t, c, "stop-machines")
	proxy, kubeconfig := h.throughProxy()
	h.addMachines([]string{"gone", "paused", "stands"})
	checks := map[string]*unstructured.Unstructured{}
	for _, name := range []string{"gone", "paused", "stands"} {
		checks[name] = h.checkOf(name)
	}
	h.StartFettleWith(t, kubeconfig)
	h.wantPassed(3)
	stall := proxy.Inject(t, cluster.Fault{Path: "/apis/cluster.x-k8s.io/v1beta2/machinehealthchecks", Watch: true, Stall: true})
	ctx := cluster.Context(t)
	h.must("deleting a health check", h.Delete(ctx, checks["gone"]))
	h.must("pausing a health check", h.Patch(ctx, checks["paused"], annotated("cluster.x-k8s.io/paused")))
	h.due([]string{"stands"})
	h.brokenSince([]string{"gone"}, time.Now().Add(-time.Hour))
	h.brokenSince([]string{"paused"}, time.Now().Add(-time.Hour))
	h.brokenSince([]string{"stands"}, time.Now().Add(-time.Hour))
	h.wantMarked(1)
	h.noRepairs(h.name, "gone", "paused")
	stall.End()
	h.noRepairs(h.name, "gone", "paused")
	if made, _ := h.marked(); made != 1 {
		t.Errorf("%d machines are marked, want only the machine whose health check is left", made)
	}
}

// stopCluster pauses the Cluster and not its health check. The watch does not show it.
func stopCluster(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	h := newClusterFixture(t, c, "stop-cluster")
	proxy, kubeconfig := h.throughProxy()
	h.addMachines([]string{"a"})
	h.checkOf("a")
	h.StartFettleWith(t, kubeconfig)
	h.wantPassed(1)
	const clusters = "/apis/cluster.x-k8s.io/v1beta2/clusters"
	stall := proxy.Inject(t, cluster.Fault{Path: clusters, Watch: true, Stall: true})
	defer stall.End()
	ctx := cluster.Context(t)
	pause := func(paused bool) {
		h.must("pausing the cluster", h.Patch(ctx, object("cluster.x-k8s.io/v1beta2", "Cluster", h.name, prod), merge(map[string]any{"spec": map[string]any{"paused": paused}})))
	}
	pause(true)
	h.brokenSince([]string{"a"}, time.Now().Add(-time.Hour))
	requested := "/apis/cluster.x-k8s.io/v1beta2/namespaces/" + h.name + "/clusters/" + prod
	h.Eventually(t, "Fettle reads the cluster", func(context.Context) error {
		if len(proxy.Requests(requested)) == 0 {
			return fmt.Errorf("it has not requested %s", requested)
		}
		return nil
	})
	h.noRepairs(h.name, "a")
	if made, _ := h.marked(); made != 0 {
		t.Errorf("%d machines are marked, though the cluster is paused", made)
	}
	pause(false)
	h.wantMarked(1)
}

// checkOf creates a health check of one machine.
func (h *clusterFixture) checkOf(machine string) *unstructured.Unstructured {
	h.t.Helper()
	ctx := cluster.Context(h.t)
	label := merge(map[string]any{"metadata": map[string]any{"labels": map[string]any{"one": machine}}})
	h.must("labelling a machine", h.Patch(ctx, object("cluster.x-k8s.io/v1beta2", "Machine", h.name, machine), label))
	check := object("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", h.name, machine)
	check.Object["spec"] = map[string]any{
		"clusterName": prod,
		"selector":    map[string]any{"matchLabels": map[string]any{"one": machine}},
		"checks": map[string]any{"unhealthyNodeConditions": []any{
			map[string]any{"type": "Ready", "status": "False", "timeoutSeconds": int64(short.Seconds())},
		}},
	}
	h.must("creating a health check", h.Create(ctx, check))
	return check
}

// sameNodes makes a management cluster its own workload cluster. While a NodeHealthCheck acts on one of its nodes, the
// MachineHealthCheck of Cluster API starts no repair and says so.
func sameNodes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	h, p := newClusterFixture(t, c, "same-cluster"), newPool(t, c, "same-pool")
	h.StartFettle(t)
	h.addMachines([]string{"a", "b"})
	h.healthCheck(2, short)
	h.wantHealthy(2, 2)
	p.addNodes(names("n", 2))
	label := merge(map[string]any{"metadata": map[string]any{"labels": map[string]any{"pool": p.name}}})
	h.must("labelling a node", h.workload.Patch(cluster.Context(t), object("v1", "Node", "", h.node("b")), label))
	p.rebooted(unlimited)
	p.wantStatus(3, 3)
	h.wantAllowed("Unknown/NodesJudgedElsewhere")
	h.due([]string{"a"})
	h.brokenSince([]string{"a"}, time.Now().Add(-time.Hour))
	p.longBroken([]string{"n-00"})
	p.wantRequested("reboot", 1)
	h.noRepairs(h.name, "check")
	p.deleteCheck()
	h.wantMarked(1)
	h.wantAllowed("True/RemediationAllowed")
}

// dialectThatDoesNotRun: Fettle writes nothing to a health check that it does not follow.
func dialectThatDoesNotRun(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	s, p := newMachineFixture(t, c, "left-alone"), newPool(t, c, "followed")
	s.addMachines(names("m", 2))
	s.healthCheck("example", unlimited)
	before := s.revisionOf("example")
	s.StartFettle(t, "--dialects=nhc", "--remediators=")
	s.longBroken([]string{"m-00"})
	p.addNodes(names("n", 2))
	p.rebooted(unlimited)
	p.longBroken([]string{"n-00"})
	p.wantRequested("reboot", 1)
	s.noRepairs(s.namespace, "example")
	if after := s.revisionOf("example"); after != before {
		t.Errorf("the health check has revision %s, and had %s", after, before)
	}
	for _, r := range s.Requests(t)[s.before:] {
		// The machines of nodes own the remediation objects, so a part of NodeHealthCheck reads machines.
		read := r.Verb == "list" || r.Verb == "watch"
		if strings.HasPrefix(r.Resource, "machine") && (r.Resource != "machines" || !read) {
			t.Errorf("Fettle has requested to %s %s %s", r.Verb, r.Resource, r.Name)
		}
	}
}

func (s *machineFixture) revisionOf(check string) string {
	s.t.Helper()
	u := s.check(check)
	s.must("reading a health check", s.Get(cluster.Context(s.t), keyOf(u), u))
	return u.GetResourceVersion()
}
