package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/engine"
)

// counted is a fixture whose engine has metrics.
type counted struct {
	*fixture

	metrics  *engine.Metrics
	registry *prometheus.Registry
}

func newCounted(t *testing.T) *counted {
	t.Helper()
	c := &counted{fixture: newFixture(t)}
	c.begins()
	return c
}

// begins replaces the engine and its metrics, as a new process.
func (c *counted) begins() {
	c.restart()
	c.metrics, c.registry = engine.NewMetrics(), prometheus.NewPedanticRegistry()
	c.Engine.Metrics = c.metrics
	if err := c.registry.Register(c.metrics); err != nil {
		c.Fatalf("registering: %v", err)
	}
}

// series returns the series whose names begin so, as "name label label: value". The value of a
// histogram is the number and the sum of its samples.
func (c *counted) series(prefixes ...string) []string {
	c.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		c.Fatalf("gathering: %v", err)
	}
	var lines []string
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "fettle_")
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		for _, m := range f.GetMetric() {
			line := name
			for _, l := range m.GetLabel() {
				if l.GetName() != "namespace" {
					line += " " + l.GetValue()
				}
			}
			if h := m.GetHistogram(); h != nil {
				lines = append(lines, fmt.Sprintf("%s: %d in %gs", line, h.GetSampleCount(), h.GetSampleSum()))
				continue
			}
			lines = append(lines, fmt.Sprintf("%s: %g", line, m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	slices.Sort(lines)
	return lines
}

func (c *counted) wants(sentence string, prefixes []string, want ...string) {
	c.Helper()
	if diff := cmp.Diff(want, c.series(prefixes...)); diff != "" {
		c.Errorf("%s (-want +got):\n%s", sentence, diff)
	}
}

// TestOneRepairIsMeasured from its fault to its end, once in each histogram.
func TestOneRepairIsMeasured(t *testing.T) {
	c := newCounted(t)
	delays := []string{"detect", "decide", "queue", "act", "recover", "repairs", "remedy"}
	c.machines.observes(machine("a"), machine("b"))
	c.pass()
	c.now = noon.Add(2 * time.Second)
	c.machines.observation.Targets[0] = machine("a", func(t *core.Target) { t.Node = node("a", "False", 0) })
	c.pass()
	c.now = noon.Add(5*time.Minute + time.Second)
	c.machines.observation.Policies[0].Paused = true
	c.pass()
	c.now = noon.Add(8 * time.Minute)
	c.machines.observation.Policies[0].Paused = false
	c.pass()
	c.syncCaches()
	c.now = noon.Add(9 * time.Minute)
	c.pass()
	zeros := []string{
		"repairs_total Recovered workers Delete: 0", "repairs_total Succeeded workers Delete: 0", "repairs_total Withdrawn workers Delete: 0",
	}
	c.wants("it is under way", delays, slices.Concat([]string{
		"act_seconds: 1 in 0s", "decide_seconds: 1 in 1s", "detect_seconds: 1 in 2s", "queue_seconds: 1 in 179s",
		"remedy_refusals_total workers Delete: 0", "repairs_running workers: 1", "repairs_started_total workers Delete: 1",
	}, zeros)...)
	c.machines.observation.Targets = c.machines.observation.Targets[1:]
	c.machines.observation.Policies[0].Members = []int{0}
	c.now = noon.Add(10 * time.Minute)
	c.pass()
	c.syncCaches()
	c.pass()
	c.wants("it has ended", delays,
		"act_seconds: 1 in 0s", "decide_seconds: 1 in 1s", "detect_seconds: 1 in 2s", "queue_seconds: 1 in 179s", "recover_seconds Succeeded: 1 in 120s",
		"remedy_refusals_total workers Delete: 0", "repairs_running workers: 0", "repairs_started_total workers Delete: 1",
		"repairs_total Recovered workers Delete: 0", "repairs_total Succeeded workers Delete: 1", "repairs_total Withdrawn workers Delete: 0",
	)
}

// TestRefusedRemedyIsMeasured: each call counts, and the latency is that of the accepted call.
func TestRefusedRemedyIsMeasured(t *testing.T) {
	c := newCounted(t)
	c.machines.observes(machine("a"))
	c.pass()
	c.machines.observes(machine("a", dead))
	c.refuse["begin a"] = errDown
	c.pass()
	c.syncCaches()
	delete(c.refuse, "begin a")
	c.now = noon.Add(time.Hour)
	c.pass()
	c.wants("refused once", []string{"act", "repairs_started", "remedy", "queue"},
		"act_seconds: 1 in 3600s", "queue_seconds: 1 in 0s", "remedy_refusals_total workers Delete: 1", "repairs_started_total workers Delete: 1")
}

// TestRepairIsCountedByItsOwnRemedy: the steps for a machine that has failed may differ from the
// policy's other steps.
func TestRepairIsCountedByItsOwnRemedy(t *testing.T) {
	c := newCounted(t)
	counters := []string{"repairs_started", "repairs_total"}
	wants := func(sentence string, started, succeeded int) {
		t.Helper()
		c.wants(sentence, counters,
			fmt.Sprintf("repairs_started_total workers Delete: %d", started), "repairs_started_total workers Mark: 0",
			"repairs_total Recovered workers Delete: 0", "repairs_total Recovered workers Mark: 0",
			fmt.Sprintf("repairs_total Succeeded workers Delete: %d", succeeded), "repairs_total Succeeded workers Mark: 0",
			"repairs_total Withdrawn workers Delete: 0", "repairs_total Withdrawn workers Mark: 0",
		)
	}
	c.machines.observes(machine("a"))
	p := &c.machines.observation.Policies[0]
	p.Steps, p.FailedSteps = []core.Step{{Remedy: "Mark", Nature: core.Annotate}}, p.Steps
	c.pass()
	wants("before", 0, 0)
	c.machines.observation.Targets[0] = machine("a", dead, func(t *core.Target) { t.Failed = true })
	c.pass()
	wants("it was started", 1, 0)
	c.syncCaches()
	c.machines.observation.Targets, c.machines.observation.Policies[0].Members = nil, nil
	c.pass()
	wants("it has ended", 1, 1)
}

// TestRestartMeasuresNothingItDidNotSee, except times that the ledger has.
func TestRestartMeasuresNothingItDidNotSee(t *testing.T) {
	c := newCounted(t)
	m := machine("a", dead)
	c.machines.observes(m)
	c.pass()
	c.wants("a fault from before the start", []string{"detect", "decide", "queue", "act"},
		"act_seconds: 1 in 0s", "decide_seconds: 0 in 0s", "detect_seconds: 0 in 0s", "queue_seconds: 0 in 0s")
	c.syncCaches()
	c.begins()
	c.machines.observation.Targets, c.machines.observation.Policies[0].Members = nil, nil
	c.now = noon.Add(time.Minute)
	c.pass()
	c.wants("a repair from before the start", []string{"recover", "repairs_started", "repairs_total"}, "recover_seconds Succeeded: 1 in 60s",
		"repairs_started_total workers Delete: 0", "repairs_total Recovered workers Delete: 0", "repairs_total Succeeded workers Delete: 1", "repairs_total Withdrawn workers Delete: 0")
}

// TestGaugesAreThoseOfTheLastPass: a state that has ended has no series.
func TestGaugesAreThoseOfTheLastPass(t *testing.T) {
	c := newCounted(t)
	gauges := []string{"verdicts", "refusals", "policy", "repairs"}
	rehearsing := policy("rehearsing", []int{1}, func(p *core.Policy) { p.DryRun, p.Paused = true, true })
	idle := policy("idle", nil, func(p *core.Policy) { p.Problem, p.Steps = "it names no remedy", nil })
	c.machines.observes(machine("a", dead, func(t *core.Target) { t.Owner = core.ID{} }), machine("b", dead), machine("c"))
	tight := &c.machines.observation.Policies[0]
	tight.ShortCircuit.MaxUnhealthy = core.Count(1)
	c.machines.observation.Policies = append(c.machines.observation.Policies, rehearsing, idle)
	zeros := func(policy string) []string {
		return []string{
			"repairs_running " + policy + ": 0", "repairs_started_total " + policy + " Delete: 0",
			"repairs_total Recovered " + policy + " Delete: 0", "repairs_total Succeeded " + policy + " Delete: 0", "repairs_total Withdrawn " + policy + " Delete: 0",
		}
	}
	wants := func(sentence string, lines ...[]string) {
		t.Helper()
		want := slices.Concat(lines...)
		slices.Sort(want)
		c.wants(sentence, gauges, want...)
	}
	states := func(policy string, invalid, paused, permitted int) []string {
		return []string{
			fmt.Sprintf("policy_invalid %s: %d", policy, invalid), fmt.Sprintf("policy_paused %s: %d", policy, paused),
			fmt.Sprintf("policy_permitted %s: %d", policy, permitted),
		}
	}
	c.pass()
	wants("an outage",
		zeros("workers"), states("workers", 0, 0, 0), zeros("rehearsing"), states("rehearsing", 0, 1, 1),
		[]string{"repairs_running idle: 0"}, states("idle", 1, 0, 1),
		[]string{
			"refusals TooManyUnhealthy workers: 2", "refusals NoOwner workers: 1",
			"verdicts healthy HealthCheck workers Healthy: 1", "verdicts unhealthy HealthCheck workers UnhealthyCondition: 2",
			"verdicts unhealthy HealthCheck rehearsing UnhealthyCondition: 1",
		})
	c.machines.observes(machine("a"), machine("b"), machine("c"))
	c.pass()
	wants("it is over, and two health checks are gone", zeros("workers"), states("workers", 0, 0, 1), []string{
		"verdicts healthy HealthCheck workers Healthy: 3",
	})
	c.machines.observation.Policies = nil
	c.pass()
	wants("the last one is gone")
	c.wants("it has no other series either", []string{"remedy", "requests", "steps"})
}

// TestUnobservedClusterHasNoGauges: its state is unknown, and old gauges would be wrong. Its counters
// stay.
func TestUnobservedClusterHasNoGauges(t *testing.T) {
	c := newCounted(t)
	series := []string{"verdicts", "refusals", "policy", "repairs_running", "repairs_started"}
	c.machines.observes(machine("a", dead))
	c.pass()
	seen := []string{
		"policy_invalid workers: 0", "policy_paused workers: 0", "policy_permitted workers: 1", "repairs_running workers: 0",
		"repairs_started_total workers Delete: 1", "verdicts unhealthy HealthCheck workers UnhealthyCondition: 1",
	}
	c.wants("it is observed", series, seen...)
	c.machines.observation.Observed = core.Unknown
	c.pass()
	c.wants("it is not", series, "repairs_started_total workers Delete: 1")
	c.syncCaches()
	c.machines.observation.Observed = core.Yes
	c.pass()
	seen[3], seen[5] = "repairs_running workers: 1", "verdicts gone HealthCheck workers UnhealthyCondition: 1"
	c.wants("it is again", series, seen...)
}

// TestPoliciesOfOneName share their series, whatever their kinds. A scrape must not fail.
func TestPoliciesOfOneName(t *testing.T) {
	c := newCounted(t)
	other := c.dialect("Node")
	c.begins()
	c.machines.observes(machine("a"))
	other.observes(target("Node", "n", dead))
	namesake := &other.observation.Policies[0]
	namesake.ID.UID, namesake.Paused, namesake.ShortCircuit.MaxUnhealthy = "another-uid", true, core.Count(0)
	c.pass()
	c.wants("the worse state is shown", []string{"policy", "refusals", "verdicts"},
		"policy_invalid workers: 0", "policy_paused workers: 1", "policy_permitted workers: 0",
		"refusals Paused workers: 1", "refusals TooManyUnhealthy workers: 1",
		"verdicts healthy HealthCheck workers Healthy: 1", "verdicts unhealthy HealthCheck workers UnhealthyCondition: 1")
}

// TestOnlyTheLeaderHasSeriesOfDecisions: another replica only reports that it doesn't lead.
func TestOnlyTheLeaderHasSeriesOfDecisions(t *testing.T) {
	c := newCounted(t)
	c.wants("before it leads", []string{""}, "leader: 0")
	c.metrics.SetLeader(true)
	c.machines.observes(machine("a"))
	c.pass()
	if got := c.series("leader", "passes", "pass_duration", "decision"); !slices.Equal(got, []string{
		"decision_duration_seconds: 1 in 0s", "leader: 1", "pass_duration_seconds: 1 in 0s", "passes_total ok: 1",
	}) {
		t.Errorf("it leads: %q", got)
	}
	c.machines.err = errDown
	if _, _, err := c.tryPass(); err == nil {
		t.Fatal("the pass did not fail")
	}
	c.wants("a pass that fails", []string{"passes"}, "passes_total error: 1", "passes_total ok: 1")
	c.metrics.SetLeader(false)
	c.wants("it leads no more", []string{"leader"}, "leader: 0")
}

// TestClustersShareSeries: engines of several clusters keep each other's series. The series of a
// cluster end with it.
func TestClustersShareSeries(t *testing.T) {
	home, away := newCounted(t), newCounted(t)
	away.Engine.Metrics, away.registry = home.metrics, home.registry
	home.Engine.ClusterKey, away.Engine.ClusterKey = "home", "away"
	home.machines.observes(machine("a", dead))
	home.machines.observation.Policies = append(home.machines.observation.Policies, policy("yard", []int{0}))
	away.machines.observes(machine("a"), machine("b"))
	away.machines.observation.Policies[0].Paused = true
	gauges := []string{"verdicts", "policy_paused", "policy_permitted", "repairs_started"}
	own := []string{
		"policy_paused yard: 0", "policy_permitted yard: 1", "repairs_started_total yard Delete: 0",
	}
	both := slices.Concat(own, []string{
		"policy_paused workers: 1", "policy_permitted workers: 1", "repairs_started_total workers Delete: 1",
		"verdicts healthy HealthCheck workers Healthy: 2", "verdicts unhealthy HealthCheck yard UnhealthyCondition: 1",
		"verdicts unhealthy HealthCheck workers UnhealthyCondition: 1",
	})
	slices.Sort(both)
	away.pass()
	home.pass()
	home.wants("two clusters, and health checks of one name", gauges, both...)
	away.pass()
	home.wants("whichever passes last", gauges, both...)
	home.metrics.DeleteCluster("away")
	without := slices.Concat(own, []string{
		"policy_paused workers: 0", "policy_permitted workers: 1", "repairs_started_total workers Delete: 1",
		"verdicts unhealthy HealthCheck yard UnhealthyCondition: 1", "verdicts unhealthy HealthCheck workers UnhealthyCondition: 1",
	})
	slices.Sort(without)
	home.wants("one is gone, and what the other has of that name stays", gauges, without...)
	home.metrics.DeleteCluster("home")
	home.wants("both are gone", gauges)
	home.metrics.DeleteCluster("never-kept")
}

// TestDroppedClusterHasNoSeries, also if its pass ends later.
func TestDroppedClusterHasNoSeries(t *testing.T) {
	c := newCounted(t)
	c.Engine.ClusterKey = "away"
	c.machines.observes(machine("a", dead))
	ctx, end := context.WithCancel(t.Context())
	c.wait["read a"] = func(context.Context) error {
		end()
		c.metrics.DeleteCluster("away")
		return nil
	}
	if _, err := c.Pass(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	c.wants("it was dropped while it read", []string{"verdicts", "policy", "repairs", "detection"})
}
