package faults

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-io/fettle/test/cluster"
)

// clockDiffers: while the API server's clock is this far ahead of Fettle's, Fettle repairs nothing, and everything that
// a user sees says why. Fettle judges all that is due by then once the clocks agree, without any event.
func clockDiffers(by time.Duration) func(*machineFixture) {
	return func(s *machineFixture) {
		proxy, kubeconfig := s.throughProxy()
		s.addMachines(names("m", 4))
		s.healthCheck("example", unlimited)
		skew := proxy.Inject(s.t, cluster.Fault{Path: ".*", Skew: by})
		// Renewals of the lease are answered every half second in any case.
		fettle := s.StartFettleWith(s.t, kubeconfig, leaderFlags()...)
		s.wantStatus("example", 4, 4, "ClockSkewed")
		s.longBroken([]string{"m-00"})
		s.wantStatus("example", 3, 4, "ClockSkewed")
		s.wantSkewReported(fettle, by)
		s.Never(s.t, "nothing is deleted", quiet, s.onlyGone(0))
		skew.End()
		s.wantRepaired()
		s.wantStatus("example", 3, 3, "")
		skew = proxy.Inject(s.t, cluster.Fault{Path: ".*", Skew: by})
		s.wantStatus("example", 3, 3, "ClockSkewed")
		s.longBroken([]string{"m-01"})
		s.wantStatus("example", 2, 3, "ClockSkewed")
		s.recoverNodes([]string{"m-01"})
		s.wantStatus("example", 3, 3, "ClockSkewed")
		skew.End()
		s.wantStatus("example", 3, 3, "")
		s.verify(unlimited)
		s.tellsTheTruth()
	}
}

// wantSkewReported: an event of the machine, the command line and the log say that the clock holds back its repair.
func (s *machineFixture) wantSkewReported(fettle *cluster.Fettle, by time.Duration) {
	s.t.Helper()
	s.Eventually(s.t, "an event about the clock", func(ctx context.Context) error {
		var events corev1.EventList
		if err := s.List(ctx, &events); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Namespace == s.namespace && e.Reason == "RemediationHeldClockSkewed" {
				return nil
			}
		}
		return fmt.Errorf("%d events, and none of RemediationHeldClockSkewed", len(events.Items))
	})
	var answer any
	s.explain(s.namespace, "machine/m-00", &answer)
	if text := fmt.Sprint(answer); !strings.Contains(text, "ClockSkewed") {
		s.t.Errorf("explain does not name the gate: %s", text)
	}
	if log := fettle.Log(s.t); !strings.Contains(log, "Fettle's clock differs from the API server's") {
		s.t.Errorf("the log does not say that the clocks differ by %s", by)
	}
}
