package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// TestTimeLimits: each stage and each call has its limit, of which docs/invariants.md promises the sum.
func TestTimeLimits(t *testing.T) {
	stages := map[pass.Stage]time.Duration{
		pass.ReportingBlocked: 5 * time.Second, pass.WritingStatuses: 5 * time.Second, pass.WritingConditions: 5 * time.Second,
		pass.RenewingLeases: 5 * time.Second, pass.ReleasingLeases: 5 * time.Second, pass.UpdatingRepairs: 20 * time.Second,
		pass.StartingRemedies: 45 * time.Second, pass.EndingRepairs: 20 * time.Second,
	}
	for s := pass.ReportingBlocked; s <= pass.DeletingRepairs; s++ {
		want, special := stages[s]
		if !special {
			want = 10 * time.Second
		}
		if got := taskTimeout(s); got != want {
			t.Errorf("a task of %s may take %s, want %s", s, got, want)
		}
	}
	calls := map[pass.Kind]time.Duration{
		pass.ReportBlocked: 5 * time.Second, pass.WriteStatuses: 5 * time.Second, pass.WriteConditions: 5 * time.Second,
		pass.AcquireLease: 5 * time.Second, pass.ReleaseLease: 5 * time.Second, pass.WithdrawConfirmation: 5 * time.Second,
		pass.StartRemedy: 15 * time.Second, pass.CreateRepair: 45 * time.Second, pass.UpdateRepair: 45 * time.Second,
	}
	for k := pass.ReportBlocked; k <= pass.DeleteRepair; k++ {
		want, special := calls[k]
		if !special {
			want = 10 * time.Second
		}
		if got := timeout(&pass.Call{Kind: k, Stage: pass.UpdatingRepairs}); got != want {
			t.Errorf("%s may take %s, want %s", k, got, want)
		}
	}
	if got := timeout(&pass.Call{Kind: pass.UpdateRepair, Stage: pass.EndingRepairs}); got != 10*time.Second {
		t.Errorf("recording an end may take %s", got)
	}
}

// TestErrorsOfAStage: five are reported, panics among them, and the number of the others.
func TestErrorsOfAStage(t *testing.T) {
	for n, more := range map[int]string{1: "", 5: "", 6: "and 1 more", 8: "and 3 more"} {
		var errs []error
		for i := range n {
			errs = append(errs, nil, fmt.Errorf("error %d", i))
		}
		lines := strings.Split(joinErrors(errs).Error(), "\n")
		want := min(n, 5)
		if more != "" {
			want++
		}
		if len(lines) != want || lines[0] != "error 0" || (more != "" && lines[5] != more) {
			t.Errorf("of %d errors it reports %q", n, lines)
		}
	}
}

// TestBuckets: dashboards and alerts depend on these bounds.
func TestBuckets(t *testing.T) {
	m, registry := NewMetrics(), prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatalf("registering: %v", err)
	}
	m.anyPass = true
	m.recover.WithLabelValues("Succeeded").Observe(0)
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	got := map[string]string{}
	for _, f := range families {
		h := f.GetMetric()[0].GetHistogram()
		if h == nil {
			continue
		}
		var bounds []string
		for _, b := range h.GetBucket() {
			bounds = append(bounds, fmt.Sprintf("%g", b.GetUpperBound()))
		}
		got[f.GetName()] = strings.Join(bounds, " ")
	}
	calls := "0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 300"
	faults := "0.01 0.05 0.1 0.25 0.5 1 2 3 5 10 30 60 300 900"
	want := map[string]string{
		"fettle_act_seconds": calls, "fettle_pass_duration_seconds": calls, "fettle_detect_seconds": faults, "fettle_decide_seconds": faults,
		"fettle_queue_seconds":             "0.01 0.1 0.5 1 5 15 60 300 900 3600 14400 43200",
		"fettle_recover_seconds":           "1 5 15 30 60 120 300 600 900 1800 3600 7200 14400 43200",
		"fettle_decision_duration_seconds": "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bounds (-want +got):\n%s", diff)
	}
	o := histogramOf("name", "help", nil)
	if o.NativeHistogramBucketFactor != 1.1 || o.NativeHistogramMaxBucketNumber != 160 || o.NativeHistogramMinResetDuration != time.Hour {
		t.Errorf("native buckets are %+v", o)
	}
}

// shown returns the values of series by the name of the metric and the labels.
func shown(t *testing.T, m *Metrics, g gauges) []string {
	t.Helper()
	names := map[*prometheus.Desc]string{
		m.verdicts: "verdicts", m.refusals: "refusals", m.running: "running", m.permitted: "permitted", m.invalid: "invalid", m.paused: "paused", m.stuck: "stuck",
	}
	var lines []string
	for of, n := range g {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %g %s", names[of.desc], of.policy.policy, n, strings.Join(of.labels[:], " "))))
	}
	slices.Sort(lines)
	return lines
}

