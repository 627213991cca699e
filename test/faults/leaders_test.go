package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fettle-io/fettle/test/cluster"
)

// fiftyRepairs breaks fifty of sixty machines, and returns during their repairs.
func (s *machineFixture) fiftyRepairs() {
	s.t.Helper()
	well, ill := names("well", 10), names("ill", 50)
	s.addMachines(append(well, ill...))
	s.heartbeats(append(well, ill...))
	s.healthCheck("example", 10)
	s.wantStatus("example", 60, 60, "")
	s.longBroken(ill)
	s.wantGone(12)
}

// leaderKilled: another replica finishes the repairs of a killed leader.
func leaderKilled(s *machineFixture) {
	leads, _, _, holder := s.twoReplicas()
	s.fiftyRepairs()
	leads.Kill(s.t)
	s.leaderIs(holder)
	s.wantRepaired()
	s.wantStatus("example", 10, 10, "")
	s.verify(10)
	s.tellsTheTruth()
}

// leaderStopped: a leader that ends in good order hands over.
func leaderStopped(s *machineFixture) {
	leads, _, _, holder := s.twoReplicas()
	s.fiftyRepairs()
	leads.Stop(s.t)
	s.leaderIs(holder)
	s.wantRepaired()
	s.wantStatus("example", 10, 10, "")
	s.verify(10)
	s.tellsTheTruth()
}

// leaderHalted: a leader is halted for longer than its lease, and continues while another works. It does nothing twice,
// and nothing beyond the limit.
func leaderHalted(s *machineFixture) {
	leads, _, _, holder := s.twoReplicas()
	s.fiftyRepairs()
	leads.Halt(s.t)
	s.hold()
	s.leaderIs(holder)
	s.wantDeleting(10)
	leads.Resume(s.t)
	s.keepsTo(10)
	leads.WantEnd(s.t)
	s.drainAll(100 * time.Millisecond)
	s.wantRepaired()
	s.wantStatus("example", 10, 10, "")
	s.verify(10)
	s.tellsTheTruth()
}

// keepsTo checks for a while that no more machines than this are in deletion.
func (s *machineFixture) keepsTo(limit int) {
	s.t.Helper()
	s.Never(s.t, "too many deletions", quiet, func(context.Context) error {
		if deleting, _, _ := s.counts(); deleting > limit {
			return fmt.Errorf("%d machines are in deletion", deleting)
		}
		return nil
	})
}

// leaderHaltedAsItRecords: the records of a leader are delayed while it is halted. They arrive when another leader has
// used up the limit for older faults. The first leader then continues and gets its answers.
func leaderHaltedAsItRecords(s *machineFixture) {
	leads, _, proxy, holder := s.twoReplicas()
	s.hold()
	first, older := names("first", 6), names("older", 6)
	s.addMachines(append(first, older...))
	s.healthCheck("example", 3)
	s.wantStatus("example", 12, 12, "")
	records := proxy.Inject(s.t, cluster.Fault{Method: "POST", Path: s.repairsHere(), Stall: true})
	s.longBroken(first)
	s.Eventually(s.t, "the leader records", func(context.Context) error {
		if n := records.Held(); n < 3 {
			return fmt.Errorf("%d records are on their way", n)
		}
		return nil
	})
	leads.Halt(s.t)
	held := records.Held() // on a busy machine the leader may have given up some of them
	if held == 0 {
		s.t.Fatal("the leader has given up all its records before it was halted")
	}
	s.breakNodes(older, time.Now().Add(-2*time.Hour))
	s.leaderIs(holder)
	s.wantDeleting(3)
	records.End()
	s.wantRepairs(3 + held)
	leads.Resume(s.t)
	leads.WantEnd(s.t)
	s.keepsDeleting(3)
	s.drainAll(100 * time.Millisecond)
	s.wantRepaired()
	s.verify(3)
	s.tellsTheTruth()
}

// wantRepairs waits until this many repairs are recorded.
func (s *machineFixture) wantRepairs(n int) {
	s.t.Helper()
	s.Eventually(s.t, fmt.Sprintf("%d repairs", n), func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.repairs) < n {
			return fmt.Errorf("there are %d", len(s.repairs))
		}
		return nil
	})
}

