package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// workloadPlaces is how many clusters list promptly at a time, and workloadHolding how many never finish a list.
const workloadPlaces, workloadHolding = 8, 24

// logTime logs how long a service took, beside its time on a machine without hostile clusters. No time fails the test:
// the test's machine is as busy with the attackers as with Fettle.
func (s *workloadStage) logTime(what string, took, alone time.Duration) {
	s.t.Helper()
	s.t.Logf("%s took %s, and %s alone", what, took, alone)
}

// holds adds clusters that never finish a list. They are many more than list at a time.
func (s *workloadStage) holds() []*workloadServer {
	s.t.Helper()
	var holding []*workloadServer
	for i := range workloadHolding {
		h := newWorkloadServer(s.t, 1)
		if h.list = trickle; i%4 == 0 {
			h.list = drip
		}
		holding = append(holding, h)
		s.joins(fmt.Sprintf("hold-%d", i), h.kubeconfig(), 1)
	}
	return holding
}

// joinsBesideHolding adds an honest cluster once each cluster that never finishes a list has used up a turn. From then
// on those list in places of their own, so the honest one waits for less than one round of all places. If they took all
// places, it would wait for about two.
func (s *workloadStage) joinsBesideHolding(holding []*workloadServer, alone time.Duration) {
	s.t.Helper()
	for i := range holding {
		s.isHeld(fmt.Sprintf("hold-%d", i), "does not list its nodes in the time")
	}
	next := newWorkloadServer(s.t, 50)
	// Turns count from Fettle's first request on. The test's machine may be slow to create the objects of a cluster.
	first, before, began := sync.Once{}, atomic.Int64{}, time.Now()
	next.ready = func(w http.ResponseWriter, _ *http.Request) {
		first.Do(func() { before.Store(int64(turnsOverOf(holding))) })
		fmt.Fprint(w, "ok")
	}
	s.joins("next", next.kubeconfig(), 3)
	s.Eventually(s.t, "the honest cluster is listed", func(context.Context) error {
		if next.requestCount("list") == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	if waited := turnsOverOf(holding) - int(before.Load()); waited >= workloadPlaces {
		s.t.Errorf("an honest cluster waited for %d turns of clusters that never finish, want fewer than %d", waited, workloadPlaces)
	} else {
		s.t.Logf("an honest cluster waited for %d turns", waited)
	}
	s.repairs("next", next)
	s.logTime("the first repair of a cluster that joins", time.Since(began), alone)
}