// TestGaugesOfOnePass: each policy has its series, also at zero, and verdicts that differ have different ones.
func TestGaugesOfOnePass(t *testing.T) {
	m := NewMetrics()
	policies := []core.Policy{{ID: core.ID{Kind: "Check", Name: "a"}}, {ID: core.ID{Kind: "Check", Name: "b"}, Paused: true, Problem: "broken"}}
	cluster := &core.Cluster{Repairs: []core.Repair{{Policy: policies[0].ID}, {Policy: policies[0].ID, Outcome: core.Succeeded, Ended: time.Unix(1, 0)}, {Policy: core.ID{Name: "gone"}}}}
	d := &core.Decision{Tallies: []core.Tally{{Permitted: true}, {}}, Verdicts: []core.Verdict{
		{Policy: 0, Health: core.Healthy}, {Policy: 0, Health: core.Healthy}, {Policy: 0, Health: core.Unhealthy}, {Policy: 0, Health: core.Unhealthy, Reason: core.ConditionMet}, {Policy: 1, Health: core.Unhealthy, Reason: core.ConditionMet},
	}}
	unhealthy := core.Unhealthy.String()
	var none core.Reason
	healthy := strings.TrimSpace("verdicts a 2 Check " + core.Healthy.String() + " " + none.String())
	want := []string{
		"invalid a 0", "invalid b 1", "paused a 0", "paused b 1", "permitted a 1", "permitted b 0", "running a 1", "running b 0", "stuck a 0", "stuck b 0",
		"verdicts a 1 Check " + unhealthy + " " + core.ConditionMet.String(), strings.TrimSpace("verdicts a 1 Check " + unhealthy + " " + none.String()), healthy, "verdicts b 1 Check " + unhealthy + " " + core.ConditionMet.String(),
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, shown(t, m, m.gaugesOf(policies, cluster, d))); diff != "" {
		t.Errorf("gauges (-want +got):\n%s", diff)
	}
}

// TestGaugesOfTwoClusters: policies of one name share their series. Numbers add up, and the worse state counts.
func TestGaugesOfTwoClusters(t *testing.T) {
	m := NewMetrics()
	of := func(desc *prometheus.Desc) gauge { return gauge{desc: desc, policy: policyKey{policy: "a"}} }
	one := gauges{of(m.permitted): 1, of(m.invalid): 0, of(m.paused): 0, of(m.running): 2}
	two := gauges{of(m.permitted): 0, of(m.invalid): 1, of(m.paused): 1, of(m.running): 3, of(m.stuck): 1}
	for _, order := range [][]gauges{{one, two}, {two, one}} {
		all := gauges{}
		for _, g := range order {
			m.merge(all, g)
		}
		if diff := cmp.Diff([]string{"invalid a 1", "paused a 1", "permitted a 0", "running a 5", "stuck a 1"}, shown(t, m, all)); diff != "" {
			t.Errorf("gauges (-want +got):\n%s", diff)
		}
	}
}

