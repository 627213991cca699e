package engine

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
)

// Metrics has the series that don't depend on a dialect; docs/metrics.md describes them. Only
// passes write them, so an event costs nothing here. A replica that doesn't lead has no series but
// fettle_leader. Engines of several clusters share one Metrics. A nil *Metrics counts nothing.
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
	// anyPass is set once a pass has ended.
	anyPass bool
	// byCluster has the gauges of the last pass over each cluster.
	byCluster map[string]clusterGauges
}

// clusterGauges has the gauges of one cluster.
type clusterGauges struct {
	gauges   gauges
	policies map[policyKey]bool
}

// policyKey labels the series of a policy.
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

// NewMetrics returns metrics without samples.
func NewMetrics() *Metrics {
	ofPolicy := []string{"namespace", "policy"}
	m := &Metrics{
		leader:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "fettle_leader", Help: "1 while this replica leads, and so acts; 0 otherwise."}),
		detect:   histogram("fettle_detect_seconds", "From the instant at which a fault began until a pass first judged it.", promptBuckets),
		decide:   histogram("fettle_decide_seconds", "From the deadline of a criterion until a pass judged the target unhealthy.", promptBuckets),
		queue:    histogram("fettle_queue_seconds", "From the pass that first judged a target unhealthy until its repair was started.", queueBuckets),
		act:      histogram("fettle_act_seconds", "From the start of a repair until its remedy was accepted.", quickBuckets),
		recover:  prometheus.NewHistogramVec(histogramOf("fettle_recover_seconds", "From the start of a repair until its end.", longBuckets), []string{"outcome"}),
		decision: histogram("fettle_decision_duration_seconds", "How long one decision over the whole cluster took.", tinyBuckets),
		pass:     histogram("fettle_pass_duration_seconds", "How long one pass took: observing, deciding, recording and acting.", quickBuckets),

		passes:         counter("fettle_passes_total", "Passes over the clusters, by how they ended.", "result"),
		panics:         counter("fettle_panics_total", "Passes over a cluster, and connections to it, in which code of Fettle panicked.", "fleet"),
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

// histogramOf returns a histogram with classic buckets, and with native buckets for servers that
// request them.
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

// SetLeader records whether this replica leads.
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

// observePass records the end of a pass.
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

// CountPanic counts a panic outside of passes that belongs to a cluster.
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

// countStart counts a repair that was recorded with these steps.
func (m *Metrics) countStart(p *core.Policy, steps []core.Step) {
	if m != nil {
		m.started.WithLabelValues(p.ID.Namespace, p.ID.Name, firstRemedy(steps)).Inc()
	}
}

// observeRemedyAccepted records how long after the start of its repair a remedy was accepted.
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

// The outcomes of requests, in their series.
const (
	requestMade      = "Asked"
	requestWithdrawn = "Withdrawn"
)

// countRequest counts a request that a remedy made.
func (m *Metrics) countRequest(p *core.Policy, remedy string) {
	if m != nil {
		m.requests.WithLabelValues(p.ID.Namespace, p.ID.Name, remedy, requestMade).Inc()
	}
}

// countWithdrawal counts a request that was withdrawn.
func (m *Metrics) countWithdrawal(p *core.Policy, remedy string) {
	if m != nil {
		m.requests.WithLabelValues(p.ID.Namespace, p.ID.Name, remedy, requestWithdrawn).Inc()
	}
}

// countStepGivenUp counts the last step that a repair gave up.
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

// countEnd counts a repair that has ended. A policy that is gone has no series.
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

// firstRemedy returns the remedy of the first step, empty without steps. The steps of a policy may
// differ among its targets, and change while a repair runs.
func firstRemedy(steps []core.Step) string {
	if len(steps) == 0 {
		return ""
	}
	return steps[0].Remedy
}

// setGauges replaces the gauges of a cluster, and drops the series of policies that are gone.
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

// clearGauges drops the gauges of a cluster that is not observed, since its state is unknown. Its
// counters stay.
func (m *Metrics) clearGauges(key string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byCluster[key] = clusterGauges{policies: m.byCluster[key].policies}
}

// DeleteCluster drops the series of a cluster that was removed.
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

// deleteCounters drops the counters of those policies that no cluster has. The caller holds mu.
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

// initCounters sets the counters of a new policy's steps to zero. A rate can't show the first
// increment of a missing series.
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

// initStepCounters sets the counters of one step to zero.
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
