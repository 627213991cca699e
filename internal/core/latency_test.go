package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// lap is one pass over one machine, which may be there or not.
type lap struct {
	at       time.Duration // after noon
	machine  []core.Target
	policies []core.Policy
	want     []core.LatencySample
}

func TestLatencyRecorder(t *testing.T) {
	watching := []core.Policy{policy("p", all(1))}
	impatient := []core.Policy{policy("p", all(1), criteria(core.ConditionCriterion{Type: "Ready", Status: "False", For: time.Second}))}
	patient := []core.Policy{policy("p", all(1), criteria())}
	grouped := []core.Policy{policy("p", all(1), groups(tests(unready)))}
	trusting := []core.Policy{policy("p", all(1), func(p *core.Policy) { p.Criteria = core.Criteria{} })}
	well := []core.Target{machine("m")}
	is := func(changes ...func(*core.Target)) []core.Target { return []core.Target{machine("m", changes...)} }
	broken := is(ready("False", noon))
	detected := func(d time.Duration) core.LatencySample { return core.LatencySample{Stage: core.Detecting, Took: d} }
	decided := func(d time.Duration) core.LatencySample { return core.LatencySample{Stage: core.Deciding, Took: d} }
	cases := map[string]struct {
		reason string
		laps   []lap
	}{
		"a fault from its beginning": {"both stages are measured once each", []lap{
			{0, well, watching, nil},
			{2 * time.Second, broken, watching, []core.LatencySample{detected(2 * time.Second)}},
			{time.Minute, broken, watching, nil},
			{patience + 30*time.Millisecond, broken, watching, []core.LatencySample{decided(30 * time.Millisecond)}},
			{patience + time.Second, broken, watching, nil},
		}},
		"a fault that is seen after its deadline": {"a watch that stalls shows in both stages", []lap{
			{0, well, watching, nil},
			{patience + time.Second, broken, watching, []core.LatencySample{detected(patience + time.Second), decided(time.Second)}},
		}},
		"a fault again": {"it was over in between", []lap{
			{0, well, watching, nil},
			{time.Second, broken, watching, []core.LatencySample{detected(time.Second)}},
			{2 * time.Second, well, watching, nil},
			{4 * time.Second, is(ready("False", noon.Add(3*time.Second))), watching, []core.LatencySample{detected(time.Second)}},
		}},
		"unhealthy before the start": {"it is unknown for how long it was to be seen", []lap{
			{0, is(dead), watching, nil},
			{time.Second, is(dead), watching, nil},
		}},
		"suspect before the start": {"its deadline is still to come", []lap{
			{time.Minute, broken, watching, nil},
			{patience, broken, watching, []core.LatencySample{decided(0)}},
		}},
		"a new policy": {"it came after the fault", []lap{
			{0, is(dead), nil, nil},
			{time.Second, is(dead), watching, nil},
			{2 * time.Second, is(dead), watching, nil},
		}},
		"shorter criteria": {"the deadline was moved into the past", []lap{
			{0, well, watching, nil},
			{time.Second, broken, watching, []core.LatencySample{detected(time.Second)}},
			{time.Minute, broken, impatient, nil},
		}},
		"shorter criteria by groups": {"the deadline was moved into the past", []lap{
			{0, well, patient, nil},
			{time.Second, broken, patient, nil},
			{time.Hour, broken, grouped, nil},
		}},
		"a machine that boots": {"it is given time, which is no fault, until the time is over", []lap{
			{0, well, watching, nil},
			{time.Minute, is(awaited(noon)), watching, nil},
			{10*time.Minute + time.Second, is(awaited(noon)), watching, []core.LatencySample{decided(time.Second)}},
		}},
		"a machine that fails": {"there is no deadline but the fault", []lap{
			{0, well, watching, nil},
			{time.Second, is(failed(noon)), watching, []core.LatencySample{detected(time.Second), decided(time.Second)}},
		}},
		"a machine that failed at an unknown time": {"nothing to measure from", []lap{
			{0, well, watching, nil}, {time.Second, is(failed(time.Time{})), watching, nil},
		}},
		"a clock that is ahead": {"a delay is never below zero", []lap{
			{0, well, watching, nil}, {time.Second, is(ready("False", noon.Add(time.Minute))), watching, []core.LatencySample{detected(0)}},
		}},
		"a machine that leaves": {"its deletion measures nothing", []lap{
			{0, well, watching, nil}, {time.Minute, is(dead, deleting), watching, nil},
		}},
		"a fault that can't be judged for a moment": {"it is the same fault", []lap{
			{0, well, watching, nil},
			{time.Second, broken, watching, []core.LatencySample{detected(time.Second)}},
			{2 * time.Second, is(nodeIs(core.NodeUnseen)), watching, nil},
			{3 * time.Second, broken, watching, nil},
		}},
		"a fault that could not be judged at first": {"it came while it could not be seen", []lap{
			{0, well, watching, nil},
			{time.Second, is(nodeIs(core.NodeUnseen)), watching, nil},
			{2 * time.Second, broken, watching, []core.LatencySample{detected(2 * time.Second)}},
		}},
		"a fault that could not be judged before the start": {"it is unknown whether it could be seen", []lap{
			{time.Second, is(nodeIs(core.NodeUnseen)), watching, nil},
			{2 * time.Second, broken, watching, nil},
		}},
		"a machine that boots before the start, and fails": {"the fault is another, and came later", []lap{
			{0, is(awaited(noon)), watching, nil},
			{2 * time.Second, is(failed(noon.Add(time.Second))), watching, []core.LatencySample{detected(time.Second), decided(time.Second)}},
		}},
		"a new policy without criteria": {"it came after the fault", []lap{
			{0, is(failed(noon)), nil, nil},
			{time.Second, is(failed(noon)), trusting, nil},
		}},
		"a policy that was away": {"the fault may have come meanwhile", []lap{
			{0, well, watching, nil},
			{time.Second, well, nil, nil},
			{2 * time.Second, broken, watching, nil},
		}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			var s core.LatencyRecorder
			for i, lap := range tc.laps {
				f, now := clusterOf(lap.machine), noon.Add(lap.at)
				got := s.Observe(lap.policies, &f, core.Decide(lap.policies, f, now), now)
				if diff := cmp.Diff(lap.want, got); diff != "" {
					t.Errorf("%s: pass %d (-want +got):\n%s", tc.reason, i, diff)
				}
			}
		})
	}
}

