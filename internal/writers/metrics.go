package writers

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the series of other controllers, for all kinds of health checks. A nil *Metrics counts nothing.
type Metrics struct {
	another *prometheus.Desc

	mu     sync.Mutex
	others map[series]other // by health check
}

// other is another controller. While dryRun is set, the health check is a dry run, and both are meant to write.
type other struct {
	manager string
	dryRun  bool
}

type series struct{ resource, namespace, name string }

// NewMetrics returns metrics without series.
func NewMetrics() *Metrics {
	return &Metrics{
		another: prometheus.NewDesc("fettle_another_controller",
			"1 while another controller writes the status of a health check too.", []string{"resource", "namespace", "name", "manager", "dry_run"}, nil),
		others: map[series]other{},
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) { out <- m.another }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for of, o := range m.others {
		out <- prometheus.MustNewConstMetric(m.another, prometheus.GaugeValue, 1, of.resource, of.namespace, of.name, o.manager,
			strconv.FormatBool(o.dryRun))
	}
}

// set records the other writer of the status of a health check. The zero value is none.
func (m *Metrics) set(resource string, of name, o other) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := series{resource, of.namespace, of.name}
	if o.manager == "" {
		delete(m.others, key)
		return
	}
	m.others[key] = o
}
