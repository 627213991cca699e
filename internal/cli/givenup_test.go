package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fettle-io/fettle/internal/core"
)

// TestTextsOfBackoff: a back-off says after how many failures Fettle gives up, if it ever does.
func TestTextsOfBackoff(t *testing.T) {
	for _, tc := range []struct {
		refusal core.Refusal
		after   int
		want    string
	}{
		{core.Refusal{Gate: core.BackingOff}, 0, ""},
		{core.Refusal{Gate: core.BackingOff}, 1, "; the pool is given up after 1 in a row"},
		{core.Refusal{Gate: core.BackingOff, Relapsed: true}, 7, "; it is given up after 7 in a row"},
		{core.Refusal{Gate: core.PolicyPaused}, 7, ""},
	} {
		s := newScene()
		s.Policies[0].Backoff.GiveUpAfter = tc.after
		if got, want := s.assessment().textOf(tc.refusal), tc.refusal.Text()+tc.want; got != want {
			t.Errorf("of %s it says %q, want %q", tc.refusal.Gate, got, want)
		}
	}
}

// TestResumption names one command for each health check that has given up, and none for its dry runs or for others.
func TestResumption(t *testing.T) {
	s := newScene()
	s.check("young", time.Hour)
	w := s.assessment()
	refusal := func(policy int, gate core.Gate, dryRun bool) core.Refusal {
		return core.Refusal{Policy: policy, Gate: gate, DryRun: dryRun}
	}
	w.decision.Refusals = []core.Refusal{
		refusal(0, core.PoolGivenUp, false), refusal(1, core.PoolGivenUp, true), refusal(0, core.PolicyPaused, false), refusal(0, core.PoolGivenUp, false),
	}
	for policy, want := range [][]int{{0, 2, 3}, nil} {
		var refusals []core.Refusal
		for _, i := range want {
			refusals = append(refusals, w.decision.Refusals[i])
		}
		if diff := cmp.Diff(refusals, w.refusalsBy(policy), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("refusals of policy %d (-want +got):\n%s", policy, diff)
		}
	}
	const command = " Once the cause is mended, kubectl annotate --overwrite -n machines machinehealthchecks.machine.openshift.io "
	const resumes = " fettle.io/resumed-at=$(date -u +%FT%TZ) resumes repairs."
	if diff := cmp.Diff(command+"example"+resumes+command+"young"+resumes, w.resumption(slices.Concat(w.decision.Refusals, w.decision.Refusals))); diff != "" {
		t.Errorf("the commands (-want +got):\n%s", diff)
	}
}
