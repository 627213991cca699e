package engine

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
)

// Metrics are the series that don't depend on a dialect; docs/metrics.md describes them. They come from
// passes alone, so an event that asks for no pass costs nothing here, and a replica that doesn't
// lead has none but that it doesn't. Engines of several fleets share them. A nil *Metrics counts nothing.
type Metrics struct {
	leader                                 prometheus.Gauge
	detect, decide, queue, act             prometheus.Histogram
	recover                                *prometheus.HistogramVec
	decision, pass                         prometheus.Histogram
	passes, started, ended, remedyRefusals *prometheus.CounterVec
	requests, givenUp, panics              *prometheus.CounterVec
	verdicts, refusals, running            *prometheus.Desc
	permitted, invalid, paused, stuck      *prometheus.Desc
	counters                               []*prometheus.CounterVec
	collectors                             []prometheus.Collector

	mu sync.Mutex
	// anyPass is set once there was a pass to tell of.
	anyPass bool
	// byCluster is how things stood in the last pass over each fleet.
	byCluster map[string]clusterGauges
}

// clusterGauges is how things stand in one fleet.
type clusterGauges struct {
	gauges   gauges
	policies map[policyKey]bool
}

// policyKey is how a policy's series are labelled.
type policyKey struct{ namespace, policy string }

func policyKeyOf(id core.ID) policyKey { return policyKey{id.Namespace, id.Name} }

// The bounds of the buckets, in seconds.
//
//nolint:gochecknoglobals // constant lists
var (
	quickBuckets  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	promptBuckets = []float64{.01, .05, .1, .25, .5, 1, 2, 3, 5, 10, 30, 60, 300, 900}
	longBuckets   = []float64{1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200}
	queueBuckets  = []float64{.01, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200}
	tinyBuckets   = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
)

// NewMetrics makes metrics that count nothing yet.
func NewMetrics() *Metrics {
	ofPolicy := []string{"namespace", "policy"}
	m := &Metrics{
		leader:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "fettle_leader", Help: "1 while this replica leads, and so acts; 0 otherwise."}),
		detect:   histogram("fettle_detect_seconds", "From the instant at which a fault began until a pass first judged it.", promptBuckets),
		decide:   histogram("fettle_decide_seconds", "From the deadline of a criterion until a pass judged the target unhealthy.", promptBuckets),
		queue:    histogram("fettle_queue_seconds", "From the pass that first judged a target unhealthy until its repair was started.", queueBuckets),
		act:      histogram("fettle_act_seconds", "From the start of a repair until its remedy was accepted.", quickBuckets),
		recover:  prometheus.NewHistogramVec(histogramOf("fettle_recover_seconds", "From the start of a repair until its end.", longBuckets), []string{"outcome"}),
		decision: histogram("fettle_decision_duration_seconds", "How long one decision over the whole fleet took.", tinyBuckets),
		pass:     histogram("fettle_pass_duration_seconds", "How long one pass took: observing, deciding, recording and acting.", quickBuckets),

		passes:         counter("fettle_passes_total", "Passes over the fleet, by how they ended.", "result"),
		panics:         counter("fettle_panics_total", "Passes over a fleet, and connections to its cluster, in which code of Fettle panicked.", "fleet"),
		started:        counter("fettle_repairs_started_total", "Repairs that were started.", "namespace", "policy", "remedy"),
		ended:          counter("fettle_repairs_total", "Repairs that have ended, by outcome.", "namespace", "policy", "remedy", "outcome"),
		remedyRefusals: counter("fettle_remedy_refusals_total", "Calls of a remedy that were refused or failed.", "namespace", "policy", "remedy"),
		requests:       counter("fettle_requests_total", "Requests to remediators, by whether they were made or withdrawn.", "namespace", "policy", "remedy", "outcome"),
		givenUp:        counter("fettle_steps_given_up_total", "Steps of repairs that were taken to no avail, by why.", "namespace", "policy", "remedy", "outcome"),

		verdicts:  prometheus.NewDesc("fettle_verdicts", "Targets of a policy, by how it judges them and why.", []string{"namespace", "policy", "kind", "health", "reason"}, nil),
		refusals:  prometheus.NewDesc("fettle_refusals", "Unhealthy targets of a policy that a gate holds back.", []string{"namespace", "policy", "gate"}, nil),
		running:   prometheus.NewDesc("fettle_repairs_running", "Repairs under way that a policy leads.", ofPolicy, nil),
		permitted: prometheus.NewDesc("fettle_policy_permitted", "1 while a policy's short circuit lets repairs start; 0 while it holds them.", ofPolicy, nil),
		invalid:   prometheus.NewDesc("fettle_policy_invalid", "1 while a policy can't be followed, so that nothing is repaired; 0 otherwise.", ofPolicy, nil),
		paused:    prometheus.NewDesc("fettle_policy_paused", "1 while a policy is paused; 0 otherwise.", ofPolicy, nil),
		stuck:     prometheus.NewDesc("fettle_requests_stuck", "Requests of a policy that were withdrawn more than 10 minutes ago and that finalizers keep.", ofPolicy, nil),
		byCluster: map[string]clusterGauges{},
	}
	m.counters = []*prometheus.CounterVec{m.started, m.ended, m.remedyRefusals, m.requests, m.givenUp}
	m.collectors = []prometheus.Collector{
		m.detect, m.decide, m.queue, m.act, m.recover, m.decision, m.pass, m.passes, m.started, m.ended, m.remedyRefusals,
		m.requests, m.givenUp, m.panics,
	}
	return m
}

