package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/test/cluster"
)

// TestRightsOnClusterAPI: what the roles for Cluster API grant is used, and what Fettle does for it is granted.
func TestRightsOnClusterAPI(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, clusterAPIOnly())
	c.InstallFettleForNodes(t)
	fettle := c.StartFettle(t)
	h := newHerd(t, c, c, "rights")
	h.running("a", "b")
	h.healthCheck()
	h.fail("a")
	h.wantMarked("a", "UnhealthyNode")
	h.wantEvent("a", "MachineMarkedUnhealthy")
	h.machineChangesAllTheTime()
	h.template()
	h.changeCheck(`{"spec":{"remediation":{"templateRef":{"apiVersion":"` + remediators + `","kind":"` + rebooting + `Template","name":"reboot"}}}}`)
	h.fail("b")
	h.wantMachine("b", externally, "False/WaitingForRemediation")
	fettle.Stop(t)

	ofClusterAPI := func(role string) bool { return strings.HasPrefix(role, cluster.ClusterAPIRoles) }
	own, _ := c.Granted(t, ofClusterAPI)
	others, gathered := c.Granted(t, func(role string) bool { return !ofClusterAPI(role) })
	uses := c.Uses(t)
	if len(own) == 0 {
		t.Fatal("nothing is granted for Cluster API")
	}
	for _, u := range uses {
		covers := func(r cluster.Right) bool { return r.Covers(u.Right) }
		if !u.Allowed || !slices.ContainsFunc(slices.Concat(own, others, gathered), covers) {
			t.Errorf("missing: Fettle did %+v, which config/ does not grant (allowed: %t)", u.Right, u.Allowed)
		}
	}
	for _, r := range own {
		if slices.Contains(others, r) {
			continue // it is used for other kinds too
		}
		if !slices.ContainsFunc(uses, func(u cluster.Use) bool { return r.Covers(u.Right) }) {
			t.Errorf("idle: config/cluster_api grants %+v, and Fettle never needed it", r)
		}
	}
}

// machineChangesAllTheTime has Fettle take marks back from a machine that others write on meanwhile, until it has read it
// anew for that.
func (h *herd) machineChangesAllTheTime() {
	h.t.Helper()
	read := cluster.Right{Group: clusterv1.GroupVersion.Group, Resource: "machines", Verb: "get"}
	h.management.Eventually(h.t, "a machine is read anew", func(context.Context) error {
		h.recover("a")
		for i := range 30 {
			h.annotate("a", fmt.Sprintf("example.org/change-%d", i%3))
			h.annotate("a", fmt.Sprintf("-example.org/change-%d", i%3))
		}
		h.wantMachine("a", byOwner, "")
		if slices.ContainsFunc(h.management.Uses(h.t), func(u cluster.Use) bool { return read.Covers(u.Right) }) {
			return nil
		}
		h.fail("a")
		h.wantMarked("a", "UnhealthyNode")
		return errors.New("it was never in the way")
	})
}