// countersOf returns the counters of a policy.
func countersOf(t *testing.T, m *Metrics) []string {
	t.Helper()
	m.anyPass = true
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatalf("registering: %v", err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	var lines []string
	for _, f := range families {
		for _, each := range f.GetMetric() {
			if c := each.GetCounter(); c != nil {
				line := strings.TrimPrefix(f.GetName(), "fettle_")
				for _, l := range each.GetLabel() {
					if name := l.GetName(); name == "remedy" || name == "outcome" {
						line += " " + l.GetValue()
					}
				}
				lines = append(lines, fmt.Sprintf("%s %g", line, c.GetValue()))
			}
		}
	}
	return lines
}

// TestCountersBeginAtZero: the counters that the steps of a policy may increment, and no others.
func TestCountersBeginAtZero(t *testing.T) {
	deletes, requests := core.Step{Remedy: "D", Nature: core.Delete}, core.Step{Remedy: "R", Nature: core.CreateRequest}
	limited := deletes
	limited.Limit = time.Minute
	of := func(remedy string) []string {
		return []string{"remedy_refusals_total " + remedy + " 0"}
	}
	ends := func(remedy string) []string {
		return []string{"repairs_started_total " + remedy + " 0", "repairs_total Recovered " + remedy + " 0", "repairs_total Succeeded " + remedy + " 0", "repairs_total Withdrawn " + remedy + " 0"}
	}
	givenUp := func(remedy string) []string {
		return []string{"steps_given_up_total " + core.Failed.String() + " " + remedy + " 0", "steps_given_up_total " + core.TimedOut.String() + " " + remedy + " 0"}
	}
	created := []string{"requests_total Asked R 0", "requests_total Withdrawn R 0"}
	for sentence, tc := range map[string]struct {
		steps []core.Step
		want  []string
	}{
		"no steps":             {nil, nil},
		"one step":             {[]core.Step{deletes}, slices.Concat(of("D"), ends("D"))},
		"one step with a time": {[]core.Step{limited}, slices.Concat(of("D"), ends("D"), givenUp("D"))},
		"one request":          {[]core.Step{requests}, slices.Concat(of("R"), ends("R"), created)},
		"two steps":            {[]core.Step{requests, deletes}, slices.Concat(of("R"), of("D"), ends("R"), created, givenUp("R"), givenUp("D"))},
	} {
		m := NewMetrics()
		m.initCounters(&core.Policy{ID: core.ID{Name: "a"}}, tc.steps)
		got := countersOf(t, m)
		slices.Sort(got)
		slices.Sort(tc.want)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestCountersOfOddRepairs: records that a user may have changed make no pass panic.
func TestCountersOfOddRepairs(t *testing.T) {
	m, p := NewMetrics(), []core.Policy{{ID: core.ID{Name: "a"}}}
	r := core.Repair{Policy: p[0].ID, Tried: []core.StepRecord{{Outcome: core.Failed}}, Started: time.Unix(9, 0), Ended: time.Unix(1, 0), Outcome: core.Succeeded}
	m.countStepGivenUp(p, r)
	m.countEnd(p, r)
	if diff := cmp.Diff([]string{"repairs_total Succeeded  1"}, countersOf(t, m)); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	if got := recoveryTime(t, m); got != 0 {
		t.Errorf("a repair that ended before it started took %gs", got)
	}
	(*Metrics)(nil).DeleteCluster("a")
}

// recoveryTime returns how long all repairs took that have ended.
func recoveryTime(t *testing.T, m *Metrics) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m.recover); err != nil {
		t.Fatalf("registering: %v", err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("gathering: %v, %v", families, err)
	}
	return families[0].GetMetric()[0].GetHistogram().GetSampleSum()
}

// TestLoggedEvents: one line for each event, of one kind no more than twenty, and then the number of the others.
func TestLoggedEvents(t *testing.T) {
	var got []string
	e := New(Config{Log: funcr.New(func(_, args string) { got = append(got, args) }, funcr.Options{})})
	log := func(events ...core.Event) []string {
		got = nil
		e.logEvents(events)
		return got
	}
	policy, target := core.ID{Kind: "Check", Name: "c"}, core.ID{Kind: "Node", Name: "n"}
	for kind, text := range map[core.EventKind]string{
		core.EventSuspected: "target is not healthy", core.EventUnreadable: "target can't be read and is left alone",
		core.EventShortCircuited: "repairs are stopped by the short circuit", core.EventMisconfigured: "health check can't be followed",
		core.EventDryRun: "dry run: a repair would begin", core.EventEscalated: "step of a repair is given up",
		core.EventWithdrawn: "request to a remediator is withdrawn", core.EventStuck: "request to a remediator was withdrawn long ago and is still there",
		core.EventStarted: "", core.EventRefused: "",
	} {
		var want []string
		if text != "" {
			want = []string{fmt.Sprintf(`"level"=0 "msg"=%q "policy"=%q "why"="so" "target"=%q "node"="n"`, text, policy, target)}
		}
		if diff := cmp.Diff(want, log(core.Event{Kind: kind, Policy: policy, Target: target, Node: "n", Text: "so"})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
	held := core.Event{Kind: core.EventHeldBack, Policy: policy, Gate: core.PolicyPaused}
	want := []string{fmt.Sprintf(`"level"=0 "msg"="unhealthy target is not repaired" "policy"=%q "why"="" "gate"=%q`, policy, core.PolicyPaused)}
	if diff := cmp.Diff(want, log(held)); diff != "" {
		t.Errorf("without a target (-want +got):\n%s", diff)
	}
	for n, lines := range map[int]int{20: 20, 21: 21, 50: 21} {
		all := log(slices.Repeat([]core.Event{held}, n)...)
		if len(all) != lines {
			t.Errorf("%d events make %d lines", n, len(all))
		}
		if more := fmt.Sprintf(`"more"=%d`, n-20); n > 20 && !strings.Contains(all[20], more) {
			t.Errorf("of %d events the last line is %s", n, all[20])
		}
	}
}

// TestRequestOfAnotherRemedy can't be withdrawn by a remedy without requests.
func TestRequestOfAnotherRemedy(t *testing.T) {
	_, err := New(Config{}).callRequestRemedy(t.Context(), &pass.Call{Kind: pass.WithdrawRequest, Request: core.Request{Remedy: "Delete"}})
	if err == nil || err.Error() != `remedy "Delete" has no requests to withdraw` {
		t.Errorf("withdrawing: %v", err)
	}
}

// TestHangingPass: six minutes are allowed.
func TestHangingPass(t *testing.T) {
	now := time.Unix(0, 0)
	w := NewWatchdog(func() time.Time { return now })
	w.passStarted("a")
	now = now.Add(6 * time.Minute)
	if err := w.Alive(nil); err != nil {
		t.Errorf("after six minutes: %v", err)
	}
	now = now.Add(time.Second)
	if err := w.Alive(nil); err == nil || err.Error() != "the pass over a hangs: it has been running for 6m1s" {
		t.Errorf("after more than six minutes: %v", err)
	}
}

// TestPanicsComeFirst among the errors of a stage.
func TestPanicsComeFirst(t *testing.T) {
	var errs []error
	for range 9 {
		errs = append(errs, errors.New("an error"))
	}
	e := New(Config{Now: func() time.Time { return time.Unix(0, 0) }, Clock: agreeing{}})
	r := &runner{engine: e}
	panicking := r.call(t.Context(), pass.Call{Kind: pass.FindSibling}) // there is none, so the call panics
	if joined := joinErrors(append(errs, panicking.Err)).Error(); !strings.HasPrefix(joined, "panic: ") || !panicking.Panicked {
		t.Errorf("the errors are %s", joined)
	}
}

// TestCallsThatAreCutOff: a call counts as cut off if it fails in a pass that was cancelled.
func TestCallsThatAreCutOff(t *testing.T) {
	r := &runner{engine: New(Config{Now: func() time.Time { return time.Unix(0, 0) }, Clock: agreeing{}})}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		ctx         context.Context
		kind        pass.Kind
		fails, cuts bool
	}{
		{t.Context(), pass.ReadClock, false, false},
		{t.Context(), pass.FindSibling, true, false}, // there is none, so the call panics
		{cancelled, pass.ReadClock, false, false},
		{cancelled, pass.FindSibling, true, true},
	} {
		if got := r.call(tc.ctx, pass.Call{Kind: tc.kind}); (got.Err != nil) != tc.fails || got.CutOff != tc.cuts {
			t.Errorf("%s, cancelled %t: the call fails with %v, and is cut off: %t", tc.kind, tc.ctx.Err() != nil, got.Err, got.CutOff)
		}
	}
}

// TestTasksEndWithTheirLastCall: neither while a result is missing, nor while there is a next step. The numbers of tasks
// are those of other stages too, and of the same stage when it opens again.
func TestTasksEndWithTheirLastCall(t *testing.T) {
	const stage, task = pass.StartingRemedies, 1
	for sentence, tc := range map[string]struct {
		pending int
		calls   []pass.Call
		ends    bool
	}{
		"no calls":                 {0, nil, true},
		"a result is missing":      {1, nil, false},
		"the next step":            {0, []pass.Call{{Stage: stage, Task: task}}, false},
		"the stage opens again":    {0, []pass.Call{{Stage: stage, Task: task, First: true}}, true},
		"a step of another task":   {0, []pass.Call{{Stage: stage, Task: task + 1}}, true},
		"a step of another stage":  {0, []pass.Call{{Stage: pass.EndingRepairs, Task: task}}, true},
		"a step among other calls": {0, []pass.Call{{Stage: pass.EndingRepairs, Task: task}, {Stage: stage, Task: task}}, false},
	} {
		of := &openTask{key: taskKey{stage, task}, batches: make(chan []pass.Call, 1), pending: tc.pending}
		r := &runner{tasks: map[taskKey]*openTask{of.key: of}}
		r.endTask(of, tc.calls)
		if _, open := r.tasks[of.key]; open == tc.ends {
			t.Errorf("%s: the task ends: %t", sentence, !open)
		}
	}
}

// TestStagesEndWithTheirLastTask, whether it runs or waits.
func TestStagesEndWithTheirLastTask(t *testing.T) {
	for _, tc := range []struct {
		running, waiting int
		ends             bool
	}{{0, 0, true}, {1, 0, false}, {0, 1, false}, {1, 1, false}} {
		ended := false
		r := &runner{stages: []*openStage{{running: tc.running, waiting: make([]*openTask, tc.waiting), end: func() { ended = true }}}}
		r.endStages()
		if gone := len(r.stages) == 0; gone != tc.ends || ended != tc.ends {
			t.Errorf("with %d tasks under way and %d others the stage is gone: %t, and its context ends: %t", tc.running, tc.waiting, gone, ended)
		}
	}
}

type agreeing struct{}

func (agreeing) Agrees() core.Tri { return core.Yes }

func (agreeing) Corrected(now time.Time) time.Time { return now }
