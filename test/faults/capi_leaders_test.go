package faults

import (
	"net/http"
	"strings"
	"time"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// Of the herds whose leaders are lost.
const (
	illOfForty  = 30
	wellOfForty = 10
)

// forty makes a herd of forty machines, of which thirty may fail.
func (h *clusterFixture) forty() (well, ill []string) {
	h.t.Helper()
	well, ill = names("well", wellOfForty), names("ill", illOfForty)
	h.addMachines(append(well, ill...))
	h.healthCheck(illOfForty, short)
	return well, ill
}

// markingLeaderKilled: the leader is lost when ten of thirty marks are made, and the others are on their way or have no
// more than a record. While nobody leads, more machines fail than remediation may go on with. The next leader marks
// nothing until those have recovered, and then all that is left.
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
	h.wantStanding(10)
	h.recover(well[:3])
	h.wantMarked(illOfForty)
	h.wantHealthy(wellOfForty, wellOfForty+illOfForty)
	h.keepsMarked()
	h.wantReplaced(illOfForty)
}

// marksOnTheirWay: the marks of a leader are on their way while it stands still, and arrive when another leader has
// made them all. When it wakes up it holds the answers, and ends.
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

// marksOfTwoLeaders: both lead at the same time, mark, and withdraw.
func marksOfTwoLeaders(h *clusterFixture) {
	h.markedByTwo(func() {
		h.StartFettle(h.t)
		h.StartFettle(h.t)
	})
}

// marksOfOneBehind: one of two leaders sees repairs and machines later than it sees nodes, and its writes pass at once.
func marksOfOneBehind(h *clusterFixture) {
	proxy, kubeconfig := h.throughProxy()
	for _, path := range []string{repairsPath, herdsPath} {
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
	h.recover(well[:1]) // before others make room for it
	h.recover(ill[:3])
	h.wantStanding(illOfForty - 3)
	h.wantRepairs(v1alpha1.RepairSucceeded, 3)
	h.wantReplaced(illOfForty)
}
