package faults

import (
	"net/http"
	"strings"
	"time"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// For fixtures that lose their leaders.
const (
	illOfForty  = 30
	wellOfForty = 10
)

// forty makes a fixture of forty machines, of which thirty may fail.
func (h *clusterFixture) forty() (well, ill []string) {
	h.t.Helper()
	well, ill = names("well", wellOfForty), names("ill", illOfForty)
	h.addMachines(append(well, ill...))
	h.healthCheck(illOfForty, short)
	return well, ill
}

// markingLeaderKilled: the leader is killed when ten of thirty marks are made. Other marks are on their way, or have a
// record alone. Without a leader, more machines fail than the health check allows. The next leader marks none until
// those have recovered, and then the rest.
func markingLeaderKilled(h *clusterFixture) {
	leads, _, proxy, holder := h.twoReplicas()
	well, ill := h.forty()
	h.wantHealthy(wellOfForty+illOfForty, wellOfForty+illOfForty)
	stall := proxy.Inject(h.t, cluster.Fault{Method: http.MethodPatch, Path: strings.Replace(h.marksHere(), ".*", "ill-[12].", 1), Stall: true})
	h.longBroken(ill)
	h.wantMarked(10)
	h.wantHits("a mark", stall, 1)
	leads.Kill(h.t)
	h.brokenSince(well[:3], time.Now().Add(-time.Hour))
	h.leaderIs(holder)
	h.wantAllowed("False/TooManyUnhealthy")
	h.keepsMarked()
	h.wantMarks(10)
	h.recover(well[:3])
	h.wantMarked(illOfForty)
	h.wantHealthy(wellOfForty, wellOfForty+illOfForty)
	h.keepsMarked()
	h.wantReplaced(illOfForty)
}

// marksOnTheirWay: marks of a leader are delayed while it is halted, and arrive when another leader has made them all.
// The first leader then continues, gets its answers, and ends.
func marksOnTheirWay(h *clusterFixture) {
	leads, _, proxy, holder := h.twoReplicas()
	_, ill := h.forty()
	h.wantHealthy(wellOfForty+illOfForty, wellOfForty+illOfForty)
	stall := proxy.Inject(h.t, cluster.Fault{Method: http.MethodPatch, Path: h.marksHere(), Stall: true})
	h.longBroken(ill)
	h.wantHits("a mark", stall, 5)
	leads.Halt(h.t)
	h.leaderIs(holder)
	h.wantMarked(illOfForty)
	stall.End()
	h.keepsMarked()
	leads.Resume(h.t)
	leads.WantEnd(h.t)
	h.keepsMarked()
	h.wantReplaced(illOfForty)
}

// inWaves breaks thirty machines, six at a time, each wave older than the last, and waits for some marks of each.
func (h *clusterFixture) inWaves(ill []string) {
	h.t.Helper()
	const wave = 6
	for i := 0; i < len(ill); i += wave {
		h.due(ill[i : i+wave])
		h.brokenSince(ill[i:i+wave], time.Now().Add(-time.Duration(i+1)*time.Hour))
		h.wantMarked(i + 1)
	}
	h.wantMarked(len(ill))
}

// marksOfTwoLeaders: two leaders mark and withdraw at the same time.
func marksOfTwoLeaders(h *clusterFixture) {
	h.markedByTwo(func() {
		h.StartFettle(h.t)
		h.StartFettle(h.t)
	})
}

// marksOfOneBehind: one of two leaders sees repairs and machines later than nodes, and its writes are not delayed.
func marksOfOneBehind(h *clusterFixture) {
	proxy, kubeconfig := h.throughProxy()
	for _, path := range []string{repairsPath, clusterMachinesPath} {
		proxy.Inject(h.t, cluster.Fault{Path: path, Watch: true, Lag: 3 * time.Second})
	}
	h.markedByTwo(func() {
		h.StartFettle(h.t)
		h.StartFettleWith(h.t, kubeconfig)
	})
}

func (h *clusterFixture) markedByTwo(start func()) {
	h.t.Helper()
	well, ill := h.forty()
	start()
	h.wantHealthy(wellOfForty+illOfForty, wellOfForty+illOfForty)
	h.inWaves(ill)
	h.wantHealthy(wellOfForty, wellOfForty+illOfForty)
	h.brokenSince(well[:1], time.Now().Add(-time.Hour))
	h.wantAllowed("False/TooManyUnhealthy")
	h.keepsMarked()
	h.recover(well[:1]) // before others recover too
	h.recover(ill[:3])
	h.wantMarks(illOfForty - 3)
	h.wantRepairs(v1alpha1.RepairSucceeded, 3)
	h.wantReplaced(illOfForty)
}
