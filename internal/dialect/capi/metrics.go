package capi

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
)

// Metrics are the series of this dialect. Those that users of Cluster API have today come from kube-state-metrics, and
// stay. A nil *Metrics counts nothing.
type Metrics struct {
	rival *prometheus.Desc

	mu sync.Mutex
	// managers are those who write what is Fettle's to write, by health check.
	managers map[checkName]string
}

// checkName is how series are labelled.
type checkName struct{ namespace, name string }

// NewMetrics makes metrics that count nothing yet.
func NewMetrics() *Metrics {
	return &Metrics{
		rival: prometheus.NewDesc("fettle_capi_another_controller",
			"1 while another controller writes the status of a Cluster API health check too.", []string{"namespace", "name", "manager"}, nil),
		managers: map[checkName]string{},
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) { out <- m.rival }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for of, manager := range m.managers {
		out <- prometheus.MustNewConstMetric(m.rival, prometheus.GaugeValue, 1, of.namespace, of.name, manager)
	}
}

// rivals notes who writes a health check's status too, and "" that nobody does.
func (m *Metrics) rivals(check core.ID, manager string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of := checkName{check.Namespace, check.Name}
	if manager == "" {
		delete(m.managers, of)
		return
	}
	m.managers[of] = manager
}
