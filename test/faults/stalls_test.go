package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/fettle-io/fettle/test/cluster"
)

// nodesStall: Fettle reads a node live before it acts, so it spares a node that has recovered unseen, and does not read
// it too often. It finds nodes that broke unseen when the watch goes on.
func nodesStall(s *machineFixture) {
	proxy, kubeconfig := s.throughProxy()
	s.addMachines(names("m", 6))
	// Long enough for m-01 to recover after Fettle has seen it fail, and before it is unhealthy.
	s.healthCheckAfter("example", unlimited, 3*short)
	s.StartFettleWith(s.t, kubeconfig)
	s.wantStatus("example", 6, 6, "")
	s.breakNodes([]string{"m-00", "m-01"}, time.Now())
	s.wantStatus("example", 4, 6, "")
	stall := proxy.Inject(s.t, cluster.Fault{Path: nodesPath, Watch: true, Stall: true})
	s.recoverNodes([]string{"m-01"})
	s.longBroken([]string{"m-02"})
	s.wantGone(1)
	s.Never(s.t, "nothing else is deleted", 2*quiet, s.onlyGone(1))
	reads := len(proxy.Requests(nodesPath + "/" + s.node("m-01").GetName()))
	if reads == 0 || reads > 30 {
		s.t.Errorf("the node that has recovered was read %d times", reads)
	}
	stall.End()
	s.wantRepaired()
	s.wantStatus("example", 4, 4, "")
	s.verify(unlimited)
	s.tellsTheTruth()
}

func (s *machineFixture) onlyGone(want int) func(context.Context) error {
	return func(context.Context) error {
		if deleting, gone, _ := s.counts(); deleting+gone != want {
			return fmt.Errorf("%d machines are in deletion and %d gone, want %d in all", deleting, gone, want)
		}
		return nil
	}
}

// machinesStall: a machine was replaced unseen by one of the same name. Fettle does not delete the new one, and pauses
// between its attempts.
func machinesStall(s *machineFixture) {
	proxy, kubeconfig := s.throughProxy()
	s.addMachines(names("m", 6))
	s.healthCheck("example", unlimited)
	s.StartFettleWith(s.t, kubeconfig)
	s.wantStatus("example", 6, 6, "")
	stall := proxy.Inject(s.t, cluster.Fault{Path: machinesPath, Watch: true, Stall: true})
	s.deleteOurselves([]string{"m-01"})
	s.wantGone(1)
	ctx := cluster.Context(s.t)
	s.must("making a node for the namesake", s.addNode(ctx, "m-06"))
	s.must("making the namesake", s.addMachine(ctx, "m-01", s.node("m-06").GetName()))
	s.longBroken([]string{"m-00"})
	s.must("breaking the old node", s.setReady(ctx, "m-01", "False", time.Now().Add(-time.Hour)))
	s.wantGone(2)
	s.Never(s.t, "nothing else is deleted", 2*quiet, s.onlyGone(2))
	stall.End()
	s.wantRepaired()
	s.wantStatus("example", 5, 5, "")
	s.verify(unlimited)
	s.tellsTheTruth()
}

// repairsStall: Fettle knows its own writes. A process that starts while Repairs can't be read does nothing.
func repairsStall(s *machineFixture) {
	proxy, kubeconfig := s.throughProxy()
	ill := names("ill", 12)
	s.addMachines(append(names("well", 4), ill...))
	s.healthCheck("example", 3)
	first := s.StartFettleWith(s.t, kubeconfig)
	s.wantStatus("example", 16, 16, "")
	stall := proxy.Inject(s.t, cluster.Fault{Path: repairsPath, Watch: true, Stall: true})
	s.longBroken(ill[:6])
	s.wantGone(6)
	s.wantRepaired()
	first.Stop(s.t)

	s.longBroken(ill[6:])
	s.StartFettleWith(s.t, kubeconfig)
	s.Never(s.t, "nothing is deleted without the ledger", quiet, s.onlyGone(6))
	stall.End()
	s.wantRepaired()
	s.wantStatus("example", 4, 4, "")
	s.verify(3)
	s.tellsTheTruth()
}

// healthChecksStall: the last known version of a health check stays in force. A newer one counts as soon as the watch
// goes on.
func healthChecksStall(s *machineFixture) {
	proxy, kubeconfig := s.throughProxy()
	s.addMachines(names("m", 6))
	s.healthCheck("example", 1)
	s.StartFettleWith(s.t, kubeconfig)
	s.wantStatus("example", 6, 6, "")
	stall := proxy.Inject(s.t, cluster.Fault{Path: checksPath, Watch: true, Stall: true})
	s.healthCheck("another", 1)
	s.longBroken([]string{"m-00", "m-01"})
	s.wantRepaired()
	s.wantStatus("example", 4, 4, "")
	stall.End()
	s.wantStatus("another", 4, 4, "")
	s.longBroken([]string{"m-02", "m-03"})
	s.wantRepaired()
	s.wantStatus("example", 2, 2, "")
	s.wantStatus("another", 2, 2, "")
	s.verify(1)
	s.tellsTheTruth()
}