// TestLatencyRecorderMeasuresQueues: from the pass that judged a target unhealthy until its repair was started.
func TestLatencyRecorderMeasuresQueues(t *testing.T) {
	policies := []core.Policy{policy("p", all(1))}
	well, broken := machine("m"), machine("m", ready("False", noon))
	reads := func(s *core.LatencyRecorder, m core.Target, at time.Duration) {
		f := clusterOf([]core.Target{m})
		s.Observe(policies, &f, core.Decide(policies, f, noon.Add(at)), noon.Add(at))
	}
	started := func(s *core.LatencyRecorder, at time.Duration) (time.Duration, bool) {
		sample, measured := s.Started(policies[0].ID, well.ID, noon.Add(at))
		if measured && sample.Stage != core.Queueing {
			t.Errorf("the sample is one of %s", sample.Stage)
		}
		return sample.Took, measured
	}
	var s core.LatencyRecorder
	if _, measured := started(&s, 0); measured {
		t.Error("a queue was measured in which no target stood")
	}
	reads(&s, well, 0)
	reads(&s, broken, patience)
	reads(&s, broken, patience+time.Hour)
	if took, measured := started(&s, patience+time.Hour); !measured || took != time.Hour {
		t.Errorf("it stood in the queue for %s, measured: %t", took, measured)
	}
	if _, measured := started(&s, patience+2*time.Hour); measured {
		t.Error("it was measured twice")
	}
	reads(&s, well, 8*time.Hour)
	reads(&s, broken, 9*time.Hour)
	reads(&s, machine("m", ready("Unknown", noon.Add(10*time.Hour))), 10*time.Hour)
	if _, measured := started(&s, 10*time.Hour); measured {
		t.Error("it has another fault now, whose time is not over")
	}
	var restarted core.LatencyRecorder
	reads(&restarted, broken, 9*time.Hour)
	if _, measured := started(&restarted, 10*time.Hour); measured {
		t.Error("it is unknown how long it stood there before the restart")
	}
}

func TestLatencyRecorderOfAnUnobservedCluster(t *testing.T) {
	policies := []core.Policy{policy("p", all(1))}
	var s core.LatencyRecorder
	for at, observed := range []core.Tri{core.Yes, core.Unknown, core.Yes} {
		f := core.Cluster{Observed: observed, Targets: []core.Target{machine("m")}}
		now := noon.Add(time.Duration(at) * time.Second)
		if got := s.Observe(policies, &f, core.Decide(policies, f, now), now); got != nil {
			t.Errorf("a sample while nothing is wrong, or known: %v", got)
		}
	}
	f := clusterOf([]core.Target{machine("m", ready("False", noon))})
	now := noon.Add(3 * time.Second)
	if got := s.Observe(policies, &f, core.Decide(policies, f, now), now); len(got) != 1 {
		t.Errorf("the policy was forgotten while the cluster was not observed: %v", got)
	}
}

// TestLatencyRecorderKeepsPoliciesOfUnobservedPasses: the sources of policies may be out of reach as well.
func TestLatencyRecorderKeepsPoliciesOfUnobservedPasses(t *testing.T) {
	policies := []core.Policy{policy("p", all(1))}
	var s core.LatencyRecorder
	f := clusterOf([]core.Target{machine("m")})
	s.Observe(policies, &f, core.Decide(policies, f, noon), noon)
	s.Observe(nil, &core.Cluster{}, core.Decision{}, noon.Add(time.Second))
	now := noon.Add(2 * time.Second)
	f = clusterOf([]core.Target{machine("m", ready("False", noon))})
	if got := s.Observe(policies, &f, core.Decide(policies, f, now), now); len(got) != 1 {
		t.Errorf("the samples are %v, want one", got)
	}
}

// TestLatencyStages: metrics name the stages by these words.
func TestLatencyStages(t *testing.T) {
	for stage, want := range map[core.LatencyStage]string{core.Detecting: "detect", core.Deciding: "decide", core.Queueing: "queue", 0: "unnamed"} {
		if got := stage.String(); got != want {
			t.Errorf("stage %d is named %q, want %q", stage, got, want)
		}
	}
}

// TestLatencyRecorderIsCheapForHealthyTargets: its cost must not grow with the cluster.
func TestLatencyRecorderIsCheapForHealthyTargets(t *testing.T) {
	allocations := func(n int) float64 {
		policies, f := []core.Policy{policy("p", all(n))}, clusterOf(machines(n, 0))
		d := core.Decide(policies, f, noon)
		var s core.LatencyRecorder
		return testing.AllocsPerRun(10, func() { s.Observe(policies, &f, d, noon) })
	}
	if few, many := allocations(1), allocations(600); many > few {
		t.Errorf("%g allocations for one machine, %g for 600", few, many)
	}
}