// leaderLosesItsLease: a leader whose renewals fail ends, and the other takes over.
func leaderLosesItsLease(s *machineFixture) {
	leads, _, proxy, holder := s.twoReplicas()
	renewals := proxy.Inject(s.t, cluster.Fault{Method: "PUT", Path: leasesPath, Status: 500})
	s.fiftyRepairs()
	leads.WantEnd(s.t)
	s.leaderIs(holder)
	s.wantRepaired()
	s.wantStatus("example", 10, 10, "")
	s.verify(10)
	s.tellsTheTruth()
	if n := len(renewals.Hits()); n == 0 || n > 100 {
		s.t.Errorf("the lease was requested %d times while that failed", n)
	}
}

// inWaves breaks thirty machines, six at a time, each wave older than the one before. Leaders with different views then
// choose different machines.
func (s *machineFixture) inWaves(ill []string) {
	s.t.Helper()
	const wave = 6
	for i := 0; i < len(ill); i += wave {
		s.breakNodes(ill[i:i+wave], time.Now().Add(-time.Duration(i+1)*time.Hour))
		s.wantGone(i/2 + 1)
	}
	s.wantRepaired()
}

// twoLeaders: both act at the same time.
func twoLeaders(limit int) func(*machineFixture) {
	return func(s *machineFixture) {
		s.thirtyRepairs(limit, func() {
			s.StartFettle(s.t)
			s.StartFettle(s.t)
		})
	}
}

func (s *machineFixture) thirtyRepairs(limit int, start func()) {
	s.t.Helper()
	well, ill := names("well", 4), names("ill", 30)
	s.addMachines(append(well, ill...))
	s.heartbeats(well)
	s.healthCheck("example", limit)
	start()
	s.wantStatus("example", 34, 34, "")
	s.inWaves(ill)
	s.wantStatus("example", 4, 4, "")
	s.verify(limit)
	s.tellsTheTruth()
}

// oneLeaderBehind: one of two leaders sees repairs and machines later than nodes, and its writes are not delayed.
func oneLeaderBehind(limit int) func(*machineFixture) {
	return func(s *machineFixture) {
		proxy, kubeconfig := s.throughProxy()
		for _, path := range []string{repairsPath, machinesPath} {
			proxy.Inject(s.t, cluster.Fault{Path: path, Watch: true, Lag: 3 * time.Second})
		}
		s.thirtyRepairs(limit, func() {
			s.StartFettle(s.t)
			s.StartFettleWith(s.t, kubeconfig)
		})
	}
}

// oneLeaderBlind: one of two leaders sees none of the other's repairs, since its watches of repairs and machines stall
// before the first. Then it sees older faults.
func oneLeaderBlind(limit int) func(*machineFixture) {
	return func(s *machineFixture) {
		s.hold()
		first, older := names("first", 6), names("older", 6)
		s.addMachines(append(first, older...))
		s.healthCheck("example", limit)
		proxy, kubeconfig := s.throughProxy()
		s.StartFettleWith(s.t, kubeconfig)
		s.wantStatus("example", 12, 12, "")
		var blind []*cluster.Injected
		for _, path := range []string{repairsPath, machinesPath, nodesPath} {
			blind = append(blind, proxy.Inject(s.t, cluster.Fault{Path: path, Watch: true, Stall: true}))
		}
		s.StartFettle(s.t)
		s.longBroken(first)
		s.wantDeleting(limit)
		s.breakNodes(older, time.Now().Add(-2*time.Hour))
		blind[2].End()
		s.wantRead(proxy, older)
		s.keepsDeleting(limit)
		blind[0].End()
		blind[1].End()
		s.drainAll(100 * time.Millisecond)
		s.wantRepaired()
		s.wantStatus("example", 0, 0, "")
		s.verify(limit)
		s.tellsTheTruth()
	}
}

// wantRead waits until the Fettle behind a proxy has read one of these nodes live, which it does before it acts.
func (s *machineFixture) wantRead(proxy *cluster.Proxy, names []string) {
	s.t.Helper()
	s.Eventually(s.t, "a live read", func(context.Context) error {
		for _, name := range names {
			if len(proxy.Requests(nodesPath+"/"+s.node(name).GetName())) > 0 {
				return nil
			}
		}
		return errors.New("no node was read")
	})
}
