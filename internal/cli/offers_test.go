package cli

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// TestSoonestChange: a health check tells the soonest change of its own targets, and of two at an instant the first.
func TestSoonestChange(t *testing.T) {
	suspect := func(policy, target int, until time.Duration) core.Verdict {
		return core.Verdict{Policy: policy, Target: target, Health: core.Suspect, Until: noon.Add(until)}
	}
	held := func(w *assessment, refusals ...core.Refusal) {
		w.decision.Refusals = refusals
		for _, r := range refusals {
			w.refusalsOf[r.Target] = append(w.refusalsOf[r.Target], r)
		}
	}
	member := func(w *assessment, delay time.Duration, m core.MemberReport) {
		m.Target = w.cluster.Targets[0].ID
		w.policies[0].HealthyDelay, w.reports[0].Members = delay, []core.MemberReport{m}
	}
	in := noon.Add
	for sentence, tc := range map[string]struct {
		change func(*assessment)
		want   string
	}{
		"nothing":                    {func(*assessment) {}, ""},
		"a repair begins":            {func(w *assessment) { w.decision.Starts = []core.Start{{Target: 1}} }, "12:00:00 worker-b is repaired"},
		"a repair of another begins": {func(w *assessment) { w.decision.Starts = []core.Start{{Target: 1, Policy: 1}} }, ""},
		"a repair begins, and another ends its step": {func(w *assessment) {
			w.decision.Starts = []core.Start{{Target: 1}}
			w.decision.Escalations = []core.Escalation{{Repair: 0, Target: 0}}
		}, "12:00:00 worker-b is repaired"},
		"it cools down": {func(w *assessment) {
			w.decision.Tallies[0].CoolingDown, w.decision.Tallies[0].ResumeAt = true, in(time.Minute+time.Millisecond)
		}, "12:01:00 repairs resume"},
		"it has cooled down":  {func(w *assessment) { w.decision.Tallies[0].ResumeAt = in(time.Minute) }, ""},
		"a target is suspect": {func(w *assessment) { w.decision.Verdicts = []core.Verdict{suspect(0, 1, time.Minute)} }, "12:01:00 worker-b becomes unhealthy"},
		"a target is suspect without an end": {func(w *assessment) {
			w.decision.Verdicts = []core.Verdict{{Health: core.Suspect}, suspect(0, 1, time.Minute)}
		}, "12:01:00 worker-b becomes unhealthy"},
		"a target is no longer suspect": {func(w *assessment) {
			v := suspect(0, 1, time.Minute)
			v.Health = core.Undetermined
			w.decision.Verdicts = []core.Verdict{v}
		}, ""},
		"the second is sooner": {func(w *assessment) {
			w.decision.Verdicts = []core.Verdict{suspect(0, 1, time.Hour), suspect(0, 2, time.Minute), suspect(0, 3, time.Minute), suspect(1, 4, time.Second)}
		}, "12:01:00 worker-c becomes unhealthy"},
		"a step begins": {func(w *assessment) { w.decision.StepStarts = []core.StepStart{{Target: 1}} }, "12:00:00 the remedy for worker-b is called"},
		"gates open": {func(w *assessment) {
			held(w, core.Refusal{Target: 1, Gate: core.BackingOff, Until: in(time.Minute)}, core.Refusal{Target: 1, Policy: 1, Gate: core.BackingOff, Until: in(time.Hour)})
		}, "13:00:00 worker-b is tried again"},
		"one gate does not open by itself": {func(w *assessment) {
			held(w, core.Refusal{Target: 1, Gate: core.BackingOff, Until: in(time.Minute)}, core.Refusal{Target: 1, Gate: core.PolicyPaused})
		}, ""},
		"a cooldown is told once": {func(w *assessment) {
			held(w, core.Refusal{Target: 1, Gate: core.StormCooldown, Until: in(time.Minute)})
		}, ""},
		"a dry run is never tried": {func(w *assessment) {
			held(w, core.Refusal{Target: 1, Gate: core.BackingOff, DryRun: true, Until: in(time.Minute)}, core.Refusal{Target: 1, Policy: 1, Gate: core.BackingOff, Until: in(time.Hour)})
		}, ""},
		"a step is given up": {func(w *assessment) { w.decision.Escalations = []core.Escalation{{Repair: 0, Target: 0}} }, "12:00:00 step 2 of worker-a is given up"},
		"a request to an owner is withdrawn": {func(w *assessment) {
			w.cluster.Requests = []core.Request{{}, {ID: core.ID{Kind: "Machine", Name: "request"}, Target: w.cluster.Targets[1].ID, Answers: true}}
			w.decision.Withdrawals = []core.Withdrawal{{Request: 1, Target: 1}}
		}, "12:00:00 the request to the owner of worker-b is withdrawn"},
		"an object is deleted": {func(w *assessment) {
			w.cluster.Requests = []core.Request{{}, {ID: core.ID{Kind: "Reboot", Namespace: "remediators", Name: "node-b"}}}
			w.decision.Withdrawals = []core.Withdrawal{{Request: 1, Target: 1}}
		}, "12:00:00 Reboot remediators/node-b is deleted"},
		"a target is healthy for a while": {func(w *assessment) {
			member(w, time.Hour, core.MemberReport{Delayed: true, HealthySince: in(-time.Minute), StableAt: in(time.Minute)})
		}, "12:59:00 the remediation objects of worker-a are deleted"},
		"a target is healthy for a while, and its conditions settle later": {func(w *assessment) {
			member(w, time.Hour, core.MemberReport{Delayed: true, HealthySince: in(-time.Minute), StableAt: in(time.Hour)})
		}, "13:00:00 the remediation objects of worker-a are deleted"},
		"it is not known since when a target is healthy": {func(w *assessment) { member(w, time.Hour, core.MemberReport{Delayed: true, StableAt: in(time.Hour)}) }, ""},
		"a target is healthy, and nothing stands for a delay": {func(w *assessment) {
			member(w, time.Hour, core.MemberReport{HealthySince: in(-time.Minute), StableAt: in(time.Minute)})
		}, ""},
		"a target is healthy, and its conditions settle": {func(w *assessment) {
			member(w, 0, core.MemberReport{HealthySince: in(-time.Minute), StableAt: in(time.Minute)})
		}, "12:01:00 the request for worker-a is withdrawn"},
		"a target is healthy, and its conditions have settled": {func(w *assessment) {
			member(w, 0, core.MemberReport{HealthySince: in(-time.Minute), StableAt: in(0)})
		}, ""},
	} {
		s := newScene()
		s.check("other", time.Hour)
		s.repair(0, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairSucceeded})
		w := s.assessment()
		w.cluster.Repairs[0].Tried = []core.StepRecord{{}}
		tc.change(w)
		got := ""
		if n := w.nextOfPolicy(0); n != nil {
			got = n.At.Format(time.TimeOnly) + " " + n.Text
			if !n.At.Equal(n.At.Truncate(time.Second)) {
				t.Errorf("%s: %v has parts of a second", sentence, n.At)
			}
		}
		if got != tc.want {
			t.Errorf("%s: the next change is %q, want %q", sentence, got, tc.want)
		}
	}
}

// TestTimeOfAStep: a health check tells when a step times out, by its number, where the step has a limit.
func TestTimeOfAStep(t *testing.T) {
	at := func(n *Next) string {
		if n == nil {
			return ""
		}
		return n.At.Format(time.TimeOnly) + " " + n.Text
	}
	for sentence, tc := range map[string]struct {
		change func(*nodeScene)
		want   string
	}{
		"the first":  {nodeScenes["first-step"], "12:03:00 step 1 of node-a times out"},
		"the second": {nodeScenes["second-step"], "12:09:00 step 2 of node-a times out"},
		"none":       {nodeScenes["exhausted"], ""},
		"endless":    {nodeScenes["classic"], ""},
	} {
		s := newNodeScene(t)
		tc.change(s)
		s.check("other", time.Hour).Members = nil
		w := s.assessment()
		if got := at(w.nextOfPolicy(0)); got != tc.want {
			t.Errorf("%s: the next change is %q, want %q", sentence, got, tc.want)
		}
		if got := at(w.nextOfPolicy(1)); got != "" {
			t.Errorf("%s: the next change of another is %q", sentence, got)
		}
	}
}
