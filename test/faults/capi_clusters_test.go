package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/test/cluster"
)

// unknownFor is a time-out that expires while a workload cluster is away.
const unknownFor = 5 * time.Second

// workloadServerAway: the API server of a workload cluster is killed during an outage. It comes back, and stays
// unreachable for a while. By then some machines are marked, and for some the time-out expires meanwhile. Of both
// kinds, some recover unseen.
func workloadServerAway(other *clusterFixture) {
	t := other.t
	server := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	proxy, address := server.StartProxy(t)
	h := newClusterFixtureOn(t, other.Cluster, server, address, other.name+"-far")
	marked, suspect := names("marked", 4), names("suspect", 4)
	h.addMachines(slices.Concat(names("well", 4), marked, suspect))
	other.addMachines(names("m", 4))
	h.healthCheck(12, unknownFor)
	other.healthCheck(4, short)
	h.StartFettle(t)
	h.wantHealthy(12, 12)
	other.wantHealthy(4, 4)

	h.longBroken(marked)
	h.wantMarked(len(marked))
	h.brokenSince(suspect, time.Now())
	over := time.Now().Add(unknownFor)
	away := out(h, proxy)
	server.Restart(t, syscall.SIGKILL)
	h.wantAllowed("Unknown/ConnectionDown")
	other.longBroken(names("m", 2))
	other.wantMarked(2)
	h.recover(append(marked[:1:1], suspect[:2]...))
	h.Never(t, "nothing is marked or withdrawn while nothing is known", max(0, time.Until(over))+quiet, func(context.Context) error {
		if made, kept := h.marked(); made != len(marked) || kept != len(marked) {
			return fmt.Errorf("%d were made, and %d are left", made, kept)
		}
		return nil
	})
	h.due(suspect[2:])
	away()
	h.wantAllowed("True/RemediationAllowed")
	h.wantMarked(len(marked) + 2)
	h.wantMarks(len(marked) - 1 + 2)
	h.wantHealthy(7, 12)
	h.keepsMarked()
	other.keepsMarked()
	other.wantReplaced(4)
	h.wantReplaced(12)
}

// out makes a workload cluster unreachable, until the caller calls the returned function.
func out(h *clusterFixture, proxy *cluster.Proxy) (back func()) {
	h.t.Helper()
	calls := proxy.Inject(h.t, cluster.Fault{Path: ".*", Status: http.StatusServiceUnavailable})
	watches := proxy.Inject(h.t, cluster.Fault{Path: ".*", Watch: true, Status: http.StatusServiceUnavailable})
	return func() {
		calls.End()
		watches.End()
	}
}

// clustersHandedOver: a leader of six workload clusters stops in good order while it marks machines, and another takes
// over. The kubeconfigs are replaced just before, so the audit logs of the workload clusters can tell the leaders
// apart.
func clustersHandedOver(whole *clusterFixture) {
	whole.isOver() // the others have seen everything
	fixtures, before := whole.six()
	after := make([]string, len(fixtures))
	leads, _, proxy, holder := whole.twoReplicas()
	for _, h := range fixtures {
		h.wantHealthy(6, 6)
	}
	fixtures[0].longBroken(names("m", 2))
	fixtures[0].wantMarked(2)
	for i, h := range fixtures {
		after[i] = h.reachedBy("after", h.Config.Host)
	}
	marks := proxy.Inject(whole.t, cluster.Fault{Method: http.MethodPatch, Path: "/apis/cluster.x-k8s.io/.*/status", Delay: 300 * time.Millisecond})
	for _, h := range fixtures[1:] {
		h.longBroken(names("m", 4))
	}
	whole.wantHits("a mark", marks, 4)
	leads.Stop(whole.t)
	stopped := time.Now()
	whole.leaderIs(holder)
	fixtures[0].longBroken(names("m", 4)[2:])
	for _, h := range fixtures {
		h.wantMarked(4)
		h.wantHealthy(2, 6)
	}
	for i, h := range fixtures {
		h.keepsToItself(before[i], stopped)
		h.hasConnected(after[i])
	}
	for _, h := range fixtures {
		h.wantReplaced(6)
	}
}

// six makes six fixtures of six machines each, and returns the user of each connection.
func (h *clusterFixture) six() (fixtures []*clusterFixture, before []string) {
	h.t.Helper()
	const clusters = 6
	for i := range clusters {
		one := newClusterFixture(h.t, h.Cluster, fmt.Sprintf("%s-%d", h.name, i))
		one.healthCheck(6, short)
		if i < clusters-1 {
			one.makeMachines(names("m", 6))
		} else {
			one.addMachines(names("m", 6))
		}
		fixtures = append(fixtures, one)
		before = append(before, "system:serviceaccount:"+one.name+":reader")
	}
	return fixtures, before
}

// keepsToItself checks that a stopped leader sends no more requests to a workload cluster once another holds the lease,
// and that its watch is over.
func (h *clusterFixture) keepsToItself(user string, stopped time.Time) {
	h.t.Helper()
	lease := &coordinationv1.Lease{}
	h.must("reading the lease", h.Get(cluster.Context(h.t), types.NamespacedName{Namespace: "fettle-system", Name: "fettle"}, lease))
	if acquired := lease.Spec.AcquireTime.Time; acquired.Before(stopped) {
		stopped = acquired
	}
	h.Eventually(h.t, "the watch of "+user+" is over", func(context.Context) error {
		if !slices.ContainsFunc(h.RequestsOf(h.t, user), func(r cluster.Request) bool { return r.Verb == "watch" && r.Resource == "nodes" }) {
			return errors.New("it goes on")
		}
		return nil
	})
	for _, r := range h.RequestsOf(h.t, user) {
		if r.At.After(stopped) || (r.Verb == "watch" && r.Ended.After(stopped)) {
			h.t.Errorf("another replica leads since %s, and the former leader has sent requests or watched: %+v", stopped, r)
		}
	}
}

// hasConnected checks that a user has listed a workload cluster, and not again and again.
func (h *clusterFixture) hasConnected(user string) {
	h.t.Helper()
	lists := 0
	for _, r := range h.RequestsOf(h.t, user) {
		if r.Verb == "list" && strings.HasPrefix(r.Resource, "nodes") && r.Code == http.StatusOK {
			lists++
		}
	}
	if lists != 1 {
		h.t.Errorf("%s has listed nodes %d times, want once", user, lists)
	}
}