// histogramOf has the classic buckets, and the native ones for servers that ask for them.
func histogramOf(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(histogramOf(name, help, buckets))
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	m.leader.Describe(out)
	for _, c := range m.collectors {
		c.Describe(out)
	}
	for _, d := range []*prometheus.Desc{m.verdicts, m.refusals, m.running, m.permitted, m.invalid, m.paused, m.stuck} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.leader.Collect(out)
	m.mu.Lock()
	passed, all := m.anyPass, gauges{}
	for _, of := range m.byCluster {
		m.merge(all, of.gauges)
	}
	m.mu.Unlock()
	if !passed {
		return
	}
	for _, c := range m.collectors {
		c.Collect(out)
	}
	for of, n := range all {
		out <- of.metric(n)
	}
}

// SetLeader takes in whether this replica leads.
func (m *Metrics) SetLeader(leads bool) {
	if m != nil {
		m.leader.Set(boolToFloat(leads))
	}
}

func boolToFloat(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// observePass takes in how a pass ended.
func (m *Metrics) observePass(key string, took time.Duration, err error) {
	if m == nil {
		return
	}
	m.panics.WithLabelValues(key).Add(boolToFloat(panicked(err)))
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.passes.WithLabelValues(result).Inc()
	m.pass.Observe(took.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.anyPass = true
}

// CountPanic takes in a panic of something else than a pass that belongs to a fleet.
func (m *Metrics) CountPanic(key string) {
	if m != nil {
		m.panics.WithLabelValues(key).Inc()
	}
}

func (m *Metrics) observeDecision(took time.Duration) {
	if m != nil {
		m.decision.Observe(took.Seconds())
	}
}

func (m *Metrics) observeLatencies(samples ...core.LatencySample) {
	if m == nil {
		return
	}
	for _, s := range samples {
		switch s.Stage {
		case core.Detecting:
			m.detect.Observe(s.Took.Seconds())
		case core.Deciding:
			m.decide.Observe(s.Took.Seconds())
		case core.Queueing:
			m.queue.Observe(s.Took.Seconds())
		}
	}
}

// countStart takes in that a repair by these steps was recorded.
func (m *Metrics) countStart(p *core.Policy, steps []core.Step) {
	if m != nil {
		m.started.WithLabelValues(p.ID.Namespace, p.ID.Name, firstRemedy(steps)).Inc()
	}
}

// observeRemedyAccepted takes in that a remedy was accepted so long after the start of its repair.
func (m *Metrics) observeRemedyAccepted(took time.Duration) {
	if m != nil {
		m.act.Observe(max(0, took.Seconds()))
	}
}

func (m *Metrics) countRemedyRefusal(p *core.Policy, remedy string) {
	if m != nil {
		m.remedyRefusals.WithLabelValues(p.ID.Namespace, p.ID.Name, remedy).Inc()
	}
}

// What becomes of a request, in its series.
const (
	requestMade      = "Asked"
	requestWithdrawn = "Withdrawn"
)

// countRequest takes in that a remedy has made a request.
func (m *Metrics) countRequest(p *core.Policy, remedy string) {
	if m != nil {
		m.requests.WithLabelValues(p.ID.Namespace, p.ID.Name, remedy, requestMade).Inc()
	}
}

// countWithdrawal takes in that a request was taken back.
func (m *Metrics) countWithdrawal(p *core.Policy, remedy string) {
	if m != nil {
		m.requests.WithLabelValues(p.ID.Namespace, p.ID.Name, remedy, requestWithdrawn).Inc()
	}
}

// countStepGivenUp takes in that the last step of a repair so far was given up.
func (m *Metrics) countStepGivenUp(policies []core.Policy, r core.Repair) {
	at := len(r.Tried) - 1
	if m == nil || at >= len(r.Steps) {
		return
	}
	for i := range policies {
		if p := &policies[i]; p.ID == r.Policy {
			m.givenUp.WithLabelValues(p.ID.Namespace, p.ID.Name, r.Steps[at].Remedy, r.Tried[at].Outcome.String()).Inc()
		}
	}
}

// countEnd takes in the end of a repair. A policy that is gone has no series any more.
func (m *Metrics) countEnd(policies []core.Policy, r core.Repair) {
	if m == nil {
		return
	}
	m.recover.WithLabelValues(r.Outcome.String()).Observe(max(0, r.Ended.Sub(r.Started).Seconds()))
	for i := range policies {
		if p := &policies[i]; p.ID == r.Policy {
			m.ended.WithLabelValues(p.ID.Namespace, p.ID.Name, firstRemedy(r.Steps), r.Outcome.String()).Inc()
		}
	}
}

// firstRemedy is the remedy of the first step; empty when there is none. What a policy repairs by may differ among its
// targets, and change while a repair goes on.
func firstRemedy(steps []core.Step) string {
	if len(steps) == 0 {
		return ""
	}
	return steps[0].Remedy
}

// setGauges takes in how things stand in a fleet. What does not stand so any more has no series, and neither
// has a policy that is gone.
func (m *Metrics) setGauges(key string, policies []core.Policy, seen *core.Cluster, d *core.Decision) {
	if m == nil {
		return
	}
	fresh := clusterGauges{policies: map[policyKey]bool{}, gauges: m.gaugesOf(policies, seen, d)}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.byCluster[key].policies
	for i := range policies {
		p := &policies[i]
		of := policyKeyOf(p.ID)
		fresh.policies[of] = true
		if !before[of] {
			m.initCounters(p, p.Steps)
			m.initCounters(p, p.FailedSteps)
		}
	}
	m.byCluster[key] = fresh
	m.deleteCounters(before)
}

// clearGauges ends the gauges of a fleet that is not observed: nobody knows how things stand there. Its counters stay.
func (m *Metrics) clearGauges(key string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byCluster[key] = clusterGauges{policies: m.byCluster[key].policies}
}

// DeleteCluster ends the series of a fleet that is kept no more.
func (m *Metrics) DeleteCluster(key string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.panics.DeleteLabelValues(key)
	before := m.byCluster[key].policies
	delete(m.byCluster, key)
	m.deleteCounters(before)
}

// deleteCounters ends the counters of those policies that are in no fleet any more. Its callers hold mu.
func (m *Metrics) deleteCounters(policies map[policyKey]bool) {
	for of := range policies {
		if m.hasPolicy(of) {
			continue
		}
		for _, c := range m.counters {
			c.DeletePartialMatch(prometheus.Labels{"namespace": of.namespace, "policy": of.policy})
		}
	}
}

func (m *Metrics) hasPolicy(of policyKey) bool {
	for _, each := range m.byCluster {
		if each.policies[of] {
			return true
		}
	}
	return false
}

// initCounters makes the counters of a new policy for one of its ladders, since the first step of one that wasn't there can't
// be seen.
func (m *Metrics) initCounters(p *core.Policy, steps []core.Step) {
	if len(steps) == 0 {
		return
	}
	namespace, name, remedy := p.ID.Namespace, p.ID.Name, firstRemedy(steps)
	m.started.WithLabelValues(namespace, name, remedy)
	for i := range steps {
		m.initStepCounters(p, &steps[i], len(steps) > 1)
	}
	for _, o := range []core.Outcome{core.Succeeded, core.Recovered, core.Withdrawn} {
		m.ended.WithLabelValues(namespace, name, remedy, o.String())
	}
}

// initStepCounters makes those that a step may count in.
func (m *Metrics) initStepCounters(p *core.Policy, s *core.Step, oneOfSeveral bool) {
	namespace, name := p.ID.Namespace, p.ID.Name
	m.remedyRefusals.WithLabelValues(namespace, name, s.Remedy)
	if s.Nature.Effect().NeedsWithdrawal {
		m.requests.WithLabelValues(namespace, name, s.Remedy, requestMade)
		m.requests.WithLabelValues(namespace, name, s.Remedy, requestWithdrawn)
	}
	if s.Limit > 0 || oneOfSeveral {
		for _, o := range []core.StepOutcome{core.TimedOut, core.Failed} {
			m.givenUp.WithLabelValues(namespace, name, s.Remedy, o.String())
		}
	}
}
