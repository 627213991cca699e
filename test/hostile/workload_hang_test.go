package hostile

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-io/fettle/test/cluster"
)

// workloadPasses is how many passes Fettle makes at a time, and workloadHanging how many clusters hang.
const workloadPasses, workloadHanging = 32, 80

// hanging counts requests without an answer.
type hanging struct{ now atomic.Int32 }

// hang answers nothing for as long as the request lasts.
func (h *hanging) hang(_ http.ResponseWriter, r *http.Request) {
	h.now.Add(1)
	defer h.now.Add(-1)
	<-r.Context().Done()
}

// wantMore waits until more requests than that hang at a time.
func (h *hanging) wantMore(s *workloadStage, than int32) {
	s.t.Helper()
	s.Eventually(s.t, fmt.Sprintf("more than %d requests hang at a time", than), func(context.Context) error {
		if now := h.now.Load(); now <= than {
			return fmt.Errorf("%d do", now)
		}
		return nil
	})
}

// TestI15ClustersWhoseReadsHang: more clusters than Fettle passes over at a time never answer the read of a node, for
// which each pass waits. They don't keep others out: more reads hang than there are places, and a machine of an honest
// cluster is repaired meanwhile.
func TestI15ClustersWhoseReadsHang(t *testing.T) {
	s := newWorkloadStage(t)
	honest, mute, reads := newWorkloadServer(t, 50), newWorkloadServer(t, 1), &hanging{}
	mute.node = reads.hang
	s.joins("honest", honest.kubeconfig(), 3)
	for i := range workloadHanging {
		s.joins(fmt.Sprintf("hanging-%d", i), mute.kubeconfig(), 1)
	}
	s.wantRequests(mute, "watch", workloadHanging)
	s.repairs("honest", honest)
	alone := s.marks("honest", honest)
	honest.setReady(0, corev1.ConditionTrue)
	s.wantMarked("honest", false)
	mute.setReady(0, corev1.ConditionFalse)
	reads.wantMore(s, workloadPasses*3/2) // a server learns late that Fettle gave up a read
	s.logTime("a repair while the reads of other clusters hang", s.marks("honest", honest), alone)
	s.wantRequests(mute, "node", workloadHanging)
	for i := range workloadHanging {
		if marked, err := s.marked(cluster.Context(t), fmt.Sprintf("hanging-%d", i)); marked || err != nil {
			t.Errorf("the machine of hanging-%d is marked: %t (%v)", i, marked, err)
		}
	}
}

// marks breaks a node of an honest cluster, and returns how long it took until Fettle marked its machine.
func (s *workloadStage) marks(name string, on *workloadServer) time.Duration {
	s.t.Helper()
	began := time.Now()
	on.setReady(0, corev1.ConditionFalse)
	s.wantMarked(name, true)
	return time.Since(began)
}

// wantRequests waits until a server has got so many requests of a kind.
func (s *workloadStage) wantRequests(server *workloadServer, what string, times int) {
	s.t.Helper()
	s.Eventually(s.t, fmt.Sprintf("%d times a %s", times, what), func(context.Context) error {
		if got := server.requestCount(what); got < times {
			return fmt.Errorf("%d times", got)
		}
		return nil
	})
}
