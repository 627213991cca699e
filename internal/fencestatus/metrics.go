package fencestatus

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/fencepolicy"
)

// Bounds of the series.
const (
	maxPolicies  = 100
	maxCondemned = 100
)

// Metrics are the metrics of policies. A nil Metrics measures nothing.
type Metrics struct {
	nodes, promising, missing, condemned *prometheus.Desc

	mu      sync.Mutex
	present []prometheus.Metric
}

// NewMetrics returns the metrics.
func NewMetrics() *Metrics {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &Metrics{
		nodes:     describe("fettle_fence_policy_nodes", "Nodes that a FencePolicy applies to.", "policy"),
		promising: describe("fettle_fence_policy_nodes_promising", "Nodes of a FencePolicy that promise to fence themselves, by whether the promise is timed.", "policy", "timed"),
		missing:   describe("fettle_fence_policy_nodes_without_promise", "Nodes of a FencePolicy that promise nothing, by the reason.", "policy", "reason"),
		condemned: describe("fettle_node_condemned", "Nodes whose promise is revoked, so that they are to be reset.", "node"),
	}
}

// Describe sends the descriptions of the metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.nodes, m.promising, m.missing, m.condemned} {
		to <- d
	}
}

// Collect sends the metrics.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, each := range m.present {
		to <- each
	}
}

// report replaces all series.
func (m *Metrics) report(verdicts map[string]*fencepolicy.Verdict, condemned []string) {
	if m == nil {
		return
	}
	var present []prometheus.Metric
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		present = append(present, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...))
	}
	names := slices.Sorted(maps.Keys(verdicts))
	for _, name := range names[:min(len(names), maxPolicies)] {
		v := verdicts[name]
		gauge(m.nodes, v.Nodes, name)
		if v.Unread == nil {
			gauge(m.promising, v.Timed, name, "true")
			gauge(m.promising, v.Promising-v.Timed, name, "false")
		}
		for reason, n := range v.Missing {
			gauge(m.missing, n, name, string(reason))
		}
	}
	for _, node := range condemned[:min(len(condemned), maxCondemned)] {
		gauge(m.condemned, 1, node)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.present = present
}
